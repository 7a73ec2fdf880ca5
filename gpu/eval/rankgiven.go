package eval

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
)

// What answers are ranked against: [RankerOptions].Against.
const (
	AgainstAuto  = "auto"
	AgainstGiven = "given"
	AgainstAll   = "all"
)

// CheckAgainst refuses what is no [RankerOptions].Against, and given negatives beside drawn candidates.
func CheckAgainst(against string, candidates int) error {
	if !slices.Contains([]string{AgainstAuto, AgainstGiven, AgainstAll}, against) {
		return store.Invalid(fmt.Errorf("ranks against %q: expected %s, %s or %s", against, AgainstAuto, AgainstGiven, AgainstAll))
	}
	if against == AgainstGiven && candidates > 0 {
		return store.Invalid(fmt.Errorf("ranks against %s negatives and %d candidates: expected one of them, candidates are drawn of all nodes", against, candidates))
	}
	return nil
}

// given is how many negatives each edge of a list is ranked against that the store has of it, 0 if it is ranked against others.
func (v *Ranker) given(name string) (each uint64, err error) {
	if v.o.Against == "" || v.o.Against == AgainstAll || v.o.Candidates > 0 {
		return 0, nil
	}
	if each, err = givenEach(v.st.Manifest(), name); v.o.Against == AgainstAuto {
		return each, nil
	}
	return each, err
}

// givenEach is how many negatives a store has of each edge of a list.
func givenEach(m *store.Manifest, name string) (uint64, error) {
	list, err := m.EdgeList(name)
	if err != nil {
		return 0, err
	}
	others, err := m.EdgeList(name + store.NegativesSuffix)
	if err != nil {
		return 0, err
	}
	each := others.Rows / max(list.Rows, 1)
	if others.Rows != each*list.Rows || each == 0 {
		return 0, fmt.Errorf("%w: list %s has %d edges for the %d of %s, expected as many for each", store.ErrInvalid, others.Name, others.Rows, list.Rows, name)
	}
	return each, nil
}

// rankGiven ranks the edges of a list each against its own negatives, as many for each, which are edges too (OGB's and GraphBolt's
// protocol). One that shares the edge's destination alone is a wrong answer to (?, r, tail); any other is one to (head, r, ?), of its own
// head: so an edge has a rank for each side that it has negatives of. Nothing is filtered: the data set says what is wrong.
func (v *Ranker) rankGiven(ctx context.Context, q *gpu.Queue, model *nn.LinkModel, x *spill.Table, name string, each uint64) (RankMetrics, error) {
	edges, err := v.st.EdgeList(ctx, name)
	if err != nil {
		return RankMetrics{}, err
	}
	wrong, err := v.st.EdgeList(ctx, name+store.NegativesSuffix)
	if err != nil {
		return RankMetrics{}, err
	}
	sum := RankMetrics{Given: true}
	b := newGivenBatch()
	flush := func() error { // an edge's answers are all in one batch
		if len(b.answers) == 0 {
			return nil
		}
		if err := v.asked(ctx, q, model, x, b.rankBatch, v.ask, func() error { return nil }); err != nil {
			return err
		}
		b.rank(&sum)
		b = newGivenBatch()
		return nil
	}
	for edges.Next() {
		e, sides := edges.Edge(), [2]int32{-1, -1} // the ranks of its tail and of its head
		for range each {
			if !wrong.Next() {
				return RankMetrics{}, cmp.Or(wrong.Err(), fmt.Errorf("%w: edge list %s ends before it has %d for each of %s", store.ErrCorrupt, name+store.NegativesSuffix, each, name))
			}
			n := wrong.Edge()
			if v.o.Relation != nil && e.Relation != *v.o.Relation || n.Src == e.Src && n.Dst == e.Dst {
				continue
			}
			side, asked, right := 0, question{uint32(e.Src), uint32(e.Relation)}, uint32(e.Dst)
			k, node := question{uint32(n.Src), uint32(e.Relation)}, uint32(n.Dst)
			if n.Dst == e.Dst {
				side, asked, right = 1, question{uint32(e.Dst), uint32(e.Relation) + v.relations}, uint32(e.Src)
				k, node = asked, uint32(n.Src)
			}
			if sides[side] < 0 {
				sides[side] = b.begin(asked, right)
			}
			b.answer(k, node, sides[side])
		}
		if uint64(len(b.answers))+each+2 > uint64(v.batchSize) { // the next edge's, in two ranks
			if err := flush(); err != nil {
				return RankMetrics{}, err
			}
		}
	}
	if err := flush(); err != nil {
		return RankMetrics{}, err
	}
	return sum.mean(), edges.Err()
}

// givenBatch are answers of which each is of a rank, the right one first.
type givenBatch struct {
	*rankBatch
	of     []int32 // by answer, its rank
	counts []int64 // by rank, its answers
}

func newGivenBatch() *givenBatch {
	return &givenBatch{rankBatch: newRankBatch()}
}

// begin begins a rank with the right answer to a question.
func (b *givenBatch) begin(k question, node uint32) (rank int32) {
	b.counts = append(b.counts, 0)
	rank = int32(len(b.counts) - 1)
	b.answer(k, node, rank)
	return rank
}

// answer adds an answer to a rank.
func (b *givenBatch) answer(k question, node uint32, rank int32) {
	b.rankBatch.answer(k, node)
	b.of = append(b.of, rank)
	b.counts[rank]++
}

// rank counts the ranks of answers that have their scores.
func (b *givenBatch) rank(sum *RankMetrics) {
	ranks, begun := make([]standing, len(b.counts)), 0
	for i, rank := range b.of {
		if int(rank) == begun { // they begin in their order
			ranks[rank].score = b.answers[i].score
			begun++
			continue
		}
		ranks[rank].see([]float32{b.answers[i].score}, -1, nil, nil)
	}
	for i := range ranks {
		n := uint64(b.counts[i])
		sum.add(ranks[i].ranks(n))
		sum.Candidates = max(sum.Candidates, n)
	}
}

// answersLeast is how many answers a batch holds at least: of an edge with all its negatives, in two ranks.
func (v *Ranker) answersLeast() int {
	m, most := v.st.Manifest(), uint64(0)
	for _, l := range m.EdgeLists {
		if each, err := v.given(l.Name); err == nil && each > 0 {
			most = max(most, each+2)
		}
	}
	return int(max(most, 1))
}
