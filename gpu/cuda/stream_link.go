//go:build cuda

package cuda

import (
	"math"

	"gorgonia.org/cu"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/cuda/driver"
)

// sumStats issues the sum of n rows' losses and hits into stat.
func (s *stream) sumStats(losses, hits cu.DevicePtr, n int, stat gpu.Tensor) {
	var a args
	s.launch("sum_stats", driver.Shape{Threads: threads}, a.Ptr(losses).Ptr(hits).I32(n).Ptr(at(stat)))
}

func (s *stream) SoftmaxCrossEntropy(logits, labels, grad, stat gpu.Tensor) {
	if !s.begin(opSoftmaxCrossEntropy) {
		return
	}
	n := logits.Rows
	t := s.temporary(8*int64(n), 8*int64(n), 4)
	var count args
	count.Ptr(at(labels)).I32(n).I32(logits.Cols).Ptr(t[2])
	s.launch("count_labels", driver.Shape{Threads: threads}, s.guard(&count, opSoftmaxCrossEntropy))
	s.softmaxRows(logits, at(labels), t[2], grad, t[0], t[1])
	s.sumStats(t[0], t[1], n, stat)
}

func (s *stream) NumberLoss(o gpu.NumberLossOptions, outputs, labels, grad, stat gpu.Tensor) {
	if !s.begin(opNumberLoss) {
		return
	}
	n := outputs.Rows
	t := s.temporary(8*int64(n), 8*int64(n), 4)
	var count, a args
	count.Ptr(at(labels)).I32(n).I32(math.MaxInt32).Ptr(t[2])
	s.launch("count_labels", driver.Shape{Threads: threads}, s.guard(&count, opNumberLoss))
	matrix(&a, outputs).Ptr(at(labels)).Ptr(t[2]).F32(o.Mean).F32(o.Deviation)
	s.launch("number_rows", s.over(n), matrix(&a, grad).Ptr(t[0]).Ptr(t[1]).I32(n))
	s.sumStats(t[0], t[1], n, stat)
}

func (s *stream) MultiLabelLoss(sets, logits, labels, grad, stat gpu.Tensor) {
	if !s.begin(opMultiLabelLoss) {
		return
	}
	n, known := logits.Rows, sets.Len()/((logits.Cols+31)/32)
	t := s.temporary(8*int64(n), 8*int64(n), 4)
	var count, a args
	count.Ptr(at(labels)).I32(n).I32(known).Ptr(t[2])
	s.launch("count_labels", driver.Shape{Threads: threads}, s.guard(&count, opMultiLabelLoss))
	matrix(&a, logits).Ptr(at(sets)).Ptr(at(labels)).Ptr(t[2])
	s.launch("multi_rows", s.over(32*n), matrix(&a, grad).Ptr(t[0]).Ptr(t[1]).I32(n).I32(logits.Cols).I32(known))
	s.sumStats(t[0], t[1], n, stat)
}

func (s *stream) softmaxRows(x gpu.Tensor, labels, by cu.DevicePtr, grad gpu.Tensor, losses, hits cu.DevicePtr) {
	if x.Rows == 0 {
		return
	}
	var a args
	matrix(&a, x).Ptr(labels).Ptr(by)
	s.launch("softmax_rows", s.over(32*x.Rows), matrix(&a, grad).Ptr(losses).Ptr(hits).I32(x.Rows).I32(x.Cols))
}

func (s *stream) LinkLoss(o gpu.LinkLossOptions, scores, grad, stat gpu.Tensor) {
	if !s.begin(opLinkLoss) {
		return
	}
	n := scores.Rows
	t := s.temporary(8*int64(n), 8*int64(n))
	if o.Loss == gpu.SoftmaxLoss {
		s.softmaxRows(scores, 0, 0, grad, t[0], t[1])
	} else {
		var a args
		matrix(&a, scores)
		matrix(&a, grad).I32(btoi(o.Loss == gpu.LogisticLoss)).F32(o.Margin).F32(gpu.Masked).Ptr(t[0]).Ptr(t[1]).I32(n).I32(scores.Cols)
		s.launch("link_rows", s.over(32*n), &a)
	}
	s.sumStats(t[0], t[1], n, stat)
}

func (s *stream) Mul(dst, x gpu.Tensor) {
	if s.begin(opMul) {
		var a args
		s.flat("mul", dst.Len(), a.Ptr(at(dst)).Ptr(at(x)))
	}
}

func (s *stream) MulAdd(dst, x, y gpu.Tensor) {
	if s.begin(opMulAdd) {
		var a args
		s.flat("mul_add", dst.Len(), a.Ptr(at(dst)).Ptr(at(x)).Ptr(at(y)))
	}
}

func (s *stream) ComplexMulAdd(conjugate bool, dst, x, y gpu.Tensor) {
	if s.begin(opComplexMulAdd) {
		var a args
		matrix(&a, dst)
		matrix(&a, x)
		s.rows("complex_mul_add", dst.Rows, dst.Cols/2, matrix(&a, y).I32(btoi(conjugate)))
	}
}

