package nn

import (
	"fmt"

	"github.com/gstore/gstore/gpu"
)

// GCN is a graph convolution (Kipf and Welling, "Semi-Supervised Classification
// with Graph Convolutional Networks", ICLR 2017, eq. 2):
//
//	out[v] = act(W·(h[v]/D_v + Σ_(u → v) h[u]/√(D_v·D_u)) + b),  D = in-degree + 1
//
// A mini-batch holds k_v of v's deg_v neighbours. The normalisation uses full
// degrees, which do not depend on what was sampled, and the sum over neighbours
// is multiplied by deg_v/k_v, so that its expectation is the sum that
// evaluation computes; the self loop, always there, is not. Out of core, a degree is the
// macro-batch's: neighbours that are not in memory do not count.
//
// The block's graph must have both degrees.
type GCN struct {
	index, out int
	act        Activation
	sum        neighbourSum
	lin        linear
	z, y       gpu.Tensor // of the pass between Forward and Backward
}

var _ Streamer = (*GCN)(nil)

// NewGCN declares a layer's parameters in p: "i.weight" [in × out] and
// "i.bias". inputDropout is for a first layer: its input needs no gradient.
func NewGCN(p *Params, index, in, out int, act Activation, inputDropout float32) *GCN {
	return &GCN{index: index, out: out, act: act, lin: newLinear(p, fmt.Sprint(index), in, out),
		sum: neighbourSum{name: fmt.Sprintf("GCN layer %d", index), in: in, symmetric: true, inputDropout: inputDropout}}
}

// InDim returns the columns of a source's state.
func (l *GCN) InDim() int { return l.sum.in }

// OutDim returns the columns of a destination's state.
func (l *GCN) OutDim() int { return l.out }

// Params lists weight and bias.
func (l *GCN) Params() []*Param { return l.lin.params() }

// Hops returns 1.
func (l *GCN) Hops() int { return 1 }

// ReadsDegrees implements [DegreeReader].
func (l *GCN) ReadsDegrees() bool { return true }

// Forward implements [Layer]. in has one table.
func (l *GCN) Forward(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	l.z = l.sum.forward(p, g, in)
	l.y = l.dense(p, l.z)
	return l.y
}

func (l *GCN) dense(p *Pass, z gpu.Tensor) gpu.Tensor {
	y := l.lin.forward(p, z, l.act.ReLU)
	l.act.apply(p, l.index, y)
	return y
}

// Backward implements [Layer].
func (l *GCN) Backward(p *Pass, dOut gpu.Tensor, needInput bool) gpu.Tensor {
	l.act.backward(p, l.index, l.y, dOut)
	dz := l.lin.backward(p, l.z, dOut, needInput)
	if !needInput || p.Queue.Err() != nil {
		return gpu.Tensor{}
	}
	return l.sum.backward(p, dz)
}

// AccumulatorDim implements [Streamer]: the sum over neighbours.
func (l *GCN) AccumulatorDim() int { return l.sum.AccumulatorDim() }

// Accumulate implements [Streamer].
func (l *GCN) Accumulate(p *Pass, g *gpu.Graph, src Input, acc gpu.Tensor) {
	l.sum.Accumulate(p, g, src, acc)
}

// Finish implements [Streamer].
func (l *GCN) Finish(p *Pass, self Input, acc, degrees gpu.Tensor) gpu.Tensor {
	z := l.sum.finish(p, self, acc, degrees)
	if p.Queue.Err() != nil {
		return gpu.Tensor{}
	}
	return l.dense(p, z)
}
