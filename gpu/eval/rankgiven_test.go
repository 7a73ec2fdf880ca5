package eval_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// TestRanksAgainstGiven: edges of a list are ranked among the wrong answers that the store has of each, whatever the batches, by its tail
// and by its head; lists without are not.
func TestRanksAgainstGiven(t *testing.T) {
	st, graph, lists := triples(t, 120, 3)
	b := newRankBench(t, st, nn.LinkConfig{Decoder: nn.DistMult, Encoder: "none", Dim: 6})
	valid, wrong := lists["valid"], lists["valid"+store.NegativesSuffix]
	each := len(wrong) / len(valid)
	var want eval.RankMetrics
	score := func(end, relation, n int) (s float64) {
		for j := range 6 {
			s += float64(b.x[end*6+j]) * float64(b.r[relation*6+j]) * float64(b.x[n*6+j])
		}
		return s
	}
	for i, e := range valid {
		for side := range 2 {
			rank, seen := 1.0, uint64(1)
			for _, n := range wrong[i*each : (i+1)*each] {
				own, other := score(int(e.Src), int(e.Relation), int(e.Dst)), score(int(n.Src), int(e.Relation), int(n.Dst))
				head := n.Dst == e.Dst
				if head {
					own, other = score(int(e.Dst), int(e.Relation)+evalRelations, int(e.Src)), score(int(e.Dst), int(e.Relation)+evalRelations, int(n.Src))
				}
				if n.Src == e.Src && n.Dst == e.Dst || head != (side == 1) {
					continue
				}
				seen++
				if other > own {
					rank++
				} else if other == own {
					rank += .5
				}
			}
			if seen > 1 {
				want.Queries++
				want.Candidates = max(want.Candidates, seen)
				want.MRR += 1 / rank
				for k, h := range map[float64]*float64{1: &want.Hits1, 3: &want.Hits3, 10: &want.Hits10} {
					if rank <= k {
						*h++
					}
				}
			}
		}
	}
	for _, x := range []*float64{&want.MRR, &want.Hits1, &want.Hits3, &want.Hits10} {
		*x /= float64(want.Queries)
	}
	want.RawMRR, want.RawHits1, want.RawHits3, want.RawHits10 = want.MRR, want.Hits1, want.Hits3, want.Hits10
	least := int64(0)
	if _, _, err := b.run(eval.RankerOptions{Against: eval.AgainstGiven, MemoryBytes: 1}); !errors.Is(err, store.ErrBudget) {
		t.Errorf("in 1 byte: %v, expected %v", err, store.ErrBudget)
	}
	if v, err := eval.NewRanker(st, b.dev, eval.RankerOptions{Model: b.model.Config(), Against: eval.AgainstGiven}); err != nil {
		t.Fatal(err)
	} else if least = v.LeastBytes(); v.Close() != nil {
		t.Error("close")
	}
	for _, o := range []eval.RankerOptions{{Against: eval.AgainstGiven}, {Against: eval.AgainstAuto}, {Against: eval.AgainstGiven, MemoryBytes: least}} {
		got, _, err := b.run(o, "valid")
		if err != nil {
			t.Fatal(err)
		}
		if !got[0].Given || !near(got[0], want, 1e-12) {
			t.Errorf("%+v: %+v, expected %+v", o, got[0], want)
		}
	}
	among := make([]uint64, st.Manifest().Nodes)
	for i := range among {
		among[i] = uint64(i)
	}
	got, _, err := b.run(eval.RankerOptions{Against: eval.AgainstAuto}, "test")
	if err != nil || got[0].Given || !near(got[0], b.want(graph, lists, "test", among), 1e-12) {
		t.Errorf("a list without negatives: %+v, %v, expected ranks against all nodes", got, err)
	}
	if _, _, err := b.run(eval.RankerOptions{Against: eval.AgainstGiven}, "test"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("negatives of a list without: %v, expected %v", err, store.ErrNotFound)
	}
	for _, o := range []eval.RankerOptions{{Against: "some"}, {Against: eval.AgainstGiven, Candidates: 9}} {
		if _, _, err := b.run(o, "valid"); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v, expected %v", o, err, store.ErrInvalid)
		}
	}
	if slices.Equal(wrong[:each], wrong[each:2*each]) {
		t.Error("all edges have the same negatives: the test sees too little")
	}
}
