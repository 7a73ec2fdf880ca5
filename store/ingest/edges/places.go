package edges

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store/ingest/scratch"
)

// Places maps dense ids to places (see layout): 4 bytes a node where places
// fit, 8 otherwise, off the Go heap. It is the one array of the ingester that
// grows with the nodes, and is random-accessed for every edge.
type Places struct {
	mem    []byte
	narrow []uint32
	wide   []uint64
	nodes  uint64
}

// PlaceBytes is the size of the map of n nodes under layout bits.
func PlaceBytes(n uint64, placeBits uint) int64 {
	if placeBits <= 32 {
		return int64(n) * 4
	}
	return int64(n) * 8
}

// assignBatch is how many nodes are assigned at once.
const assignBatch = 1 << 16

// PartitionSizes counts the nodes of each partition.
func PartitionSizes(ctx context.Context, a partitioner.Assigner) ([]uint32, error) {
	sizes := make([]uint32, a.Partitions())
	if known, ok := a.(partitioner.Sized); ok {
		for p := range sizes {
			sizes[p] = uint32(known.Size(blocks.PartitionID(p)))
		}
		return sizes, nil
	}
	err := eachAssigned(ctx, a, func(_ uint64, parts []blocks.PartitionID) {
		for _, p := range parts {
			sizes[p]++
		}
	})
	return sizes, err
}

func eachAssigned(ctx context.Context, a partitioner.Assigner, fn func(first uint64, parts []blocks.PartitionID)) error {
	buf := make([]blocks.PartitionID, assignBatch)
	for first := uint64(0); first < a.Nodes(); first += assignBatch {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(assignBatch, a.Nodes()-first)]
		a.Assign(first, b)
		fn(first, b)
	}
	return nil
}

// AllocPlaces makes a map of n nodes for the places of l.
func AllocPlaces(n uint64, l *Layout) (*Places, error) {
	m := &Places{nodes: n}
	mem, err := scratch.Alloc(PlaceBytes(n, l.PlaceBits()))
	if err != nil {
		return nil, fmt.Errorf("map of %d nodes: %w", n, err)
	}
	m.mem = mem
	if l.PlaceBits() <= 32 {
		m.narrow, err = blocks.View[uint32](mem)
	} else {
		m.wide, err = blocks.View[uint64](mem)
	}
	return m, err
}

// NewPlaces numbers the nodes of each partition by ascending dense id.
func NewPlaces(ctx context.Context, a partitioner.Assigner, l *Layout) (*Places, error) {
	m, err := AllocPlaces(a.Nodes(), l)
	if err != nil {
		return nil, err
	}
	next := make([]uint64, l.Partitions())
	for p := range next {
		next[p] = uint64(p) << l.LocalBits
	}
	err = eachAssigned(ctx, a, func(first uint64, parts []blocks.PartitionID) {
		for i, p := range parts {
			m.Set(first+uint64(i), next[p])
			next[p]++
		}
	})
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Set notes the place of a node.
func (m *Places) Set(id, place uint64) {
	if m.narrow != nil {
		m.narrow[id] = uint32(place)
	} else {
		m.wide[id] = place
	}
}

// Of is the place of a node.
func (m *Places) Of(id uint64) uint64 {
	if m.narrow != nil {
		return uint64(m.narrow[id])
	}
	return m.wide[id]
}

// lookup replaces ids by places. It returns the index of the first id out of
// range, −1 if there is none.
func (m *Places) lookup(ids, out []uint64) int {
	if m.narrow != nil {
		return lookupPlaces(m.narrow, ids, out)
	}
	return lookupPlaces(m.wide, ids, out)
}

func lookupPlaces[T uint32 | uint64](m []T, ids, out []uint64) int {
	out = out[:len(ids)]
	for i, id := range ids {
		if id >= uint64(len(m)) {
			return i
		}
		out[i] = uint64(m[id])
	}
	return -1
}

// Close frees the map.
func (m *Places) Close() {
	scratch.Free(m.mem)
	m.mem, m.narrow, m.wide = nil, nil, nil
}
