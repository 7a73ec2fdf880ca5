package buffer

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/internal/sorting"
)

// owner returns the index of the slot that holds a row.
func (l *layout) owner(row uint32) int {
	return sort.Search(len(l.slots), func(i int) bool { return l.slots[i].base > row }) - 1
}

// externalOrder lists the rows of all nodes by ascending external id: integers
// by value, strings bytewise. Everything is resident, so rows never change. Ids of a partition's nodes ascend
// where ingest wrote them, so that an order is merged, not sorted. scratch is one element a node.
func externalOrder(ctx context.Context, src *source, l *layout, buf *memory, scratch []uint32) ([]uint32, error) {
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
		return order, orderStrings(ctx, src, l, xs, order, scratch)
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
		rows := scratch[:copy(scratch, order)]
		for i := range order {
			order[i] = math.MaxUint32 // no row
		}
		for _, row := range rows {
			id := ids[row]
			if id >= uint64(n) || order[id] != math.MaxUint32 {
				return nil, fmt.Errorf("%w: external id %d is repeated or not below %d", store.ErrCorrupt, id, n)
			}
			order[id] = row
		}
		return order, nil
	}
	sorting.Runs(order, scratch, func(a, b uint32) bool { return ids[a] < ids[b] })
	return order, nil
}

func readInto(x *extentRef, dst []byte) ([]byte, error) {
	return x.f.file.ReadExtent(x.e, dst[:0:min(int64(cap(dst)), x.e.Length)])
}

// orderStrings sorts rows by string ids, which it holds in memory off the heap meanwhile.
func orderStrings(ctx context.Context, src *source, l *layout, xs []extentRef, order, scratch []uint32) error {
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
	sorting.Runs(order, scratch, func(a, b uint32) bool { return bytes.Compare(name(a), name(b)) < 0 })
	return nil
}

// orderByExternal rearranges every row's neighbours into the order of external ids, if they are not in it: with one partition
// they mostly are.
func (it *Buffer) orderByExternal(ctx context.Context, frame int) error {
	if it.rank == nil {
		return nil
	}
	scratch := elements[uint64](it.buf, it.buf.scratch)
	share := len(scratch) / it.o.Threads
	staging := elements[uint64](it.buf, it.buf.staging) // whose bytes are an adjacency by now
	for dir := range it.buf.directions {
		a := it.buf.adjacency(frame, dir)
		tiles := (len(a.Spans) + tileRows - 1) / tileRows
		err := it.asm.parallel(ctx, tiles, func(worker, k int) error {
			own := scratch[worker*share : (worker+1)*share]
			for row := k * tileRows; row < min(len(a.Spans), (k+1)*tileRows); row++ {
				if 2*a.Degree(uint32(row)) <= int64(share) {
					a.SortByRank(uint32(row), it.rank, own)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for row := range a.Spans { // the few long lists, in what room there is
			if 2*a.Degree(uint32(row)) > int64(share) {
				a.SortByRank(uint32(row), it.rank, staging)
			}
		}
	}
	return nil
}

// SortByRank puts a row's edges in ascending order of rank[neighbour], those of one neighbour in the order that they have.
// scratch is two elements an edge; with less a long list is sorted in place, which takes several times as long.
func (a *Adjacency) SortByRank(row uint32, rank []uint32, scratch []uint64) {
	s := a.Span(row)
	list, n := a.Indices[s.Begin:s.End], int(s.End-s.Begin)
	carries := a.Relations != nil || a.Weights != nil || a.Times != nil || a.Features != nil
	if 2*n > len(scratch) {
		l := edgesBy{a: a, first: s.Begin, n: n, less: func(x, y int64) bool { return rank[a.Indices[x]] < rank[a.Indices[y]] }}
		switch {
		case sort.IsSorted(l):
		case carries:
			sort.Stable(l)
		default:
			slices.SortFunc(list, func(x, y uint32) int { return cmp.Compare(rank[x], rank[y]) })
		}
		return
	}
	// Above a key's 32 bits of rank lie below it the neighbour or, where others move with it, its place.
	keys, spare := scratch[:n], scratch[n:2*n]
	sorted, last := true, uint32(0)
	for i, v := range list {
		r := rank[v]
		sorted, last = sorted && last <= r, r
		if carries {
			v = uint32(i)
		}
		keys[i] = uint64(r)<<32 | uint64(v)
	}
	if sorted {
		return
	}
	if by := sorting.Radix(keys, spare, 32, uint(bits.Len(uint(len(rank))))); &by[0] != &keys[0] {
		keys, spare = by, keys
	}
	if !carries {
		for i, k := range keys {
			list[i] = uint32(k)
		}
		return
	}
	permute(list, keys, spare)
	if a.Relations != nil {
		permute(a.Relations[s.Begin:s.End], keys, spare)
	}
	if a.Weights != nil {
		permute(a.Weights[s.Begin:s.End], keys, spare)
	}
	if a.Times != nil {
		permute(a.Times[s.Begin:s.End], keys, spare)
	}
	if dim := int64(a.FeatureDim); a.Features != nil {
		permuteRows(a.Features[s.Begin*dim:s.End*dim], a.FeatureDim, keys, spare)
	}
}

// permuteRows is permute for rows of dim elements, a column after the other: spare has room for one.
func permuteRows(rows []float32, dim int, keys, spare []uint64) {
	old, err := blocks.View[float32](blocks.Bytes(spare))
	if err != nil {
		panic(err) // spare is aligned to 8 bytes
	}
	for j := range dim {
		for i := range keys {
			old[i] = rows[i*dim+j]
		}
		for i, k := range keys {
			rows[i*dim+j] = old[uint32(k)]
		}
	}
}

// permute moves the element whose place is in the lower half of keys[i] to place i.
func permute[T blocks.Number](list []T, keys, spare []uint64) {
	old, err := blocks.View[T](blocks.Bytes(spare))
	if err != nil {
		panic(err) // spare is aligned to 8 bytes
	}
	copy(old, list)
	for i, k := range keys {
		list[i] = old[uint32(k)]
	}
}
