package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// sparsed keeps about so large a share of a's elements, and returns them in compressed rows too, of a table in which they lie backwards.
func sparsed(r *rand.Rand, a Matrix, share float64) Sparse {
	s := Sparse{Cols: a.Cols, Indptr: []int32{0}}
	for i := a.Rows - 1; i >= 0; i-- {
		s.Index = append(s.Index, uint32(i))
		row := a.Row(i)
		for j := range row {
			if r.Float64() >= share {
				row[j] = 0
				continue
			}
			s.Columns, s.Values = append(s.Columns, int32(j)), append(s.Values, row[j])
		}
		s.Indptr = append(s.Indptr, int32(len(s.Columns)))
	}
	return s
}

// The bits are those of Gemm, of products in pieces too, whatever the instruction set.
func TestSparseGemm(t *testing.T) {
	split := gemmShape{13, 21, 3*gemmSplitK + 17}
	if gemmParts(split.m, split.n, split.k) < 2 {
		t.Fatal("the shape is not split: the test is void")
	}
	for _, s := range []gemmShape{{0, 3, 4}, {4, 3, 0}, {3, 0, 4}, {1, 1, 1}, {7, 17, 9}, {50, 47, 300}, {300, 6, 50}, {900, 128, 1433}, split} {
		for _, trans := range []bool{false, true} {
			r := newRand(uint64(s.k))
			rows, cols := s.m, s.k
			if trans {
				rows, cols = cols, rows
			}
			a, b, c := strided(r, rows, cols, 2), strided(r, s.k, s.n, 1), strided(r, s.m, s.n, 3)
			sparse := sparsed(r, a, .05)
			for _, p := range pools() {
				want, got := clone(c), clone(c)
				Gemm(p, GemmOptions{TransA: trans}, a, b, want)
				SparseGemm(p, trans, sparse, b, got)
				checkBits(t, fmt.Sprintf("%s %v trans %v", p.name(), s, trans), compact(got), compact(want))
				checkGaps(t, got)
			}
		}
	}
	s := Sparse{Cols: 3, Index: []uint32{0}, Indptr: []int32{0, 1}, Columns: []int32{3}, Values: []float32{1}}
	mustPanic(t, "column", func() { SparseGemm(nil, false, s, Dense(make([]float32, 6), 3, 2), Dense(make([]float32, 2), 1, 2)) })
	s.Columns[0] = 2
	mustPanic(t, "shape", func() { SparseGemm(nil, false, s, Dense(make([]float32, 4), 2, 2), Dense(make([]float32, 2), 1, 2)) })
	for _, bad := range []Sparse{{Cols: 3, Index: []uint32{1}, Indptr: s.Indptr, Columns: s.Columns, Values: s.Values},
		{Cols: 3, Index: s.Index, Indptr: []int32{0, 2}, Columns: s.Columns, Values: s.Values}, {Cols: 3, Index: s.Index, Indptr: []int32{1, 0}, Columns: s.Columns, Values: s.Values}} {
		mustPanic(t, "table", func() { SparseGemm(nil, false, bad, Dense(make([]float32, 6), 3, 2), Dense(make([]float32, 2), 1, 2)) })
	}
}

func BenchmarkSparseGemm(b *testing.B) {
	const rows, cols, out = 3000, 3703, 128
	r := newRand(1)
	a, w, y := strided(r, rows, cols, 0), strided(r, cols, out, 0), strided(r, rows, out, 0)
	s := sparsed(r, a, .009)
	p := pools()[len(pools())-1]
	b.Run("dense", func(b *testing.B) {
		for b.Loop() {
			Gemm(p, GemmOptions{}, a, w, y)
			Gemm(p, GemmOptions{TransA: true}, a, y, w)
		}
	})
	b.Run("sparse", func(b *testing.B) {
		for b.Loop() {
			SparseGemm(p, false, s, w, y)
			SparseGemm(p, true, s, y, w)
		}
	})
}
