package nn

import (
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

func kindOfGIN() Kind {
	return Kind{Name: "gin", Sums: true, Hop: HopSum, History: HistorySum, Aggregates: true,
		layer: func(c *Config, p *Params, s slot) Layer {
			hidden := c.Hidden
			if hidden < 1 { // a single layer
				hidden = s.out
			}
			return newGIN(p, s.index, s.in, hidden, s.out, s.act, s.inputDropout, s.hop(c))
		},
		hidden: func(named map[string]Parameter) int { return named["0.0.bias"].Cols }}
}

// ginLayer is a layer of a graph isomorphism network (Xu, Hu, Leskovec and Jegelka,
// "How Powerful are Graph Neural Networks?", ICLR 2019, eq. 4.1) with ε = 0
// (GIN-0, section 7) and a perceptron of one hidden layer:
//
//	out[v] = act(W_2·relu(norm(W_1·(h[v] + Σ_(u → v) h[u]) + b_1)) + b_2)
//
// The sum over the k_v neighbours of a mini-batch is multiplied by deg_v/k_v, as
// in [gcnLayer]. Sums grow with the degree, from layer to layer by its power; norm is layer
// normalisation where the paper has batch normalisation, whose statistics one
// hub decides.
//
// The block's graph must have its destinations' degrees.
type ginLayer struct {
	index, out int
	act        Activation
	sum        neighbourSum
	lin        [2]linear
	gamma      *Param
	beta       *Param

	// Of the pass between Forward and Backward.
	z    gpu.Tensor // [NumDst × in], sums
	xhat gpu.Tensor // [NumDst × hidden], normalised
	rstd gpu.Tensor // [1 × NumDst]
	h, y gpu.Tensor // [NumDst × hidden], [NumDst × out], activated
}

// normEpsilon is what layer normalisation adds to the variance.
const normEpsilon = 1e-5

var _ Streamer = (*ginLayer)(nil)

// newGIN declares a layer's parameters in p: "i.0.weight" [in × hidden],
// "i.1.weight" [hidden × out], their biases, and the norm's "i.gamma" and "i.beta" [1 × hidden]. inputDropout is for a first
// layer: its input needs no gradient.
// precomputed says that the input is the sum.
func newGIN(p *Params, index, in, hidden, out int, act Activation, inputDropout float32, precomputed bool) *ginLayer {
	name := fmt.Sprint(index)
	return &ginLayer{index: index, out: out, act: act,
		sum:   neighbourSum{name: "GIN layer " + name, in: in, precomputed: precomputed, inputDropout: inputDropout},
		lin:   [2]linear{newLinear(p, name+".0", in, hidden), newLinear(p, name+".1", hidden, out)},
		gamma: p.Add(name+".gamma", 1, hidden, one), beta: p.Add(name+".beta", 1, hidden, zero)}
}

// InDim returns the columns of a source's state.
func (l *ginLayer) InDim() int { return l.sum.in }

// OutDim returns the columns of a destination's state.
func (l *ginLayer) OutDim() int { return l.out }

// Params lists weights, biases and the norm's.
func (l *ginLayer) Params() []*Param {
	return append(append(l.lin[0].params(), l.lin[1].params()...), l.gamma, l.beta)
}

// Hops implements [Layer].
func (l *ginLayer) Hops() int { return l.sum.Hops() }

// ReadsDegrees implements [DegreeReader].
func (l *ginLayer) ReadsDegrees() bool { return l.sum.ReadsDegrees() }

// Forward implements [Layer].
func (l *ginLayer) Forward(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	l.z = l.sum.forward(p, g, in, p.history(l.index))
	p.aggregated(l.index, l.z)
	return l.dense(p)
}

// dense computes the output from z.
func (l *ginLayer) dense(p *Pass) gpu.Tensor {
	l.xhat = l.lin[0].forward(p, l.z, false)
	l.h = p.Arena.Matrix(p.Queue, l.z.Rows, l.xhat.Cols)
	l.rstd = p.Arena.Vector(p.Queue, l.z.Rows, blocks.Float32)
	p.Queue.LayerNorm(gpu.LayerNormOptions{Gamma: l.gamma.Value, Beta: l.beta.Value, Epsilon: normEpsilon, ReLU: true}, l.xhat, l.xhat, l.h, l.rstd)
	l.y = l.lin[1].forward(p, l.h, l.act.ReLU)
	l.act.apply(p, l.index, l.y)
	return l.y
}

// Backward implements [Layer].
func (l *ginLayer) Backward(p *Pass, dOut gpu.Tensor, needInput bool) gpu.Tensor {
	l.act.backward(p, l.index, l.y, dOut)
	dh := l.lin[1].backward(p, l.h, dOut, true)
	p.Queue.ReLUBackward(1, l.h, dh)
	p.Queue.Fill(l.gamma.Grad, 0)
	p.Queue.Fill(l.beta.Grad, 0)
	p.Queue.LayerNormBackward(l.gamma.Value, l.xhat, l.rstd, dh, l.gamma.Grad, l.beta.Grad)
	dz := l.lin[0].backward(p, l.z, dh, needInput)
	if !needInput || p.Queue.Err() != nil {
		return gpu.Tensor{}
	}
	return l.sum.backward(p, dz)
}

// AccumulatorDim implements [Streamer]: the sum over neighbours.
func (l *ginLayer) AccumulatorDim() int { return l.sum.AccumulatorDim() }

// Accumulate implements [Streamer].
func (l *ginLayer) Accumulate(p *Pass, g *gpu.Graph, src Input, acc gpu.Tensor) {
	l.sum.Accumulate(p, g, src, acc)
}

// Finish implements [Streamer].
func (l *ginLayer) Finish(p *Pass, self Input, acc, degrees gpu.Tensor) gpu.Tensor {
	if l.z = l.sum.finish(p, self, acc, degrees); p.Queue.Err() != nil {
		return gpu.Tensor{}
	}
	return l.dense(p)
}
