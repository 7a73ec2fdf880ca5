package partitioner

import (
	"context"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
)

// TestThreadsDoNotMatter: any number of threads gives the same partitions, on a graph that takes all levels.
func TestThreadsDoNotMatter(t *testing.T) {
	g, _ := blockModel(t, 20000, 40, 16, 0.7, 1)
	var want []blocks.PartitionID
	for _, threads := range []int{1, 2, 3, 8} {
		a, err := Partition(context.Background(), g, Options{Method: MethodFennel, Partitions: 8, Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		part := Materialize(a).Part()
		if want == nil {
			want = slices.Clone(part)
		} else if !slices.Equal(part, want) {
			t.Errorf("%d threads place nodes elsewhere than one does", threads)
		}
	}
}

// TestPassesBoundReadings: the graph is read no more often than asked for, whatever the way.
func TestPassesBoundReadings(t *testing.T) {
	g, _ := blockModel(t, 6000, 12, 12, 0.6, 1)
	for passes := 1; passes <= 20; passes += race.Every(9) {
		for _, c := range []struct {
			name   string
			g      Graph
			memory int64 // 0: no bound
			levels bool
		}{
			{"levels", g, 0, passes >= levelsPassesMin},
			{"a stream", streamOnly{g}, 0, false},
			{"no memory for coarser graphs", g, Options{Method: MethodFennel, Partitions: 8}.Need(g.Nodes()).Array, false},
		} {
			readings, levels := 0, false
			_, err := Partition(context.Background(), c.g, Options{
				Method: MethodFennel, Partitions: 8, Passes: passes, MemoryBytes: c.memory,
				Progress: func(p Pass) {
					if readings++; p.Pass != readings {
						t.Errorf("%s, %d passes: pass %d is said to be number %d", c.name, passes, readings, p.Pass)
					}
					levels = levels || p.Level > 0
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if readings > max(passes, levelsPassesMin) || c.memory == 0 && readings > passes {
				t.Errorf("%s: %d passes read the graph %d times", c.name, passes, readings)
			}
			if c.memory == 0 && levels != c.levels {
				t.Errorf("%s: %d passes make coarser graphs: %v, expected %v", c.name, passes, levels, c.levels)
			}
		}
	}
}

// TestLevelsKeepMemory: coarser graphs are made where they fit, with the partitions of a run without a bound; where not,
// nodes are placed one by one.
func TestLevelsKeepMemory(t *testing.T) {
	g, _ := blockModel(t, 6000, 12, 12, 0.6, 1)
	run := func(memory int64) *Assignment {
		t.Helper()
		a, err := Partition(context.Background(), g, Options{Method: MethodFennel, Partitions: 8, MemoryBytes: memory, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		return Materialize(a)
	}
	cut := func(a *Assignment) float64 {
		q, err := Measure(context.Background(), g, a, QualityOptions{Hops: 1})
		if err != nil {
			t.Fatal(err)
		}
		return q.CutRate
	}
	need := Options{Method: MethodFennel, Partitions: 8}.Need(g.Nodes()).Array
	free, ample, tight := run(0), run(need+40*int64(g.Entries())), run(need)
	if !slices.Equal(free.Part(), ample.Part()) {
		t.Error("a bound that is large enough changes partitions")
	}
	if cut(tight) <= cut(free) {
		t.Errorf("without memory for coarser graphs %.3f of the edges are cut, with it %.3f", cut(tight), cut(free))
	}
}

// TestCoarserGraph: groups keep their limit and their partition, and the edges between them are those of their nodes.
func TestCoarserGraph(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 300).Draw(rt, "nodes")
		g, _ := blockModel(t, n, rapid.IntRange(1, 8).Draw(rt, "groups"), rapid.IntRange(0, 10).Draw(rt, "degree"), 0.7, rapid.Uint64().Draw(rt, "graph"))
		part := make([]blocks.PartitionID, n)
		for v := range part {
			part[v] = blocks.PartitionID(v % rapid.IntRange(1, 3).Draw(rt, "partitions"))
		}
		c, l := newCrew(2), &level{nodes: n, fine: g}
		defer func() {
			for _, w := range c.workers {
				w.arena.release()
			}
		}()
		var space room
		space.left.Store(math.MaxInt64)
		for range 2 { // of the input, and of a coarser graph
			k := &clustering{l: l, limit: uint32(rapid.IntRange(1, 40).Draw(rt, "limit")), part: part, label: make([]uint32, l.nodes), weight: make([]uint32, l.nodes), active: [2][]uint64{make([]uint64, n), make([]uint64, n)}}
			groups, err := c.cluster(context.Background(), k, 3, func(uint64) {})
			if err != nil {
				rt.Fatal(err)
			}
			l.parent = k.label
			up, err := c.contract(l, groups, make([]uint32, l.nodes), &space)
			if err != nil || up == nil {
				rt.Fatal(up, err)
			}
			want := map[[2]uint32]uint32{}
			members := make([]int, groups)
			coarse := make([]blocks.PartitionID, groups)
			for v := range uint32(l.nodes) {
				p := l.parent[v]
				if members[p]++; members[p] > 1 && coarse[p] != part[v] {
					rt.Fatalf("group %d has nodes of partitions %d and %d", p, coarse[p], part[v])
				}
				coarse[p] = part[v]
				add := func(u, w uint32) {
					if q := l.parent[u]; q != p {
						want[[2]uint32{p, q}] += w
					}
				}
				if l.fine != nil {
					for _, u := range g.Neighbours(v) {
						add(u, 1)
					}
				} else {
					for _, e := range l.neighbours(v) {
						add(e.to, e.weight)
					}
				}
			}
			total := uint32(0)
			for p := range uint32(groups) {
				total += up.weight(p)
				if members[p] > 1 && up.weight(p) > k.limit {
					rt.Fatalf("group %d has %d nodes, the limit is %d", p, up.weight(p), k.limit)
				}
				for _, e := range up.neighbours(p) {
					if want[[2]uint32{p, e.to}] != e.weight {
						rt.Fatalf("%d edges from group %d to %d, expected %d", e.weight, p, e.to, want[[2]uint32{p, e.to}])
					}
					delete(want, [2]uint32{p, e.to})
				}
			}
			if len(want) > 0 || int(total) != n {
				rt.Fatalf("%d pairs of groups have no edge, groups have %d of %d nodes", len(want), total, n)
			}
			l, part = up, coarse
		}
	})
}

// TestNodesWithoutNeighboursGroup: they would each be a node of every coarser graph.
func TestNodesWithoutNeighboursGroup(t *testing.T) {
	const n, limit = 1000, 50
	g, err := NewCSR(make([]uint64, n+1), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close() //nolint:errcheck // test
	k := &clustering{l: &level{nodes: n, fine: g}, limit: limit, label: make([]uint32, n), weight: make([]uint32, n), active: [2][]uint64{make([]uint64, n), make([]uint64, n)}}
	if groups, err := newCrew(1).cluster(context.Background(), k, 2, func(uint64) {}); err != nil || groups != n/limit {
		t.Errorf("%d groups, %v; expected %d", groups, err, n/limit)
	}
}

// TestBisect: two cliques joined by an edge fall apart there, three of them by shares.
func TestBisect(t *testing.T) {
	for _, k := range []int{2, 3} {
		const size = 90
		n := size * k
		l := &level{nodes: n, end: make([]uint32, n), size: slices.Repeat([]uint32{3}, n)}
		l.lists = make([][]edge, (n+listBlock-1)/listBlock)
		for v := range n {
			b := &l.lists[v/listBlock]
			for u := v / size * size; u < (v/size+1)*size; u++ {
				if u != v {
					*b = append(*b, edge{uint32(u), 2})
				}
			}
			if v%size == 0 && v > 0 {
				*b = append(*b, edge{uint32(v - 1), 1})
			}
			if v%size == size-1 && v < n-1 {
				*b = append(*b, edge{uint32(v + 1), 1})
			}
			l.end[v] = uint32(len(*b))
		}
		part := make([]blocks.PartitionID, n)
		if err := bisect(context.Background(), l, 1<<20, k, .03, 1, part); err != nil {
			t.Fatal(err)
		}
		for v, p := range part {
			if p != part[v/size*size] {
				t.Fatalf("%d parts: node %d is in part %d, node %d of its clique in %d", k, v, p, v/size*size, part[v/size*size])
			}
		}
		if distinct := slices.Compact(slices.Sorted(slices.Values(part))); len(distinct) != k {
			t.Errorf("%d parts are used, expected %d", len(distinct), k)
		}
	}
}

// TestReading: a caller is told of nodes within passes, in steps smaller than a pass; together they are those of all passes
// that go through nodes.
func TestReading(t *testing.T) {
	const n = 20000
	g, _ := blockModel(t, n, 20, 8, .8, 3)
	for name, o := range map[string]Options{"levels": {Method: MethodFennel}, "flat, in order": {Method: MethodFennel, Flat: true, Passes: 3, Order: OrderNatural},
		"flat": {Method: MethodFennel, Flat: true, Passes: 3}} {
		o.Partitions, o.Seed, o.Threads = 8, 1, 2
		within, calls, passes := 0, 0, 0
		o.Reading = func(nodes int) { within, calls = within+nodes, calls+1 }
		o.Progress = func(p Pass) {
			if p.Moved > 0 && (within < n-readStep || calls < 2) {
				t.Errorf("%s: pass %d told of %d of %d nodes in %d steps", name, p.Pass, within, n, calls)
			}
			within, calls, passes = 0, 0, passes+1
		}
		if _, err := Partition(t.Context(), g, o); err != nil || passes < 3 {
			t.Errorf("%s: %d passes (%v)", name, passes, err)
		}
	}
}
