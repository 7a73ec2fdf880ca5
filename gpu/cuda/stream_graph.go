//go:build cuda

package cuda

import (
	"math/bits"

	"gorgonia.org/cu"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/cuda/driver"
)

func (s *stream) Gather(dst, table, index gpu.Tensor) {
	if !s.begin(opGather) {
		return
	}
	kernel, width := s.typed("gather", table, dst, true)
	lanes := lanesOf(dst.Cols, width)
	var a args
	matrix(&a, dst).Ptr(at(table)).I64(table.Stride * table.Elem.Size()).U32(uint32(table.Rows)).Ptr(scale(table)).Ptr(at(index)).I32(dst.Rows).I32(dst.Cols).I32(lanes)
	s.launch(kernel, s.over(dst.Rows*lanes), s.guard(&a, opGather))
}

// CopyRows reads mapped rows in transactions of 128 bytes: see kernels/rows.cu.
func (s *stream) CopyRows(dst, to, src, from gpu.Tensor) {
	if !s.begin(opCopyRows) {
		return
	}
	size := src.Elem.Size()
	var a args
	a.Ptr(at(dst)).I64(dst.Stride * size).U32(uint32(dst.Rows)).Ptr(at(to)).Ptr(at(src)).I64(src.Stride * size).U32(uint32(src.Rows)).Ptr(at(from))
	a.I32(from.Cols).I32(src.Cols * size)
	s.launch("send_rows", s.over(32*from.Cols), s.guard(&a, opCopyRows))
}

// sums are the parameters of kernels/messages.cu's messages.
type sums struct {
	dst, src                       gpu.Tensor
	indptr, indices, index, places gpu.Tensor
	ends, edges, longest           int // rows of more edges than longest are left out; 0: none
	weights                        gpu.Tensor
	heads                          int // of weights; 0 is 1
	degrees                        gpu.Tensor
	mean                           bool
	accumulate                     accumulate
}

// accumulate is how kernels/messages.cu's sums meet what their destination holds.
type accumulate int

const (
	overwrite accumulate = iota
	addSum               // the sum of all messages is added
	fold                 // every message is
)

func (s *stream) sum(op operation, m sums) {
	heads := max(m.heads, 1)
	width := m.dst.Cols / heads
	kernel, v := s.typed("messages", m.src, m.dst, width%4 == 0)
	lanes := lanesOf(m.dst.Cols, v)
	var a args
	matrix(&a, m.dst).Ptr(at(m.src)).I64(m.src.Stride * m.src.Elem.Size()).Ptr(scale(m.src))
	a.Ptr(at(m.indptr)).Ptr(at(m.indices)).Ptr(at(m.index)).Ptr(at(m.places)).I32(m.ends).U32(uint32(m.src.Rows)).I32(m.edges).I32(m.longest)
	matrix(&a, m.weights).I32(width).Ptr(at(m.degrees))
	a.I32(m.dst.Rows).I32(m.dst.Cols).I32(lanes).I32(btoi(m.mean)).I32(int(m.accumulate))
	s.launch(kernel, s.over(m.dst.Rows*lanes), s.guard(&a, op))
}

func (s *stream) Aggregate(o gpu.AggregateOptions, g gpu.Graph, table, dst gpu.Tensor) {
	op := opAggregate
	if !o.Index.IsZero() {
		op = opGatherAggregate
	}
	if !s.begin(op) {
		return
	}
	m := sums{dst: dst, src: table, indptr: g.Indptr, indices: g.Indices, index: o.Index, ends: g.NumSrc, edges: g.Edges(),
		weights: o.Weights, mean: o.Reduce == gpu.Mean}
	if o.Accumulate {
		m.accumulate = fold
	}
	s.sum(op, m)
}

func (s *stream) AggregateBackward(r gpu.Reduce, g gpu.Graph, dDst, dSrc gpu.Tensor) {
	if !s.begin(opAggregateBackward) {
		return
	}
	m := sums{dst: dSrc, src: dDst, indptr: g.SrcIndptr, indices: g.DstIndices, ends: g.NumDst, edges: g.Edges(), accumulate: addSum}
	if r == gpu.Mean {
		m.degrees = g.Indptr
	}
	s.sum(opAggregateBackward, m)
}

func (s *stream) AggregateHeads(heads int, g gpu.Graph, weights, src, dst gpu.Tensor) {
	if s.begin(opAggregateHeads) {
		s.sum(opAggregateHeads, sums{dst: dst, src: src, indptr: g.Indptr, indices: g.Indices, ends: g.NumSrc, edges: g.Edges(), weights: weights, heads: heads, accumulate: addSum})
	}
}

