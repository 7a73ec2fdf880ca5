package mini

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gstore/gstore/blocks/race"
)

// TestRelationFanouts: of each relation and direction a node has as many different edges as that relation's fanout allows, those of the
// lists, and none of a relation and direction that are left out; and what is drawn of a relation does not depend on the other relations' fanouts.
func TestRelationFanouts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const relations = 3
		n := rapid.IntRange(1, 300).Draw(t, "nodes")
		pairs := distinct(skewed(rapid.Uint64().Draw(t, "graph"), n, rapid.IntRange(0, 5000).Draw(t, "edges")))
		g := Graph{In: adjacency(n, pairs, relations), Keys: numbers(n)}
		if rapid.Bool().Draw(t, "both") {
			g.Out, g.Relations = adjacency(n, pairs, relations), relations
		}
		fanout := rapid.SampledFrom([]int{All, 1, 4, 40, 200})
		of := rapid.SliceOfN(fanout, 0, relations).Draw(t, "relations")
		cfg := Config{Fanouts: []int{fanout.Draw(t, "fanout")}, RelationFanouts: [][]int{of}, Together: rapid.IntRange(0, 2).Draw(t, "together")}
		if rapid.Bool().Draw(t, "without some") {
			cfg.Without = [][]bool{rapid.SliceOfN(rapid.Bool(), 0, 2*relations).Draw(t, "without")}
		}
		drawn := func(cfg Config) map[string][]uint32 {
			s, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			var b Batch
			if err := s.Sample(Key{}, g, numbers(min(n, 50)), &b); err != nil {
				t.Fatal(err)
			}
			out, k := map[string][]uint32{}, &b.Blocks[0]
			for d := range k.NumDst {
				degree := 0
				for dir, a := range g.adjacencies() {
					span := a.Spans[d]
					degree += int(span.End - span.Begin)
					for r := range relations {
						var list, got []uint32
						for e := span.Begin; e < span.End; e++ {
							if int(a.Relations[e]) == r {
								list = append(list, a.Indices[e])
							}
						}
						for e := k.Indptr[d]; e < k.Indptr[d+1]; e++ {
							if int(k.Relations[e]) == r+dir*relations {
								got = append(got, b.Input[k.Indices[e]])
							}
						}
						if want := taken(int64(len(list)), cfg.relationFanout(0, r, dir*relations)); int64(len(got)) != want {
							t.Fatalf("row %d, relation %d: %d edges of %d, expected %d", d, r, len(got), len(list), want)
						}
						out[fmt.Sprint(d, dir, r)] = slices.Clone(got)
						slices.Sort(got)
						for i, v := range got {
							if !slices.Contains(list, v) || i > 0 && got[i-1] == v {
								t.Fatalf("row %d, relation %d: neighbours %v of %v", d, r, got, list)
							}
						}
					}
				}
				if int(k.Degrees[d]) != degree {
					t.Fatalf("row %d: degree %d, expected %d", d, k.Degrees[d], degree)
				}
			}
			return out
		}
		first := drawn(cfg)
		for r := range of {
			other := cfg
			other.RelationFanouts = [][]int{slices.Clone(of)}
			other.RelationFanouts[0][r] = 2
			for what, got := range drawn(other) {
				if !strings.HasSuffix(what, fmt.Sprint(" ", r)) && !slices.Equal(got, first[what]) {
					t.Fatalf("row, direction and relation %s: %v, and %v where relation %d has another fanout", what, first[what], got, r)
				}
			}
		}
	})
}

// TestRelationDrawsAreExact: all sets of a relation's edges come up alike, whatever lies between them.
func TestRelationDrawsAreExact(t *testing.T) {
	const rows = 1000
	g := shared(rows, make([]float32, 8), nil)
	g.In.Relations = []uint16{1, 0, 1, 1, 0, 1, 2, 1}
	s, err := New(Config{Fanouts: []int{1}, RelationFanouts: [][]int{{1, 2, 1}}, Seed: 4})
	if err != nil {
		t.Fatal(err)
	}
	p := map[uint64]float64{} // one of edges 1 and 4, two of 0, 2, 3, 5, 7, and edge 6
	ones := []uint64{1 << 0, 1 << 2, 1 << 3, 1 << 5, 1 << 7}
	for _, zero := range []uint64{1 << 1, 1 << 4} {
		for i, a := range ones {
			for _, b := range ones[:i] {
				p[zero|a|b|1<<6] = 1. / 20
			}
		}
	}
	counts, trials := make([]float64, 256), 100_000/race.Every(20)
	var b Batch
	for batch := range trials / rows {
		if err := s.Sample(Key{Batch: batch}, g, numbers(rows), &b); err != nil {
			t.Fatal(err)
		}
		setsOf(&b, rows, counts)
	}
	chiSquare(t, "relations", counts, p, float64(trials))
}

func TestRelationFanoutsRefuse(t *testing.T) {
	for want, c := range map[string]Config{
		"uniform alone": {Fanouts: []int{2}, RelationFanouts: [][]int{{1}}, Sampler: Weighted},
		"OutFanouts":    {Fanouts: []int{2}, RelationFanouts: [][]int{{1}}, OutFanouts: []int{1}},
		"2 entries":     {Fanouts: []int{2}, RelationFanouts: [][]int{{1}, {1}}},
		"[0][1] is 0":   {Fanouts: []int{2}, RelationFanouts: [][]int{{1, 0}}},
		"Without has 2": {Fanouts: []int{2}, RelationFanouts: [][]int{{1}}, Without: [][]bool{nil, nil}},
		"Without[0]":    {Fanouts: []int{2}, RelationFanouts: [][]int{nil}, Without: [][]bool{{true}}},
		"no relations":  {Fanouts: []int{2}, RelationFanouts: [][]int{{1}}},
	} {
		s, err := New(c)
		if err == nil {
			var b Batch
			err = s.Sample(Key{}, Graph{In: adjacency(20, skewed(1, 20, 100), 0)}, []uint32{1}, &b)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, expected one of %q", c, err, want)
		}
	}
}
