package buffer

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// owner returns the index of the slot that holds a row.
func (l *layout) owner(row uint32) int {
	return sort.Search(len(l.slots), func(i int) bool { return l.slots[i].base > row }) - 1
}

// externalOrder lists the rows of all nodes by ascending external id: integers
// by value, strings bytewise. Everything is resident, so rows never change.
func externalOrder(ctx context.Context, src *source, l *layout, buf *memory) ([]uint32, error) {
	order := elements[uint32](buf, buf.order)
	xs, err := src.extents("external ids", src.m.IDs.External, &Options{Verify: VerifyAlways})
	if err != nil {
		return nil, err
	}
	n := 0
	for p, part := range src.m.Partitions {
		for k := range uint32(part.Nodes) {
			order[n] = l.slots[p].base + k
			n++
		}
		if xs[p].e.Rows != part.Nodes {
			return nil, xs[p].corrupt("%d ids, expected %d", xs[p].e.Rows, part.Nodes)
		}
	}
	if src.m.IDs.Kind == store.IDsStrings {
		return order, orderStrings(ctx, src, l, xs, order)
	}
	slab, err := blockio.AllocSlab(max(8*int64(l.rows), 1), blockio.SlabOptions{Threads: 1})
	if err != nil {
		return nil, err
	}
	defer slab.Free()
	ids, err := blocks.View[uint64](slab.Bytes())
	if err != nil {
		return nil, err
	}
	for p := range xs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		base := l.slots[p].base
		if _, err := readInto(&xs[p], slab.Bytes()[8*int64(base):]); err != nil {
			return nil, err
		}
	}
	if src.m.IDs.Kind == store.IDsDense {
		// External ids are 0 … n−1: place instead of sorting.
		placed := make([]bool, n)
		rows := slices.Clone(order)
		for _, row := range rows {
			id := ids[row]
			if id >= uint64(n) || placed[id] {
				return nil, fmt.Errorf("%w: external id %d is repeated or not below %d", store.ErrCorrupt, id, n)
			}
			placed[id] = true
			order[id] = row
		}
		return order, nil
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(ids[a], ids[b]) })
	return order, nil
}

func readInto(x *extentRef, dst []byte) ([]byte, error) {
	return x.f.file.ReadExtent(x.e, dst[:0:min(int64(cap(dst)), x.e.Length)])
}

// orderStrings sorts rows by string ids, which it holds in memory off the heap meanwhile.
func orderStrings(ctx context.Context, src *source, l *layout, xs []extentRef, order []uint32) error {
	var size int64
	for p := range xs {
		size += blocks.AlignUp(xs[p].e.Length)
	}
	slab, err := blockio.AllocSlab(max(size, 1), blockio.SlabOptions{Threads: 1})
	if err != nil {
		return err
	}
	defer slab.Free()
	names := make([]blocks.Strings, len(xs))
	at := int64(0)
	for p := range xs {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := readInto(&xs[p], slab.Bytes()[at:])
		if err != nil {
			return err
		}
		if names[p], err = blocks.OpenStrings(b, xs[p].e.Rows); err != nil {
			return xs[p].locate(err)
		}
		at += blocks.AlignUp(xs[p].e.Length)
	}
	name := func(row uint32) []byte {
		p := l.owner(row)
		return names[p].At(int(row - l.slots[p].base))
	}
	slices.SortFunc(order, func(a, b uint32) int { return bytes.Compare(name(a), name(b)) })
	return nil
}

// orderByExternal rearranges every row's neighbours into the order of external
// ids, without a sort: transposing an adjacency row by row in some order leaves
// the transposed lists in that order.
func (it *Buffer) orderByExternal(frame int) {
	b := it.buf
	in := b.adjacency(frame, 0)
	twin := b.view(b.twin)
	switch {
	case it.src.m.Schema.Undirected:
		// The graph is its own transpose, so is the order of its spans.
		copy(twin.Spans, in.Spans)
		transpose(in, twin, it.order)
		copy(in.Indices, twin.Indices)
		copy(in.Relations, twin.Relations)
		copy(in.Weights, twin.Weights)
		copy(in.Times, twin.Times)
	case b.directions == 2:
		out := b.adjacency(frame, 1)
		transpose(in, out, it.order)
		transpose(out, in, it.order)
	default:
		degrees(in, twin)
		transpose(in, twin, it.order)
		transpose(twin, in, it.order)
	}
}

// degrees gives every row of to the span that its out-edges in from need.
func degrees(from, to *Adjacency) {
	clear(to.Spans)
	for _, s := range from.Spans {
		for _, v := range from.Indices[s.Begin:s.End] {
			to.Spans[v].End++
		}
	}
	at := int64(0)
	for r := range to.Spans {
		n := to.Spans[r].End
		to.Spans[r] = Span{at, at + n}
		at += n
	}
}

// transpose fills to, whose spans have the right lengths, with the reverse of
// from's edges, in the order of the rows given.
func transpose(from, to *Adjacency, rows []uint32) {
	for r := range to.Spans {
		to.Spans[r].End = to.Spans[r].Begin
	}
	for _, r := range rows {
		s := from.Spans[r]
		for e := s.Begin; e < s.End; e++ {
			t := &to.Spans[from.Indices[e]]
			to.Indices[t.End] = r
			if from.Relations != nil {
				to.Relations[t.End] = from.Relations[e]
			}
			if from.Weights != nil {
				to.Weights[t.End] = from.Weights[e]
			}
			if from.Times != nil {
				to.Times[t.End] = from.Times[e]
			}
			t.End++
		}
	}
}
