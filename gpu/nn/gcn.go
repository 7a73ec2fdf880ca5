package nn

import (
	"fmt"

	"github.com/gstore/gstore/gpu"
)

func kindOfGCN() Kind {
	return Kind{Name: "gcn", Weights: WeightsSymmetric, Sums: true, Sparse: true, Products: true, Hop: HopSum, History: HistorySum, Aggregates: true,
		layer: func(c *Config, p *Params, s slot) Layer {
			l := newGCN(p, s.index, s.in, s.out, s.act, s.inputDropout, s.hop(c))
			l.products = s.index == 0 && c.StreamsProducts()
			return l
		},
		encoder: func(c *LinkConfig, p *Params) Layer {
			return newGCN(p, 0, c.Dim, c.Dim, Activation{Tanh: true}, 0, false)
		}}
}

// gcnLayer is a graph convolution (Kipf and Welling, "Semi-Supervised Classification
// with Graph Convolutional Networks", ICLR 2017, eq. 2):
//
//	out[v] = act(W·(h[v]/D_v + Σ_(u → v) h[u]/√(D_v·D_u)) + b),  D = in-degree + 1
//
// A mini-batch holds k_v of v's deg_v neighbours. The normalisation uses full
// degrees, which do not depend on what was sampled or is in memory, and the sum over neighbours
// is multiplied by deg_v/k_v, so that its expectation is the sum that
// evaluation computes; the self loop, always there, is not.
//
// The block's graph must have both degrees, or weights of its edges, which replace the 1 of each message
// ([EdgeWeigher]).
type gcnLayer struct {
	index, out int
	act        Activation
	sum        neighbourSum
	lin        linear
	ordered
	products   bool // streamed, sums are of W·h[u]
	multiplied bool // MultiplyFirst, in the pass between Forward and Backward
	// Of the pass between Forward and Backward: what the weights multiply, sums z
	// [NumDst × in] or with MultiplyFirst states x [NumSrc × in], and the output.
	x    operand
	z, y gpu.Tensor
}

var _ Transformer = (*gcnLayer)(nil)

// newGCN declares a layer's parameters in p: "i.weight" [in × out] and
// "i.bias". inputDropout is for a first layer: its input needs no gradient.
// precomputed says that the input is the sum.
func newGCN(p *Params, index, in, out int, act Activation, inputDropout float32, precomputed bool) *gcnLayer {
	return &gcnLayer{index: index, out: out, act: act, lin: newLinear(p, fmt.Sprint(index), in, out), ordered: newOrdered(false, inputDropout),
		sum: neighbourSum{name: fmt.Sprintf("GCN layer %d", index), in: in, symmetric: true, precomputed: precomputed, inputDropout: inputDropout}}
}

// InDim returns the columns of a source's state.
func (l *gcnLayer) InDim() int { return l.sum.in }

// OutDim returns the columns of a destination's state.
func (l *gcnLayer) OutDim() int { return l.out }

// Params lists weight and bias.
func (l *gcnLayer) Params() []*Param { return l.lin.params() }

// Hops implements [Layer].
func (l *gcnLayer) Hops() int { return l.sum.Hops() }

// ReadsDegrees implements [DegreeReader].
func (l *gcnLayer) ReadsDegrees() bool { return l.sum.ReadsDegrees() }

// Forward implements [Layer].
func (l *gcnLayer) Forward(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	h := p.history(l.index)
	if l.multiplied = l.order == MultiplyFirst && h == nil; l.multiplied { // a history's sums are of states, not of products
		l.y = l.multiplyFirst(p, g, in)
		return l.y
	}
	l.z = l.sum.forward(p, g, in, h)
	p.aggregated(l.index, l.z)
	l.y = l.dense(p, l.z)
	return l.y
}

// multiplyFirst returns act(A·(x·W) + b).
func (l *gcnLayer) multiplyFirst(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	q := p.Queue
	if l.x = wholeOperand(p, l.sum.name, g.NumSrc, l.sum.in, in); q.Err() != nil {
		return gpu.Tensor{}
	}
	t := p.Arena.Matrix(q, g.NumSrc, l.out)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	l.x.times(q, l.lin.w.Value, t)
	y := l.sum.of(p, g, Dense(t))
	q.AddBias(l.act.ReLU, l.lin.b.Value, y)
	l.act.drop(p, l.index, y)
	return y
}

func (l *gcnLayer) dense(p *Pass, z gpu.Tensor) gpu.Tensor {
	y := l.lin.forward(p, z, l.act.ReLU)
	l.act.apply(p, l.index, y)
	return y
}

// Backward implements [Layer].
func (l *gcnLayer) Backward(p *Pass, dOut gpu.Tensor, needInput bool) gpu.Tensor {
	l.act.backward(p, l.index, l.y, dOut)
	if l.multiplied && p.Queue.Err() == nil {
		p.Queue.ColumnSum(dOut, l.lin.b.Grad)
		dt := l.sum.backward(p, dOut)
		if needInput {
			return l.lin.weightBackward(p, l.x.dense, dt, true)
		}
		l.x.gradient(p.Queue, dt, l.lin.w.Grad)
		return gpu.Tensor{}
	}
	dz := l.lin.backward(p, l.z, dOut, needInput)
	if !needInput || p.Queue.Err() != nil {
		return gpu.Tensor{}
	}
	return l.sum.backward(p, dz)
}

// AccumulatorDim implements [Streamer]: the sum over neighbours.
func (l *gcnLayer) AccumulatorDim() int {
	if l.products {
		return l.out
	}
	return l.sum.AccumulatorDim()
}

// Transform implements [Transformer]: the sources' products.
func (l *gcnLayer) Transform(p *Pass, n int, src Input) Input {
	if !l.products {
		return src
	}
	return Dense(products(p, l.sum.name, n, src, l.lin.w.Value))
}

// Accumulate implements [Streamer].
func (l *gcnLayer) Accumulate(p *Pass, g *gpu.Graph, src Input, acc gpu.Tensor) {
	l.sum.Accumulate(p, g, src, acc)
}

// Finish implements [Streamer].
func (l *gcnLayer) Finish(p *Pass, self Input, acc, degrees gpu.Tensor) gpu.Tensor {
	if l.products {
		y := l.sum.finish(p, Dense(products(p, l.sum.name, degrees.Cols, self, l.lin.w.Value)), acc, degrees)
		p.Queue.AddBias(l.act.ReLU, l.lin.b.Value, y)
		l.act.apply(p, l.index, y)
		return y
	}
	z := l.sum.finish(p, self, acc, degrees)
	if p.Queue.Err() != nil {
		return gpu.Tensor{}
	}
	return l.dense(p, z)
}
