package nn

import (
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

func kindOfRGAT() Kind {
	return Kind{Name: "rgat", Relations: true, ByRelation: true, EachRelation: true, Heads: true, MeanHeads: true,
		layer: func(c *Config, p *Params, s slot) Layer {
			return newRGAT(p, s.index, s.in, s.head(c.heads()), c.heads(), c.Relations, s.last, s.act, s.inputDropout)
		},
		stream: streamAttention, relations: stackedRelations}
}

// rgatLayer is graph attention with weights and attention vectors of its own for each relation, what PyG's HeteroConv of GATConv
// (without self loops, aggr sum) computes where all types of nodes share the weights of their own state: R-GAT, a baseline of Hu et
// al., "OGB-LSC", NeurIPS Datasets and Benchmarks 2021, with [gatLayer]'s attention.
//
//	out[v] = act(W_0·h[v] + heads of Σ_r Σ_(u → v by r) α_r[u,v]·W_r·h[u] side by side, or their mean, + b)
//
// with α_r a softmax over the edges of v by r alone. A graph that is read in both directions has twice the relations.
//
// In a mini-batch no source is multiplied by a relation's matrix: the attention's halves are products with the vectors W_r·a_r of all
// relations, and what is multiplied by W_r are the weighted sums of states of each group of edges, a head at a time: groups are fewer than
// sources times relations. Evaluation streams one relation after the other. The block's graph must have Groups by relation, with pairs.
type rgatLayer struct {
	index, in, width, heads, relations int
	mean                               bool // the output is the mean of the heads
	act                                Activation
	inputDropout                       float32
	w, rel, aSrc, aDst, b              *Param

	// Of the pass between Forward and Backward.
	g             *gpu.Graph
	x             gpu.Tensor   // [NumSrc × in]
	a             gpu.Tensor   // [relations·heads·width × 2·heads], see layAttention
	v             gpu.Tensor   // [in × relations·2·heads], W_r·a_r of each relation
	scores, alpha []gpu.Tensor // of each head [edges × 1]: after the leaky ReLU, and their softmax
	sums          gpu.Tensor   // [groups × heads·in], by relation
	y             gpu.Tensor   // [NumDst × OutDim], activated
}

var _ Preparer = (*rgatLayer)(nil)

// newRGAT declares a layer's parameters in p: "i.weight" [in × out], W_0, "i.relations" [relations·in × heads·width], W_r one below the
// other, "i.src" and "i.dst" [relations·heads·width × 1], attention vectors by relation and head, and "i.bias". The output has
// width columns if mean, heads·width otherwise. inputDropout is for a first layer: its input needs no gradient.
func newRGAT(p *Params, index, in, width, heads, relations int, mean bool, act Activation, inputDropout float32) *rgatLayer {
	l := &rgatLayer{index: index, in: in, width: width, heads: heads, relations: relations, mean: mean, act: act, inputDropout: inputDropout}
	name, all := fmt.Sprint(index), heads*width
	l.w = p.Add(name+".weight", in, l.OutDim(), fanIn(in))
	l.rel = p.Add(name+".relations", relations*in, all, fanIn(in))
	l.aSrc = p.Add(name+".src", relations*all, 1, glorot(width, 1))
	l.aDst = p.Add(name+".dst", relations*all, 1, glorot(width, 1))
	l.b = p.Add(name+".bias", 1, l.OutDim(), zero)
	return l
}

// InDim returns the columns of a source's state.
func (l *rgatLayer) InDim() int { return l.in }

// OutDim returns the columns of a destination's state.
func (l *rgatLayer) OutDim() int {
	if l.mean {
		return l.width
	}
	return l.heads * l.width
}

// Params lists the weights, the attention vectors and the bias.
func (l *rgatLayer) Params() []*Param { return []*Param{l.w, l.rel, l.aSrc, l.aDst, l.b} }

// Hops returns 1.
func (l *rgatLayer) Hops() int { return 1 }

func (l *rgatLayer) name() string { return fmt.Sprintf("relational GAT layer %d", l.index) }

// of is relation r's part of what lies one relation below the other.
func (l *rgatLayer) of(t gpu.Tensor, r int) gpu.Tensor {
	n := t.Rows / l.relations
	return t.View(r*n, 0, n, t.Cols)
}

// vectors sets l.a, and l.v to the vectors by which a state gives its halves of all scores.
func (l *rgatLayer) vectors(p *Pass) {
	q := p.Queue
	l.a = p.Arena.Matrix(q, l.relations*l.heads*l.width, 2*l.heads)
	l.v = p.Arena.Matrix(q, l.in, l.relations*2*l.heads)
	q.Fill(l.a, 0)
	for r := range l.relations {
		layAttention(q, l.of(l.a, r), l.heads, l.of(l.aSrc.Value, r), l.of(l.aDst.Value, r))
		q.Gemm(gpu.GemmOptions{}, l.of(l.rel.Value, r), l.of(l.a, r), l.v.View(0, r*2*l.heads, l.in, 2*l.heads))
	}
}

// pairRows views halves [n × relations·2·heads] as a row a node and relation, [n·relations × 2·heads]. h is the first of cols columns.
func (l *rgatLayer) pairRows(halves gpu.Tensor, n, h, cols int) gpu.Tensor {
	halves.Rows, halves.Cols, halves.Stride = halves.Rows*l.relations, 2*l.heads, 2*l.heads
	return halves.View(0, h, n*l.relations, cols)
}

// pairs is the graph from nodes as sources of a relation, see [gpu.EdgeGroups].Pairs, to groups.
func (l *rgatLayer) pairs(g *gpu.Graph) gpu.Graph {
	edges, _, _ := groupGraphs(g)
	edges.NumSrc, edges.Indices = g.NumSrc*l.relations, g.Groups.Pairs
	return edges
}

// Forward implements [Layer].
func (l *rgatLayer) Forward(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	q, a, k := p.Queue, p.Arena, g.Groups
	if k == nil || k.Bounds == nil || len(k.Bounds) > l.relations+1 || k.Pairs.Cols != g.Edges() || g.NumSrc > math.MaxInt32/l.relations {
		q.Fail(fmt.Errorf("nn: %s: the graph's edges are not grouped by %d relations, with pairs of these and %d sources: %w", l.name(), l.relations, g.NumSrc, gpu.ErrShape))
		return gpu.Tensor{}
	}
	if l.x = droppedInput(p, l.name(), g.NumSrc, l.in, in, l.inputDropout); q.Err() != nil {
		return gpu.Tensor{}
	}
	l.g = g
	l.vectors(p)
	halves := a.Matrix(q, g.NumSrc, l.relations*2*l.heads)
	q.Gemm(gpu.GemmOptions{}, l.x, l.v, halves)
	edges, _, _ := groupGraphs(g)
	n, e := edges.NumDst, g.Edges()
	dst, own := a.Matrix(q, n, l.heads), a.Matrix(q, n, l.heads*l.in)
	if q.Err() != nil { // g has more destinations than sources
		return gpu.Tensor{}
	}
	q.Gather(dst, l.pairRows(halves, g.NumDst, l.heads, l.heads), k.DstPairs)
	l.scores, l.alpha = l.scores[:0], l.alpha[:0]
	for h := range l.heads {
		score, alpha := a.Matrix(q, e, 1), a.Matrix(q, e, 1)
		if q.Err() != nil {
			return gpu.Tensor{}
		}
		q.EdgeAdd(gatSlope, l.pairs(g), l.pairRows(halves, g.NumSrc, h, 1), dst.View(0, h, n, 1), gpu.Tensor{}, score)
		q.Copy(alpha, score)
		q.EdgeSoftmax(edges, alpha)
		q.Aggregate(gpu.AggregateOptions{Weights: alpha}, edges, l.x, own.View(0, h*l.in, n, l.in))
		l.scores, l.alpha = append(l.scores, score), append(l.alpha, alpha)
	}
	l.sums = a.Matrix(q, n, l.heads*l.in)
	sent, o := a.Matrix(q, n, l.heads*l.width), a.Matrix(q, g.NumDst, l.heads*l.width)
	q.Gather(l.sums, own, k.Order)
	l.each(func(rows func(gpu.Tensor, int) gpu.Tensor, w, _ gpu.Tensor) {
		q.Gemm(gpu.GemmOptions{}, rows(l.sums, l.in), w, rows(sent, l.width))
	})
	q.Aggregate(gpu.AggregateOptions{}, gpu.Graph{NumDst: g.NumDst, NumSrc: n, Indptr: k.DstIndptr, Indices: k.Ranks}, sent, o)
	l.y = l.output(p, o, l.x.Head(g.NumDst))
	return l.y
}

// each calls do for every head of every relation that has groups: rows are a head's cols columns of the relation's rows of what lies by
// relation, w and grad the head's part of its matrix.
func (l *rgatLayer) each(do func(rows func(t gpu.Tensor, cols int) gpu.Tensor, w, grad gpu.Tensor)) {
	bounds := l.g.Groups.Bounds
	for r := range len(bounds) - 1 {
		n := bounds[r+1] - bounds[r]
		for h := range l.heads {
			if n > 0 {
				do(func(t gpu.Tensor, cols int) gpu.Tensor { return t.View(bounds[r], h*cols, n, cols) },
					l.rel.Value.View(r*l.in, h*l.width, l.in, l.width), l.rel.Grad.View(r*l.in, h*l.width, l.in, l.width))
			}
		}
	}
}

// output returns the layer's output from the heads' sums and the destinations' own states.
func (l *rgatLayer) output(p *Pass, o, x gpu.Tensor) gpu.Tensor {
	q, y := p.Queue, o
	if l.mean {
		y = meanHeads(p, o, l.heads)
	}
	if q.Err() != nil {
		return y
	}
	q.Gemm(gpu.GemmOptions{Accumulate: true}, x, l.w.Value, y)
	q.AddBias(l.act.ReLU, l.b.Value, y)
	l.act.apply(p, l.index, y)
	return y
}

// Backward implements [Layer].
func (l *rgatLayer) Backward(p *Pass, dOut gpu.Tensor, needInput bool) gpu.Tensor {
	q, a, g, k := p.Queue, p.Arena, l.g, l.g.Groups
	edges, _, _ := groupGraphs(g)
	n, e := edges.NumDst, g.Edges()
	l.act.backward(p, l.index, l.y, dOut)
	q.Gemm(gpu.GemmOptions{TransA: true}, l.x.Head(g.NumDst), dOut, l.w.Grad)
	q.ColumnSum(dOut, l.b.Grad)
	do := dOut
	if l.mean {
		do = spreadHeads(p, dOut, l.heads)
	}
	// A group's message has its destination's gradient.
	dSent, dSums, own := a.Matrix(q, n, l.heads*l.width), a.Matrix(q, n, l.heads*l.in), a.Matrix(q, n, l.heads*l.in)
	q.Gather(dSent, do, k.OrderDst)
	q.Fill(l.rel.Grad, 0)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	l.each(func(rows func(gpu.Tensor, int) gpu.Tensor, w, grad gpu.Tensor) {
		q.Gemm(gpu.GemmOptions{TransA: true}, rows(l.sums, l.in), rows(dSent, l.width), grad)
		q.Gemm(gpu.GemmOptions{TransB: true}, rows(dSent, l.width), w, rows(dSums, l.in))
	})
	ranks := k.Ranks
	ranks.Elem = blocks.Uint32
	q.Gather(own, dSums, ranks)

	// Weights, softmax, scores, and their two halves.
	pairs := l.pairs(g)
	q.TransposeEdges(a, &pairs)
	if needInput {
		q.TransposeEdges(a, &edges)
	}
	halves, dst := a.Matrix(q, g.NumSrc, l.relations*2*l.heads), a.Matrix(q, n, l.heads)
	var dIn gpu.Tensor
	if needInput {
		dIn = a.Matrix(q, g.NumSrc, l.in)
		q.Fill(dIn, 0)
	}
	q.Fill(halves, 0)
	q.Fill(dst, 0)
	for h := range l.heads {
		de := a.Matrix(q, e, 1)
		if q.Err() != nil {
			return gpu.Tensor{}
		}
		dSum := own.View(0, h*l.in, n, l.in)
		q.EdgeDot(1, edges, l.x, dSum, de)
		q.EdgeSoftmaxBackward(edges, l.alpha[h], de)
		q.LeakyReLUBackward(gatSlope, l.scores[h], de)
		q.EdgeSum(true, pairs, de, l.pairRows(halves, g.NumSrc, h, 1))
		q.EdgeSum(false, pairs, de, dst.View(0, h, n, 1))
		if needInput {
			q.AggregateHeadsBackward(edges, l.alpha[h], dSum, dIn)
		}
	}
	q.ScatterAddRows(l.pairRows(halves, g.NumDst, l.heads, l.heads), k.DstPairs, dst)
	l.vectorsBackward(p, halves)
	if !needInput || q.Err() != nil {
		return gpu.Tensor{}
	}
	q.Gemm(gpu.GemmOptions{TransB: true, Accumulate: true}, halves, l.v, dIn)
	q.Gemm(gpu.GemmOptions{TransB: true, Accumulate: true}, dOut, l.w.Value, dIn.Head(g.NumDst))
	return dIn
}

// vectorsBackward sets the gradients of the attention vectors, and adds to those of the relations' matrices, from that of the halves.
func (l *rgatLayer) vectorsBackward(p *Pass, halves gpu.Tensor) {
	q := p.Queue
	dv, da := p.Arena.Matrix(q, l.in, l.v.Cols), p.Arena.Matrix(q, l.a.Rows, l.a.Cols)
	if q.Err() != nil {
		return
	}
	q.Gemm(gpu.GemmOptions{TransA: true}, l.x, halves, dv)
	for r := range l.relations {
		part := dv.View(0, r*2*l.heads, l.in, 2*l.heads)
		q.Gemm(gpu.GemmOptions{TransB: true, Accumulate: true}, part, l.of(l.a, r), l.of(l.rel.Grad, r))
		q.Gemm(gpu.GemmOptions{TransA: true}, l.of(l.rel.Value, r), part, l.of(da, r))
		liftAttention(q, l.of(da, r), l.heads, l.of(l.aSrc.Grad, r), l.of(l.aDst.Grad, r))
	}
}

// AccumulatorDim implements [Streamer]: of each relation what [gatLayer] accumulates.
func (l *rgatLayer) AccumulatorDim() int { return l.relations * l.heads * (l.width + 3) }

// accumulators views relation r's accumulators of some destinations.
func (l *rgatLayer) accumulators(acc gpu.Tensor, r int) (s gpu.AttentionSums, half gpu.Tensor) {
	cols := l.heads * (l.width + 3)
	return attentionSums(acc.View(0, r*cols, acc.Rows, cols), l.heads, l.width)
}

// Prepare implements [Preparer]: the destinations' halves of the scores.
func (l *rgatLayer) Prepare(p *Pass, self Input, acc gpu.Tensor) {
	q, n := p.Queue, acc.Rows
	x := wholeInput(p, l.name(), n, l.in, self)
	if q.Err() != nil {
		return
	}
	l.vectors(p)
	halves := p.Arena.Matrix(q, n, l.v.Cols)
	q.Gemm(gpu.GemmOptions{}, x, l.v, halves)
	for r := range l.relations {
		if q.Err() == nil {
			_, half := l.accumulators(acc, r)
			q.Copy(half, halves.View(0, (2*r+1)*l.heads, n, l.heads))
		}
	}
}

// Accumulate implements [Streamer] by an online softmax; all edges are of g.Relation.
func (l *rgatLayer) Accumulate(p *Pass, g *gpu.Graph, src Input, acc gpu.Tensor) {
	if g.Edges() == 0 {
		return
	}
	q, a, r := p.Queue, p.Arena, g.Relation
	if r >= l.relations {
		q.Fail(fmt.Errorf("nn: %s: edges of relation %d, it has %d: %w", l.name(), r, l.relations, gpu.ErrShape))
		return
	}
	x := wholeInput(p, l.name(), g.NumSrc, l.in, src)
	t, half, vectors := a.Matrix(q, g.NumSrc, l.heads*l.width), a.Matrix(q, g.NumSrc, 2*l.heads), a.Matrix(q, l.heads*l.width, 2*l.heads)
	if q.Err() != nil {
		return
	}
	q.Fill(vectors, 0)
	layAttention(q, vectors, l.heads, l.of(l.aSrc.Value, r), l.of(l.aDst.Value, r))
	q.Gemm(gpu.GemmOptions{}, x, l.of(l.rel.Value, r), t)
	q.Gemm(gpu.GemmOptions{}, t, vectors, half)
	s, dst := l.accumulators(acc, r)
	q.OnlineAttention(gatSlope, *g, t, half.View(0, 0, g.NumSrc, l.heads), dst, gpu.Tensor{}, s)
}

// Finish implements [Streamer].
func (l *rgatLayer) Finish(p *Pass, self Input, acc, _ gpu.Tensor) gpu.Tensor {
	q, n := p.Queue, acc.Rows
	x, o := wholeInput(p, l.name(), n, l.in, self), p.Arena.Matrix(q, n, l.heads*l.width)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	q.Fill(o, 0)
	one := p.Arena.Matrix(q, n, l.heads*l.width)
	for r := range l.relations {
		if q.Err() == nil {
			s, _ := l.accumulators(acc, r)
			attended(p, s, one, l.heads)
			q.Axpy(1, one, o)
		}
	}
	return l.output(p, o, x)
}
