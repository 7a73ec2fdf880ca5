package nn

import (
	"time"

	"github.com/gstore/gstore/gpu"
)

// Targets are what a mini-batch's logits [n×classes], or numbers [n×1] ([Config].Numbers), are fitted to.
type Targets struct {
	Labels   gpu.Tensor // int32[1×n], classes, codes of numbers or numbers of sets, −1 for none
	Sets     gpu.Tensor // of a model of several labels a node: int32[1×S·⌈labels/32⌉], see [gpu.Queue.MultiLabelLoss]
	Shift    gpu.Tensor // float32[1×classes], added to each row of logits; none: nothing is
	Divisors gpu.Tensor // float32[1×n], not 0, by which the gradients of the mean loss are divided, row by row; none: they are not
}

// Gradients computes those of the mean loss over a mini-batch's labels into the model's parameters, and returns when the
// forward pass was over. What it takes of the pass's arena depends on the sizes of graphs, input and model alone, so that
// a device that counts can run it instead of a forecast.
func (m *Model) Gradients(p *Pass, graphs []gpu.Graph, in Input, t Targets) (forward time.Time) {
	logits := m.Forward(p, graphs, in)
	forward = time.Now()
	if !t.Shift.IsZero() {
		p.Queue.AddBias(false, t.Shift, logits)
	}
	grad := p.Arena.Matrix(p.Queue, logits.Rows, logits.Cols)
	switch n := m.cfg.Numbers; {
	case n != nil:
		p.Queue.NumberLoss(gpu.NumberLossOptions{Mean: n.Mean, Deviation: n.Deviation}, logits, t.Labels, grad, m.Stat())
	case m.cfg.MultiLabel:
		p.Queue.MultiLabelLoss(t.Sets, logits, t.Labels, grad, m.Stat())
	default:
		p.Queue.SoftmaxCrossEntropy(logits, t.Labels, grad, m.Stat())
	}
	if !t.Divisors.IsZero() {
		p.Queue.DivideRows(grad, t.Divisors)
	}
	m.Backward(p, grad)
	return forward
}
