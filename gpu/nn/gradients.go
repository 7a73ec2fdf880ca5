package nn

import (
	"time"

	"github.com/gstore/gstore/gpu"
)

// Gradients computes those of the mean loss over a mini-batch's labels (one a row of the logits, −1 for none) into the
// model's parameters, and returns when the forward pass was over. shift, if it is not zero, is added to each row of
// logits. What it takes of the pass's arena depends on the sizes of graphs, input and model alone, so that a device that
// counts can run it instead of a forecast.
func (m *Model) Gradients(p *Pass, graphs []gpu.Graph, in Input, labels, shift gpu.Tensor) (forward time.Time) {
	logits := m.Forward(p, graphs, in)
	forward = time.Now()
	if !shift.IsZero() {
		p.Queue.AddBias(false, shift, logits)
	}
	grad := p.Arena.Matrix(p.Queue, logits.Rows, logits.Cols)
	p.Queue.SoftmaxCrossEntropy(logits, labels, grad, m.Stat())
	m.Backward(p, grad)
	return forward
}
