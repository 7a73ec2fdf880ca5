//go:build cuda

package cuda

import (
	"gorgonia.org/cu"

	"github.com/gstore/gstore/gpu"
)

// number is the address of element i of a vector of four-byte numbers.
func number(t gpu.Tensor, i int) cu.DevicePtr { return at(t) + cu.DevicePtr(4*i) }

// SampleBlocks launches kernels for the most nodes and edges that there is room for: how many there are is known on the device alone.
func (s *stream) SampleBlocks(l gpu.Lists, b gpu.Sampled) {
	if !s.begin(opSampleBlocks) {
		return
	}
	most := b.Input.Cols
	for _, h := range b.Hops {
		most = max(most, h.Edges())
	}
	sums := s.temporary(4 * int64(tiled(most).Grid[0]+1))[0]
	rows := l.First.Cols
	var begin args
	begin.Ptr(at(b.Input)).I32(b.Seeds).U32(uint32(rows)).Ptr(at(l.First)).Ptr(at(b.Sizes))
	s.launch("sample_seeds", s.over(b.Seeds), s.guard(&begin, opSampleBlocks))
	degrees := func(hop, n, fanout int) {
		var a args
		a.Ptr(at(l.Spans)).I64(l.Indices.Cols).U32(uint32(rows)).Ptr(at(b.Input)).Ptr(number(b.Sizes, 2*hop)).I32(fanout).Ptr(at(b.Degrees)).Ptr(sums)
		s.launch("sample_degrees", tiled(n), s.guard(&a, opSampleBlocks))
	}
	for h, hop := range b.Hops {
		nodes, edges, reached := number(b.Sizes, 2*h), number(b.Sizes, 2*h+1), number(b.Sizes, 2*h+2)
		n, e, lanes := hop.NumDst, hop.Edges(), 32
		// How many neighbours are taken of each node, hence where its edges begin.
		degrees(h, n, hop.Fanout)
		s.scan(sums, tiled(n).Grid[0]+1)
		var ends, picks, rowsOf, fresh, add, numbers, local args
		s.launch("sample_indptr", tiled(n), ends.Ptr(at(b.Degrees)).Ptr(nodes).I32(hop.Fanout).Ptr(sums).Ptr(at(hop.Indptr)).Ptr(edges))
		// Which, and their rows.
		if hop.Fanout > 0 {
			lanes = lanesOf(hop.Fanout, 1)
			picks.Ptr(at(b.Degrees)).Ptr(nodes).I32(hop.Fanout).Ptr(at(hop.Indptr)).I64(int(hop.Key)).Ptr(at(hop.Indices))
			s.launch("sample_picks", s.over(n), &picks)
		}
		rowsOf.Ptr(at(l.Spans)).Ptr(at(l.Indices)).U32(uint32(rows)).Ptr(at(l.Shifts)).U32(uint32(l.Shifts.Cols)).I32(l.Shift)
		rowsOf.Ptr(at(b.Input)).Ptr(at(b.Degrees)).Ptr(nodes).I32(hop.Fanout).Ptr(at(hop.Indptr)).Ptr(at(hop.Indices)).Ptr(at(l.First)).I32(lanes)
		s.launch("sample_neighbours", s.over(n*lanes), s.guard(&rowsOf, opSampleBlocks))
		// Rows that were not met before get numbers in the order of the edges that lead there first.
		s.launch("sample_fresh", tiled(e), fresh.Ptr(at(hop.Indices)).Ptr(nodes).Ptr(edges).Ptr(at(l.First)).Ptr(sums))
		s.scan(sums, tiled(e).Grid[0]+1)
		s.launch("sample_append", tiled(e), add.Ptr(at(hop.Indices)).Ptr(nodes).Ptr(edges).Ptr(at(l.First)).Ptr(sums).Ptr(at(b.Input)).Ptr(reached))
		s.launch("sample_number", s.over(hop.NumSrc), numbers.Ptr(at(b.Input)).Ptr(nodes).Ptr(reached).Ptr(at(l.First)))
		s.launch("sample_local", s.over(e), local.Ptr(at(hop.Indices)).Ptr(edges).Ptr(at(l.First)))
	}
	last := len(b.Hops)
	degrees(last, b.Hops[last-1].NumSrc, 0)
	var forget args
	s.launch("sample_clear", s.over(b.Hops[last-1].NumSrc), forget.Ptr(at(b.Input)).Ptr(number(b.Sizes, 2*last)).U32(uint32(rows)).Ptr(at(l.First)))
}

func (s *stream) PadBlock(from, to gpu.Graph) {
	if !s.begin(opPadBlock) {
		return
	}
	n, e := from.NumDst, from.Edges()
	var a args
	a.Ptr(at(from.Indptr)).Ptr(at(from.Indices)).I32(n).I32(e).I32(to.NumDst - n).I32(to.Edges() - e).I32(from.NumSrc).I32(to.NumSrc - from.NumSrc)
	s.launch("pad_block", s.over(to.NumDst+1+to.Edges()), a.Ptr(at(to.Indptr)).Ptr(at(to.Indices)))
}

func (s *stream) PadNumbers(x, out gpu.Tensor, added int32, repeat bool) {
	if s.begin(opPadNumbers) {
		var a args
		s.launch("pad_numbers", s.over(out.Cols), a.Ptr(at(x)).I32(x.Cols).I32(int(added)).I32(btoi(repeat)).Ptr(at(out)).I32(out.Cols))
	}
}
