package reach

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// plain is what Count must say, by the plain copy of the graph.
func plain(g *storetest.Graph, both bool) (s Seen) {
	in, any := map[uint64]bool{}, map[uint64]bool{}
	for _, e := range g.Edges {
		if e[0] == e[1] {
			continue
		}
		in[e[1]], any[e[0]], any[e[1]] = true, true, true
	}
	if both || g.Undirected {
		in = any
	}
	for v, of := range g.Split {
		if of != store.SplitTrain {
			continue
		}
		s.Training++
		if !in[uint64(v)] {
			s.Without++
		}
		if !any[uint64(v)] {
			s.Isolated++
		}
	}
	return s
}

func TestCount(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sparse, found := 0, Seen{}
	for seed := range uint64(24) {
		o := storetest.Options{Seed: seed, Nodes: 1 + r.IntN(700), Partitions: 1 + r.IntN(7), Undirected: seed%3 == 0}
		if o.Edges = r.IntN(2 * o.Nodes); seed == 5 || o.Edges == 0 {
			o.Edges = 1
		}
		g := storetest.Random(o)
		if seed%8 == 7 { // edges to themselves are no neighbours
			for i := range g.Edges {
				if g.Edges[i][1]%2 == 0 && sameRange(g, g.Edges[i]) {
					g.Edges[i][0] = g.Edges[i][1]
				}
			}
		}
		st := storetest.Open(t, storetest.Create(t, g), store.Options{})
		for _, both := range []bool{false, true} {
			for _, memory := range []int64{0, 1} {
				t.Run(fmt.Sprintf("%d,both=%v,memory=%d", seed, both, memory), func(t *testing.T) {
					got, read, err := Count(t.Context(), st, Options{Both: both, MemoryBytes: memory})
					if err != nil {
						t.Fatal(err)
					}
					if want := plain(g, both); got != want {
						t.Errorf("%+v, expected %+v", got, want)
					}
					if read < int64(o.Nodes) {
						t.Errorf("%d bytes read of %d nodes' split", read, o.Nodes)
					}
					found.Without, found.Isolated = found.Without+got.Without, found.Isolated+got.Isolated
					if got.Without > got.Isolated {
						sparse++
					}
				})
			}
		}
	}
	if sparse == 0 || found.Isolated == 0 {
		t.Errorf("no graph tells neighbours of one direction from isolated nodes: %d, %+v", sparse, found)
	}
}

// sameRange reports whether both ends of an edge lie in one partition.
func sameRange(g *storetest.Graph, e [2]uint64) bool {
	firsts, of := g.Firsts(), [2]int{}
	for p, first := range firsts {
		for i := range of {
			if e[i] >= first {
				of[i] = p
			}
		}
	}
	return of[0] == of[1]
}

// TestCountInRanges: a range of nodes at a time counts the same, whatever is held.
func TestCountInRanges(t *testing.T) {
	g := storetest.Random(storetest.Options{Seed: 3, Nodes: rangeNodes + 77, Edges: rangeNodes, Partitions: 5})
	st := storetest.Open(t, storetest.Create(t, g), store.Options{})
	all, once, err := Count(t.Context(), st, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ranges, often, err := Count(t.Context(), st, Options{MemoryBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if want := plain(g, false); all != want || ranges != want {
		t.Errorf("%+v and %+v, expected %+v", all, ranges, want)
	}
	if often <= once {
		t.Errorf("%d bytes read range by range, %d at once", often, once)
	}
}
