package export

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// idCache reads the external ids of partitions. The first ones asked for stay
// in memory while room lasts; each other one is read again when another was in
// between. Buckets are visited row by row, always in the same order, so what
// stays is what an optimal policy would keep.
type idCache struct {
	s     *store.Store
	room  int64 // bytes left for ids that stay
	kept  map[store.PartitionID]store.ExternalIDs
	slabs []*blockio.Slab
	slots [2]idSlot // of the two ends of a bucket
}

type idSlot struct {
	valid bool
	p     store.PartitionID
	ids   store.ExternalIDs
	buf   []byte
	slab  *blockio.Slab
}

// Ends of an edge, and the slots their ids are read to.
const (
	srcEnd = 0
	dstEnd = 1
)

func newIDCache(s *store.Store, room int64) *idCache {
	return &idCache{s: s, room: room, kept: map[store.PartitionID]store.ExternalIDs{}}
}

// Close frees the ids.
func (c *idCache) Close() {
	for _, s := range c.slabs {
		_ = s.Free()
	}
	for i := range c.slots {
		if c.slots[i].slab != nil {
			_ = c.slots[i].slab.Free()
		}
	}
	*c = idCache{}
}

// of returns the ids of partition p's nodes, valid until the same end is asked
// for again.
func (c *idCache) of(ctx context.Context, p store.PartitionID, end int) (store.ExternalIDs, error) {
	if ids, ok := c.kept[p]; ok {
		return ids, nil
	}
	slot := &c.slots[end]
	if slot.valid && slot.p == p {
		return slot.ids, nil
	}
	_, e, err := c.s.Files().External(p)
	if err != nil {
		return store.ExternalIDs{}, err
	}
	size := max(e.Length, 8)
	if size <= c.room {
		slab, err := blockio.AllocSlab(size, blockio.SlabOptions{Lazy: true})
		if err != nil {
			return store.ExternalIDs{}, err
		}
		c.slabs = append(c.slabs, slab)
		ids, _, err := c.s.ReadExternal(ctx, p, slab.Bytes()[:0:size])
		if err == nil {
			c.room -= size
			c.kept[p] = ids
		}
		return ids, err
	}
	slot.valid = false
	if int64(len(slot.buf)) < size {
		if slot.slab != nil {
			if err := slot.slab.Free(); err != nil {
				return store.ExternalIDs{}, err
			}
			slot.slab, slot.buf = nil, nil
		}
		if slot.slab, err = blockio.AllocSlab(size, blockio.SlabOptions{Lazy: true}); err != nil {
			return store.ExternalIDs{}, err
		}
		slot.buf = slot.slab.Bytes()
	}
	ids, _, err := c.s.ReadExternal(ctx, p, slot.buf[:0])
	if err == nil {
		slot.valid, slot.p, slot.ids = true, p, ids
	}
	return ids, err
}

// resolve finds the external ids of nodes in any order: integers go to ints,
// strings to text (which are copies). It reads each partition's ids once.
func (c *idCache) resolve(ctx context.Context, nodes []store.NodeID, ints []uint64, text [][]byte) error {
	m := c.s.Manifest()
	order := make([]uint32, len(nodes))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		switch {
		case nodes[a] < nodes[b]:
			return -1
		case nodes[a] > nodes[b]:
			return 1
		}
		return 0
	})
	var arena []byte
	for i := 0; i < len(order); {
		p, err := m.Partition(nodes[order[i]])
		if err != nil {
			return err
		}
		ids, err := c.of(ctx, p, srcEnd)
		if err != nil {
			return err
		}
		info := m.Partitions[p]
		for ; i < len(order) && nodes[order[i]] < info.First+store.NodeID(info.Nodes); i++ {
			k := int(nodes[order[i]] - info.First)
			if ids.Ints != nil {
				ints[order[i]] = ids.Ints[k]
				continue
			}
			from := len(arena)
			arena = append(arena, ids.Strings.At(k)...)
			text[order[i]] = arena[from:len(arena):len(arena)]
		}
	}
	return nil
}

// mapReader reads the ids of dense external ids in order.
type mapReader struct {
	s   *store.Store
	buf []byte
}

// read fills internal with the internal ids of external ids first, first+1, ….
func (r *mapReader) read(first uint64, internal []uint64) error {
	m := r.s.Manifest()
	oldest, err := r.s.Files().File(m.IDs.Map)
	if err != nil {
		return err
	}
	per := oldest.Header().ExtentRows
	for len(internal) > 0 {
		f, e, ok, err := r.s.Files().IDMap(first / per)
		if err != nil {
			return err
		}
		k := first % per
		if !ok || k >= e.Rows {
			return &blocks.CorruptError{Path: oldest.Path(), Extent: "id map", Offset: -1, Reason: fmt.Sprintf("external id %d is missing, expected all below %d", first, m.Nodes)}
		}
		h := f.Header()
		width := int64(h.Elem.Size())
		n := min(uint64(len(internal)), e.Rows-k, 1<<16)
		if r.buf == nil {
			r.buf = make([]byte, blocks.RangeBytes(8<<16))
		}
		b, err := f.ReadRangeInto(e, int64(k)*width, int64(k+n)*width, r.buf)
		if err != nil {
			return err
		}
		for i := range n {
			x := uint64(0)
			if width == 4 {
				x = uint64(binary.LittleEndian.Uint32(b[4*i:]))
			} else {
				x = binary.LittleEndian.Uint64(b[8*i:])
			}
			if x >= m.Nodes {
				return &blocks.CorruptError{Path: f.Path(), Extent: h.ExtentName(e.ID), Offset: e.Offset, Reason: fmt.Sprintf("external id %d is of node %d in a store of %d", first+i, x, m.Nodes)}
			}
			internal[i] = x
		}
		internal = internal[n:]
		first += n
	}
	return nil
}
