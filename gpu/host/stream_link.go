package host

import (
	"math"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host/kernels"
)

func (s *stream) Mul(dst, x gpu.Tensor) {
	s.run("mul", func() { kernels.Mul(s.pool, slice[float32](dst), slice[float32](x)) })
}

func (s *stream) MulAdd(dst, x, y gpu.Tensor) {
	s.run("mul add", func() { kernels.MulAdd(s.pool, slice[float32](dst), slice[float32](x), slice[float32](y)) })
}

func (s *stream) ComplexMulAdd(conjugate bool, dst, x, y gpu.Tensor) {
	s.run("complex mul add", func() { kernels.ComplexMulAdd(s.pool, conjugate, matrix(dst), matrix(x), matrix(y)) })
}

func (s *stream) RowDot(x, y, dst gpu.Tensor) {
	s.run("row dot", func() {
		if dst.Contiguous() {
			kernels.RowDot(s.pool, matrix(x), matrix(y), slice[float32](dst))
			return
		}
		out := make([]float32, dst.Rows)
		kernels.RowDot(s.pool, matrix(x), matrix(y), out)
		d := matrix(dst)
		for i, v := range out {
			d.Row(i)[0] = v
		}
	})
}

func (s *stream) ScaleRowsAdd(alpha float32, scales, x, dst gpu.Tensor) {
	s.run("scale rows add", func() {
		kernels.ScaleRowsAdd(s.pool, alpha, matrix(scales), matrix(x), matrix(dst))
	})
}

func (s *stream) SquaredDistances(alpha float32, x, y, dst gpu.Tensor) {
	s.run("squared distances", func() {
		out := matrix(dst)
		kernels.PairwiseSquaredDistance(s.pool, matrix(x), matrix(y), out)
		scaleRows(s.pool, out, alpha)
	})
}

// scaleRows multiplies every element of m by alpha.
func scaleRows(p *kernels.Pool, m kernels.Matrix, alpha float32) {
	p.For(m.Rows, rowGrain(m.Cols), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row := m.Row(i)
			for j := range row {
				row[j] *= alpha
			}
		}
	})
}

func (s *stream) SetElements(t, index gpu.Tensor, value float32) {
	s.run("set elements", func() {
		m := matrix(t)
		for _, i := range slice[uint32](index) {
			m.Row(int(i) / m.Cols)[int(i)%m.Cols] = value // a row outside panics: the stream's error
		}
	})
}

func (s *stream) Tanh(t gpu.Tensor) {
	s.run("tanh", func() { kernels.Tanh(s.pool, slice[float32](t), slice[float32](t)) })
}

func (s *stream) TanhBackward(y, d gpu.Tensor) {
	s.run("tanh backward", func() {
		kernels.TanhBackward(s.pool, slice[float32](y), slice[float32](d))
	})
}

func (s *stream) ScatterAddRows(dst, index, src gpu.Tensor) {
	s.run("scatter add", func() { kernels.ScatterAddRows(s.pool, matrix(dst), slice[uint32](index), matrix(src)) })
}

func (s *stream) Adagrad(o gpu.AdagradOptions, param, grad, sum gpu.Tensor) {
	s.run("adagrad", func() {
		kernels.Adagrad(s.pool, kernels.AdagradOptions{LR: o.LR, Epsilon: o.Epsilon}, slice[float32](param), slice[float32](grad), slice[float32](sum))
	})
}

func (s *stream) AdagradRows(o gpu.AdagradOptions, table, index, grad, sum gpu.Tensor) {
	s.run("adagrad rows", func() {
		kernels.AdagradRows(s.pool, kernels.AdagradOptions{LR: o.LR, Epsilon: o.Epsilon}, slice[uint32](index), matrix(table), matrix(grad), matrix(sum))
	})
}

func (s *stream) AdamRows(o gpu.AdamOptions, table, index, grad, m, v gpu.Tensor) {
	s.run("adam rows", func() {
		kernels.AdamRows(s.pool, adamOptions(o), slice[uint32](index), matrix(table), matrix(grad), matrix(m), matrix(v))
	})
}

func (s *stream) LinkLoss(o gpu.LinkLossOptions, scores, grad, stat gpu.Tensor) {
	s.run("link loss", func() {
		x, d, out := matrix(scores), matrix(grad), slice[float64](stat)
		if o.Loss == gpu.SoftmaxLoss {
			loss, first := kernels.SoftmaxFirst(s.pool, x, d)
			out[0], out[1] = loss, float64(first)
			return
		}
		losses, first := make([]float64, x.Rows), make([]bool, x.Rows)
		s.pool.For(x.Rows, rowGrain(16*x.Cols), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				if o.Loss == gpu.LogisticLoss {
					losses[i], first[i] = logistic(x.Row(i), d.Row(i))
				} else {
					losses[i], first[i] = margin(o.Margin, x.Row(i), d.Row(i))
				}
			}
		})
		out[0], out[1] = 0, 0
		for i, l := range losses { // in order: the sum does not depend on threads
			out[0] += l
			if first[i] {
				out[1]++
			}
		}
	})
}

// valid counts the negatives of a row that are not masked and reports whether
// the positive scores higher than all of them. Scores that are not numbers count: they must not go unseen.
func valid(x []float32) (n int, first bool) {
	first = true
	for _, v := range x[1:] {
		if !(v <= gpu.Masked) {
			n++
		}
		first = first && v < x[0]
	}
	return n, first
}

// logistic is a row of the logistic loss.
func logistic(x, d []float32) (loss float64, first bool) {
	n, first := valid(x)
	softplus := func(v float64) float64 { return math.Max(v, 0) + math.Log1p(math.Exp(-math.Abs(v))) }
	s := float64(x[0])
	loss = softplus(-s)
	d[0] = float32(-1 / (1 + math.Exp(s)))
	for j, v := range x[1:] {
		if v <= gpu.Masked {
			d[1+j] = 0
			continue
		}
		loss += softplus(float64(v)) / float64(n)
		d[1+j] = float32(1 / (1 + math.Exp(-float64(v))) / float64(n))
	}
	return loss, first
}

// margin is a row of the margin loss.
func margin(m float32, x, d []float32) (loss float64, first bool) {
	n, first := valid(x)
	s, inv, active := x[0], 1/float32(max(n, 1)), 0
	for j, v := range x[1:] {
		if over := m - s + v; v <= gpu.Masked || over <= 0 {
			d[1+j] = 0
		} else {
			loss += float64(over)
			d[1+j] = inv
			active++
		}
	}
	if !(s > gpu.Masked) { // distances that overflow make all scores of a row the same, which would be no loss
		loss = math.NaN()
	}
	d[0] = -inv * float32(active)
	return loss / float64(max(n, 1)), first
}
