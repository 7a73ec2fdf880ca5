package gpu

import (
	"fmt"

	"github.com/gstore/gstore/blocks"
)

// Memory is a range of bytes on a device, made by [Device.Alloc] or
// [Device.Map]. Tensors over it are invalid after Free.
type Memory interface {
	// Bytes returns its size.
	Bytes() int64
	// Free gives it back; the second call does nothing.
	Free() error
}

// Tensor is a row-major view of device memory: element (i, j) lies at byte
// Offset + (i*Stride+j)*Elem.Size() of Mem. A vector has one row. The zero
// Tensor means "none" wherever a tensor is optional.
type Tensor struct {
	Mem        Memory
	Offset     int64 // bytes
	Rows, Cols int
	Stride     int // elements from one row to the next; ≥ Cols
	Elem       blocks.ElemType
	// Scale holds, from byte ScaleOffset on, a float32 for each column by which the
	// elements of a table (see [Queue.Gather]) are multiplied when they are read; nil: 1.
	Scale       Memory
	ScaleOffset int64
}

// MatrixOf views memory from byte offset on as rows×cols float32 without gaps.
func MatrixOf(m Memory, offset int64, rows, cols int) Tensor {
	return Tensor{Mem: m, Offset: offset, Rows: rows, Cols: cols, Stride: cols, Elem: blocks.Float32}
}

// VectorOf views memory from byte offset on as n elements.
func VectorOf(m Memory, offset int64, n int, elem blocks.ElemType) Tensor {
	return Tensor{Mem: m, Offset: offset, Rows: 1, Cols: n, Stride: n, Elem: elem}
}

// IsZero reports whether t is the zero Tensor: none.
func (t Tensor) IsZero() bool { return t.Mem == nil && t.Rows == 0 && t.Cols == 0 }

// Len returns the number of elements, rows times columns.
func (t Tensor) Len() int { return t.Rows * t.Cols }

// Bytes returns the bytes from the first to the last element.
func (t Tensor) Bytes() int64 {
	if t.Rows == 0 || t.Cols == 0 {
		return 0
	}
	return int64((t.Rows-1)*t.Stride+t.Cols) * int64(t.Elem.Size())
}

// Contiguous reports whether there are no gaps between rows.
func (t Tensor) Contiguous() bool { return t.Rows <= 1 || t.Stride == t.Cols }

// View returns the rows×cols part of t whose first element is (row, col). It
// shares memory with t. A view that does not lie in t is the caller's bug and
// panics, like slicing does.
func (t Tensor) View(row, col, rows, cols int) Tensor {
	if row < 0 || col < 0 || rows < 0 || cols < 0 || row+rows > t.Rows || col+cols > t.Cols {
		panic(fmt.Sprintf("gpu: view of rows %d:%d, columns %d:%d of %v", row, row+rows, col, col+cols, t))
	}
	v := t
	v.Rows, v.Cols = rows, cols
	v.Offset += int64(row*t.Stride+col) * int64(t.Elem.Size())
	if t.Scale != nil {
		v.ScaleOffset += 4 * int64(col)
	}
	return v
}

// Head returns the first n rows.
func (t Tensor) Head(n int) Tensor { return t.View(0, 0, n, t.Cols) }

// Flat views a contiguous tensor as one row.
func (t Tensor) Flat() Tensor {
	if !t.Contiguous() {
		panic(fmt.Sprintf("gpu: flat view of %v, which has gaps", t))
	}
	t.Cols, t.Stride, t.Rows = t.Rows*t.Cols, t.Rows*t.Cols, 1
	return t
}

// String names shape and type, such as "float32[1000×128]".
func (t Tensor) String() string {
	if t.IsZero() {
		return "none"
	}
	s := fmt.Sprintf("%v[%d×%d", t.Elem, t.Rows, t.Cols)
	if t.Stride != t.Cols && t.Rows > 1 {
		s += fmt.Sprintf(" stride %d", t.Stride)
	}
	return s + "]"
}

// check says what is wrong with t as operand name of op.
func (t Tensor) check(op, name string) error {
	switch {
	case t.Rows < 0 || t.Cols < 0 || t.Stride < t.Cols || t.Offset < 0:
		return shapef(op, "%s is %v with stride %d at offset %d", name, t, t.Stride, t.Offset)
	case t.Elem.Size() == 0:
		return shapef(op, "%s has elements of type %v", name, t.Elem)
	case t.Offset%int64(t.Elem.Size()) != 0:
		return shapef(op, "%s starts at byte %d, which %v does not divide", name, t.Offset, t.Elem)
	case t.Scale != nil && (t.ScaleOffset < 0 || t.ScaleOffset%4 != 0 || t.ScaleOffset+4*int64(t.Cols) > t.Scale.Bytes()):
		return shapef(op, "%s has scales of %d columns from byte %d of memory of %d bytes", name, t.Cols, t.ScaleOffset, t.Scale.Bytes())
	case t.Len() == 0:
		return nil
	case t.Mem == nil:
		return shapef(op, "%s is %v without memory", name, t)
	case t.Offset+t.Bytes() > t.Mem.Bytes():
		return shapef(op, "%s ends at byte %d of memory of %d bytes", name, t.Offset+t.Bytes(), t.Mem.Bytes())
	}
	return nil
}

