package train

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestDrawsOfNodes: a node of two relations, read in both directions, adds what its lists and the fanouts allow.
func TestDrawsOfNodes(t *testing.T) {
	d := &drawCounter{draws: draws{relations: tally{}, unread: tally{}, edges: []tally{{}, {}}, groups: []tally{{}, {}}}, stored: 2, fanouts: []int{3, -1}}
	var seeds seedDraws
	d.add([]int32{9, 1, 0, 2}, &seeds) // 10 edges in of 2 relations, 2 out of one
	d.add([]int32{0, 0, 0, 1}, nil)
	d.add([]int32{0, 0, 0, 0}, nil)
	for name, c := range map[string]struct {
		got  tally
		want []int64 // of 1, 2, 3 and 9 nodes
	}{
		"3 drawn": {d.edges[0], []int64{5, 6, 6, 6}}, "all drawn": {d.edges[1], []int64{12, 13, 13, 13}},
		"groups of 3": {d.groups[0], []int64{3, 4, 4, 4}}, "relations": {d.relations, []int64{3, 4, 4, 4}},
	} {
		for i, n := range []int64{1, 2, 3, 9} {
			if got := c.got.most(n); got != c.want[i] {
				t.Errorf("%s: %d of %d nodes, expected %d", name, got, n, c.want[i])
			}
		}
	}
	if seeds.edges != (spread{1, 5, 25, 5}) || seeds.relations != (spread{1, 3, 9, 3}) {
		t.Errorf("seeds %+v", seeds)
	}
	of := &drawCounter{draws: draws{relations: tally{}, unread: tally{}, edges: []tally{{}}, groups: []tally{{}}}, stored: 2, fanouts: []int{3}, of: relationDraws{fanouts: [][]int{{2, -1}}}}
	of.add([]int32{9, 7, 5, 0}, nil)
	if of.edges[0].most(1) != 2+7+2 || of.groups[0].most(1) != 3 {
		t.Errorf("fanouts of relations: %v edges, %v groups, expected 11 and 3", of.edges, of.groups)
	}
	of = &drawCounter{draws: draws{relations: tally{}, unread: tally{}, edges: []tally{{}}, groups: []tally{{}}}, stored: 2, fanouts: []int{3},
		of: relationDraws{fanouts: [][]int{{2, -1}}, without: [][]bool{{false, true, true, false}}}}
	of.add([]int32{9, 7, 5, 4}, nil)
	if of.edges[0].most(1) != 2+4 || of.groups[0].most(1) != 2 || of.unread.most(1) != 2 || of.relations.most(1) != 4 {
		t.Errorf("relations that are read from hops: %v edges, %v groups, %v and %v relations, expected 6, 2, 2 and 4", of.edges, of.groups, of.unread, of.relations)
	}
}

// TestDrawnMost: the sum of numbers drawn at random is within the bound, which is little above what they are on average; seeds of one
// partition are bounded by what its own nodes have.
func TestDrawnMost(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	parts := make([]spread, 2)
	var numbers [2][]int64
	for range 20000 {
		x := r.Int64N(10)
		if r.IntN(50) == 0 {
			x = 30
		}
		p := r.IntN(2)
		x += int64(5 * p)
		parts[p].add(x)
		numbers[p] = append(numbers[p], x)
	}
	all := slices.Concat(numbers[0], numbers[1])
	bounds := map[int]int64{}
	const n = 1000
	for p, of := range [][]int64{numbers[0], numbers[1], all} {
		bound := drawnMost(n, parts)
		if p == 2 {
			bound = drawnMost(n, []spread{united(parts)})
		}
		bounds[p] = bound
		largest := int64(0)
		for range 200 {
			sum := int64(0)
			for _, i := range r.Perm(len(of))[:n] {
				sum += of[i]
			}
			largest = max(largest, sum)
		}
		if largest > bound || p > 0 && float64(bound) > 1.5*float64(largest) {
			t.Errorf("%d: %d numbers sum to %d at most in 200 draws, the bound is %d", p, n, largest, bound)
		}
	}
	if bounds[2] >= bounds[0] || bounds[0] != bounds[1] {
		t.Errorf("bounds %v: expected those of steps alike, that of all together less", bounds)
	}
	if drawnMost(5, []spread{{}, {n: 3}}) != 0 {
		t.Error("a bound above 0 of numbers that are 0")
	}
}

// TestDrawsAreCountedOnce: a run within a budget reads the graph once for them, though it tries several configurations.
func TestDrawsAreCountedOnce(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Edges: 2000, Partitions: 6, Relations: 2}))
	st, dev := storetest.Open(t, dir, store.Options{}), hostDevice(t)
	c := Config{Model: "rsage", Plan: "hanoi", Buffer: 2, BatchSize: 50, MemoryBytes: 1 << 30, Threads: 1}
	if err := c.Normalize(); err != nil {
		t.Fatal(err)
	}
	c.FillFeatures(st.Manifest())
	var once counted
	if _, err := c.complete(t.Context(), st, dev.Info(), &once); err != nil {
		t.Fatal(err)
	}
	p, e, err := planRun(t.Context(), st, dev, c, &once)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil || p.draws == nil || once.readings != 1 {
		t.Errorf("%v; the graph was read %d times for draws %v", err, once.readings, p.draws)
	}
	y, _, err := OpenCompleted(t.Context(), st, dev.Info(), &c)
	if err != nil {
		t.Fatal(err)
	}
	if err := y.Close(); err != nil || y.draws() == nil || y.once.readings != 1 {
		t.Errorf("%v; a plan reads the graph %d times", err, y.once.readings)
	}
	if c.Layers, c.Fanouts = 1, []int{5}; len(y.draws().edges) != 2 {
		t.Fatalf("draws of %d hops, expected 2", len(y.draws().edges))
	}
	if y, err = openMemory(t.Context(), st, dev.Info(), c, y.once); err != nil {
		t.Fatal(err)
	}
	if err := y.Close(); err != nil || len(y.draws().edges) != 1 {
		t.Errorf("%v; draws of %d hops for a model of 1", err, len(y.draws().edges))
	}
}
