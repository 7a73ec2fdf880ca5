package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/gpu"
)

func kindOfGAT() Kind {
	return Kind{Name: "gat", Sparse: true, EdgeFeatures: true, Heads: true, MeanHeads: true, History: HistoryAttention, Aggregates: true,
		layer: func(c *Config, p *Params, s slot) Layer {
			return newGAT(p, s.index, s.in, s.head(c.heads()), c.heads(), s.last, s.act, s.inputDropout).withEdges(p, c.EdgeDim)
		},
		stream: streamAttention,
		encoder: func(c *LinkConfig, p *Params) Layer {
			h := &hidden{Layer: newGAT(p, 0, c.Dim, c.Dim/c.heads(), c.heads(), false, Activation{}, 0), act: Activation{Tanh: true}, residual: true}
			h.project = p.Add("0.residual", c.Dim, c.Dim, fanIn(c.Dim))
			return preparedHidden{h}
		}}
}

// gatSlope is the slope of the leaky ReLU of attention scores (Veličković et al., section 2.1).
const gatSlope = .2

// gatLayer is a graph attention layer (Veličković et al., "Graph Attention Networks",
// ICLR 2018, eqs. 1–6), for each of its heads:
//
//	t[v]   = W·h[v]
//	α[u,v] = softmax over u → v, u = v included, of leakyReLU(a_src·t[u] + a_dst·t[v])
//	o[v]   = Σ_u α[u,v]·t[u]
//	out[v] = act(heads side by side, or their mean, + b)
//
// Attention over the sampled neighbours is a softmax over these alone. A self
// loop that the graph has counts beside the added one.
//
// With a [History] the absent neighbours of v are one more source, in their mean state, which counts as many times as they are: its
// score has the logarithm of that added. Today's weights attend to it, and have a gradient of it; the state has none.
//
// Features x[e] of edges ([Config].EdgeDim) add a_edge·(W_edge·x[e]) to the score of edge e, and nothing to what is sent: the
// form of PyG's GATConv with edge_dim, that of its fill_value "mean" too: v's own edge has the mean of the features of v's edges
// in the block, 0 without any, a self loop that the graph has among them. As the score takes one number a head of an edge, x[e] is
// multiplied by W_edgeᵀ·a_edge [edge_dim × heads] at once, and W_edge·x[e] [heads·width] is never made.
type gatLayer struct {
	index, in, width, heads int
	mean                    bool // the output is the mean of the heads
	act                     Activation
	inputDropout            float32
	w, aSrc, aDst, b        *Param
	wEdge, aEdge            *Param // nil without features of edges

	// Of the pass between Forward and Backward.
	loops  gpu.Graph
	own    int        // sources of the block, absent neighbours' means not counted
	x      operand    // [NumSrc × in]
	t      gpu.Tensor // [NumSrc × heads·width]
	a      gpu.Tensor // [heads·width × 2·heads], see layAttention
	ae     gpu.Tensor // [heads·width × heads], likewise
	edges  gpu.Tensor // [edges × edge_dim], self loops' too
	scores gpu.Tensor // [edges × heads], after the leaky ReLU
	alpha  gpu.Tensor // [edges × heads]
	y      gpu.Tensor // [NumDst × OutDim], activated
}

var _ Streamer = (*gatLayer)(nil)
var _ Preparer = (*gatLayer)(nil)

// newGAT declares a layer's parameters in p: "i.weight" [in × heads·width],
// "i.src" and "i.dst" [heads·width × 1], the attention vectors head after head,
// and "i.bias". The output has width columns if mean, heads·width otherwise.
// inputDropout is for a first layer: its input needs no gradient.
func newGAT(p *Params, index, in, width, heads int, mean bool, act Activation, inputDropout float32) *gatLayer {
	name, all := fmt.Sprint(index), heads*width
	l := &gatLayer{index: index, in: in, width: width, heads: heads, mean: mean, act: act, inputDropout: inputDropout,
		w:    p.Add(name+".weight", in, all, glorot(in, all)),
		aSrc: p.Add(name+".src", all, 1, glorot(width, 1)),
		aDst: p.Add(name+".dst", all, 1, glorot(width, 1))}
	l.b = p.Add(name+".bias", 1, l.OutDim(), zero)
	return l
}