func (s *stream) RowDot(x, y, dst gpu.Tensor) {
	if s.begin(opRowDot) {
		s.rowDots(x, y, at(dst), dst.Stride)
	}
}

func (s *stream) rowDots(x, y gpu.Tensor, dst cu.DevicePtr, stride int) {
	var a args
	matrix(&a, x)
	matrix(&a, y).Ptr(dst).I64(stride).I32(x.Rows).I32(x.Cols)
	s.launch("row_dots", s.over(32*x.Rows), &a)
}

func (s *stream) ScaleRowsAdd(alpha float32, scales, x, dst gpu.Tensor) {
	if s.begin(opScaleRowsAdd) {
		var a args
		matrix(&a, dst)
		matrix(&a, x)
		s.rows("scale_rows_add", dst.Rows, dst.Cols, matrix(&a, scales).F32(alpha))
	}
}

// SquaredDistances multiplies exactly, whatever products are asked for: differences of large numbers remain.
func (s *stream) SquaredDistances(alpha float32, x, y, dst gpu.Tensor) {
	if !s.begin(opSquaredDistances) {
		return
	}
	s.gemm(Exact, gpu.GemmOptions{TransB: true}, x, y, dst)
	t := s.temporary(4*int64(x.Rows), 4*int64(y.Rows))
	s.rowDots(x, x, t[0], 1)
	s.rowDots(y, y, t[1], 1)
	var a args
	s.rows("squared_distances", dst.Rows, dst.Cols, matrix(&a, dst).Ptr(t[0]).Ptr(t[1]).F32(alpha))
}

func (s *stream) SetElements(t, index gpu.Tensor, value float32) {
	if s.begin(opSetElements) {
		var a args
		matrix(&a, t).Ptr(at(index)).I32(index.Cols).I32(t.Rows).I32(t.Cols).F32(value)
		s.launch("set_elements", s.over(index.Cols), s.guard(&a, opSetElements))
	}
}

func (s *stream) Tanh(t gpu.Tensor) {
	if s.begin(opTanh) {
		var a args
		s.flat("tanh_forward", t.Len(), a.Ptr(at(t)))
	}
}

func (s *stream) TanhBackward(y, d gpu.Tensor) {
	if s.begin(opTanhBackward) {
		var a args
		s.flat("tanh_backward", d.Len(), a.Ptr(at(y)).Ptr(at(d)))
	}
}

// adamArgs packs a step's constants.
func adamArgs(a *args, o gpu.AdamOptions) *args {
	lr, inv2 := o.StepRates()
	return a.F32(o.Beta1).F32(float32(1 - float64(o.Beta1))).F32(o.Beta2).F32(float32(1 - float64(o.Beta2))).F32(o.WeightDecay).F32(lr).F32(inv2).F32(o.Epsilon)
}

func (s *stream) Adam(o gpu.AdamOptions, param, grad, m, v gpu.Tensor) {
	if s.begin(opAdam) {
		var a args
		s.flat("adam", param.Len(), adamArgs(&a, o).Ptr(at(o.Rates)).Ptr(at(param)).Ptr(at(grad)).Ptr(at(m)).Ptr(at(v)).Ptr(s.status))
	}
}

func (s *stream) AdamRows(o gpu.AdamOptions, table, index, grad, m, v gpu.Tensor) {
	if s.begin(opAdamRows) {
		lanes := lanesOf(table.Cols, 1)
		var a args
		matrix(adamArgs(&a, o), table).Ptr(at(index))
		matrix(&a, grad)
		matrix(&a, m)
		matrix(&a, v).I32(grad.Rows).I32(table.Rows).I32(table.Cols).I32(lanes)
		s.launch("adam_rows", s.over(grad.Rows*lanes), s.guard(&a, opAdamRows))
	}
}

func (s *stream) Adagrad(o gpu.AdagradOptions, param, grad, sum gpu.Tensor) {
	if s.begin(opAdagrad) {
		var a args
		s.flat("adagrad", param.Len(), a.F32(o.LR).F32(o.Epsilon).Ptr(at(param)).Ptr(at(grad)).Ptr(at(sum)).Ptr(s.status))
	}
}

func (s *stream) AdagradRows(o gpu.AdagradOptions, table, index, grad, sum gpu.Tensor) {
	if s.begin(opAdagradRows) {
		lanes := lanesOf(table.Cols, 1)
		var a args
		matrix(a.F32(o.LR).F32(o.Epsilon), table).Ptr(at(index))
		matrix(&a, grad)
		matrix(&a, sum).I32(grad.Rows).I32(table.Rows).I32(table.Cols).I32(lanes)
		s.launch("adagrad_rows", s.over(grad.Rows*lanes), s.guard(&a, opAdagradRows))
	}
}