// Graph is a bipartite message-flow graph in device memory, compressed by
// destination: messages of destination d come from sources
// Indices[Indptr[d]:Indptr[d+1]]. The destinations are the first NumDst
// sources where a layer needs its own state (DGL's convention; see
// mini.Block).
type Graph struct {
	NumDst, NumSrc int
	Indptr         Tensor // Int32, NumDst+1
	Indices        Tensor // Int32, one per edge, each < NumSrc
	// The same edges compressed by source, for backward passes: destinations
	// of source s are DstIndices[SrcIndptr[s]:SrcIndptr[s+1]], ascending.
	// Filled by [Queue.Transpose]; zero before.
	SrcIndptr  Tensor // Int32, NumSrc+1
	DstIndices Tensor // Int32, one per edge
	SrcEdges   Tensor // Int32, one per edge: its place in Indices; [Queue.TransposeEdges] only

	// Full numbers of incoming edges before sampling, self loops added by
	// SelfLoops not counted; none unless a layer asks for them.
	DstDegrees Tensor // Int32, NumDst
	SrcDegrees Tensor // Int32, NumSrc
	SelfLoops  bool   // the first edge of every destination d is d → d, see [Queue.SelfLoops]

	// Weights are by what layers that weigh their neighbours multiply each edge's message, float32[edges×1]; none unless a layer asks for
	// them.
	Weights Tensor

	// EdgeFeatures are a row an edge, float32[edges × columns]; none unless a layer asks for them. Those of a mini-batch's graph have
	// rows of self loops too, as the edges that [Queue.SelfLoops] gives have them.
	EdgeFeatures Tensor

	// Relation is that of all edges, where a layer streams relations one at a time.
	Relation int

	// Groups are the edges by relation; nil unless a layer asks for them.
	Groups *EdgeGroups
}

// EdgeGroups are the runs of a graph's edges that have one destination and one
// relation: the edges of a destination lie sorted by relation. Groups are numbered by
// destination, then relation. Tensors are Int32 unless said otherwise.
type EdgeGroups struct {
	Indptr    Tensor // groups+1: the edges of group k are Graph.Indices[Indptr[k]:Indptr[k+1]]
	Relations Tensor // of each group
	Dst       Tensor // each group's destination
	DstIndptr Tensor // NumDst+1: the groups of destination d are DstIndptr[d]:DstIndptr[d+1]
	Places    Tensor // groups+1: 0, 1, 2, …
	// Sizes are by what sums over groups are divided for a mean, float32[1×groups]; none: by
	// the edges that the graph has.
	Sizes Tensor
	// The groups by relation, for layers that multiply those of one relation together; none unless asked for.
	Bounds   []int  // those of relation r are Order[Bounds[r]:Bounds[r+1]]; it ends with the last relation that there is
	Order    Tensor // Uint32, groups: their numbers, by relation, then destination
	OrderDst Tensor // Uint32, groups: their destinations
	Ranks    Tensor // Int32, groups: where in Order each is
	// Nodes as ends of a relation, node·relations + relation, for layers that have a value for each; none unless asked for.
	Pairs    Tensor // Int32, edges: their sources
	DstPairs Tensor // Uint32, groups: their destinations
}

// Edges returns the number of edges.
func (g Graph) Edges() int { return g.Indices.Cols }

func (g Graph) check(op string) error {
	if g.NumDst < 0 || g.NumSrc < 0 {
		return shapef(op, "graph has %d destinations and %d sources", g.NumDst, g.NumSrc)
	}
	for _, p := range []struct {
		name string
		t    Tensor
		n    int
	}{{"indptr", g.Indptr, g.NumDst + 1}, {"indices", g.Indices, g.Indices.Cols}} {
		if err := vector(op, p.name, p.t, blocks.Int32, p.n); err != nil {
			return err
		}
	}
	return nil
}

func (g Graph) checkTransposed(op string) error {
	if g.SrcIndptr.IsZero() {
		return shapef(op, "the graph was not transposed: call Queue.Transpose first")
	}
	if err := vector(op, "source indptr", g.SrcIndptr, blocks.Int32, g.NumSrc+1); err != nil {
		return err
	}
	return vector(op, "destination indices", g.DstIndices, blocks.Int32, g.Indices.Cols)
}

// vector checks that t is one row of n elements of type elem.
func vector(op, name string, t Tensor, elem blocks.ElemType, n int) error {
	if n == 0 && t.IsZero() {
		return nil
	}
	if err := t.check(op, name); err != nil {
		return err
	}
	if t.Elem != elem || t.Rows != 1 || t.Cols != n {
		return shapef(op, "%s is %v, expected %v[1×%d]", name, t, elem, n)
	}
	return nil
}

// matrix checks that t is rows×cols float32; -1 means any.
func matrix(op, name string, t Tensor, rows, cols int) error {
	if err := t.check(op, name); err != nil {
		return err
	}
	if t.Scale != nil {
		return shapef(op, "%s is %v with scales, which only tables have", name, t)
	}
	if t.Elem != blocks.Float32 || (rows >= 0 && t.Rows != rows) || (cols >= 0 && t.Cols != cols) {
		want := func(n int) string {
			if n < 0 {
				return "any"
			}
			return fmt.Sprint(n)
		}
		return shapef(op, "%s is %v, expected float32[%s×%s]", name, t, want(rows), want(cols))
	}
	return nil
}