// withEdges declares what features of dim columns an edge take, 0: none: "i.edge_weight" [dim × heads·width], and their attention
// vectors "i.edge" [heads·width × 1].
func (l *gatLayer) withEdges(p *Params, dim int) *gatLayer {
	if name, all := fmt.Sprint(l.index), l.heads*l.width; dim > 0 {
		l.wEdge = p.Add(name+".edge_weight", dim, all, glorot(dim, all))
		l.aEdge = p.Add(name+".edge", all, 1, glorot(l.width, 1))
	}
	return l
}

// InDim returns the columns of a source's state.
func (l *gatLayer) InDim() int { return l.in }

// OutDim returns the columns of a destination's state.
func (l *gatLayer) OutDim() int {
	if l.mean {
		return l.width
	}
	return l.heads * l.width
}

// Params lists weight, attention vectors and bias, then those of edges.
func (l *gatLayer) Params() []*Param {
	ps := []*Param{l.w, l.aSrc, l.aDst, l.b}
	if l.wEdge != nil {
		ps = append(ps, l.wEdge, l.aEdge)
	}
	return ps
}

// Hops returns 1.
func (l *gatLayer) Hops() int { return 1 }

// Forward implements [Layer].
func (l *gatLayer) Forward(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	q := p.Queue
	var half, rest gpu.Tensor
	h := p.history(l.index)
	if l.own = g.NumSrc; h != nil {
		g, rest = &h.Graph, h.Rest
	}
	if l.x, l.t, half = l.transform(p, l.own, in, rest); q.Err() != nil {
		return gpu.Tensor{}
	}
	l.loops = q.SelfLoops(p.Arena, *g)
	e := l.loops.Edges()
	l.scores, l.alpha = p.Arena.Matrix(q, e, l.heads), p.Arena.Matrix(q, e, l.heads)
	if q.Err() != nil { // g has more destinations than sources
		return gpu.Tensor{}
	}
	var own gpu.Tensor // the edges' part of the scores
	if l.wEdge != nil {
		l.edges, own = g.EdgeFeatures, l.scores
		l.edgeScores(p, l.edges, own)
	}
	q.EdgeAdd(gatSlope, l.loops, half.View(0, 0, g.NumSrc, l.heads), half.View(0, l.heads, g.NumDst, l.heads), own, l.scores)
	q.Copy(l.alpha, l.scores)
	if h != nil {
		q.Axpy(1, h.Logs, l.alpha)
	}
	q.EdgeSoftmax(l.loops, l.alpha)
	o := p.Arena.Matrix(q, g.NumDst, l.t.Cols)
	q.Fill(o, 0)
	q.AggregateHeads(l.loops, l.alpha, l.t, o)
	p.aggregated(l.index, o)
	l.y = l.output(p, o)
	return l.y
}

// transform returns the states x of n sources, those in rest behind them, x·W, and the halves of their
// attention scores [n × 2·heads]: as sources, then as destinations.
func (l *gatLayer) transform(p *Pass, n int, in Input, rest gpu.Tensor) (x operand, t, half gpu.Tensor) {
	q, layer := p.Queue, fmt.Sprintf("GAT layer %d", l.index)
	if rest.IsZero() {
		x = droppedOperand(p, layer, n, l.in, in, l.inputDropout)
	} else if x.dense = p.Arena.Matrix(q, n+rest.Rows, l.in); q.Err() == nil && states(p, layer, n, in, x.dense.Head(n)) {
		q.Copy(x.dense.View(n, 0, rest.Rows, l.in), rest)
	}
	if n += rest.Rows; q.Err() != nil {
		return x, t, half
	}
	t = p.Arena.Matrix(q, n, l.heads*l.width)
	x.times(q, l.w.Value, t)
	l.a = attention(p, l.heads, l.aSrc.Value, l.aDst.Value)
	half = p.Arena.Matrix(q, n, 2*l.heads)
	q.Gemm(gpu.GemmOptions{}, t, l.a, half)
	return x, t, half
}

// droppedOperand is [wholeOperand], in training with a first layer's dropout.
func droppedOperand(p *Pass, layer string, n, cols int, in Input, dropout float32) operand {
	if !p.Train || dropout == 0 {
		return wholeOperand(p, layer, n, cols, in)
	}
	return operand{dense: droppedInput(p, layer, n, cols, in, dropout)}
}