func (s *stream) AggregateHeadsBackward(heads int, g gpu.Graph, weights, dDst, dSrc gpu.Tensor) {
	if s.begin(opAggregateHeadsBackward) {
		s.sum(opAggregateHeadsBackward, sums{dst: dSrc, src: dDst, indptr: g.SrcIndptr, indices: g.DstIndices, places: g.SrcEdges, ends: g.NumDst, edges: g.Edges(),
			weights: weights, heads: heads, accumulate: addSum})
	}
}

func (s *stream) EdgeSum(bySource bool, g gpu.Graph, x, out gpu.Tensor) {
	if !s.begin(opEdgeSum) {
		return
	}
	m := sums{dst: out, src: x, indptr: g.Indptr, ends: g.Edges(), edges: g.Edges(), accumulate: addSum}
	if bySource {
		m.indptr, m.indices = g.SrcIndptr, g.SrcEdges
	}
	s.sum(opEdgeSum, m)
}

// sorted sorts n keys that lie at unsorted, those not below limit counting as limit−1, and
// returns the sorted keys and the places they had. It uses four temporaries of 4·n bytes and one of sortBytes(n).
func (s *stream) sorted(op operation, unsorted cu.DevicePtr, n, limit int, t []cu.DevicePtr) (keys, places cu.DevicePtr) {
	keys, places, other, otherPlaces, counts := t[0], t[1], t[2], t[3], t[4]
	var a args
	a.Ptr(unsorted).I32(n).U32(uint32(limit)).Ptr(keys).Ptr(places)
	s.launch("edge_keys", s.over(n), s.guard(&a, op))
	shape := tiled(n)
	for shift := 0; shift < bits.Len(uint(max(limit-1, 0))); shift += 8 {
		var count, place args
		s.launch("sort_count", shape, count.Ptr(keys).I32(n).I32(shift).Ptr(counts))
		s.scan(counts, 256*shape.Grid[0])
		s.launch("sort_place", shape, place.Ptr(keys).Ptr(places).I32(n).I32(shift).Ptr(counts).Ptr(other).Ptr(otherPlaces))
		keys, places, other, otherPlaces = other, otherPlaces, keys, places
	}
	return keys, places
}

// scanTile is sortTile of kernels/sort.cu and sampleTile of kernels/sample.cu.
const scanTile = 2048

// tiled is the shape of a kernel whose blocks take tiles of n keys, nodes or edges.
func tiled(n int) driver.Shape {
	return driver.Shape{Grid: [3]int{max(1, (n+scanTile-1)/scanTile)}, Threads: threads}
}

// scan replaces n numbers by their sums before each.
func (s *stream) scan(x cu.DevicePtr, n int) {
	var a args
	s.launch("scan", driver.Shape{Threads: 1024}, a.Ptr(x).I32(n))
}

func sortBytes(n int) int64 { return 4 * 256 * int64(tiled(n).Grid[0]) }

func (s *stream) Transpose(g gpu.Graph) {
	if s.begin(opTranspose) {
		s.transpose(opTranspose, g)
	}
}

func (s *stream) TransposeEdges(g gpu.Graph) {
	if s.begin(opTransposeEdges) {
		s.transpose(opTransposeEdges, g)
	}
}

func (s *stream) transpose(op operation, g gpu.Graph) {
	n := g.Edges()
	each := 4 * int64(n)
	t := s.temporary(each, each, each, each, sortBytes(n), each)
	ends := t[5]
	if g.NumDst > 0 {
		var a args
		a.Ptr(at(g.Indptr)).I32(g.NumDst).I32(n).Ptr(ends)
		s.launch("edge_ends", s.over(32*g.NumDst), s.guard(&a, op))
	}
	var keys, places cu.DevicePtr
	if n > 0 {
		keys, places = s.sorted(op, at(g.Indices), n, g.NumSrc, t)
	}
	var a, b args
	s.launch("sorted_indptr", s.over(g.NumSrc+1), a.Ptr(keys).I32(n).Ptr(at(g.SrcIndptr)).I32(g.NumSrc))
	if n > 0 {
		s.launch("sorted_ends", s.over(n), b.Ptr(places).Ptr(ends).I32(n).Ptr(at(g.DstIndices)).Ptr(at(g.SrcEdges)))
	}
}

