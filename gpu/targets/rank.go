package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/asof"
)

// recommend lists the best items of examples, in their order, for each of some shares, and how many rows were sampled.
func (m *model) recommend(ctx context.Context, x *items, s *asof.Sampler, part []example, until int64, shares []float32) (best [][][]scored, checked int64, err error) {
	vectors, err := m.itemVectors(ctx, x)
	if err != nil {
		return nil, 0, err
	}
	best = make([][][]scored, len(shares))
	for k := range best {
		best[k] = make([][]scored, len(part))
	}
	const day = 86400
	groups := map[int64][]int{} // by the day of the moment, at whose beginning popularity is looked at
	for i, e := range part {
		moment := min(e.moment, until)
		begin := moment - (moment%day+day)%day
		groups[begin] = append(groups[begin], i)
	}
	var days []int64
	for d := range groups {
		days = append(days, d)
	}
	slices.Sort(days)
	b := &batch{}
	for _, d := range days {
		popular, err := m.popularity(ctx, x, d)
		if err != nil {
			return nil, checked, err
		}
		f := &feed{d: x.d, sampler: s, size: m.cfg.BatchSize, until: until, epoch: evalEpoch}
		for _, i := range groups[d] {
			f.examples = append(f.examples, part[i])
		}
		n, err := f.each(ctx, b, func(i int) error {
			x.fillPairs(b)
			lists, err := m.bestOf(ctx, x, b, vectors, popular, shares)
			for k, list := range lists {
				best[k%len(shares)][groups[d][i*f.size+k/len(shares)]] = list
			}
			return err
		})
		if checked += n; err != nil {
			return nil, checked, err
		}
	}
	return best, checked, nil
}

// itemVectors are the vectors of all items, [items × hidden].
func (m *model) itemVectors(ctx context.Context, x *items) (vectors []float32, err error) {
	h := m.cfg.Hidden
	vectors = make([]float32, len(x.rows)*h)
	for lo := 0; lo < len(x.rows); lo += candidatesMost {
		hi := min(lo+candidatesMost, len(x.rows))
		b := &batch{}
		b.choice.items = counting(hi)[lo:]
		x.d.emptyParts(b)
		x.readItems(b)
		states := m.arena.Matrix(m.q, hi-lo, h)
		if m.q.Err() == nil {
			m.encode(&pass{}, &b.extra, states)
		}
		e := m.items.embed(m.q, m.arena, states)
		if m.q.Err() == nil {
			m.q.Download(blocks.Bytes(vectors[lo*h:hi*h]), e)
		}
		if err := errors.Join(m.q.Sync(ctx), m.arena.Reset()); err != nil {
			return nil, fmt.Errorf("evaluation: %w", progress.BudgetError(err))
		}
	}
	return vectors, nil
}

// popularity scores how popular items are at a moment.
func (m *model) popularity(ctx context.Context, x *items, moment int64) (scores []float32, err error) {
	r := m.items
	scores = make([]float32, len(x.rows))
	for lo := 0; lo < len(x.rows); lo += candidatesMost {
		hi := min(lo+candidatesMost, len(x.rows))
		r.grid = r.grid[:0]
		for item := lo; item < hi; item++ {
			r.grid = x.appendPopularity(r.grid, uint32(item), moment)
		}
		_, ps := perceptron(m.q, m.arena, matrixOf(m.q, m.arena, r.grid, r.columnsOf()), r.popular, r.pb, r.pw)
		if m.q.Err() == nil {
			m.q.Download(blocks.Bytes(scores[lo:hi]), ps)
		}
		if err := errors.Join(m.q.Sync(ctx), m.arena.Reset()); err != nil {
			return nil, fmt.Errorf("evaluation: %w", progress.BudgetError(err))
		}
	}
	return scores, nil
}