// droppedInput is [wholeInput], in training with a first layer's dropout.
func droppedInput(p *Pass, layer string, n, cols int, in Input, dropout float32) gpu.Tensor {
	if !p.Train || dropout == 0 {
		return wholeInput(p, layer, n, cols, in)
	}
	x := p.Arena.Matrix(p.Queue, n, cols)
	if states(p, layer, n, in, x) {
		p.Queue.Dropout(p.inputMask(dropout, 0), x)
	}
	return x
}

// edgeScores sets out [edges × heads] to the part of features x [edges × edge_dim] in the scores.
func (l *gatLayer) edgeScores(p *Pass, x, out gpu.Tensor) {
	q, dim := p.Queue, l.wEdge.Value.Rows
	if x.Rows != out.Rows || x.Cols != dim {
		q.Fail(fmt.Errorf("nn: GAT layer %d: features of edges are %v, expected [%d×%d]: %w", l.index, x, out.Rows, dim, gpu.ErrShape))
		return
	}
	l.ae = attention(p, l.heads, l.aEdge.Value)
	by := p.Arena.Matrix(q, dim, l.heads)
	q.Gemm(gpu.GemmOptions{}, l.wEdge.Value, l.ae, by)
	q.Gemm(gpu.GemmOptions{}, x, by, out)
}

// edgeBackward sets the gradients of what edgeScores reads from that of the scores, de [edges × heads].
func (l *gatLayer) edgeBackward(p *Pass, de gpu.Tensor) {
	q, a := p.Queue, p.Arena
	by := a.Matrix(q, l.wEdge.Value.Rows, l.heads)
	q.Gemm(gpu.GemmOptions{TransA: true}, l.edges, de, by)
	q.Gemm(gpu.GemmOptions{TransB: true}, by, l.ae, l.wEdge.Grad)
	da := a.Matrix(q, l.ae.Rows, l.ae.Cols)
	q.Gemm(gpu.GemmOptions{TransA: true}, l.wEdge.Value, by, da)
	liftAttention(q, da, l.heads, l.aEdge.Grad)
}

// attention lays attention vectors vs [heads·width × 1] out.
func attention(p *Pass, heads int, vs ...gpu.Tensor) gpu.Tensor {
	a := p.Arena.Matrix(p.Queue, vs[0].Rows, len(vs)*heads)
	p.Queue.Fill(a, 0)
	layAttention(p.Queue, a, heads, vs...)
	return a
}

// layAttention lays attention vectors [heads·width × 1] out in a [heads·width × len(vs)·heads], 0 before, so that t·a is all their parts
// of scores at once: column i·heads+h holds head h of vs[i] in the rows of head h.
func layAttention(q *gpu.Queue, a gpu.Tensor, heads int, vs ...gpu.Tensor) {
	width := a.Rows / heads
	for i, v := range vs {
		for h := range heads {
			q.Copy(a.View(h*width, i*heads+h, width, 1), v.View(h*width, 0, width, 1))
		}
	}
}

// liftAttention takes the gradients of vs out of that of what layAttention laid out.
func liftAttention(q *gpu.Queue, da gpu.Tensor, heads int, vs ...gpu.Tensor) {
	width := da.Rows / heads
	for i, v := range vs {
		for h := range heads {
			q.Copy(v.View(h*width, 0, width, 1), da.View(h*width, i*heads+h, width, 1))
		}
	}
}

// meanHeads returns the mean of the heads that lie side by side in o.
func meanHeads(p *Pass, o gpu.Tensor, heads int) gpu.Tensor {
	q, width := p.Queue, o.Cols/heads
	y, one := p.Arena.Matrix(q, o.Rows, width), p.Arena.Matrix(q, o.Rows, width)
	q.Fill(y, 0)
	for h := range heads {
		q.Copy(one, o.View(0, h*width, o.Rows, width))
		q.Axpy(1/float32(heads), one, y)
	}
	return y
}

// spreadHeads returns the gradient of meanHeads' heads from that of their mean.
func spreadHeads(p *Pass, d gpu.Tensor, heads int) gpu.Tensor {
	q := p.Queue
	do, one := p.Arena.Matrix(q, d.Rows, heads*d.Cols), p.Arena.Matrix(q, d.Rows, d.Cols)
	q.Fill(one, 0)
	q.Axpy(1/float32(heads), d, one)
	for h := range heads {
		q.Copy(do.View(0, h*d.Cols, d.Rows, d.Cols), one)
	}
	return do
}

