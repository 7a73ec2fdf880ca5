package partitioner

import (
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner/graph"
	"github.com/gstore/gstore/partitioner/graphtest"
)

// trainingSet is every node of member.
func trainingSet(t rapid.TB, member []bool) (*Training, error) {
	words := make([]uint64, (len(member)+63)/64)
	for v, in := range member {
		if in {
			words[v/64] |= 1 << (v % 64)
		}
	}
	return NewTraining(uint64(len(member)), words)
}

// TestPinTraining: training nodes, and only they, are in pinned partitions, the last ones, in order and evenly, none larger than
// the others on average and no more of them than that takes; the others are where the assignment of the rest, or of all, says, whatever range is asked for.
func TestPinTraining(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 700).Draw(t, "nodes")
		member := make([]bool, n)
		count := 0
		for _, v := range rapid.SliceOfN(rapid.IntRange(0, n-1), 1, n/2).Draw(t, "training") {
			if !member[v] {
				member[v] = true
				count++
			}
		}
		set, err := trainingSet(t, member)
		if err != nil {
			t.Fatal(err)
		}
		rest := n - count
		k := rapid.IntRange(1, rest).Draw(t, "partitions")
		nodes := set.Rest()
		all := rapid.Bool().Draw(t, "of all nodes")
		if all {
			nodes = uint64(n)
		}
		loose, err := NewRandom(nodes, k, 3)
		if err != nil {
			t.Fatal(err)
		}
		a, err := PinTraining(loose, set)
		if err != nil {
			t.Fatal(err)
		}
		part, of := Materialize(a).Part(), Materialize(loose).Part()
		pinned, before, last := len(a.Pinned()), 0, blocks.PartitionID(k)
		for v, p := range part {
			want := blocks.PartitionID(0)
			if all {
				want = of[v]
			} else if !member[v] {
				want = of[v-before]
			}
			switch {
			case !member[v] && p != want:
				t.Fatalf("node %d is in partition %d, expected %d", v, p, want)
			case member[v] && (p < last || int(p) >= k+pinned):
				t.Fatalf("training node %d is in partition %d, after one in %d of %d + %d", v, p, last, k, pinned)
			}
			if member[v] {
				before++
				last = p
			}
		}
		if set.Count() != uint64(count) || a.Partitions() != k+pinned || a.Pinned()[0] != blocks.PartitionID(k) || int(last) != k+pinned-1 {
			t.Fatalf("%d training nodes, expected %d; %d partitions, pinned %v", set.Count(), count, a.Partitions(), a.Pinned())
		}
		sizes := Sizes(a)[k:]
		if slices.Max(sizes)-slices.Min(sizes) > 1 || pinned*rest < count*k || (pinned-1)*rest >= count*k {
			t.Fatalf("%d training nodes lie in partitions of %v, the %d others in %d", count, sizes, rest, k)
		}
		first := rapid.IntRange(0, n).Draw(t, "first")
		dst := make([]blocks.PartitionID, rapid.IntRange(0, n-first).Draw(t, "length"))
		a.Assign(uint64(first), dst)
		if !slices.Equal(dst, part[first:first+len(dst)]) {
			t.Fatalf("nodes %d to %d: %v, expected %v", first, first+len(dst), dst, part[first:first+len(dst)])
		}
	})
}

// TestRestEdges: a path 0 … 6 whose nodes 2 and 5 train leaves 0–1 and 3–4, which are 0–1 and 2–3 of the five others.
func TestRestEdges(t *testing.T) {
	set, err := trainingSet(t, []bool{2: true, 5: true, 6: false})
	if err != nil {
		t.Fatal(err)
	}
	edges := set.RestEdges(func(yield func(src, dst []uint32) error) error {
		return errors.Join(yield([]uint32{0, 1, 3}, []uint32{1, 2, 2}), yield([]uint32{4, 5, 6}, []uint32{3, 4, 5}))
	})
	g, err := graph.BuildCSR(set.Rest(), edges, true)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close() //nolint:errcheck // test
	for v, want := range [][]uint32{{1}, {0}, {3}, {2}, {}} {
		if got := g.Neighbours(uint32(v)); !slices.Equal(got, want) {
			t.Errorf("node %d of the rest has neighbours %v, expected %v", v, got, want)
		}
	}
	wrong := set.RestEdges(func(yield func(src, dst []uint32) error) error { return yield([]uint32{0}, []uint32{7}) })
	if _, err := graph.BuildCSR(set.Rest(), wrong, true); !errors.Is(err, ErrOption) {
		t.Errorf("an edge to node 7 of 7: %v", err)
	}
}

