package targets

import (
	"context"
	"errors"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
)

// What a recommender has hidden columns for.
const (
	popularHidden = 16
	historyHidden = 32
)

// recommender scores items for entities at moments: with q the scores of the entity's row, which are as wide as states, and e the state of an
// item's encoder,
//
//	score = p(popularity) + h(history) + share·q·W·e
//
// with p a perceptron of how many rows led to the item before the moment, and h, of items that the entity had to do
// with ([items.pairs]), one of how often and when: Yuan and others, "ContextGNN: Beyond Two-Tower Recommendation Systems" (ICLR 2025), section 3,
// have a network of pairs there. An item's encoder has a vector learned of each, which q has of those in the entity's tree: what was bought by those
// who bought the same. Popularity and history learn by themselves, and the rest what these leave over: learned together, what is
// remembered of entities took the place of what comes again. How much of it counts, none or half or all, validation says of every epoch.
type recommender struct {
	weight           *nn.Param
	popular, pb, pw  *nn.Param
	history, hb, hw  *nn.Param
	grid             []float32 // room: columns of popularity
	histories        []float32
	scores, gradient []float32
}

// shares are how much of what is learned of entities and items may count.
var shares = []float32{0, .5, 1}

// newRecommender adds its parameters to the model's.
func newRecommender(params *nn.Params, k kind, h int) *recommender {
	r := &recommender{}
	f := popularColumns * max(k.popular, 1)
	r.weight = params.Add("items.weight", h, h, uniform(h))
	r.popular, r.pb = params.Add("popularity.weight", f, popularHidden, uniform(f)), params.Add("popularity.bias", 1, popularHidden, zero)
	r.pw = params.Add("popularity.score", popularHidden, 1, uniform(popularHidden))
	r.history, r.hb = params.Add("history.weight", historyColumns, historyHidden, uniform(historyColumns)), params.Add("history.bias", 1, historyHidden, zero)
	r.hw = params.Add("history.score", historyHidden, 1, uniform(historyHidden))
	return r
}

// choice is what a batch has of items beside its trees.
type choice struct {
	items    []uint32  // that are told apart, ascending
	moments  []int64   // at which popularity is looked at
	places   []int     // of each seed's among them
	popular  []float32 // [moments × items × columns]
	pairs    []pair
	history  []float32 // [pairs × columns]
	since    []int64   // from when on each item was there; none: always
	baseRows int       // states of rows that come before those of items
}

// fillPairs finds the items that a batch's seeds have to do with.
func (x *items) fillPairs(b *batch) {
	c := &b.choice
	c.pairs = x.pairs(b)
	c.history = c.history[:0]
	for i := range c.pairs {
		p := &c.pairs[i]
		c.history = p.appendTo(c.history, b.Times[p.seed])
	}
}

// fill makes the choice of a batch that trains.
func (x *items) fill(b *batch, f *feed, number int) {
	x.fillPairs(b)
	c := &b.choice
	c.items = x.candidates(b.truth.lists, c.pairs, f.key.With(uint64(f.epoch)).With(1).With(uint64(number)))
	c.moments, c.places, c.popular, c.since = c.moments[:0], c.places[:0], c.popular[:0], c.since[:0]
	place := map[int]int{}
	for i := range b.Seeds {
		g := x.placeOf(b.Times[i])
		if _, ok := place[g]; !ok {
			place[g] = len(c.moments)
			c.moments = append(c.moments, x.grid[g])
		}
		c.places = append(c.places, place[g])
	}
	for _, at := range c.moments {
		for _, item := range c.items {
			c.popular = x.appendPopularity(c.popular, item, at)
		}
	}
	if !x.d.timed[x.kind] {
		return
	}
	for _, item := range c.items {
		c.since = append(c.since, x.d.graph.Time(x.rows[item]))
	}
}

// columnsOf are the columns of popularity.
func (r *recommender) columnsOf() int { return r.popular.Value.Rows }

// perceptron is relu(x·w + b)·s, with its hidden columns.
func perceptron(q *gpu.Queue, a *gpu.Arena, x gpu.Tensor, w, b, s *nn.Param) (hidden, scores gpu.Tensor) {
	hidden, scores = a.Matrix(q, x.Rows, w.Value.Cols), a.Matrix(q, x.Rows, 1)
	if q.Err() != nil {
		return hidden, scores
	}
	q.Gemm(gpu.GemmOptions{}, x, w.Value, hidden)
	q.AddBias(true, b.Value, hidden)
	q.Gemm(gpu.GemmOptions{}, hidden, s.Value, scores)
	return hidden, scores
}

// perceptronBack sets the gradients of a perceptron's parameters from d, that of its scores.
func perceptronBack(q *gpu.Queue, a *gpu.Arena, x, hidden, d gpu.Tensor, w, b, s *nn.Param) {
	dHidden := a.Matrix(q, hidden.Rows, hidden.Cols)
	if q.Err() != nil {
		return
	}
	q.Gemm(gpu.GemmOptions{TransA: true}, hidden, d, s.Grad)
	q.Gemm(gpu.GemmOptions{TransB: true}, d, s.Value, dHidden)
	q.ReLUBackward(1, hidden, dHidden)
	q.ColumnSum(dHidden, b.Grad)
	q.Gemm(gpu.GemmOptions{TransA: true}, x, dHidden, w.Grad)
}