// output turns the heads' sums o, which it overwrites, into the layer's output.
func (l *gatLayer) output(p *Pass, o gpu.Tensor) gpu.Tensor {
	q, y := p.Queue, o
	if l.mean {
		y = meanHeads(p, o, l.heads)
	}
	q.AddBias(l.act.ReLU, l.b.Value, y)
	l.act.apply(p, l.index, y)
	return y
}

// Backward implements [Layer].
func (l *gatLayer) Backward(p *Pass, dOut gpu.Tensor, needInput bool) gpu.Tensor {
	q, a, g := p.Queue, p.Arena, &l.loops
	l.act.backward(p, l.index, l.y, dOut)
	q.ColumnSum(dOut, l.b.Grad)
	do := dOut
	if l.mean {
		do = spreadHeads(p, dOut, l.heads)
	}
	// Weights, softmax, scores, and their two halves.
	de := a.Matrix(q, g.Edges(), l.heads)
	q.EdgeDot(l.heads, *g, l.t, do, de)
	q.EdgeSoftmaxBackward(*g, l.alpha, de)
	q.LeakyReLUBackward(gatSlope, l.scores, de)
	if l.wEdge != nil {
		l.edgeBackward(p, de)
	}
	q.TransposeEdges(a, g)
	half := a.Matrix(q, g.NumSrc, 2*l.heads)
	q.Fill(half, 0)
	q.EdgeSum(true, *g, de, half.View(0, 0, g.NumSrc, l.heads))
	q.EdgeSum(false, *g, de, half.View(0, l.heads, g.NumDst, l.heads))
	da := a.Matrix(q, l.a.Rows, l.a.Cols)
	q.Gemm(gpu.GemmOptions{TransA: true}, l.t, half, da)
	liftAttention(q, da, l.heads, l.aSrc.Grad, l.aDst.Grad)
	// The transformed states: through the scores and through the sum.
	dt := a.Matrix(q, g.NumSrc, l.t.Cols)
	q.Gemm(gpu.GemmOptions{TransB: true}, half, l.a, dt)
	q.AggregateHeadsBackward(*g, l.alpha, do, dt)
	l.x.gradient(q, dt, l.w.Grad)
	if !needInput {
		return gpu.Tensor{}
	}
	dIn := a.Matrix(q, g.NumSrc, l.in)
	q.Gemm(gpu.GemmOptions{TransB: true}, dt, l.w.Value, dIn)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	return dIn.Head(l.own)
}

// AbsentEdges completes histories of gat. It owns what their tensors then refer to, so it serves one at a time; memory is reused.
type AbsentEdges struct {
	indptr, indices []int32
	logs            []float32
}

// Complete sets h.Graph and h.Logs of a block with so many sources and such edges. counts are how many sampled neighbours the absent ones
// of each destination count as; 0: none.
func (x *AbsentEdges) Complete(q *gpu.Queue, a *gpu.Arena, h *History, sources int, indptr, indices []int32, counts []float32, heads int) {
	x.indptr, x.indices, x.logs = append(x.indptr[:0], 0), x.indices[:0], x.logs[:0]
	for d, count := range counts {
		own := indices[indptr[d]:indptr[d+1]]
		x.indices = append(x.indices, own...)
		x.logs = slices.Grow(x.logs, (len(own)+2)*heads)
		x.logs = append(x.logs, make([]float32, (len(own)+1)*heads)...) // the self loop's first
		if count > 0 {
			x.indices = append(x.indices, int32(sources+d))
			for range heads {
				x.logs = append(x.logs, float32(math.Log(float64(count))))
			}
		}
		x.indptr = append(x.indptr, int32(len(x.indices)))
	}
	h.Graph = gpu.Graph{NumDst: len(counts), NumSrc: sources + len(counts), Indptr: a.Int32s(q, x.indptr), Indices: a.Int32s(q, x.indices)}
	h.Logs = a.Float32s(q, x.logs)
	h.Logs.Rows, h.Logs.Cols, h.Logs.Stride = len(x.logs)/heads, heads, heads
}

// AccumulatorDim implements [Streamer]: the weighted sum and, for each head,
// the largest score, the sum of weights, the node's half of the score and, with features of edges, the sum of their parts of the scores.
func (l *gatLayer) AccumulatorDim() int {
	if l.wEdge != nil {
		return l.heads * (l.width + 4)
	}
	return l.heads * (l.width + 3)
}

