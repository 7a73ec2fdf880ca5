package gpu

import (
	"fmt"

	"github.com/gstore/gstore/blocks"
)

// Operations of link prediction: what decoders are made of, and steps on some
// rows of an embedding table.

// AdagradOptions is one step of Adagrad (Duchi, Hazan and Singer, 2011, section 1.1 with a
// diagonal matrix): sum += g², param −= LR·g/(√sum + Epsilon).
type AdagradOptions struct {
	LR, Epsilon float32
}

// LinkStream is the part of a [Stream] that link prediction needs.
type LinkStream interface {
	Mul(dst, x Tensor)
	MulAdd(dst, x, y Tensor)
	ComplexMulAdd(conjugate bool, dst, x, y Tensor)
	RowDot(x, y, dst Tensor)
	ScaleRowsAdd(alpha float32, scales, x, dst Tensor)
	SquaredDistances(alpha float32, x, y, dst Tensor)
	SetElements(t, index Tensor, value float32)
	Tanh(t Tensor)
	TanhBackward(y, d Tensor)
	ScatterAddRows(dst, index, src Tensor)
	Adagrad(o AdagradOptions, param, grad, sum Tensor)
	AdagradRows(o AdagradOptions, table, index, grad, sum Tensor)
	AdamRows(o AdamOptions, table, index, grad, m, v Tensor)
	LinkLoss(o LinkLossOptions, scores, grad, stat Tensor)
}

// LinkLoss names a loss of one positive and several negatives that share its query.
type LinkLoss uint8

// Losses. s is the positive's score, sₙ those of the negatives.
const (
	// SoftmaxLoss is −log(exp s / (exp s + Σ exp sₙ)), the loss of MariusGNN (section 7.1).
	SoftmaxLoss LinkLoss = iota
	// LogisticLoss is log(1+exp −s) + mean log(1+exp sₙ) (ComplEx, section 3, negatives as one example).
	LogisticLoss
	// MarginLoss is mean max(0, Margin − s + sₙ) (TransE, eq. 1).
	MarginLoss
)

// String returns "softmax", "logistic" or "margin".
func (l LinkLoss) String() string {
	switch l {
	case SoftmaxLoss:
		return "softmax"
	case LogisticLoss:
		return "logistic"
	case MarginLoss:
		return "margin"
	}
	return fmt.Sprintf("LinkLoss(%d)", uint8(l))
}

// LinkLossOptions configures [Queue.LinkLoss].
type LinkLossOptions struct {
	Loss   LinkLoss
	Margin float32 // of MarginLoss
}

// Masked is a score that counts for nothing: [Queue.SetElements] marks false
// negatives with it.
const Masked = float32(-1e30)

func same(op string, dst Tensor, ts ...Tensor) error {
	if err := matrix(op, "dst", dst, -1, -1); err != nil {
		return err
	}
	for _, t := range ts {
		if err := matrix(op, "operand", t, dst.Rows, dst.Cols); err != nil {
			return err
		}
	}
	return nil
}

// Mul multiplies dst by x element by element; both contiguous and of one shape.
func (q *Queue) Mul(dst, x Tensor) {
	if q.ok(same("mul", dst, x), contiguous("mul", dst, x)) && dst.Len() > 0 {
		q.stream.Mul(dst, x)
	}
}

// MulAdd adds x·y, element by element, to dst; all contiguous and of one shape.
func (q *Queue) MulAdd(dst, x, y Tensor) {
	if q.ok(same("mul add", dst, x, y), contiguous("mul add", dst, x, y)) && dst.Len() > 0 {
		q.stream.MulAdd(dst, x, y)
	}
}

// ComplexMulAdd adds x·y, or x·conj(y), to dst. The first half of a row holds
// real, the second imaginary parts.
func (q *Queue) ComplexMulAdd(conjugate bool, dst, x, y Tensor) {
	var bad error
	if dst.Cols%2 != 0 {
		bad = shapef("complex mul add", "%v has an odd number of columns", dst)
	}
	if q.ok(same("complex mul add", dst, x, y), disjoint("complex mul add", dst, x), disjoint("complex mul add", dst, y), bad) && dst.Len() > 0 {
		q.stream.ComplexMulAdd(conjugate, dst, x, y)
	}
}

// RowDot sets dst [n×1] to the dot products of the rows of x and y [n×c].
func (q *Queue) RowDot(x, y, dst Tensor) {
	if q.ok(same("row dot", x, y), matrix("row dot", "dst", dst, x.Rows, 1), disjoint("row dot", dst, x), disjoint("row dot", dst, y)) && dst.Len() > 0 {
		q.stream.RowDot(x, y, dst)
	}
}

// ScaleRowsAdd adds alpha·scales[i]·x[i] to row i of dst; scales is [n×1], x and dst [n×c].
func (q *Queue) ScaleRowsAdd(alpha float32, scales, x, dst Tensor) {
	if q.ok(same("scale rows add", dst, x), matrix("scale rows add", "scales", scales, dst.Rows, 1),
		disjoint("scale rows add", dst, x), disjoint("scale rows add", dst, scales)) && dst.Len() > 0 {
		q.stream.ScaleRowsAdd(alpha, scales, x, dst)
	}
}

