package nn

import (
	"fmt"

	"github.com/gstore/gstore/gpu"
)

// kindOfSAGE is the default.
func kindOfSAGE() Kind {
	return Kind{Name: "sage", Weights: WeightsMean, Max: true, Sparse: true, Products: true, Hop: HopMean, History: HistoryMean, Aggregates: true,
		layer: func(c *Config, p *Params, s slot) Layer {
			switch {
			case c.Aggregator == "max":
				return newMaxSAGE(p, s.index, s.in, s.out, s.act, s.inputDropout)
			case s.hop(c):
				return newPrecomputedSAGE(p, s.in, s.out, s.act, s.inputDropout)
			}
			l := NewSAGE(p, s.index, s.in, s.out, s.act, s.inputDropout)
			l.products = s.index == 0 && c.StreamsProducts()
			return l
		},
		stream: func(c *Config) (accumulated, transformed int) {
			accumulated = max(c.In, c.Hidden)
			if c.Aggregator == "max" {
				return accumulated + 1, 1 // how many edges a maximum is of, and a copy of it
			}
			return accumulated, 0
		},
		encoder: func(c *LinkConfig, p *Params) Layer {
			return NewSAGE(p, 0, c.Dim, c.Dim, Activation{Tanh: true}, 0)
		}}
}

// SAGE is a GraphSAGE layer with mean aggregation (Hamilton, Ying and
// Leskovec, "Inductive Representation Learning on Large Graphs", NeurIPS 2017,
// Algorithm 1 with the mean aggregator of section 3.3):
//
//	out[v] = act(W_self·h[v] + W_neigh·mean(h[u] : u → v) + b)
//
// The two products are one: the rows [h[v], mean] (n × 2·In) times the weights
// stacked (2·In × Out). The mean of a node without neighbours is 0; it is by the
// graph's Weights where it has some. With
// [MultiplyFirst] the mean is of the products W_neigh·h[u] instead.
type SAGE struct {
	index   int // of the layer in its model: keys its dropout
	in, out int
	act     Activation
	// inputDropout drops elements of the rows [h, mean], so that a node's own
	// features and each mean are masked on their own and the features themselves stay untouched.
	inputDropout float32
	w, b         *Param
	ordered
	products bool // streamed, sums are of W_neigh·h[u]

	// Of the pass between Forward and Backward.
	g *gpu.Graph
	z gpu.Tensor // [NumDst × 2·in]; with MultiplyFirst none
	x operand    // [NumSrc × in], with MultiplyFirst
	y gpu.Tensor // [NumDst × out], activated
}

var _ Transformer = (*SAGE)(nil)

// NewSAGE declares a layer's parameters in p: "i.weight" [2·in × out] and
// "i.bias". inputDropout is for a first layer: its input needs no gradient.
func NewSAGE(p *Params, index, in, out int, act Activation, inputDropout float32) *SAGE {
	name := fmt.Sprint(index)
	return &SAGE{index: index, in: in, out: out, act: act, inputDropout: inputDropout,
		w: p.Add(name+".weight", 2*in, out, fanIn(in)),
		b: p.Add(name+".bias", 1, out, zero), ordered: newOrdered(true, inputDropout)}
}

// InDim returns the columns of a source's state.
func (l *SAGE) InDim() int { return l.in }

// OutDim returns the columns of a destination's state.
func (l *SAGE) OutDim() int { return l.out }

// Params lists weight and bias.
func (l *SAGE) Params() []*Param { return []*Param{l.w, l.b} }

// Hops returns 1.
func (l *SAGE) Hops() int { return 1 }

// Forward implements [Layer].
func (l *SAGE) Forward(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	q := p.Queue
	if l.order == MultiplyFirst && p.history(l.index) == nil { // a history's sums are of states, not of products
		l.g, l.z = g, gpu.Tensor{}
		l.y = l.multiplyFirst(p, in)
		return l.y
	}
	z := p.Arena.Matrix(q, g.NumDst, 2*l.in)
	if !l.self(p, g.NumDst, in, z) {
		return gpu.Tensor{}
	}
	right, options := z.View(0, l.in, g.NumDst, l.in), meanOf(g)
	if h := p.history(l.index); h == nil {
		aggregate(q, options, *g, in, right)
	} else {
		mean := p.Arena.Matrix(q, g.NumDst, l.in)
		if q.Err() != nil {
			return gpu.Tensor{}
		}
		aggregate(q, options, *g, in, mean)
		h.complete(q, mean)
		q.Copy(right, mean)
	}
	p.aggregated(l.index, right)
	if p.Train && l.inputDropout > 0 {
		q.Dropout(p.inputMask(l.inputDropout, 0), z)
	}
	y := l.dense(p, z)
	l.g, l.z, l.y = g, z, y
	return y
}

// multiplyFirst returns act(x·W_self + mean(x·W_neigh) + b).
func (l *SAGE) multiplyFirst(p *Pass, in Input) gpu.Tensor {
	q, n := p.Queue, l.g.NumDst
	if l.x = wholeOperand(p, fmt.Sprintf("SAGE layer %d", l.index), l.g.NumSrc, l.in, in); q.Err() != nil {
		return gpu.Tensor{}
	}
	t, mean, y := p.Arena.Matrix(q, l.g.NumSrc, l.out), p.Arena.Matrix(q, n, l.out), p.Arena.Matrix(q, n, l.out)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	l.x.times(q, l.w.Value.View(l.in, 0, l.in, l.out), t)
	q.Aggregate(meanOf(l.g), *l.g, t, mean)
	l.x.head(n).times(q, l.w.Value.Head(l.in), y)
	q.Axpy(1, mean, y)
	q.AddBias(l.act.ReLU, l.b.Value, y)
	l.act.drop(p, l.index, y)
	return y
}

