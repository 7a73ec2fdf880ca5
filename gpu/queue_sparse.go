package gpu

import "github.com/gstore/gstore/blocks"

// Sparse is rows of a table of float32 most of whose elements are 0: row r of the table has Values[k] in column Columns[k],
// ascending, for Indptr[r] ≤ k < Indptr[r+1]. Row i of the matrix is row Index[i] of the table. The zero Sparse is none.
type Sparse struct {
	Cols    int
	Index   Tensor // Uint32, one a row
	Indptr  Tensor // Int32, the table's rows + 1
	Columns Tensor // Int32, one an element of the table, each < Cols
	Values  Tensor // Float32, one an element
}

// IsZero reports whether s is the zero Sparse: none.
func (s Sparse) IsZero() bool { return s.Cols == 0 }

// Rows returns the number of rows.
func (s Sparse) Rows() int { return s.Index.Cols }

// Head returns the first n rows.
func (s Sparse) Head(n int) Sparse {
	s.Index = s.Index.View(0, 0, 1, n)
	return s
}

// SparseStream is a [Stream] that multiplies by sparse matrices: those of devices whose [Info].Sparse says so.
type SparseStream interface {
	SparseGemm(trans bool, a Sparse, b, c Tensor)
}

// SparseGemm computes C = A·B, or C = Aᵀ·B with trans, to the bits of [Queue.Gemm] with A's zeros. C is [rows×n], with trans
// [A.Cols×n], and does not overlap B.
func (q *Queue) SparseGemm(trans bool, a Sparse, b, c Tensor) {
	const op = "sparse gemm"
	m, k := a.Rows(), a.Cols
	if trans {
		m, k = k, m
	}
	s, ok := q.stream.(SparseStream)
	checks := []error{vector(op, "A's index", a.Index, blocks.Uint32, a.Rows()), vector(op, "A's indptr", a.Indptr, blocks.Int32, a.Indptr.Cols), vector(op, "A's columns", a.Columns, blocks.Int32, a.Columns.Cols),
		vector(op, "A's values", a.Values, blocks.Float32, a.Columns.Cols), matrix(op, "B", b, k, -1), matrix(op, "C", c, m, b.Cols), disjoint(op, c, b)}
	if !ok {
		checks = append(checks, shapef(op, "%s does not multiply by sparse matrices", q.dev.Info().Name))
	}
	if q.ok(checks...) && c.Len() > 0 {
		s.SparseGemm(trans, a, b, c)
	}
}
