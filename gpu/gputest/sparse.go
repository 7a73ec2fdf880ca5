package gputest

import (
	"errors"
	"slices"

	"github.com/gstore/gstore/gpu"
)

// sparse compares products by sparse rows with those by the same rows with their zeros, to the bit.
func sparse(b *bench) {
	const rows, cols, n = 50, 70, 33
	table, x := b.matrix(rows, cols, 0)
	indptr, columns, values := []int32{0}, []int32(nil), []float32(nil)
	for i := range x {
		if i%11 != 5 {
			x[i] = 0
		} else {
			columns, values = append(columns, int32(i%cols)), append(values, x[i])
		}
		if i%cols == cols-1 {
			indptr = append(indptr, int32(len(columns)))
		}
	}
	b.q.Upload(table, bytesOf(x))
	index := b.a.Uint32s(b.q, []uint32{3, 49, 0, 3, 17})
	s := gpu.Sparse{Cols: cols, Index: index, Indptr: b.a.Int32s(b.q, indptr), Columns: b.a.Int32s(b.q, columns), Values: b.a.Float32s(b.q, values)}
	w, _ := b.matrix(cols, n, 3)
	dy, _ := b.matrix(5, n, 1)
	if !b.dev.Info().Sparse {
		b.q.SparseGemm(false, s, w, b.a.Matrix(b.q, 5, n))
		b.wantShape("sparse gemm")
		return
	}
	dense := b.a.Matrix(b.q, 5, cols)
	b.q.Gather(dense, table, index)
	want, got := b.a.Matrix(b.q, 5, n), b.a.Matrix(b.q, 5, n)
	b.q.Gemm(gpu.GemmOptions{}, dense, w, want)
	b.q.SparseGemm(false, s, w, got)
	if !slices.Equal(b.read(want), b.read(got)) {
		b.Error("products differ")
	}
	want, got = b.a.Matrix(b.q, cols, n), b.a.Matrix(b.q, cols, n)
	b.q.Gemm(gpu.GemmOptions{TransA: true}, dense, dy, want)
	b.q.SparseGemm(true, s, dy, got)
	if !slices.Equal(b.read(want), b.read(got)) {
		b.Error("products of the transpose differ")
	}
	b.q.SparseGemm(true, s.Head(4), dy, got)
	b.wantShape("sparse gemm of other rows")
}

// wantShape fails unless what was issued last is refused for its shapes.
func (b *bench) wantShape(what string) {
	b.Helper()
	if err := b.q.Sync(b.Context()); !errors.Is(err, gpu.ErrShape) {
		b.Errorf("%s: error %v, expected ErrShape", what, err)
	}
}
