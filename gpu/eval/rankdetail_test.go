package eval_test

import (
	"math"
	"slices"
	"testing"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// TestRankDetail: heads and tails, relations and kinds are those of the definition, whatever the budget, and make the whole.
func TestRankDetail(t *testing.T) {
	st, graph, lists := triples(t, 900, 6)
	b := newRankBench(t, st, nn.LinkConfig{Decoder: nn.DistMult, Encoder: "none", Dim: 6})
	var all []uint64
	for n := range st.Manifest().Nodes {
		all = append(all, n)
	}
	side := func(of []store.Edge, side int) eval.SideMetrics {
		m := b.want(graph, map[string][]store.Edge{"valid": lists["valid"], "test": lists["test"], "some": of}, "some", all, side)
		return eval.SideMetrics{Queries: m.Queries, MRR: m.MRR, Hits1: m.Hits1, Hits3: m.Hits3, Hits10: m.Hits10}
	}
	check := func(what string, got, want eval.SideMetrics) {
		t.Helper()
		for _, d := range []float64{got.MRR - want.MRR, got.Hits1 - want.Hits1, got.Hits3 - want.Hits3, got.Hits10 - want.Hits10} {
			if !(math.Abs(d) < 1e-12) || got.Queries != want.Queries {
				t.Fatalf("%s: %+v, expected %+v", what, got, want)
			}
		}
	}
	b.budgets(func(bytes int64, _ int) {
		got, _, err := b.run(eval.RankerOptions{MemoryBytes: bytes, Detail: true}, "test", "valid")
		if err != nil {
			t.Fatal(err)
		}
		for i, list := range []string{"test", "valid"} {
			d := got[i].Detail
			check(list+", heads", d.Head, side(lists[list], 1))
			check(list+", tails", d.Tail, side(lists[list], 0))
			if mean := (d.Head.MRR + d.Tail.MRR) / 2; math.Abs(mean-got[i].MRR) > 1e-12 {
				t.Errorf("%s: MRR %v, of heads and tails %v", list, got[i].MRR, mean)
			}
			if len(d.Relations) != evalRelations || len(d.Kinds) != 1 || d.Kinds[0].Relations != evalRelations {
				t.Fatalf("%s: %d relations, kinds %+v, expected %d of one kind", list, len(d.Relations), d.Kinds, evalRelations)
			}
			check("the kind's heads", d.Kinds[0].Head, d.Head)
			check("the kind's tails", d.Kinds[0].Tail, d.Tail)
			for r, x := range d.Relations {
				var of []store.Edge
				for _, e := range lists[list] {
					if int(e.Relation) == r {
						of = append(of, e)
					}
				}
				check(list+", heads of "+x.Relation, x.Head, side(of, 1))
				check(list+", tails of "+x.Relation, x.Tail, side(of, 0))
				if want := st.Manifest().Schema.Relations[r].Name; x.Relation != want || x.Kind != "1-n" {
					t.Errorf("%s: relation %d is %s of kind %s, expected %s of 1-n: few heads with many tails", list, r, x.Relation, x.Kind, want)
				}
			}
		}
	})
	got, _, err := b.run(eval.RankerOptions{}, "test")
	if err != nil || got[0].Detail != nil {
		t.Errorf("a detail that nobody asked for: %v, %v", got[0].Detail, err)
	}
}

// TestCountRelations: edges and ends are counted alike in any room, with one pass over the edges or many.
func TestCountRelations(t *testing.T) {
	st, graph, _ := triples(t, 200, 3)
	b := newRankBench(t, st, nn.LinkConfig{Decoder: nn.DistMult, Encoder: "none", Dim: 2})
	want := make([][3]int64, evalRelations)
	heads, tails := map[[2]uint64]bool{}, map[[2]uint64]bool{}
	for _, e := range graph {
		want[e.Relation][0]++
		heads[[2]uint64{uint64(e.Relation), uint64(e.Src)}], tails[[2]uint64{uint64(e.Relation), uint64(e.Dst)}] = true, true
	}
	for k := range heads {
		want[k[0]][1]++
	}
	for k := range tails {
		want[k[0]][2]++
	}
	v, err := eval.NewRanker(st, b.dev, eval.RankerOptions{Model: b.model.Config()})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for _, words := range []int{1, 3, 4, 9, 1 << 10} {
		if got, err := eval.CountRelations(t.Context(), v, words); err != nil || !slices.Equal(got, want) {
			t.Errorf("in %d words: %v, %v, expected %v", words, got, err, want)
		}
	}
}
