package feed

import (
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/store"
)

// ClassWeights weighs the loss of a node by its class: N/(K·n) for one of n of the N labelled training nodes, of K classes that have some,
// so that every class weighs the same (scikit-learn's class_weight="balanced"). The mean over a mini-batch is by weight, Σ w·loss / Σ w.
type ClassWeights struct {
	of       []float64 // by class
	divisors []float32 // of the mini-batch in hand
}

// NewClassWeights takes the training nodes of each partition by class. A class without any weighs 1.
func NewClassWeights(labels [][]store.ClassNodes, classes int) *ClassWeights {
	w := &ClassWeights{of: make([]float64, classes)}
	all, known := 0., 0.
	for _, part := range labels {
		for _, x := range part {
			w.of[x.Class] += float64(x.Nodes)
			all += float64(x.Nodes)
		}
	}
	for _, n := range w.of {
		if n > 0 {
			known++
		}
	}
	for c, n := range w.of {
		w.of[c] = 1
		if n > 0 {
			w.of[c] = all / (known * n)
		}
	}
	return w
}

// Total is what a mini-batch's labels weigh together, −1 being none; of nil, how many there are.
func (w *ClassWeights) Total(labels []int32) (total float64) {
	for _, l := range labels {
		switch {
		case l < 0:
		case w == nil || int(l) >= len(w.of): // what is no class is told by the loss
			total++
		default:
			total += w.of[l]
		}
	}
	return total
}

// Tensor is what the gradients of the plain mean over labels, −1 being none, are divided by, row by row, to become those of the weighted
// mean: float32[1×labels]; none for nil. It is valid as long as the mini-batch.
func (w *ClassWeights) Tensor(q *gpu.Queue, a *gpu.Arena, labels []int32) gpu.Tensor {
	if w == nil {
		return gpu.Tensor{}
	}
	var plain *ClassWeights
	mean := w.Total(labels) / max(1, plain.Total(labels))
	w.divisors = w.divisors[:0]
	for _, l := range labels {
		d := 1.
		if l >= 0 && int(l) < len(w.of) {
			d = mean / w.of[l]
		}
		w.divisors = append(w.divisors, float32(d))
	}
	return a.Float32s(q, w.divisors)
}