// edgeSum views the accumulators' sums of the edges' parts of the scores.
func (l *gatLayer) edgeSum(acc gpu.Tensor) gpu.Tensor {
	return acc.View(0, l.heads*(l.width+3), acc.Rows, l.heads)
}

// sums views the accumulators of some destinations.
func (l *gatLayer) sums(acc gpu.Tensor) (s gpu.AttentionSums, half gpu.Tensor) {
	return attentionSums(acc, l.heads, l.width)
}

// attentionSums views accumulators [n × heads·(width+3)]: the sums, and the destinations' half of the scores.
func attentionSums(acc gpu.Tensor, heads, width int) (s gpu.AttentionSums, half gpu.Tensor) {
	at, n := heads*width, acc.Rows
	s = gpu.AttentionSums{Sum: acc.View(0, 0, n, at), Max: acc.View(0, at, n, heads), Total: acc.View(0, at+heads, n, heads)}
	return s, acc.View(0, at+2*heads, n, heads)
}

// attended sets o to the weighted means that s has come to, 0 where it has seen nothing.
func attended(p *Pass, s gpu.AttentionSums, o gpu.Tensor, heads int) {
	q, n, width := p.Queue, o.Rows, o.Cols/heads
	by := p.Arena.Matrix(q, n, 1)
	q.Copy(o, s.Sum)
	total := by
	total.Rows, total.Cols, total.Stride = 1, n, n
	for h := range heads {
		q.Copy(by, s.Total.View(0, h, n, 1))
		q.DivideRows(o.View(0, h*width, n, width), total)
	}
}

// Prepare implements [Preparer]: the destinations' half of the scores, and their self loops. Where edges have features, those of a
// self loop are known last: [gatLayer.Finish] adds it.
func (l *gatLayer) Prepare(p *Pass, self Input, acc gpu.Tensor) {
	q, n := p.Queue, acc.Rows
	_, t, half := l.transform(p, n, self, gpu.Tensor{})
	if q.Err() != nil {
		return
	}
	s, dst := l.sums(acc)
	q.Copy(dst, half.View(0, l.heads, n, l.heads))
	if l.wEdge == nil {
		l.addLoops(p, t, half, dst, gpu.Tensor{}, s)
	}
}

// addLoops adds the self loops of s's destinations, own being the edges' part of their scores.
func (l *gatLayer) addLoops(p *Pass, t, half, dst, own gpu.Tensor, s gpu.AttentionSums) {
	n := t.Rows
	p.Queue.OnlineAttention(gatSlope, p.Queue.SelfLoops(p.Arena, gpu.Graph{NumDst: n, NumSrc: n}), t, half.View(0, 0, n, l.heads), dst, own, s)
}

// Accumulate implements [Streamer] by an online softmax.
func (l *gatLayer) Accumulate(p *Pass, g *gpu.Graph, src Input, acc gpu.Tensor) {
	if g.Edges() == 0 {
		return
	}
	_, t, half := l.transform(p, g.NumSrc, src, gpu.Tensor{})
	if p.Queue.Err() != nil {
		return
	}
	s, dst := l.sums(acc)
	var own gpu.Tensor
	if l.wEdge != nil {
		own = p.Arena.Matrix(p.Queue, g.Edges(), l.heads)
		l.edgeScores(p, g.EdgeFeatures, own)
		p.Queue.EdgeSum(false, *g, own, l.edgeSum(acc))
	}
	p.Queue.OnlineAttention(gatSlope, *g, t, half.View(0, 0, g.NumSrc, l.heads), dst, own, s)
}

// Finish implements [Streamer].
func (l *gatLayer) Finish(p *Pass, self Input, acc, degrees gpu.Tensor) gpu.Tensor {
	q, n := p.Queue, acc.Rows
	s, dst := l.sums(acc)
	if l.wEdge != nil { // the mean of parts is the part of the mean
		_, t, half := l.transform(p, n, self, gpu.Tensor{})
		if q.Err() != nil {
			return gpu.Tensor{}
		}
		mean := p.Arena.Matrix(q, n, l.heads)
		q.Copy(mean, l.edgeSum(acc))
		q.DivideRows(mean, degrees)
		l.addLoops(p, t, half, dst, mean, s)
	}
	o := p.Arena.Matrix(q, n, s.Sum.Cols)
	attended(p, s, o, l.heads)
	return l.output(p, o)
}
