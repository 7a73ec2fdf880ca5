package nn

import (
	"fmt"

	"github.com/gstore/gstore/gpu"
)

// precomputedLayer is a first SAGE layer whose mean over neighbours is read
// instead of computed: its input tables are those of the features X and of their
// neighbourhood mean AX, which has no parameters and was computed once over
// the whole graph (docs/findings.md, "First hop precomputed").
// Parameters and result are those of [SAGE] with all neighbours; the layer
// reads a node alone, so a model of L layers samples L−1 hops.
type precomputedLayer struct{ SAGE }

var _ Streamer = (*precomputedLayer)(nil)

// newPrecomputedSAGE declares the parameters of layer 0.
func newPrecomputedSAGE(p *Params, in, out int, act Activation, inputDropout float32) *precomputedLayer {
	return &precomputedLayer{*NewSAGE(p, 0, in, out, act, inputDropout)}
}

// Hops returns 0.
func (l *precomputedLayer) Hops() int { return 0 }

// Forward implements [Layer]. g has as many destinations as sources.
func (l *precomputedLayer) Forward(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	z, ok := l.rows(p, g.NumDst, in)
	if !ok {
		return gpu.Tensor{}
	}
	if p.Train && l.inputDropout > 0 {
		p.Queue.Dropout(p.inputMask(l.inputDropout, 0), z)
	}
	y := l.dense(p, z)
	l.g, l.z, l.y = g, z, y
	return y
}

// rows gathers [X, AX] of n nodes.
func (l *precomputedLayer) rows(p *Pass, n int, in Input) (z gpu.Tensor, ok bool) {
	q := p.Queue
	if x := in.first(l.in); x.width() != l.in {
		q.Fail(fmt.Errorf("nn: precomputed SAGE layer: input is %v, expected features and their neighbourhood mean: %w", in.Tables, gpu.ErrShape))
		return gpu.Tensor{}, false
	}
	z = p.Arena.Matrix(q, n, 2*l.in)
	return z, q.Err() == nil && states(p, "precomputed SAGE layer", n, in, z)
}

// Backward implements [Layer]; the features have no gradient.
func (l *precomputedLayer) Backward(p *Pass, dOut gpu.Tensor, _ bool) gpu.Tensor {
	return l.SAGE.Backward(p, dOut, false)
}

// AccumulatorDim returns 0: nothing arrives from neighbours.
func (l *precomputedLayer) AccumulatorDim() int { return 0 }

// Accumulate does nothing.
func (l *precomputedLayer) Accumulate(*Pass, *gpu.Graph, Input, gpu.Tensor) {}

// Finish implements [Streamer].
func (l *precomputedLayer) Finish(p *Pass, self Input, _, degrees gpu.Tensor) gpu.Tensor {
	z, ok := l.rows(p, degrees.Cols, self)
	if !ok {
		return gpu.Tensor{}
	}
	return l.dense(p, z)
}

// Sums streams what a first layer of gcn or gin multiplies by its weights, and a precomputed hop holds: its output is that.
type Sums struct{ gcnLayer }

// NewSums is of gcn's sums where they are symmetric, else of gin's. The parameters that it declares are not used.
func NewSums(p *Params, symmetric bool, in int) *Sums {
	l := newGCN(p, 0, in, 1, Activation{}, 0, false)
	l.sum.symmetric = symmetric
	return &Sums{*l}
}

// Finish implements [Streamer].
func (s *Sums) Finish(p *Pass, self Input, acc, degrees gpu.Tensor) gpu.Tensor {
	return s.sum.finish(p, self, acc, degrees)
}
