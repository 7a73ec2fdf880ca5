package nn

import (
	"fmt"

	"github.com/gstore/gstore/gpu"
)

// TakesSparse reports whether the first layer of c's model multiplies its input before all else, so that it may be [Input].Sparse. Models
// whose input is dropped out, precomputed or read a second time do not.
func (c *Config) TakesSparse() bool {
	return c.Kind().Sparse && c.Aggregator != "max" && c.InputDropout == 0 && !c.PrecomputedHop && !c.Residual && c.Order != OrderAggregate
}

// operand is what a first layer's weights multiply: a matrix [rows × in], or one most of whose elements are 0.
type operand struct {
	dense  gpu.Tensor
	sparse gpu.Sparse
}

// wholeOperand is [wholeInput] for a layer that multiplies it before all else.
func wholeOperand(p *Pass, layer string, n, in int, input Input) operand {
	s := input.Sparse
	if s.IsZero() {
		return operand{dense: wholeInput(p, layer, n, in, input)}
	}
	if s.Cols != in || s.Rows() < n || len(input.Tables) > 0 {
		p.Queue.Fail(fmt.Errorf("nn: %s: sparse input is %d×%d, beside %d tables, expected %d columns, %d rows or more and none: %w", layer, s.Rows(), s.Cols, len(input.Tables), in, n, gpu.ErrShape))
		return operand{}
	}
	return operand{sparse: s.Head(n)}
}

// head is the first n rows.
func (x operand) head(n int) operand {
	if x.sparse.IsZero() {
		return operand{dense: x.dense.Head(n)}
	}
	return operand{sparse: x.sparse.Head(n)}
}

// times sets y to x·w.
func (x operand) times(q *gpu.Queue, w, y gpu.Tensor) {
	if x.sparse.IsZero() {
		q.Gemm(gpu.GemmOptions{}, x.dense, w, y)
		return
	}
	q.SparseGemm(false, x.sparse, w, y)
}

// gradient sets dw to that of w in times, from that of y.
func (x operand) gradient(q *gpu.Queue, dy, dw gpu.Tensor) {
	if x.sparse.IsZero() {
		q.Gemm(gpu.GemmOptions{TransA: true}, x.dense, dy, dw)
		return
	}
	q.SparseGemm(true, x.sparse, dy, dw)
}