// TestPinTrainingRejects: no training nodes, more than half of all, an assignment of other nodes or with hubs, and methods
// that have nothing to go by.
func TestPinTrainingRejects(t *testing.T) {
	for _, member := range [][]bool{make([]bool, 8), {0: true, 1: true, 2: true, 4: false}} {
		if _, err := trainingSet(t, member); !errors.Is(err, ErrOption) {
			t.Errorf("training nodes %v: %v", member, err)
		}
	}
	set, err := trainingSet(t, []bool{0: true, 7: false})
	if err != nil {
		t.Fatal(err)
	}
	five, err := NewRange(5, 2)
	if err != nil {
		t.Fatal(err)
	}
	hubs, err := NewAssignment([]blocks.PartitionID{0, 0, 0, 1, 1, 1, 2}, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []Assigner{five, hubs} {
		if _, err := PinTraining(a, set); !errors.Is(err, ErrOption) {
			t.Errorf("%d nodes in %d partitions, pinned %v: %v", a.Nodes(), a.Partitions(), a.Pinned(), err)
		}
	}
	for _, m := range []Method{MethodRandom, MethodRange, MethodFennel, "file:x", MethodGAP, MethodHDR} {
		if err := m.PlacesRest(); errors.Is(err, ErrOption) != (m == MethodGAP || m == MethodHDR) {
			t.Errorf("%s: %v", m, err)
		}
	}
}

// TestFennelOfTheRest: fennel's balance and communities hold for the nodes that do not train, whatever share of a community trains.
func TestFennelOfTheRest(t *testing.T) {
	const nodes, groups, partitions = 4000, 8, 8
	member := make([]bool, nodes)
	for v := range member {
		member[v] = v*17%groups == 3 || v%20 == 0 // a whole community, and some of each
	}
	set, err := trainingSet(t, member)
	if err != nil {
		t.Fatal(err)
	}
	full, _ := graphtest.BlockModel(t, nodes, groups, 12, .9, 1)
	rest, err := graph.BuildCSR(set.Rest(), set.RestEdges(func(yield func(src, dst []uint32) error) error {
		for v := range uint32(nodes) {
			for _, u := range full.Neighbours(v) {
				if v < u {
					if err := yield([]uint32{v}, []uint32{u}); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}), true)
	if err != nil {
		t.Fatal(err)
	}
	defer rest.Close() //nolint:errcheck // test
	o := Options{Method: MethodFennel, Partitions: partitions, Slack: DefaultSlack}
	loose, err := Partition(context.Background(), rest, o)
	if err != nil {
		t.Fatal(err)
	}
	a, err := PinTraining(loose, set)
	if err != nil {
		t.Fatal(err)
	}
	limit := uint64(o.limit(set.Rest()))
	for p, size := range Sizes(a) {
		if size > limit {
			t.Errorf("partition %d has %d nodes, the limit is %d", p, size, limit)
		}
	}
	q, err := Measure(context.Background(), full, a, QualityOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if q.Pinned != len(a.Pinned()) || q.PinnedNode != set.Count() || q.LostRate > .2 { // of edges, 10 % join communities that are not pinned
		t.Errorf("%d pinned partitions with %d of %d training nodes, %.3f of the edges lost", q.Pinned, q.PinnedNode, set.Count(), q.LostRate)
	}
}