// bestOf are the best items of a batch's seeds among all that were there at their moments, the best first: of each seed for each of some shares.
func (m *model) bestOf(ctx context.Context, x *items, b *batch, vectors, popular, shares []float32) ([][]scored, error) {
	q, a, r, c, h := m.q, m.arena, m.items, &b.choice, m.cfg.Hidden
	p := m.forward(b, false)
	n := len(b.Seeds)
	r.histories = resize(r.histories, len(c.pairs))
	if len(c.pairs) > 0 && q.Err() == nil {
		if _, hs := perceptron(q, a, matrixOf(q, a, c.history, historyColumns), r.history, r.hb, r.hw); q.Err() == nil {
			q.Download(blocks.Bytes(r.histories), hs)
		}
	}
	best := make([][]scored, n*len(shares))
	wide := min(candidatesMost, len(x.rows))
	room, scores := a.Matrix(q, wide, h), a.Matrix(q, n, wide)
	starts := make([]int, n+1) // of each seed's pairs
	for k, p := range c.pairs {
		starts[p.seed+1] = k + 1
	}
	for i := range n {
		starts[i+1] = max(starts[i+1], starts[i])
	}
	var had []map[uint32]bool // by seed
	for i := 0; x.others && i < n; i++ {
		had = append(had, x.had(b.Seeds[i], b.Times[i]))
	}
	for lo := 0; lo < len(x.rows); lo += wide {
		hi := min(lo+wide, len(x.rows))
		r.scores = resize(r.scores, n*(hi-lo))
		if q.Err() == nil {
			e, dense := room.Head(hi-lo), gpu.MatrixOf(scores.Mem, scores.Offset, n, hi-lo)
			q.Upload(e, blocks.Bytes(vectors[lo*h:hi*h]))
			q.Gemm(gpu.GemmOptions{TransB: true}, p.scores, e, dense)
			q.Download(blocks.Bytes(r.scores), dense)
		}
		if err := q.Sync(ctx); err != nil {
			return nil, errors.Join(err, a.Reset())
		}
		var group panics.Group
		threads := max(1, m.cfg.Threads)
		for t := range threads {
			group.Go(func() {
				base := make([]float32, hi-lo)
				for i := t * n / threads; i < (t+1)*n/threads; i++ {
					copy(base, popular[lo:hi])
					for k := starts[i]; k < starts[i+1]; k++ {
						if item := int(c.pairs[k].item); item >= lo && item < hi {
							base[item-lo] += r.histories[k]
						}
					}
					if x.others {
						for item := range had[i] {
							if k := int(item) - lo; k >= 0 && k < len(base) {
								base[k] = float32(math.Inf(-1))
							}
						}
					}
					x.best(best[i*len(shares):(i+1)*len(shares)], lo, base, r.scores[i*(hi-lo):(i+1)*(hi-lo)], shares, b.Times[i], m.kind.top)
				}
			})
		}
		group.Wait()
	}
	return best, a.Reset()
}

// best keeps the best of the items from first on, by share, which were there at a moment.
func (x *items) best(best [][]scored, first int, base, dense, shares []float32, moment int64, top int) {
	for k, share := range shares {
		list := best[k]
		for i, s := range base {
			s += share * dense[i]
			if len(list) == top && s <= list[top-1].score || math.IsInf(float64(s), -1) || !x.known(uint32(first+i), moment) { // equals come behind
				continue
			}
			list = keepBest(list, scored{uint32(first + i), s}, top)
		}
		best[k] = list
	}
}

// scored is an item with its score.
type scored struct {
	item  uint32
	score float32
}

// better orders items by score, the first of equals first.
func (a scored) better(b scored) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.item, b.item))
}

// keepBest puts an item among the best so far, in order, of which there are at most k.
func keepBest(best []scored, s scored, k int) []scored {
	if len(best) == k && s.better(best[k-1]) > 0 {
		return best
	}
	at, _ := slices.BinarySearchFunc(best, s, scored.better)
	best = slices.Insert(best, at, s)
	return best[:min(len(best), k)]
}