// matrixOf uploads a matrix of so many columns.
func matrixOf(q *gpu.Queue, a *gpu.Arena, values []float32, cols int) gpu.Tensor {
	t := a.Float32s(q, values)
	if q.Err() != nil {
		return t
	}
	return gpu.MatrixOf(t.Mem, t.Offset, len(values)/cols, cols)
}

// embed sets the vectors of items from their states.
func (r *recommender) embed(q *gpu.Queue, a *gpu.Arena, states gpu.Tensor) gpu.Tensor {
	e := a.Matrix(q, states.Rows, states.Cols)
	if q.Err() == nil {
		q.Gemm(gpu.GemmOptions{}, states, r.weight.Value, e)
	}
	return e
}

// stepItems trains one batch of a recommendation and returns its loss, summed over seeds.
func (m *model) stepItems(ctx context.Context, b *batch) (float64, error) {
	q, a, r, c := m.q, m.arena, m.items, &b.choice
	p := m.forward(b, true)
	if q.Err() != nil {
		return 0, errors.Join(q.Sync(context.WithoutCancel(ctx)), a.Reset())
	}
	n, items, moments := len(b.Seeds), len(c.items), len(c.moments)
	states := p.states.View(c.baseRows, 0, items, m.cfg.Hidden)
	e := r.embed(q, a, states)
	dense := a.Matrix(q, n, items)
	popular := matrixOf(q, a, c.popular, r.columnsOf())
	if q.Err() == nil {
		q.Gemm(gpu.GemmOptions{TransB: true}, p.scores, e, dense)
	}
	ph, ps := perceptron(q, a, popular, r.popular, r.pb, r.pw)
	var history, hh, hs gpu.Tensor
	if len(c.pairs) > 0 && q.Err() == nil {
		history = matrixOf(q, a, c.history, historyColumns)
		hh, hs = perceptron(q, a, history, r.history, r.hb, r.hw)
	}
	r.scores = resize(r.scores, n*items+moments*items+len(c.pairs))
	d, g, h := r.scores[:n*items], r.scores[n*items:(n+moments)*items], r.scores[(n+moments)*items:]
	if q.Err() == nil {
		q.Download(blocks.Bytes(d), dense)
		q.Download(blocks.Bytes(g), ps)
		if len(h) > 0 {
			q.Download(blocks.Bytes(h), hs)
		}
	}
	if err := q.Sync(context.WithoutCancel(ctx)); err != nil {
		return 0, errors.Join(err, a.Reset())
	}
	loss := r.loss(c, b.truth.lists, b.Times, d, g, h)
	if err := m.diverged(loss); err != nil {
		return 0, errors.Join(err, a.Reset())
	}
	m.params.ZeroGrads(q)
	dd, dg := matrixOf(q, a, d, items), matrixOf(q, a, g, 1)
	dq, de, dStates := a.Matrix(q, n, m.cfg.Hidden), a.Matrix(q, items, m.cfg.Hidden), a.Matrix(q, items, m.cfg.Hidden)
	if q.Err() == nil {
		perceptronBack(q, a, popular, ph, dg, r.popular, r.pb, r.pw)
		q.Gemm(gpu.GemmOptions{}, dd, e, dq)
		q.Gemm(gpu.GemmOptions{TransA: true}, dd, p.scores, de)
		if len(h) > 0 {
			perceptronBack(q, a, history, hh, matrixOf(q, a, h, 1), r.history, r.hb, r.hw)
		}
		q.Gemm(gpu.GemmOptions{TransA: true}, states, de, r.weight.Grad)
		q.Gemm(gpu.GemmOptions{TransB: true}, de, r.weight.Value, dStates)
		m.backward(p, dq, dStates)
		m.adamStep()
	}
	return loss, errors.Join(q.Sync(context.WithoutCancel(ctx)), a.Reset())
}

// loss is the cross entropy of a softmax over the batch's items, of which those of a seed's list are right, alike. It is summed over seeds, and
// the scores d of seeds, of which each has a moment, and items, g of moments and items and h of pairs become the gradients of its mean: g and h of the loss without d.
func (r *recommender) loss(c *choice, lists [][]uint32, moments []int64, d, g, h []float32) (sum float64) {
	items := len(c.items)
	column := make(map[uint32]int, items)
	for k, item := range c.items {
		column[item] = k
	}
	r.gradient = resize(r.gradient, len(g)+items)
	dg, base := r.gradient[:len(g)], r.gradient[len(g):]
	clear(dg)
	scale, pair := 1/float64(len(lists)), 0
	for i, list := range lists {
		s, at := d[i*items:(i+1)*items], c.places[i]*items
		copy(base, g[at:at+items])
		first := pair
		for ; pair < len(c.pairs) && int(c.pairs[pair].seed) == i; pair++ {
			if k, ok := column[c.pairs[pair].item]; ok {
				base[k] += h[pair]
			}
		}
		var right []int
		out := func(k int) bool { return len(c.since) > 0 && c.since[k] > moments[i] }
		for _, item := range list {
			if k, ok := column[item]; ok && !out(k) {
				right = append(right, k)
			}
		}
		for k := range s {
			if s[k] += base[k]; out(k) {
				s[k], base[k] = float32(math.Inf(-1)), float32(math.Inf(-1))
			}
		}
		sum += softmaxLoss(s, right, scale)
		softmaxLoss(base, right, scale)
		for k, x := range base {
			dg[at+k] += x
		}
		for k := first; k < pair; k++ {
			h[k] = 0
			if j, ok := column[c.pairs[k].item]; ok {
				h[k] = base[j]
			}
		}
	}
	copy(g, dg)
	return sum
}
