package kernels

import (
	"fmt"
	"unsafe"
)

// Sparse is rows of a table most of whose elements are 0, in compressed rows: row r of the table has Values[k] in column Columns[k],
// ascending, for Indptr[r] ≤ k < Indptr[r+1]. Row i of the matrix is row Index[i] of the table.
type Sparse struct {
	Cols    int
	Index   []uint32
	Indptr  []int32
	Columns []int32
	Values  []float32
}

// row returns the columns and the values of row i.
func (s *Sparse) row(i int) ([]uint32, []float32) {
	r := s.Index[i]
	from, to := s.Indptr[r], s.Indptr[r+1]
	return asUint32(s.Columns[from:to]), s.Values[from:to]
}

// check looks at the matrix's rows, not at all of the table, and counts their elements.
func (s *Sparse) check(p *Pool) (elements int) {
	checkLen("the table's values", len(s.Values), len(s.Columns))
	checkIndices(p, "index", s.Index, len(s.Indptr)-1)
	most := p.kernels().maxUint32
	for _, r := range s.Index {
		from, to := s.Indptr[r], s.Indptr[r+1]
		if from < 0 || to < from || int(to) > len(s.Columns) {
			panic(fmt.Sprintf("kernels: row %d of a sparse table has elements %d to %d of %d", r, from, to, len(s.Columns)))
		}
		if last := most(asUint32(s.Columns[from:to])); from < to && int64(last) >= int64(s.Cols) {
			panic(fmt.Sprintf("kernels: row %d of a sparse table is in column %d of %d", r, last, s.Cols))
		}
		elements += int(to - from)
	}
	return elements
}

// SparseGemm computes c = a·b, or c = aᵀ·b with trans, to the bits that [Gemm] gives of a with its zeros, as long as b is finite. a is m×k, c
// m×n and b k×n; with trans c is k×n and b m×n. c does not overlap b. A pool with BF16 rounds as Gemm does not: float32 it stays.
func SparseGemm(p *Pool, trans bool, a Sparse, b, c Matrix) {
	elements := a.check(p)
	m, k := len(a.Index), a.Cols
	if trans {
		m, k = k, m
	}
	if b.Rows != k {
		panic(fmt.Sprintf("kernels: sparse gemm of op(a) %d×%d and b %d×%d", m, k, b.Rows, b.Cols))
	}
	b.check("b")
	c.checkShape("c", m, b.Cols)
	if m == 0 || c.Cols == 0 {
		return
	}
	if trans {
		sparseTransposed(p, a, elements, b, c)
		return
	}
	p.For(m, sparseGrain(elements, m, c.Cols), func(lo, hi int) {
		s := newSparseSum(p, 1, c.Cols, k)
		defer s.close(p)
		for i := lo; i < hi; i++ {
			columns, values := a.row(i)
			s.row(c.Row(i), columns, values, b)
		}
	})
}

// sparseSum makes rows of a product as [Gemm] does, of few columns by its tiles, and so to its bits. Where Gemm adds pieces of the inner
// dimension pairwise, it does too.
type sparseSum struct {
	t             *table
	panel, edge   []float32 // rows of b, packed; a tile where c has fewer columns left
	piece, pieces int
	sums          []float32 // of pieces
}

// newSparseSum is for rows of n columns whose inner dimension, k, is cut into so many parts.
func newSparseSum(p *Pool, parts, n, k int) sparseSum {
	s := sparseSum{t: p.kernels(), pieces: 1}
	s.panel, s.edge = p.floats(gemmKC*s.t.gemm.nr), p.floats(s.t.gemm.nr)
	if parts > 1 {
		s.piece = (k-1)/parts + 1
		s.pieces = (k-1)/s.piece + 1
		s.sums = p.floats(s.pieces * n)
	}
	return s
}

func (s *sparseSum) close(p *Pool) {
	for _, b := range [][]float32{s.panel, s.edge, s.sums} {
		if b != nil {
			p.putFloats(b)
		}
	}
}

