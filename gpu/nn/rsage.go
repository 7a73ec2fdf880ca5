package nn

import (
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

func kindOfRSAGE() Kind {
	return Kind{Name: "rsage", Relations: true, ByRelation: true, Hop: HopRelations, History: HistoryRelations,
		layer: func(c *Config, p *Params, s slot) Layer {
			return newRSAGE(p, s.index, s.in, s.out, c.Relations, s.act, s.inputDropout)
		},
		stream:    func(c *Config) (accumulated, transformed int) { return max(c.Hidden, c.Out), 0 },
		relations: stackedRelations}
}

// stackedRelations is how many relations have their matrices one below the other in the first layer's parameter "relations".
func stackedRelations(first LayerInfo, named map[string]Parameter) int {
	return named["0.relations"].Rows / max(first.In, 1)
}

// rsageLayer is GraphSAGE with a mean and a weight matrix of its own for each relation: the relational
// convolution of Schlichtkrull et al., ESWC 2018, eq. 2, without the basis decomposition, which is what PyG's
// HeteroConv of SAGEConv computes where all types of nodes share the weights of their own state:
//
//	out[v] = act(W_0·h[v] + Σ_r W_r·mean(h[u] : u → v by r) + b)
//
// A mean over no neighbour is 0. A graph that is read in both directions has twice the relations, its own and their inverses.
//
// Means of one relation lie together and are one product. The block's graph must have Groups by relation.
type rsageLayer struct {
	index, in, out, relations int
	act                       Activation
	inputDropout              float32
	w, rel, b                 *Param
	hops                      *relationHops // nil: all means are of the block's edges

	// Of the pass between Forward and Backward.
	g     *gpu.Graph
	x     gpu.Tensor // [NumDst × in]
	means gpu.Tensor // [groups × in], by relation
	y     gpu.Tensor // [NumDst × out], activated
}

var _ Streamer = (*rsageLayer)(nil)

// newRSAGE declares a layer's parameters in p: "i.weight" [in × out], W_0, "i.relations" [relations·in × out], W_r one below the
// other, and "i.bias". inputDropout is for a first layer: its input needs no gradient.
func newRSAGE(p *Params, index, in, out, relations int, act Activation, inputDropout float32) *rsageLayer {
	name := fmt.Sprint(index)
	return &rsageLayer{index: index, in: in, out: out, relations: relations, act: act, inputDropout: inputDropout,
		w: p.Add(name+".weight", in, out, fanIn(in)), rel: p.Add(name+".relations", relations*in, out, fanIn(in)), b: p.Add(name+".bias", 1, out, zero)}
}

// InDim returns the columns of a source's state.
func (l *rsageLayer) InDim() int { return l.in }

// OutDim returns the columns of a destination's state.
func (l *rsageLayer) OutDim() int { return l.out }

// Params lists the weights and the bias.
func (l *rsageLayer) Params() []*Param { return []*Param{l.w, l.rel, l.b} }

// Hops returns 1.
func (l *rsageLayer) Hops() int { return 1 }

func (l *rsageLayer) name() string { return fmt.Sprintf("relational SAGE layer %d", l.index) }

// Forward implements [Layer].
func (l *rsageLayer) Forward(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	q, n := p.Queue, g.NumDst
	x, y := p.Arena.Matrix(q, n, l.in), p.Arena.Matrix(q, n, l.out)
	if !states(p, l.name(), n, in, x) {
		return gpu.Tensor{}
	}
	if p.Train && l.inputDropout > 0 {
		q.Dropout(p.inputMask(l.inputDropout, 0), x)
	}
	l.g, l.x, l.means = g, x, l.messages(p, g, in, y, false)
	l.hops.add(p, l, y)
	l.y = l.finish(p, x, y)
	return l.y
}

// finish returns the layer's output from the destinations' own states and the sums of their messages, in place of these.
func (l *rsageLayer) finish(p *Pass, x, y gpu.Tensor) gpu.Tensor {
	q := p.Queue
	if q.Err() != nil {
		return y
	}
	q.Gemm(gpu.GemmOptions{Accumulate: true}, x, l.w.Value, y)
	q.AddBias(l.act.ReLU, l.b.Value, y)
	l.act.apply(p, l.index, y)
	return y
}

// each calls do for every relation that has groups in g: they are rows of what lies by relation.
func (l *rsageLayer) each(g *gpu.Graph, do func(weight, grad gpu.Tensor, rows func(gpu.Tensor) gpu.Tensor)) {
	bounds := g.Groups.Bounds
	for r := range min(l.relations, len(bounds)-1) {
		if n := bounds[r+1] - bounds[r]; n > 0 {
			do(l.rel.Value.View(r*l.in, 0, l.in, l.out), l.rel.Grad.View(r*l.in, 0, l.in, l.out), func(t gpu.Tensor) gpu.Tensor { return t.View(bounds[r], 0, n, t.Cols) })
		}
	}
}

// messages sets out [NumDst × out], or adds to it, the sums of W_r · mean, and returns the means.
func (l *rsageLayer) messages(p *Pass, g *gpu.Graph, in Input, out gpu.Tensor, accumulate bool) (means gpu.Tensor) {
	q, a, k := p.Queue, p.Arena, g.Groups
	if k == nil || k.Bounds == nil || len(k.Bounds) > l.relations+1 {
		q.Fail(fmt.Errorf("nn: %s: the graph's edges are not grouped by %d relations: %w", l.name(), l.relations, gpu.ErrShape))
		return means
	}
	edges, _, _ := groupGraphs(g)
	n := edges.NumDst
	own := a.Matrix(q, n, l.in)
	means = a.Matrix(q, n, l.in)
	sent := a.Matrix(q, n, l.out)
	if q.Err() != nil {
		return means
	}
	if k.Sizes.IsZero() {
		aggregate(q, gpu.AggregateOptions{Reduce: gpu.Mean}, edges, in, own)
	} else {
		aggregate(q, gpu.AggregateOptions{}, edges, in, own)
		q.DivideRows(own, k.Sizes)
	}
	if h := p.history(l.index); h != nil {
		h.complete(q, own)
	}
	q.Gather(means, own, k.Order)
	if p.Train && l.inputDropout > 0 {
		q.Dropout(p.inputMask(l.inputDropout, 1), means)
	}
	l.each(g, func(w, _ gpu.Tensor, rows func(gpu.Tensor) gpu.Tensor) {
		q.Gemm(gpu.GemmOptions{}, rows(means), w, rows(sent))
	})
	q.Aggregate(gpu.AggregateOptions{Accumulate: accumulate}, gpu.Graph{NumDst: g.NumDst, NumSrc: n, Indptr: k.DstIndptr, Indices: k.Ranks}, sent, out)
	return means
}

// Backward implements [Layer].
func (l *rsageLayer) Backward(p *Pass, dOut gpu.Tensor, needInput bool) gpu.Tensor {
	q, a, g := p.Queue, p.Arena, l.g
	l.act.backward(p, l.index, l.y, dOut)
	q.Gemm(gpu.GemmOptions{TransA: true}, l.x, dOut, l.w.Grad)
	q.ColumnSum(dOut, l.b.Grad)
	// A group's message has its destination's gradient.
	dSent := a.Matrix(q, l.means.Rows, l.out)
	q.Gather(dSent, dOut, g.Groups.OrderDst)
	q.Fill(l.rel.Grad, 0)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	l.each(g, func(_, grad gpu.Tensor, rows func(gpu.Tensor) gpu.Tensor) {
		q.Gemm(gpu.GemmOptions{TransA: true}, rows(l.means), rows(dSent), grad)
	})
	l.hops.backward(p, l, dOut)
	if !needInput {
		return gpu.Tensor{}
	}
	n := g.NumDst
	dMeans, own := a.Matrix(q, l.means.Rows, l.in), a.Matrix(q, l.means.Rows, l.in)
	dx, dIn := a.Matrix(q, n, l.in), a.Matrix(q, g.NumSrc, l.in)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	l.each(g, func(w, _ gpu.Tensor, rows func(gpu.Tensor) gpu.Tensor) {
		q.Gemm(gpu.GemmOptions{TransB: true}, rows(dSent), w, rows(dMeans))
	})
	ranks := g.Groups.Ranks
	ranks.Elem = blocks.Uint32
	q.Gather(own, dMeans, ranks)
	if h := p.history(l.index); h != nil {
		q.DivideRows(own, h.Divisors)
	}
	q.Gemm(gpu.GemmOptions{TransB: true}, dOut, l.w.Value, dx)
	q.Copy(dIn.Head(n), dx)
	q.Fill(dIn.View(n, 0, g.NumSrc-n, l.in), 0)
	edges, _, _ := groupGraphs(g)
	q.Transpose(a, &edges)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	q.AggregateBackward(gpu.Mean, edges, own, dIn)
	return dIn
}

// AccumulatorDim implements [Streamer]: the sums of messages.
func (l *rsageLayer) AccumulatorDim() int { return l.out }

// Accumulate implements [Streamer]; g's groups have Sizes.
func (l *rsageLayer) Accumulate(p *Pass, g *gpu.Graph, src Input, acc gpu.Tensor) {
	l.messages(p, g, src, acc, true)
}

// Finish implements [Streamer].
func (l *rsageLayer) Finish(p *Pass, self Input, acc, _ gpu.Tensor) gpu.Tensor {
	q := p.Queue
	x, y := p.Arena.Matrix(q, acc.Rows, l.in), p.Arena.Matrix(q, acc.Rows, l.out)
	if !states(p, l.name(), acc.Rows, self, x) {
		return gpu.Tensor{}
	}
	q.Copy(y, acc)
	return l.finish(p, x, y)
}
