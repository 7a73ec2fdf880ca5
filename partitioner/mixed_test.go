package partitioner

import (
	"context"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/partitioner/graph"
	"github.com/gstore/gstore/partitioner/graphtest"
)

// TestGAPMovesGroups: on communities whose labels repeat, gap's groups balance labels at a smaller cut than single
// nodes do, the same refinement of the same partitions; and what the streamer counts agrees with the assignment.
func TestGAPMovesGroups(t *testing.T) {
	if race.Enabled {
		t.Skip("what is asked is how good partitions are; TestThreadsDoNotMatter has the threads")
	}
	const n, k = 12000, 8
	g, classes := graphtest.BlockModel(t, n, 240, 16, .8, 7) // communities of 50 nodes
	for v := range classes {
		if classes[v] > 0 {
			classes[v] = (classes[v]-1)/30 + 1 // of 8 labels, each of communities that lie anywhere
		}
	}
	quality := func(a Assigner) *Quality {
		t.Helper()
		q, err := Measure(context.Background(), g, a, QualityOptions{Classes: classes})
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	o, err := Options{Method: MethodGAP, Partitions: k, Seed: 3, Classes: classes, Passes: DefaultPasses}.resolve(g)
	if err != nil {
		t.Fatal(err)
	}
	refined := func(by func(r *restreamer) error) *Quality {
		t.Helper()
		fennel, err := Partition(context.Background(), g, Options{Method: MethodFennel, Partitions: k, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		part := Materialize(fennel).part
		r := &restreamer{ctx: context.Background(), g: g, o: o, full: .75 * float64(g.Entries()) / n}
		r.s = newStreamer(part, k, classes, classCounts(classes), o.limit(n), 1)
		if err := by(r); err != nil {
			t.Fatal(err)
		}
		fresh := newStreamer(part, k, classes, classCounts(classes), o.limit(n), 1)
		for p := range k {
			if r.s.size[p] != fresh.size[p] || r.s.near[p] != 0 || fresh.size[p] > o.limit(n) {
				t.Fatalf("partition %d: the streamer counts %d nodes and %d near ones, it has %d of at most %d", p, r.s.size[p], r.s.near[p], fresh.size[p], o.limit(n))
			}
			for l := range fresh.fewest {
				if r.s.fewest[l].Count[p] != fresh.fewest[l].Count[p] {
					t.Fatalf("partition %d: the streamer counts %d nodes of class %d, it has %d", p, r.s.fewest[l].Count[p], l, fresh.fewest[l].Count[p])
				}
			}
		}
		for l, c := range r.s.group.count {
			if c != 0 {
				t.Fatalf("%d nodes of class %d are left of a group that was placed", c, l)
			}
		}
		return quality(&Assignment{part: part, partitions: k})
	}
	single := refined(func(r *restreamer) error { return r.flat(g) })
	groups := refined(func(r *restreamer) error { return r.leveledLabels(g, 0) }) // as much balance as groups give
	if groups.CutRate > single.CutRate || groups.PartitionLabels.Mean > .6*single.PartitionLabels.Mean {
		t.Errorf("groups: cut %.3f, labels diverge by %.3f; single nodes: %.3f, %.3f", groups.CutRate, groups.PartitionLabels.Mean, single.CutRate, single.PartitionLabels.Mean)
	}
}

// TestFullPartitionsTakeNobody: whatever pulls, a node and a group of two classes go to no partition that is full, and leave
// one that is beyond the limit. Partition 1 is where neighbours are, or where fewest of their classes are, or has room for one more.
func TestFullPartitionsTakeNobody(t *testing.T) {
	for _, c := range []struct {
		name    string
		part    []blocks.PartitionID
		classes []uint16
		edges   [][2]uint32
		limit   uint32
		weight  float64
		not     blocks.PartitionID // where nodes 0 and 1 must not be
	}{
		{"all neighbours are in it", []blocks.PartitionID{0, 0, 1, 1, 1, 1, 2, 2}, []uint16{1, 2, 0, 0, 0, 0, 1, 2},
			[][2]uint32{{0, 2}, {0, 3}, {1, 4}, {1, 5}, {0, 6}}, 4, .01, 1},
		{"it has none of their classes", []blocks.PartitionID{0, 0, 1, 1, 1, 1, 2, 2, 0, 0}, []uint16{1, 2, 0, 0, 0, 0, 1, 2, 1, 2},
			nil, 4, 10, 1},
		{"their own is beyond the limit", []blocks.PartitionID{0, 0, 1, 1, 0, 0, 2}, []uint16{1, 2, 0, 0, 1, 2, 1},
			[][2]uint32{{0, 4}, {1, 5}}, 3, .01, 0},
	} {
		n := uint64(len(c.part))
		g, err := graph.BuildCSR(n, func(yield func(src, dst []uint32) error) error {
			for _, e := range c.edges {
				if err := yield(e[:1], e[1:]); err != nil {
					return err
				}
			}
			return nil
		}, true)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close() //nolint:errcheck // test
		for _, members := range [][]uint32{{0}, {0, 1}} {
			part := slices.Clone(c.part)
			s := newStreamer(part, 3, c.classes, classCounts(c.classes), c.limit, 1)
			s.setWeight(c.weight)
			s.placeGroup(g, members)
			if to := part[0]; to == c.not || s.size[to] > c.limit || part[members[len(members)-1]] != to {
				t.Errorf("%s: nodes %v go to partition %d, of sizes %v and limit %d", c.name, members, to, s.size, c.limit)
			}
		}
	}
}
