package eval

import (
	"context"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/store/stats"
)

// NumberMetrics is how far the numbers that a model says are from a split's labels, in the labels' unit.
type NumberMetrics struct {
	MAE  float64 // mean absolute error
	RMSE float64 // root of the mean squared error
	// R2 is the share of the labels' variance that is explained, 1 − Σ error² / Σ (label − mean)²: 0 for who always says the mean, and
	// less for who does worse. Of labels that are all one number, 1 without an error, else 0; NaN of fewer than two, as in scikit-learn.
	R2 float64
}

// numberSums are what a split's metrics are made of.
type numberSums struct {
	absolute, squared float64
	labels            stats.Spread
}

func (s *numberSums) add(value, label float64) {
	d := value - label
	s.absolute, s.squared = s.absolute+math.Abs(d), s.squared+d*d
	s.labels.Add(label)
}

func (s *numberSums) metrics() *NumberMetrics {
	n := s.labels.N
	if n == 0 {
		return nil
	}
	m := &NumberMetrics{MAE: s.absolute / n, RMSE: math.Sqrt(s.squared / n), R2: math.NaN()}
	switch {
	case n < 2:
	case s.labels.Squares > 0:
		m.R2 = 1 - s.squared/s.labels.Squares
	case s.squared > 0:
		m.R2 = 0
	default:
		m.R2 = 1
	}
	return m
}

// scoreNumbers is score for a model of numbers: outputs are [n×1].
func (r *evaluation) scoreNumbers(ctx context.Context, outputs gpu.Tensor, lo int) error {
	if len(r.splits) == 0 {
		return r.settle(ctx)
	}
	scale, n := r.scale, outputs.Rows
	values := slices.Grow(r.chunk.logits[:0], n)[:n]
	r.chunk.logits = values
	r.queue.Download(blocks.Bytes(values), outputs)
	if err := r.settle(ctx); err != nil {
		return err
	}
	for k, label := range asInt32(r.labels)[lo : lo+n] {
		if label < 0 {
			continue
		}
		for i, split := range r.splits {
			if r.split[lo+k] != split {
				continue
			}
			value, target := float64(scale.Of(values[k])), float64(blocks.CodedNumber(label))
			r.numbers[i].add(value, target)
			m := &r.metrics[i]
			m.Nodes++
			if d := math.Abs(value-target) / float64(scale.Deviation); d > 1 {
				m.Loss += d - .5
			} else {
				m.Loss += d * d / 2
			}
		}
	}
	return nil
}
