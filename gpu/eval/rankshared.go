package eval

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
)

// shared is how many wrong answers the store has that all edges of a list are ranked against; 0 if there are none, or none are asked for.
func (v *Ranker) shared(name string) (uint64, error) {
	if v.o.Against == "" || v.o.Against == AgainstAll || v.o.Candidates > 0 {
		return 0, nil
	}
	m := v.st.Manifest()
	l, err := m.EdgeList(name + store.SharedNegativesSuffix)
	if err != nil {
		return 0, nil
	}
	if _, err := m.EdgeList(name + store.NegativesSuffix); err == nil {
		return 0, fmt.Errorf("%w: edge list %s has wrong answers of each edge, %s, and of all, %s: expected one of them", store.ErrInvalid, name, name+store.NegativesSuffix, l.Name)
	}
	return l.Rows, nil
}

// sharedBytes is what the scores of the largest set of shared wrong answers take.
func (v *Ranker) sharedBytes() (bytes int64) {
	for _, l := range v.st.Manifest().EdgeLists {
		if n, err := v.shared(l.Name); err == nil {
			bytes = max(bytes, 4*int64(n))
		}
	}
	return bytes
}

// rankShared ranks the edges of a list among one set of wrong answers that all share (OGB's evaluator for ogbl-ddi, -collab and -ppa, Hu et
// al., NeurIPS 2020): hits@K is the share of edges that score above the K-th best of the wrong ones, 1 if those are fewer than K. Ranks
// that MRR is of count as elsewhere: an equal score is half a place. An edge has one score, as (head, r, ?) answered by its tail.
func (v *Ranker) rankShared(ctx context.Context, q *gpu.Queue, model *nn.LinkModel, x *spill.Table, name string, rows uint64) (RankMetrics, error) {
	wrong := make([]float32, 0, rows)
	err := v.scored(ctx, q, model, x, name+store.SharedNegativesSuffix, func(s float32) {
		if s != s { // what is not a number counts as higher
			s = float32(math.Inf(1))
		}
		wrong = append(wrong, s)
	})
	if err != nil {
		return RankMetrics{}, err
	}
	slices.Sort(wrong)
	sum := RankMetrics{Given: true, Shared: true, Candidates: uint64(len(wrong)) + 1}
	err = v.scored(ctx, q, model, x, name, func(s float32) {
		if s != s { // a diverged model must not look good
			sum.addShared(int64(len(wrong)), 0)
			return
		}
		least := sort.Search(len(wrong), func(i int) bool { return wrong[i] >= s })
		above := sort.Search(len(wrong), func(i int) bool { return wrong[i] > s })
		sum.addShared(int64(len(wrong)-above), int64(above-least))
	})
	return sum.mean(), err
}

// scored calls see with the score of each edge of a list, in order.
func (v *Ranker) scored(ctx context.Context, q *gpu.Queue, model *nn.LinkModel, x *spill.Table, name string, see func(score float32)) error {
	edges, err := v.st.EdgeList(ctx, name)
	if err != nil {
		return err
	}
	for {
		b := newRankBatch()
		for len(b.answers) < v.batchSize && edges.Next() {
			if e := edges.Edge(); v.o.Relation == nil || e.Relation == *v.o.Relation {
				b.answer(question{uint32(e.Src), uint32(e.Relation)}, uint32(e.Dst))
			}
		}
		if len(b.answers) == 0 {
			return edges.Err()
		}
		if err := v.asked(ctx, q, model, x, b, v.ask, func() error { return nil }); err != nil {
			return err
		}
		for i := range b.answers {
			see(b.answers[i].score)
		}
	}
}
