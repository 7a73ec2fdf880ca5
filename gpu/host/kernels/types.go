package kernels

import (
	"fmt"
	"unsafe"

	"github.com/gstore/gstore/blocks"
)

// Matrix is a row-major view of float32 memory: element (i, j) is
// Data[i*Stride+j]. The columns between Cols and Stride are never touched.
// A matrix with no rows or no columns may have nil Data.
type Matrix struct {
	Data       []float32
	Rows, Cols int
	Stride     int // elements from one row to the next; ≥ Cols
}

// Dense views data as rows×cols without gaps.
func Dense(data []float32, rows, cols int) Matrix {
	return Matrix{Data: data, Rows: rows, Cols: cols, Stride: cols}
}

// Row returns row i.
func (m Matrix) Row(i int) []float32 {
	return m.Data[i*m.Stride : i*m.Stride+m.Cols : i*m.Stride+m.Cols]
}

// View returns the rows×cols part of m whose upper left element is (i, j); it
// shares memory with m.
func (m Matrix) View(i, j, rows, cols int) Matrix {
	if i < 0 || j < 0 || rows < 0 || cols < 0 || i+rows > m.Rows || j+cols > m.Cols {
		panic(fmt.Sprintf("kernels: view of rows %d:%d, columns %d:%d of a %d×%d matrix", i, i+rows, j, j+cols, m.Rows, m.Cols))
	}
	v := Matrix{Rows: rows, Cols: cols, Stride: m.Stride}
	if rows > 0 && cols > 0 {
		v.Data = m.Data[i*m.Stride+j:]
	}
	return v
}

// AsRows views the matrix as a table of float32 rows.
func (m Matrix) AsRows() Rows {
	r := Rows{Type: blocks.Float32, Dim: m.Cols, Stride: 4 * m.Stride, Count: m.Rows}
	if len(m.Data) > 0 {
		r.Data = unsafe.Slice((*byte)(unsafe.Pointer(&m.Data[0])), 4*len(m.Data))
	}
	return r
}

func (m Matrix) check(name string) {
	if m.Rows < 0 || m.Cols < 0 || m.Stride < m.Cols {
		panic(fmt.Sprintf("kernels: %s has %d rows, %d columns, stride %d", name, m.Rows, m.Cols, m.Stride))
	}
	if m.Rows == 0 || m.Cols == 0 {
		return
	}
	if need := (m.Rows-1)*m.Stride + m.Cols; len(m.Data) < need {
		panic(fmt.Sprintf("kernels: %s is %d×%d with stride %d and needs %d elements, has %d", name, m.Rows, m.Cols, m.Stride, need, len(m.Data)))
	}
}

func (m Matrix) checkShape(name string, rows, cols int) {
	m.check(name)
	if m.Rows != rows || m.Cols != cols {
		panic(fmt.Sprintf("kernels: %s is %d×%d, expected %d×%d", name, m.Rows, m.Cols, rows, cols))
	}
}

func checkLen(name string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("kernels: %s has %d elements, expected %d", name, got, want))
	}
}

// Rows is a table of rows in one of the feature element types: element j of
// row r lies at byte r*Stride + j*Type.Size(). It is what a macro-batch's
// column is ([buffer.Column] has the same fields), or a [Matrix] seen through
// [Matrix.AsRows]. Read-only.
type Rows struct {
	Data   []byte
	Count  int             // rows
	Dim    int             // elements a row
	Stride int             // bytes from one row to the next; ≥ Dim*Type.Size()
	Type   blocks.ElemType // Float32, Float16, BFloat16 or Int8
	// Scales multiply every row after conversion, element by element: those of an
	// int8 column. nil means 1.
	Scales []float32
}

func (r Rows) check(name string) {
	switch r.Type {
	case blocks.Float32, blocks.Float16, blocks.BFloat16, blocks.Int8:
	default:
		panic(fmt.Sprintf("kernels: %s has elements of type %v, expected float32, float16, bfloat16 or int8", name, r.Type))
	}
	if r.Scales != nil {
		checkLen(name+"'s scales", len(r.Scales), r.Dim)
	}
	width := r.Dim * r.Type.Size()
	if r.Count < 0 || r.Dim < 0 || r.Stride < width {
		panic(fmt.Sprintf("kernels: %s has %d rows of %d %v, stride %d bytes", name, r.Count, r.Dim, r.Type, r.Stride))
	}
	if r.Count == 0 || r.Dim == 0 {
		return
	}
	if need := (r.Count-1)*r.Stride + width; len(r.Data) < need {
		panic(fmt.Sprintf("kernels: %s has %d rows of stride %d and needs %d bytes, has %d", name, r.Count, r.Stride, need, len(r.Data)))
	}
}

// CSR is the adjacency of a mini-batch block: the sources of destination d are
// Indices[Indptr[d]:Indptr[d+1]]. Indptr has one element more than there are
// destinations, starts anywhere and never falls; a nil Indptr is no destinations.
type CSR struct {
	Indptr  []int32
	Indices []int32
}

// NumDst returns the number of destinations.
func (g CSR) NumDst() int { return max(len(g.Indptr)-1, 0) }

// Degree returns the number of edges of destination d.
func (g CSR) Degree(d int) int { return int(g.Indptr[d+1] - g.Indptr[d]) }

func (g CSR) check(p *Pool, sources int) {
	if len(g.Indptr) == 0 {
		return
	}
	checkIndptr(g.Indptr, len(g.Indices))
	lo, hi := g.Indptr[0], g.Indptr[len(g.Indptr)-1]
	checkIndices(p, "indices", asUint32(g.Indices[lo:hi]), sources)
}

func checkIndptr(indptr []int32, edges int) {
	last := int32(0)
	for d, at := range indptr {
		if at < last {
			panic(fmt.Sprintf("kernels: indptr falls from %d to %d at %d", last, at, d))
		}
		last = at
	}
	if int(last) > edges {
		panic(fmt.Sprintf("kernels: indptr ends at edge %d of %d", last, edges))
	}
}

// checkIndices panics unless every index is below n.
func checkIndices(p *Pool, name string, idx []uint32, n int) {
	if len(idx) == 0 {
		return
	}
	if m := p.kernels().maxUint32(idx); int64(m) >= int64(n) {
		panic(fmt.Sprintf("kernels: %s holds %d, but there are %d rows", name, m, n))
	}
}

// asUint32 views indices as unsigned: a negative one becomes too large and is
// found by checkIndices.
func asUint32(x []int32) []uint32 {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*uint32)(unsafe.Pointer(&x[0])), len(x))
}

// asInt32 is the inverse of asUint32.
func asInt32(x []uint32) []int32 {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(&x[0])), len(x))
}
