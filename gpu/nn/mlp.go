package nn

import (
	"fmt"

	"github.com/gstore/gstore/gpu"
)

func kindOfMLP() Kind {
	return Kind{Name: "mlp", NodesAlone: true, layer: func(c *Config, p *Params, s slot) Layer {
		return newMLP(p, s.index, s.in, s.out, s.act, s.inputDropout)
	}}
}

// mlpLayer is a layer of a multilayer perceptron, out[v] = act(W·h[v] + b): what
// features alone are worth, beside which a graph model is measured.
type mlpLayer struct {
	index, in, out int
	act            Activation
	inputDropout   float32
	lin            linear
	x, y           gpu.Tensor // of the pass between Forward and Backward
}

var _ Streamer = (*mlpLayer)(nil)

// newMLP declares a layer's parameters in p: "i.weight" [in × out] and
// "i.bias". inputDropout is for a first layer: its input needs no gradient.
func newMLP(p *Params, index, in, out int, act Activation, inputDropout float32) *mlpLayer {
	return &mlpLayer{index: index, in: in, out: out, act: act, inputDropout: inputDropout, lin: newLinear(p, fmt.Sprint(index), in, out)}
}

// InDim returns the columns of a node's state below the layer.
func (l *mlpLayer) InDim() int { return l.in }

// OutDim returns the columns of a node's state above the layer.
func (l *mlpLayer) OutDim() int { return l.out }

// Params lists weight and bias.
func (l *mlpLayer) Params() []*Param { return l.lin.params() }

// Hops returns 0.
func (l *mlpLayer) Hops() int { return 0 }

// Forward implements [Layer]. g has as many destinations as sources.
func (l *mlpLayer) Forward(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	l.x, l.y = l.dense(p, g.NumDst, in)
	return l.y
}

func (l *mlpLayer) dense(p *Pass, n int, in Input) (x, y gpu.Tensor) {
	x = p.Arena.Matrix(p.Queue, n, l.in)
	if !states(p, fmt.Sprintf("MLP layer %d", l.index), n, in, x) {
		return x, y
	}
	if p.Train && l.inputDropout > 0 {
		p.Queue.Dropout(p.inputMask(l.inputDropout, 0), x)
	}
	y = l.lin.forward(p, x, l.act.ReLU)
	l.act.apply(p, l.index, y)
	return x, y
}

// Backward implements [Layer].
func (l *mlpLayer) Backward(p *Pass, dOut gpu.Tensor, needInput bool) gpu.Tensor {
	l.act.backward(p, l.index, l.y, dOut)
	return l.lin.backward(p, l.x, dOut, needInput)
}

// AccumulatorDim returns 0: nothing arrives from neighbours.
func (l *mlpLayer) AccumulatorDim() int { return 0 }

// Accumulate does nothing.
func (l *mlpLayer) Accumulate(*Pass, *gpu.Graph, Input, gpu.Tensor) {}

// Finish implements [Streamer].
func (l *mlpLayer) Finish(p *Pass, self Input, _, degrees gpu.Tensor) gpu.Tensor {
	_, y := l.dense(p, degrees.Cols, self)
	return y
}
