package nn

import (
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

func kindOfRGCN() Kind {
	return Kind{Name: "rgcn", Relations: true, Bases: true, History: HistoryRelations,
		layer: func(c *Config, p *Params, s slot) Layer {
			return newRGCN(p, s.index, s.in, s.out, c.Relations, c.bases(), s.act, s.inputDropout)
		},
		stream: func(c *Config) (accumulated, transformed int) { return c.bases() * max(c.In, c.Hidden), 0 },
		relations: func(_ LayerInfo, named map[string]Parameter) int {
			return named["0.coef"].Rows
		}}
}

// rgcnLayer is a relational graph convolution with basis decomposition
// (Schlichtkrull et al., "Modeling Relational Data with Graph Convolutional
// Networks", ESWC 2018, eqs. 2 and 3):
//
//	out[v] = act(W_0·h[v] + Σ_r 1/c_{v,r} Σ_(u → v by r) W_r·h[u] + b),  W_r = Σ_b a_{r,b}·V_b
//
// with c_{v,r} the number of v's neighbours by r: in a mini-batch, of the sampled ones. A
// graph that is read in both directions has twice the relations, its own and their inverses.
//
// The mean over each group of edges of one destination and one relation is taken once; a
// destination's B weighted sums of its groups' means, beside its own state, are a row [h, z_1 … z_B] that
// is multiplied by the stacked weights. The block's graph must have Groups.
type rgcnLayer struct {
	index, in, out   int
	relations, bases int
	act              Activation
	inputDropout     float32
	w, b, coef       *Param

	// Of the pass between Forward and Backward.
	g     *gpu.Graph
	means gpu.Tensor // [groups × in]
	coefs gpu.Tensor // [groups × bases], of each group's relation
	z     gpu.Tensor // [NumDst × (1+bases)·in]
	y     gpu.Tensor // [NumDst × out], activated
}

var _ Streamer = (*rgcnLayer)(nil)

// newRGCN declares a layer's parameters in p: "i.weight" [(1+bases)·in × out], W_0 and the
// bases, "i.coef" [relations × bases], a, and "i.bias". inputDropout is for a
// first layer: its input needs no gradient.
func newRGCN(p *Params, index, in, out, relations, bases int, act Activation, inputDropout float32) *rgcnLayer {
	name := fmt.Sprint(index)
	return &rgcnLayer{index: index, in: in, out: out, relations: relations, bases: bases, act: act, inputDropout: inputDropout,
		w: p.Add(name+".weight", (1+bases)*in, out, fanIn(in)),
		// Variance 1/bases: W_r starts as wide as W_0.
		coef: p.Add(name+".coef", relations, bases, uniform(math.Sqrt(3/float64(bases)))),
		b:    p.Add(name+".bias", 1, out, zero)}
}

// InDim returns the columns of a source's state.
func (l *rgcnLayer) InDim() int { return l.in }

// OutDim returns the columns of a destination's state.
func (l *rgcnLayer) OutDim() int { return l.out }

// Params lists weight, coefficients and bias.
func (l *rgcnLayer) Params() []*Param { return []*Param{l.w, l.coef, l.b} }

// Hops returns 1.
func (l *rgcnLayer) Hops() int { return 1 }

// Forward implements [Layer].
func (l *rgcnLayer) Forward(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	q, n := p.Queue, g.NumDst
	z := p.Arena.Matrix(q, n, (1+l.bases)*l.in)
	if !states(p, l.name(), n, in, z.View(0, 0, n, l.in)) {
		return gpu.Tensor{}
	}
	l.means, l.coefs = l.sums(p, g, in, z.View(0, l.in, n, l.bases*l.in), false)
	if p.Train && l.inputDropout > 0 {
		q.Dropout(p.inputMask(l.inputDropout, 0), z)
	}
	l.g, l.z, l.y = g, z, l.dense(p, z)
	return l.y
}

func (l *rgcnLayer) name() string { return fmt.Sprintf("R-GCN layer %d", l.index) }

func (l *rgcnLayer) dense(p *Pass, z gpu.Tensor) gpu.Tensor {
	y := p.Arena.Matrix(p.Queue, z.Rows, l.out)
	p.Queue.Gemm(gpu.GemmOptions{Bias: l.b.Value, ReLU: l.act.ReLU}, z, l.w.Value, y)
	l.act.apply(p, l.index, y)
	return y
}

// groupGraphs are the three graphs that g's groups make: sources to groups,
// groups to destinations, and back, one edge a group.
func groupGraphs(g *gpu.Graph) (edges, groups, back gpu.Graph) {
	k := g.Groups
	n := k.Relations.Cols
	return gpu.Graph{NumDst: n, NumSrc: g.NumSrc, Indptr: k.Indptr, Indices: g.Indices},
		gpu.Graph{NumDst: g.NumDst, NumSrc: n, Indptr: k.DstIndptr, Indices: k.Places.View(0, 0, 1, n)},
		gpu.Graph{NumDst: n, NumSrc: g.NumDst, Indptr: k.Places, Indices: k.Dst}
}

// sums sets out [NumDst × bases·in], or adds to it, the weighted sums over groups, and
// returns the groups' means and coefficients.
func (l *rgcnLayer) sums(p *Pass, g *gpu.Graph, in Input, out gpu.Tensor, accumulate bool) (means, coefs gpu.Tensor) {
	q := p.Queue
	if g.Groups == nil {
		q.Fail(fmt.Errorf("nn: %s: the graph's edges have no relations: %w", l.name(), gpu.ErrShape))
		return means, coefs
	}
	edges, groups, _ := groupGraphs(g)
	means, coefs = p.Arena.Matrix(q, edges.NumDst, l.in), p.Arena.Matrix(q, edges.NumDst, l.bases)
	if q.Err() != nil {
		return means, coefs
	}
	if sizes := g.Groups.Sizes; sizes.IsZero() {
		aggregate(q, gpu.AggregateOptions{Reduce: gpu.Mean}, edges, in, means)
	} else {
		aggregate(q, gpu.AggregateOptions{}, edges, in, means)
		q.DivideRows(means, sizes)
	}
	if h := p.history(l.index); h != nil {
		h.complete(q, means)
	}
	relations := g.Groups.Relations
	relations.Elem = blocks.Uint32
	q.Gather(coefs, l.coef.Value, relations)
	for b := range l.bases {
		q.Aggregate(gpu.AggregateOptions{Weights: coefs.View(0, b, edges.NumDst, 1), Accumulate: accumulate}, groups, means, out.View(0, b*l.in, out.Rows, l.in))
	}
	return means, coefs
}

// Backward implements [Layer].
func (l *rgcnLayer) Backward(p *Pass, dOut gpu.Tensor, needInput bool) gpu.Tensor {
	q, a := p.Queue, p.Arena
	l.act.backward(p, l.index, l.y, dOut)
	q.Gemm(gpu.GemmOptions{TransA: true}, l.z, dOut, l.w.Grad)
	q.ColumnSum(dOut, l.b.Grad)
	n := l.g.NumDst
	dz := a.Matrix(q, n, l.z.Cols)
	q.Gemm(gpu.GemmOptions{TransB: true}, dOut, l.w.Value, dz)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	if p.Train && l.inputDropout > 0 { // of the features, which need no gradient: for the coefficients
		q.Dropout(p.inputMask(l.inputDropout, 0), dz)
	}
	edges, _, back := groupGraphs(l.g)
	part := func(b int) gpu.Tensor { return dz.View(0, (1+b)*l.in, n, l.in) }

	// Coefficients: of a group <mean, dz_b>, added up by relation.
	of := gpu.Graph{NumDst: n, NumSrc: l.relations, Indptr: l.g.Groups.DstIndptr, Indices: l.g.Groups.Relations}
	q.TransposeEdges(a, &of)
	q.Fill(l.coef.Grad, 0)
	dot := a.Matrix(q, edges.NumDst, 1)
	for b := range l.bases {
		q.EdgeDot(1, back, part(b), l.means, dot)
		q.EdgeSum(true, of, dot, l.coef.Grad.View(0, b, l.relations, 1))
	}
	if !needInput {
		return gpu.Tensor{}
	}
	dMeans := a.Matrix(q, edges.NumDst, l.in)
	for b := range l.bases {
		q.Aggregate(gpu.AggregateOptions{Weights: l.coefs.View(0, b, edges.NumDst, 1), Accumulate: b > 0}, back, part(b), dMeans)
	}
	if h := p.history(l.index); h != nil {
		q.DivideRows(dMeans, h.Divisors)
	}
	dIn := a.Matrix(q, l.g.NumSrc, l.in)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	q.Copy(dIn.Head(n), dz.View(0, 0, n, l.in))
	q.Fill(dIn.View(n, 0, l.g.NumSrc-n, l.in), 0)
	q.Transpose(a, &edges)
	q.AggregateBackward(gpu.Mean, edges, dMeans, dIn)
	return dIn
}

// AccumulatorDim implements [Streamer]: the weighted sums.
func (l *rgcnLayer) AccumulatorDim() int { return l.bases * l.in }

// Accumulate implements [Streamer]; g's groups have Sizes.
func (l *rgcnLayer) Accumulate(p *Pass, g *gpu.Graph, src Input, acc gpu.Tensor) {
	l.sums(p, g, src, acc, true)
}

// Finish implements [Streamer].
func (l *rgcnLayer) Finish(p *Pass, self Input, acc, _ gpu.Tensor) gpu.Tensor {
	q, n := p.Queue, acc.Rows
	z := p.Arena.Matrix(q, n, (1+l.bases)*l.in)
	if !states(p, l.name(), n, self, z.View(0, 0, n, l.in)) {
		return gpu.Tensor{}
	}
	q.Copy(z.View(0, l.in, n, l.bases*l.in), acc)
	return l.dense(p, z)
}