// row sets out to Σ values[k] · row index[k] of b. index ascends.
func (s *sparseSum) row(out []float32, index []uint32, values []float32, b Matrix) {
	if s.pieces == 1 {
		s.sum(out, index, values, b)
		return
	}
	part := func(i int) []float32 { return s.sums[i*len(out) : (i+1)*len(out)] }
	for i := range s.pieces {
		n := 0
		for n < len(index) && int(index[n]) < (i+1)*s.piece {
			n++
		}
		s.sum(part(i), index[:n], values[:n], b)
		index, values = index[n:], values[n:]
	}
	for step := 1; step < s.pieces; step *= 2 {
		for i := 0; i+step < s.pieces; i += 2 * step {
			s.t.add(part(i), part(i+step))
		}
	}
	copy(out, part(0))
}

// sum is row of one piece.
func (s *sparseSum) sum(out []float32, index []uint32, values []float32, b Matrix) {
	if len(index) == 0 {
		clear(out)
		return
	}
	if len(out) >= s.t.fusedLanes { // rows of b are read where they are
		table := b.AsRows()
		s.t.sumFused(out, nil, index, len(index), table.Data, table.Stride, 1, values, 1)
		return
	}
	nr := s.t.gemm.nr
	for q := 0; q < len(out); q += nr {
		cols := min(nr, len(out)-q)
		of := s.t.gemm.of(cols, s.t.gemmNarrow)
		to := out[q : q+cols]
		if cols < of.nr {
			to = s.edge[:of.nr]
		}
		g := gemmTile{b: unsafe.Pointer(&s.panel[0]), c: unsafe.Pointer(&to[0]), csa: 1, ldc: of.nr, rows: 1}
		for k := 0; k < len(index); k += gemmKC {
			part := index[k:min(k+gemmKC, len(index))]
			for l, row := range part {
				at := s.panel[l*of.nr : (l+1)*of.nr]
				clear(at[copy(at, b.Data[int(row)*b.Stride+q:][:cols]):])
			}
			g.a, g.k, g.load = unsafe.Pointer(&values[k]), len(part), k > 0
			of.run(&g)
		}
		if cols < of.nr {
			copy(out[q:], to[:cols])
		}
	}
}

// sparseGrain is how many rows of m make a piece of work where so many elements are multiplied by rows of cols.
func sparseGrain(elements, m, cols int) int {
	return max(1, aggregateGrain/(max(cols, 1)*((elements+m)/m)))
}

// sparseTransposed sorts a's elements, so many, by column.
func sparseTransposed(p *Pool, a Sparse, n int, b, c Matrix) {
	words, values := p.uints(a.Cols+1+n), p.floats(n)
	defer p.putUints(words)
	defer p.putFloats(values)
	starts, rows := words[:a.Cols+1], words[a.Cols+1:]
	clear(starts)
	for i := range a.Index {
		columns, _ := a.row(i)
		for _, col := range columns {
			starts[col+1]++
		}
	}
	for col := range a.Cols {
		starts[col+1] += starts[col]
	}
	for i := range a.Index {
		columns, of := a.row(i)
		for k, col := range columns { // starts[col] moves to its end …
			at := starts[col]
			starts[col], rows[at], values[at] = at+1, uint32(i), of[k]
		}
	}
	copy(starts[1:], starts) // … which is the next one's start
	starts[0] = 0
	p.For(a.Cols, sparseGrain(n, a.Cols, c.Cols), func(lo, hi int) {
		s := newSparseSum(p, gemmParts(a.Cols, c.Cols, len(a.Index)), c.Cols, len(a.Index))
		defer s.close(p)
		for col := lo; col < hi; col++ {
			from, to := starts[col], starts[col+1]
			s.row(c.Row(col), rows[from:to], values[from:to], b)
		}
	})
}
