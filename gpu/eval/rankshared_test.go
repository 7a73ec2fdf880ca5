package eval_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// ogbHits is eval_hits of OGB's evaluator: the share of positives above the k-th best negative, 1 where these are fewer.
func ogbHits(pos, neg []float64, k int) float64 {
	if len(neg) < k {
		return 1
	}
	neg = slices.Clone(neg)
	slices.SortFunc(neg, func(a, b float64) int { return -cmpFloat(a, b) })
	n := 0
	for _, p := range pos {
		if p > neg[k-1] {
			n++
		}
	}
	return float64(n) / float64(len(pos))
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// ogbMRR is the MRR of OGB's evaluator, with the same negatives for each positive: the mean of the best and the worst rank among equals.
func ogbMRR(pos, neg []float64) (sum float64) {
	for _, p := range pos {
		optimistic, pessimistic := 0.0, 0.0
		for _, n := range neg {
			if n > p {
				optimistic++
			}
			if n >= p {
				pessimistic++
			}
		}
		sum += 1 / (.5*(optimistic+pessimistic) + 1)
	}
	return sum / float64(len(pos))
}

// TestRanksAgainstShared: one set of wrong answers stands for all edges of a list, though their number divides into it, and ranks are those
// of OGB's evaluator, whatever the batches.
func TestRanksAgainstShared(t *testing.T) {
	const dim = 6
	st, _, lists := triplesWith(t, 120, 3, store.SharedNegativesSuffix)
	b := newRankBench(t, st, nn.LinkConfig{Decoder: nn.DistMult, Encoder: "none", Dim: dim})
	valid, wrong := lists["valid"], lists["valid"+store.SharedNegativesSuffix]
	if len(wrong)%len(valid) != 0 {
		t.Fatalf("%d wrong answers for %d edges: the test sees too little", len(wrong), len(valid))
	}
	scores := func(edges []store.Edge) (all []float64) {
		for _, e := range edges {
			s := 0.0
			for j := range dim {
				s += float64(b.x[int(e.Src)*dim+j]) * float64(b.r[int(e.Relation)*dim+j]) * float64(b.x[int(e.Dst)*dim+j])
			}
			all = append(all, s)
		}
		return all
	}
	pos, neg := scores(valid), scores(wrong)
	least := int64(0)
	if v, err := eval.NewRanker(st, b.dev, eval.RankerOptions{Model: b.model.Config(), Against: eval.AgainstGiven}); err != nil {
		t.Fatal(err)
	} else if least = v.LeastBytes(); v.Close() != nil {
		t.Error("close")
	}
	if _, _, err := b.run(eval.RankerOptions{Against: eval.AgainstGiven, MemoryBytes: least - 4*int64(len(wrong))}, "valid"); !errors.Is(err, store.ErrBudget) {
		t.Errorf("without room for the scores of wrong answers: %v, expected %v", err, store.ErrBudget)
	}
	for _, o := range []eval.RankerOptions{{Against: eval.AgainstGiven}, {Against: eval.AgainstAuto}, {Against: eval.AgainstGiven, MemoryBytes: least}} {
		got, _, err := b.run(o, "valid")
		if err != nil {
			t.Fatal(err)
		}
		m := got[0]
		if !m.Given || !m.Shared || m.Queries != int64(len(valid)) || m.Candidates != uint64(len(wrong))+1 || math.Abs(m.MRR-ogbMRR(pos, neg)) > 1e-12 {
			t.Errorf("%+v: %+v, expected MRR %v", o, m, ogbMRR(pos, neg))
		}
		for k, hits := range map[int]float64{1: m.Hits1, 3: m.Hits3, 10: m.Hits10, 20: m.Hits20, 50: m.Hits50, 100: m.Hits100} {
			if want := ogbHits(pos, neg, k); math.Abs(hits-want) > 1e-12 {
				t.Errorf("%+v: hits@%d %v, expected %v", o, k, hits, want)
			}
		}
		if m.Hits100 == 0 || m.Hits100 == m.Hits3 {
			t.Errorf("%+v: the test sees too little", m)
		}
	}
	got, _, err := b.run(eval.RankerOptions{Against: eval.AgainstAll}, "valid")
	if err != nil || got[0].Shared || got[0].Queries != 2*int64(len(valid)) {
		t.Errorf("against all: %+v, %v", got, err)
	}
}