// SquaredDistances sets dst[i][j] to alpha·|x[i] − y[j]|²; x is [n×c], y [m×c], dst [n×m].
func (q *Queue) SquaredDistances(alpha float32, x, y, dst Tensor) {
	if q.ok(matrix("squared distances", "x", x, -1, -1), matrix("squared distances", "y", y, -1, x.Cols), matrix("squared distances", "dst", dst, x.Rows, y.Rows),
		disjoint("squared distances", dst, x), disjoint("squared distances", dst, y)) && dst.Len() > 0 {
		q.stream.SquaredDistances(alpha, x, y, dst)
	}
}

// SetElements sets the elements index of t to value; element (i, j) is i·Cols + j. index is uint32[1×k].
func (q *Queue) SetElements(t, index Tensor, value float32) {
	var bad error
	if int64(t.Len()) > 1<<32 {
		bad = shapef("set elements", "%v has more elements than 32 bits can number", t)
	}
	if q.ok(matrix("set elements", "t", t, -1, -1), vector("set elements", "index", index, blocks.Uint32, index.Cols), bad) && index.Len() > 0 {
		q.stream.SetElements(t, index, value)
	}
}

// Tanh replaces every element by its hyperbolic tangent.
func (q *Queue) Tanh(t Tensor) {
	if q.ok(same("tanh", t), contiguous("tanh", t)) && t.Len() > 0 {
		q.stream.Tanh(t)
	}
}

// TanhBackward turns the gradient d of y = tanh(x) into that of x, in place: d *= 1 − y².
func (q *Queue) TanhBackward(y, d Tensor) {
	if q.ok(same("tanh backward", d, y), contiguous("tanh backward", d, y)) && d.Len() > 0 {
		q.stream.TanhBackward(y, d)
	}
}

// ScatterAddRows adds row i of src [n×c] to row index[i] of dst [m×c]; rows that
// occur several times are summed in ascending i. index is uint32[1×n].
func (q *Queue) ScatterAddRows(dst, index, src Tensor) {
	if q.ok(matrix("scatter add", "dst", dst, -1, -1), matrix("scatter add", "src", src, -1, dst.Cols),
		vector("scatter add", "index", index, blocks.Uint32, src.Rows), disjoint("scatter add", dst, src)) && src.Len() > 0 {
		q.stream.ScatterAddRows(dst, index, src)
	}
}

func (o AdagradOptions) check() error {
	if !(o.LR >= 0) || !(o.Epsilon >= 0) {
		return fmt.Errorf("gpu: adagrad with learning rate %v and epsilon %v, expected 0 or more", o.LR, o.Epsilon)
	}
	return nil
}

// Adagrad takes one optimiser step: three contiguous tensors of one shape.
func (q *Queue) Adagrad(o AdagradOptions, param, grad, sum Tensor) {
	if q.ok(o.check(), same("adagrad", param, grad, sum), contiguous("adagrad", param, grad, sum)) && param.Len() > 0 {
		q.stream.Adagrad(o, param, grad, sum)
	}
}

// AdagradRows takes a step on the rows index of table and sum [m×c] with the rows of
// grad [n×c]. index, uint32[1×n], holds no row twice.
func (q *Queue) AdagradRows(o AdagradOptions, table, index, grad, sum Tensor) {
	if q.ok(o.check(), same("adagrad rows", table, sum), matrix("adagrad rows", "grad", grad, -1, table.Cols),
		vector("adagrad rows", "index", index, blocks.Uint32, grad.Rows)) && grad.Len() > 0 {
		q.stream.AdagradRows(o, table, index, grad, sum)
	}
}

// AdamRows takes a step of [Queue.Adam] on the rows index of table and its moments m and v [m×c] with the rows of
// grad [n×c]; other rows' moments stay as they are. index, uint32[1×n], holds no row twice.
func (q *Queue) AdamRows(o AdamOptions, table, index, grad, m, v Tensor) {
	if q.ok(o.check(), same("adam rows", table, m, v), matrix("adam rows", "grad", grad, -1, table.Cols),
		vector("adam rows", "index", index, blocks.Uint32, grad.Rows)) && grad.Len() > 0 {
		q.stream.AdamRows(o, table, index, grad, m, v)
	}
}

// LinkLoss computes from scores [n×(1+k)], the positive's in column 0, the
// gradient of the sum of the rows' losses (grad, the shape of scores) and stat float64[1×2]: that sum, and
// how many positives score higher than all their negatives. Negatives' scores at or below [Masked] count for nothing;
// a score that is not a number, or a positive's that is no finite one, makes the sum no finite number.
// grad may be scores.
func (q *Queue) LinkLoss(o LinkLossOptions, scores, grad, stat Tensor) {
	var bad error
	if o.Loss > MarginLoss {
		bad = fmt.Errorf("gpu: unknown link loss %v", o.Loss)
	}
	if q.ok(same("link loss", scores, grad), vector("link loss", "stat", stat, blocks.Float64, 2), bad) && scores.Len() > 0 {
		q.stream.LinkLoss(o, scores, grad, stat)
	}
}