// heavyPiece is how many rows of one index ScatterAddRows sums one after another; more are summed in pieces of as many, at the same time.
const heavyPiece = 256

// ScatterAddRows sorts the rows and sums those of one index. All nodes of a type may have one.
func (s *stream) ScatterAddRows(dst, index, src gpu.Tensor) {
	if !s.begin(opScatterAdd) {
		return
	}
	n := src.Rows
	each, pieces := 4*int64(n), (n+heavyPiece-1)/heavyPiece
	t := s.temporary(each, each, each, each, sortBytes(n), 4*int64(dst.Rows+1), 2*4*int64(pieces)*int64(src.Cols))
	keys, places := s.sorted(opScatterAdd, at(index), n, dst.Rows, t)
	var a args
	s.launch("sorted_indptr", s.over(dst.Rows+1), a.Ptr(keys).I32(n).Ptr(t[5]).I32(dst.Rows))
	if dst.Len() == 0 {
		return
	}
	s.sum(opScatterAdd, sums{dst: dst, src: src, indptr: s.vector(t[5]), indices: s.vector(places), ends: n, edges: n, longest: heavyPiece, accumulate: addSum})
	if pieces > 1 {
		lanes := lanesOf(src.Cols, 1)
		var parts, all args
		s.launch("heavy_parts", s.over(pieces*lanes), matrix(&parts, src).Ptr(keys).Ptr(places).Ptr(t[5]).I32(n).I32(src.Cols).I32(lanes).I32(heavyPiece).Ptr(t[6]))
		s.launch("heavy_sums", s.over(dst.Rows*lanes), matrix(&all, dst).Ptr(t[6]).Ptr(t[5]).I32(dst.Rows).I32(src.Cols).I32(lanes).I32(heavyPiece))
	}
}

func (s *stream) SelfLoops(g, out gpu.Graph) {
	if g.NumDst > 0 && s.begin(opSelfLoops) {
		var a args
		a.Ptr(at(g.Indptr)).Ptr(at(g.Indices)).I32(g.NumDst).I32(g.Edges()).Ptr(at(out.Indptr)).Ptr(at(out.Indices))
		s.launch("self_loops", s.over(32*g.NumDst), s.guard(&a, opSelfLoops))
	}
}

func (s *stream) EdgeWeights(o gpu.EdgeWeightOptions, g gpu.Graph, out gpu.Tensor) {
	if s.begin(opEdgeWeights) {
		var a args
		a.Ptr(at(g.Indptr)).Ptr(at(g.Indices)).Ptr(at(g.SrcDegrees)).Ptr(at(g.DstDegrees)).I32(btoi(g.SelfLoops)).I32(btoi(o.Symmetric)).I32(btoi(o.Sampled))
		a.I32(g.NumDst).I32(g.NumSrc).I32(g.Edges()).Ptr(at(out))
		s.launch("edge_weights", s.over(32*g.NumDst), s.guard(&a, opEdgeWeights))
	}
}

func (s *stream) EdgeAdd(slope float32, g gpu.Graph, src, dst, edge, out gpu.Tensor) {
	if s.begin(opEdgeAdd) {
		var a args
		a.Ptr(at(g.Indptr)).Ptr(at(g.Indices))
		matrix(&a, src)
		matrix(&a, dst).Ptr(at(edge)).F32(slope).I32(src.Cols).I32(g.NumDst).I32(g.NumSrc).I32(g.Edges()).Ptr(at(out))
		s.launch("edge_add", s.over(32*g.NumDst), s.guard(&a, opEdgeAdd))
	}
}

func (s *stream) EdgeDot(heads int, g gpu.Graph, src, dst, out gpu.Tensor) {
	if s.begin(opEdgeDot) {
		var a args
		a.Ptr(at(g.Indptr)).Ptr(at(g.Indices))
		matrix(&a, src)
		width := src.Cols / heads
		matrix(&a, dst).I32(heads).I32(width).I32(lanesOf(width, 1)).I32(g.NumDst).I32(g.NumSrc).I32(g.Edges()).Ptr(at(out))
		s.launch("edge_dot", s.over(32*g.NumDst), s.guard(&a, opEdgeDot))
	}
}

func (s *stream) EdgeSoftmax(heads int, g gpu.Graph, x gpu.Tensor) {
	if s.begin(opEdgeSoftmax) {
		var a args
		a.Ptr(at(g.Indptr)).I32(heads).I32(g.NumDst).I32(g.Edges()).Ptr(at(x))
		s.launch("edge_softmax", s.over(32*g.NumDst), s.guard(&a, opEdgeSoftmax))
	}
}

