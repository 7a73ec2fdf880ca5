package mini

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/sampler/keyed"
)

// visited are the nodes that PerNode walks from v visit and how often, in the order of the first visit: one walk after the other, in plain words.
func visited(w Walks, place keyed.Key, number int, g *Graph, v uint32) (rows []uint32, counts []int32) {
	for j := range w.PerNode {
		r, at := place.Rand(uint64(number*w.PerNode+j)), v
		for step := range w.Length {
			list := g.In.Indices[g.In.Spans[at].Begin:g.In.Spans[at].End]
			if len(list) == 0 || step > 0 && w.Continue < 1 && r.Float64() >= w.Continue {
				break
			}
			at = list[r.Below(uint64(len(list)))]
			if at == v {
				continue
			}
			i := slices.Index(rows, at)
			if i < 0 {
				i, rows, counts = len(rows), append(rows, at), append(counts, 0)
			}
			counts[i]++
		}
	}
	return rows, counts
}

// TestPinsageAgreesWithReference: whatever the graph, walks and fanouts, a node has the neighbours that its walks visit most.
func TestPinsageAgreesWithReference(t *testing.T) {
	race.SkipArithmetic(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "nodes")
		g := Graph{In: adjacency(n, skewed(rapid.Uint64().Draw(t, "graph"), n, rapid.IntRange(0, 2000).Draw(t, "edges")), 0)}
		w := Walks{PerNode: rapid.SampledFrom([]int{1, 3, 20, 9000}).Draw(t, "walks"), Length: rapid.IntRange(1, 4).Draw(t, "length"),
			Continue: rapid.SampledFrom([]float64{1, .7}).Draw(t, "continue")}
		cfg := Config{Sampler: Pinsage, Walks: w, Seed: 3, Fanouts: rapid.SliceOfN(rapid.SampledFrom([]int{All, 1, 3, 10}), 1, 2).Draw(t, "fanouts")}
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var b Batch
		for batch := range 2 {
			key := Key{Epoch: 2, Batch: batch}
			if err := s.Sample(key, g, numbers(min(n, 5)), &b); err != nil {
				t.Fatal(err)
			}
			for h, fanout := range cfg.Fanouts {
				k := &b.Blocks[len(cfg.Fanouts)-1-h]
				met := k.NumDst
				for d := range k.NumDst {
					rows, counts := visited(w, key.in(keyed.New(cfg.Seed)).With(uint64(h)), d, &g, b.Input[d])
					order := make([]int, len(rows))
					for i := range order {
						order[i] = i
					}
					slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(counts[y], counts[x]) })
					if fanout != All {
						order = order[:min(fanout, len(order))]
					}
					slices.Sort(order)
					lo, hi := k.Indptr[d], k.Indptr[d+1]
					if int(hi-lo) != len(order) || int(k.Degrees[d]) != len(rows) {
						t.Fatalf("node %d has %d of %d neighbours, expected %d of %d", d, hi-lo, k.Degrees[d], len(order), len(rows))
					}
					for i, o := range order {
						src := int(k.Indices[lo+int32(i)])
						if b.Input[src] != rows[o] || k.Visits[lo+int32(i)] != counts[o] || src > met {
							t.Fatalf("node %d: neighbour %d is row %d with %d visits, expected %d with %d", d, i, b.Input[src], k.Visits[lo+int32(i)], rows[o], counts[o])
						}
						met = max(met, src+1)
					}
				}
				if k.NumSrc != met {
					t.Fatalf("%d sources, expected %d", k.NumSrc, met)
				}
			}
		}
	})
}

// TestWalksAreExact: what walks of three steps visit comes up as often as the sum over all paths says.
func TestWalksAreExact(t *testing.T) {
	// Node 0 leads to 1, 2 and, twice, to 3; 1 back to 0; 2 to 3; 3 nowhere.
	g := Graph{In: adjacency(4, [][2]uint32{{0, 1}, {0, 2}, {0, 3}, {0, 3}, {1, 0}, {2, 3}}, 0)}
	const restart = .25
	p := map[uint64]float64{}
	var walk func(at uint32, set uint64, q float64, steps int)
	walk = func(at uint32, set uint64, q float64, steps int) {
		list := g.In.Indices[g.In.Spans[at].Begin:g.In.Spans[at].End]
		if steps == 0 || len(list) == 0 {
			p[set] += q
			return
		}
		for _, to := range list {
			q, set := q/float64(len(list)), set
			if to != 0 {
				set |= 1 << to
			}
			if steps > 1 {
				p[set] += q * restart
				q *= 1 - restart
			}
			walk(to, set, q, steps-1)
		}
	}
	walk(0, 0, 1, 3)
	s, err := New(Config{Sampler: Pinsage, Walks: Walks{PerNode: 1, Length: 3, Continue: 1 - restart}, Fanouts: []int{All}})
	if err != nil {
		t.Fatal(err)
	}
	counts, trials := make([]float64, 16), 200_000/race.Every(20)
	var b Batch
	for batch := range trials {
		if err := s.Sample(Key{Batch: batch}, g, []uint32{0}, &b); err != nil {
			t.Fatal(err)
		}
		var set uint64
		for _, i := range b.Blocks[0].Indices {
			set |= 1 << b.Input[i]
		}
		counts[set]++
	}
	chiSquare(t, "walks", counts, p, float64(trials))
}

func TestPinsageRefuses(t *testing.T) {
	for _, w := range []Walks{{PerNode: -1}, {Length: -1}, {PerNode: 1 << 11, Length: 1 << 11}, {PerNode: math.MaxInt, Length: 4}, {Continue: 1.5}, {Continue: math.NaN()}} {
		if _, err := New(Config{Fanouts: []int{1}, Sampler: Pinsage, Walks: w}); err == nil {
			t.Errorf("%+v is taken", w)
		}
	}
	s, err := New(Config{Fanouts: []int{1}, Sampler: Pinsage})
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	g := Graph{In: adjacency(4, [][2]uint32{{0, 1}}, 2)}
	if err := s.Sample(Key{}, g, []uint32{0}, &b); err == nil || !strings.Contains(err.Error(), "without relations") {
		t.Errorf("a graph with relations: %v", err)
	}
}
