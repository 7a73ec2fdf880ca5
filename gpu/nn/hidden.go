package nn

import (
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

// Norms that a hidden layer may have.
const (
	NoNorm    = "none"
	BatchNorm = "batch" // Ioffe and Szegedy, 2015: over the nodes of a mini-batch; running statistics in evaluation
	LayerNorm = "layer" // Ba, Kiros and Hinton, 2016: over the columns of a node
)

// batchNormMomentum is the weight of a mini-batch in the running statistics, PyTorch's.
const batchNormMomentum = .1

// hidden adds to a layer without activation a norm and a residual connection:
//
//	out[v] = dropout(relu(norm(layer(h)[v]) + R·h[v]))
//
// as in He et al., "Deep Residual Learning", CVPR 2016, eqs. 1 and 2: R is
// the identity where the widths agree, a learned projection otherwise.
type hidden struct {
	Layer
	index        int
	act          Activation
	norm         string
	gamma, beta  *Param // nil without norm
	mean, spread *Param // of batch norm
	residual     bool
	project      *Param // R [in × out]; nil: the identity

	// Of the pass between Forward and Backward.
	xhat, rstd gpu.Tensor // of the norm
	x          gpu.Tensor // [NumDst × in], where R is learned
	y          gpu.Tensor // [NumDst × out], activated
}

// preparedHidden is hidden around a [Preparer].
type preparedHidden struct{ *hidden }

var (
	_ Streamer     = (*hidden)(nil)
	_ DegreeReader = (*hidden)(nil)
	_ Preparer     = preparedHidden{}
	_ Transformer  = (*hidden)(nil)
)

// newHidden declares what c asks for around l, whose activation it takes
// over: "i.norm.gamma", "i.norm.beta", with batch norm the states "i.norm.mean" and
// "i.norm.variance", and "i.residual".
func (c *Config) newHidden(p *Params, index int, l Layer, act Activation) Layer {
	h := &hidden{Layer: l, index: index, act: act, norm: c.Norm, residual: c.Residual}
	name, out := fmt.Sprint(index), l.OutDim()
	if c.normed() {
		h.gamma, h.beta = p.Add(name+".norm.gamma", 1, out, one), p.Add(name+".norm.beta", 1, out, zero)
	}
	if c.Norm == BatchNorm {
		h.mean, h.spread = p.AddState(name+".norm.mean", 1, out, zero), p.AddState(name+".norm.variance", 1, out, one)
	}
	if c.Residual && l.InDim() != out {
		h.project = p.Add(name+".residual", l.InDim(), out, fanIn(l.InDim()))
	}
	if _, ok := l.(Preparer); ok {
		return preparedHidden{h}
	}
	return h
}

// Params lists the layer's, the norm's and the projection.
func (h *hidden) Params() []*Param {
	ps := h.Layer.Params()
	for _, p := range []*Param{h.gamma, h.beta, h.mean, h.spread, h.project} {
		if p != nil {
			ps = append(ps, p)
		}
	}
	return ps
}

// ReadsDegrees implements [DegreeReader].
func (h *hidden) ReadsDegrees() bool {
	d, ok := h.Layer.(DegreeReader)
	return ok && d.ReadsDegrees()
}

// Forward implements [Layer].
func (h *hidden) Forward(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	return h.finish(p, h.Layer.Forward(p, g, in), in)
}

// finish turns the layer's output y, which it may overwrite, into the hidden state; self holds
// the same nodes' states below.
func (h *hidden) finish(p *Pass, y gpu.Tensor, self Input) gpu.Tensor {
	q := p.Queue
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	y = h.normalize(p, y)
	if h.residual && q.Err() == nil {
		self = self.first(h.InDim()) // of a precomputed hop: the features
		h.x = p.Arena.Matrix(q, y.Rows, h.InDim())
		if !states(p, fmt.Sprintf("residual of layer %d", h.index), y.Rows, self, h.x) {
			return gpu.Tensor{}
		}
		if h.project == nil {
			q.Axpy(1, h.x, y)
		} else {
			q.Gemm(gpu.GemmOptions{Accumulate: true}, h.x, h.project.Value, y)
		}
	}
	if h.act.ReLU {
		relu(p, y)
	}
	h.act.apply(p, h.index, y)
	h.y = y
	return y
}

// relu sets y to max(0, y).
func relu(p *Pass, y gpu.Tensor) {
	zero := p.Arena.Matrix(p.Queue, 1, y.Cols)
	p.Queue.Fill(zero, 0)
	p.Queue.AddBias(true, zero, y)
}

func (h *hidden) normalize(p *Pass, x gpu.Tensor) gpu.Tensor {
	q := p.Queue
	if h.gamma == nil {
		return x
	}
	y := p.Arena.Matrix(q, x.Rows, x.Cols)
	if h.norm == LayerNorm {
		h.xhat, h.rstd = x, p.Arena.Vector(q, x.Rows, blocks.Float32)
		q.LayerNorm(gpu.LayerNormOptions{Gamma: h.gamma.Value, Beta: h.beta.Value, Epsilon: normEpsilon}, x, x, y, h.rstd)
		return y
	}
	h.xhat, h.rstd = x, p.Arena.Matrix(q, 1, x.Cols)
	q.BatchNorm(gpu.BatchNormOptions{Gamma: h.gamma.Value, Beta: h.beta.Value, Mean: h.mean.Value, Variance: h.spread.Value,
		Epsilon: normEpsilon, Momentum: batchNormMomentum, Inference: !p.Train || p.Still}, x, x, y, h.rstd)
	return y
}

// Backward implements [Layer].
func (h *hidden) Backward(p *Pass, dOut gpu.Tensor, needInput bool) gpu.Tensor {
	q := p.Queue
	h.act.backward(p, h.index, h.y, dOut)
	var through gpu.Tensor // the gradient of the residual's input
	if h.residual && h.project != nil {
		q.Gemm(gpu.GemmOptions{TransA: true}, h.x, dOut, h.project.Grad)
	}
	if h.residual && needInput {
		through = p.Arena.Matrix(q, dOut.Rows, h.InDim())
		if h.project == nil {
			q.Copy(through, dOut)
		} else {
			q.Gemm(gpu.GemmOptions{TransB: true}, dOut, h.project.Value, through)
		}
	}
	if h.gamma != nil {
		h.normBackward(p, dOut)
	}
	dIn := h.Layer.Backward(p, dOut, needInput)
	if h.residual && needInput && q.Err() == nil {
		q.Axpy(1, through, dIn.Head(through.Rows))
	}
	return dIn
}

// normBackward turns the gradient of the norm's output into that of its input, in place, and sets those of its parameters, but of a batch
// norm that stands still.
func (h *hidden) normBackward(p *Pass, d gpu.Tensor) {
	q := p.Queue
	switch {
	case h.norm == LayerNorm:
		q.Fill(h.gamma.Grad, 0)
		q.Fill(h.beta.Grad, 0)
		q.LayerNormBackward(h.gamma.Value, h.xhat, h.rstd, d, h.gamma.Grad, h.beta.Grad)
	case p.Still:
		by, rows := p.Arena.Matrix(q, 1, d.Cols), p.Arena.Matrix(q, d.Rows, d.Cols)
		if q.Err() != nil {
			return
		}
		q.Copy(by, h.gamma.Value)
		q.Mul(by, h.rstd)
		q.Gather(rows, by, p.Arena.Uint32s(q, make([]uint32, d.Rows)))
		q.Mul(d, rows)
	default:
		q.Fill(h.gamma.Grad, 0)
		q.Fill(h.beta.Grad, 0)
		q.BatchNormBackward(h.gamma.Value, h.xhat, h.rstd, d, h.gamma.Grad, h.beta.Grad)
	}
}

// AccumulatorDim implements [Streamer].
func (h *hidden) AccumulatorDim() int { return h.Layer.(Streamer).AccumulatorDim() }

// Transform implements [Transformer].
func (h *hidden) Transform(p *Pass, n int, src Input) Input {
	if t, ok := h.Layer.(Transformer); ok {
		return t.Transform(p, n, src)
	}
	return src
}

// Accumulate implements [Streamer].
func (h *hidden) Accumulate(p *Pass, g *gpu.Graph, src Input, acc gpu.Tensor) {
	h.Layer.(Streamer).Accumulate(p, g, src, acc)
}

// Finish implements [Streamer].
func (h *hidden) Finish(p *Pass, self Input, acc, degrees gpu.Tensor) gpu.Tensor {
	return h.finish(p, h.Layer.(Streamer).Finish(p, self, acc, degrees), self)
}

// Prepare implements [Preparer].
func (h preparedHidden) Prepare(p *Pass, self Input, acc gpu.Tensor) {
	h.Layer.(Preparer).Prepare(p, self, acc)
}
