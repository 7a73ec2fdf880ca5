package nn

import (
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

// maxSAGELayer is a GraphSAGE layer with the elementwise maximum in place of the
// mean (Hamilton et al., 2017, section 3.3, the pooling aggregator of eq. 3 without its
// perceptron):
//
//	out[v] = act(W_self·h[v] + W_neigh·max(h[u] : u → v) + b)
//
// The maximum of a node without neighbours is 0. Parameters are those of [SAGE].
type maxSAGELayer struct {
	SAGE
	arg gpu.Tensor // int32[1 × NumDst·in]: the edges that the maxima came from
}

var _ Streamer = (*maxSAGELayer)(nil)

// newMaxSAGE declares the parameters that [NewSAGE] declares.
func newMaxSAGE(p *Params, index, in, out int, act Activation, inputDropout float32) *maxSAGELayer {
	return &maxSAGELayer{SAGE: *NewSAGE(p, index, in, out, act, inputDropout)}
}

// Forward implements [Layer].
func (l *maxSAGELayer) Forward(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	q, n := p.Queue, g.NumDst
	z := p.Arena.Matrix(q, n, 2*l.in)
	if !l.self(p, n, in, z) {
		return gpu.Tensor{}
	}
	l.arg = gpu.Tensor{}
	if p.Train && len(in.Tables) == 1 { // several are features, which have no gradient
		l.arg = p.Arena.Vector(q, n*l.in, blocks.Int32)
	}
	at := l.in
	for k, t := range in.Tables {
		q.SegmentMax(gpu.MaxOptions{Index: in.index(k)}, *g, t, z.View(0, at, n, t.Cols), l.arg)
		at += t.Cols
	}
	if p.Train && l.inputDropout > 0 {
		q.Dropout(p.inputMask(l.inputDropout, 0), z)
	}
	l.g, l.z, l.y = g, z, l.dense(p, z)
	return l.y
}

// Backward implements [Layer].
func (l *maxSAGELayer) Backward(p *Pass, dOut gpu.Tensor, needInput bool) gpu.Tensor {
	q, n := p.Queue, l.g.NumDst
	dz := l.denseBackward(p, dOut, needInput)
	dIn := p.Arena.Matrix(q, l.g.NumSrc, l.in)
	if !needInput || q.Err() != nil {
		return gpu.Tensor{}
	}
	q.Copy(dIn.Head(n), dz.View(0, 0, n, l.in))
	q.Fill(dIn.View(n, 0, l.g.NumSrc-n, l.in), 0)
	q.TransposeEdges(p.Arena, l.g)
	q.SegmentMaxBackward(*l.g, dz.View(0, l.in, n, l.in), l.arg, dIn)
	return dIn
}

// AccumulatorDim implements [Streamer]: the maximum, and how many edges it is of.
func (l *maxSAGELayer) AccumulatorDim() int { return l.in + 1 }

// Accumulate implements [Streamer].
func (l *maxSAGELayer) Accumulate(p *Pass, g *gpu.Graph, src Input, acc gpu.Tensor) {
	q, n, at := p.Queue, acc.Rows, 0
	if src.width() != l.in {
		q.Fail(fmt.Errorf("nn: SAGE layer %d: input is %v, expected %d columns: %w", l.index, src.Tables, l.in, gpu.ErrShape))
		return
	}
	counts := acc.View(0, l.in, n, 1)
	var before gpu.Tensor
	if len(src.Tables) > 1 {
		if before = p.Arena.Matrix(q, n, 1); q.Err() != nil {
			return
		}
	}
	for i, t := range src.Tables {
		seen := counts
		if i < len(src.Tables)-1 { // it counts this graph's edges, which must be new to every table
			seen = before
			q.Copy(seen, counts)
		}
		q.SegmentMax(gpu.MaxOptions{Index: src.index(i), Seen: seen}, *g, t, acc.View(0, at, n, t.Cols), gpu.Tensor{})
		at += t.Cols
	}
}

// Finish implements [Streamer].
func (l *maxSAGELayer) Finish(p *Pass, self Input, acc, _ gpu.Tensor) gpu.Tensor {
	q, n := p.Queue, acc.Rows
	z := p.Arena.Matrix(q, n, 2*l.in)
	if !l.self(p, n, self, z) {
		return gpu.Tensor{}
	}
	q.Copy(z.View(0, l.in, n, l.in), acc.View(0, 0, n, l.in))
	return l.dense(p, z)
}
