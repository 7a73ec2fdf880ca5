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

// TestThreadsDoNotMatter: any number of threads gives the same partitions, on a graph that takes all levels.
func TestThreadsDoNotMatter(t *testing.T) {
	g, _ := graphtest.BlockModel(t, 20000, 40, 16, 0.7, 1)
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
	g, _ := graphtest.BlockModel(t, 6000, 12, 12, 0.6, 1)
	for passes := 1; passes <= 20; passes += race.Every(9) {
		for _, c := range []struct {
			name   string
			g      graph.Graph
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
	g, _ := graphtest.BlockModel(t, 6000, 12, 12, 0.6, 1)
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

// TestReading: a caller is told of nodes within passes, in steps smaller than a pass; together they are those of all passes
// that go through nodes.
func TestReading(t *testing.T) {
	const n = 20000
	g, _ := graphtest.BlockModel(t, n, 20, 8, .8, 3)
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