func (s *stream) EdgeSoftmaxBackward(heads int, g gpu.Graph, a, d gpu.Tensor) {
	if s.begin(opEdgeSoftmaxBackward) {
		var p args
		p.Ptr(at(g.Indptr)).I32(heads).I32(g.NumDst).I32(g.Edges()).Ptr(at(a)).Ptr(at(d))
		s.launch("edge_softmax_backward", s.over(32*g.NumDst), s.guard(&p, opEdgeSoftmaxBackward))
	}
}

func (s *stream) OnlineAttention(heads int, slope float32, g gpu.Graph, src, srcScore, dstScore, edgeScore gpu.Tensor, sum gpu.AttentionSums) {
	if !s.begin(opOnlineAttention) {
		return
	}
	t := s.temporary(4*int64(g.Edges())*int64(heads), 4*int64(g.NumDst)*int64(heads))
	weights, shrinks := t[0], t[1]
	var a args
	a.Ptr(at(g.Indptr)).Ptr(at(g.Indices))
	matrix(&a, srcScore)
	matrix(&a, dstScore).Ptr(at(edgeScore)).F32(slope).I32(heads).I32(g.NumDst).I32(g.NumSrc).I32(g.Edges())
	matrix(&a, sum.Max)
	matrix(&a, sum.Total).Ptr(weights).Ptr(shrinks)
	s.launch("online_weights", s.over(32*g.NumDst), s.guard(&a, opOnlineAttention))
	var b args
	s.rows("scale_heads", g.NumDst, src.Cols, matrix(&b, sum.Sum).Ptr(shrinks).I32(heads))
	s.sum(opOnlineAttention, sums{dst: sum.Sum, src: src, indptr: g.Indptr, indices: g.Indices, ends: g.NumSrc, edges: g.Edges(),
		weights: s.view(weights, g.Edges(), heads), heads: heads, accumulate: fold})
}

// vector makes an operand of scratch memory whose size the kernel knows.
func (s *stream) vector(p cu.DevicePtr) gpu.Tensor {
	return gpu.Tensor{Mem: &memory{dev: s.dev, at: p}}
}

// view makes a matrix of scratch memory.
func (s *stream) view(p cu.DevicePtr, rows, cols int) gpu.Tensor {
	return gpu.MatrixOf(&memory{dev: s.dev, at: p, bytes: 4 * int64(rows) * int64(cols)}, 0, rows, cols)
}

func (s *stream) SegmentMax(o gpu.MaxOptions, g gpu.Graph, table, out, arg gpu.Tensor) {
	if !s.begin(opSegmentMax) {
		return
	}
	kernel, _ := s.typed("segment_max", table, out, false)
	ends, lanes := table.Rows, lanesOf(out.Cols, 1)
	if !o.Index.IsZero() {
		ends = o.Index.Cols
	}
	var a args
	matrix(&a, out).Ptr(at(table)).I64(table.Stride * table.Elem.Size()).Ptr(scale(table)).Ptr(at(g.Indptr)).Ptr(at(g.Indices)).Ptr(at(o.Index))
	a.I32(ends).U32(uint32(table.Rows)).I32(g.Edges())
	matrix(&a, o.Seen).Ptr(at(arg)).I32(out.Rows).I32(out.Cols).I32(lanes)
	s.launch(kernel, s.over(out.Rows*lanes), s.guard(&a, opSegmentMax))
	if !o.Seen.IsZero() {
		var b args
		s.launch("add_degrees", s.over(out.Rows), matrix(&b, o.Seen).Ptr(at(g.Indptr)).I32(out.Rows))
	}
}

func (s *stream) SegmentMaxBackward(g gpu.Graph, dOut, arg, dSrc gpu.Tensor) {
	if s.begin(opSegmentMaxBackward) {
		lanes := lanesOf(dSrc.Cols, 1)
		var a args
		matrix(&a, dSrc)
		matrix(&a, dOut).Ptr(at(arg)).Ptr(at(g.SrcIndptr)).Ptr(at(g.DstIndices)).Ptr(at(g.SrcEdges)).I32(g.Edges()).I32(g.NumDst).I32(dSrc.Rows).I32(dSrc.Cols).I32(lanes)
		s.launch("segment_max_backward", s.over(dSrc.Rows*lanes), s.guard(&a, opSegmentMaxBackward))
	}
}
