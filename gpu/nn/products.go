package nn

import (
	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

// productBytes are about what rows of an input that are converted at a time take.
const productBytes = 1 << 20

// productRows is how many rows of so many columns that are.
func productRows(cols int) int { return max(1, productBytes/(4*max(cols, 1))) }

// products returns the first n rows of an input without index times w, [n × w.Cols]: a row's are the same whatever rows are beside it. Rows that
// are not float32 side by side are converted some at a time.
func products(p *Pass, layer string, n int, in Input, w gpu.Tensor) gpu.Tensor {
	q := p.Queue
	y := p.Arena.Matrix(q, n, w.Cols)
	if !in.Sparse.IsZero() || len(in.Tables) == 1 && in.Tables[0].Elem == blocks.Float32 {
		if x := wholeOperand(p, layer, n, w.Rows, in); q.Err() == nil {
			x.times(q, w, y)
		}
		return y
	}
	rows := productRows(w.Rows)
	x := p.Arena.Matrix(q, min(n, rows), w.Rows)
	for lo := 0; lo < n && q.Err() == nil; lo += rows {
		part := x.Head(min(rows, n-lo))
		if states(p, layer, part.Rows, in.Rows(lo, part.Rows), part) {
			q.Gemm(gpu.GemmOptions{}, part, w, y.View(lo, 0, part.Rows, w.Cols))
		}
	}
	return y
}