// multiplyFirstBackward is Backward of multiplyFirst.
func (l *SAGE) multiplyFirstBackward(p *Pass, dOut gpu.Tensor, needInput bool) gpu.Tensor {
	q, n := p.Queue, l.g.NumDst
	l.act.backward(p, l.index, l.y, dOut)
	q.ColumnSum(dOut, l.b.Grad)
	dt := p.Arena.Matrix(q, l.g.NumSrc, l.out)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	q.Fill(dt, 0)
	meanBackward(p, l.g, dOut, dt)
	l.x.head(n).gradient(q, dOut, l.w.Grad.Head(l.in))
	l.x.gradient(q, dt, l.w.Grad.View(l.in, 0, l.in, l.out))
	if !needInput {
		return gpu.Tensor{}
	}
	dIn := p.Arena.Matrix(q, l.g.NumSrc, l.in)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	q.Gemm(gpu.GemmOptions{TransB: true}, dt, l.w.Value.View(l.in, 0, l.in, l.out), dIn)
	q.Gemm(gpu.GemmOptions{TransB: true, Accumulate: true}, dOut, l.w.Value.Head(l.in), dIn.Head(n))
	return dIn
}

// self fills the left half of z with the states of the first n sources. It
// reports whether the pass goes on.
func (l *SAGE) self(p *Pass, n int, in Input, z gpu.Tensor) bool {
	return states(p, fmt.Sprintf("SAGE layer %d", l.index), n, in, z.View(0, 0, n, l.in))
}

func (l *SAGE) dense(p *Pass, z gpu.Tensor) gpu.Tensor {
	y := p.Arena.Matrix(p.Queue, z.Rows, l.out)
	p.Queue.Gemm(gpu.GemmOptions{Bias: l.b.Value, ReLU: l.act.ReLU}, z, l.w.Value, y)
	l.act.apply(p, l.index, y)
	return y
}

// Backward implements [Layer].
func (l *SAGE) Backward(p *Pass, dOut gpu.Tensor, needInput bool) gpu.Tensor {
	q := p.Queue
	if l.z.IsZero() {
		return l.multiplyFirstBackward(p, dOut, needInput)
	}
	dz := l.denseBackward(p, dOut, needInput)
	if !needInput || q.Err() != nil {
		return gpu.Tensor{}
	}
	n := l.g.NumDst
	dIn := p.Arena.Matrix(q, l.g.NumSrc, l.in)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	q.Copy(dIn.Head(n), dz.View(0, 0, n, l.in))
	q.Fill(dIn.View(n, 0, l.g.NumSrc-n, l.in), 0)
	right := dz.View(0, l.in, n, l.in)
	if h := p.history(l.index); h != nil {
		q.DivideRows(right, h.Divisors)
	}
	meanBackward(p, l.g, right, dIn)
	return dIn
}

// denseBackward sets the parameters' gradients and returns that of z if needed.
func (l *SAGE) denseBackward(p *Pass, dOut gpu.Tensor, needed bool) gpu.Tensor {
	q := p.Queue
	l.act.backward(p, l.index, l.y, dOut)
	q.Gemm(gpu.GemmOptions{TransA: true}, l.z, dOut, l.w.Grad)
	q.ColumnSum(dOut, l.b.Grad)
	if !needed || q.Err() != nil {
		return gpu.Tensor{}
	}
	dz := p.Arena.Matrix(q, l.z.Rows, 2*l.in)
	q.Gemm(gpu.GemmOptions{TransB: true}, dOut, l.w.Value, dz)
	return dz
}

// AccumulatorDim implements [Streamer]: the sum of the neighbours' states, or products.
func (l *SAGE) AccumulatorDim() int {
	if l.products {
		return l.out
	}
	return l.in
}

// Transform implements [Transformer]: the sources' products.
func (l *SAGE) Transform(p *Pass, n int, src Input) Input {
	if !l.products {
		return src
	}
	return Dense(products(p, fmt.Sprintf("SAGE layer %d", l.index), n, src, l.w.Value.View(l.in, 0, l.in, l.out)))
}

// Accumulate implements [Streamer].
func (l *SAGE) Accumulate(p *Pass, g *gpu.Graph, src Input, acc gpu.Tensor) {
	aggregate(p.Queue, gpu.AggregateOptions{Accumulate: true, Weights: g.Weights}, *g, src, acc)
}

// Finish implements [Streamer].
func (l *SAGE) Finish(p *Pass, self Input, acc, degrees gpu.Tensor) gpu.Tensor {
	q, n := p.Queue, acc.Rows
	q.DivideRows(acc, degrees)
	if l.products {
		y := products(p, fmt.Sprintf("SAGE layer %d", l.index), n, self, l.w.Value.Head(l.in))
		q.Axpy(1, acc, y)
		q.AddBias(l.act.ReLU, l.b.Value, y)
		l.act.apply(p, l.index, y)
		return y
	}
	z := p.Arena.Matrix(q, n, 2*l.in)
	if !l.self(p, n, self, z) {
		return gpu.Tensor{}
	}
	q.Copy(z.View(0, l.in, n, l.in), acc)
	return l.dense(p, z)
}
