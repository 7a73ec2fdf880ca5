package edges

import (
	"fmt"
	"github.com/gstore/gstore/store/ingest/source"
	"math/bits"
)

// Layout says where nodes lie. A node's place is its partition and its local
// id packed into one number, part << LocalBits | local: places order like
// internal ids, and both halves come out without a look-up.
//
// An edge's key packs, from the top: the dst partition's number within its
// shard, src partition, dst local, src local, then the payload bits of edges
// whose columns are narrow enough to ride along. Sorting keys inside a shard,
// shards in order, is the order of the format.
type Layout struct {
	Nodes      uint64
	Sizes      []uint32 // nodes of each partition
	First      []uint64 // internal id of each partition's first node; len p+1
	LocalBits  uint
	partBits   uint
	groupBits  uint // a shard holds 1<<groupBits dst partitions
	InlineBits uint // payload bits in the key
}

// NewLayout plans keys for partitions of the given sizes. PayloadBits is what
// edge columns take, shardsMin and shardsMax bound the number of shards.
func NewLayout(sizes []uint32, payloadBits uint, shardsMax int) (*Layout, error) {
	l := &Layout{Sizes: sizes, First: make([]uint64, len(sizes)+1)}
	largest := uint32(0)
	for p, n := range sizes {
		l.First[p+1] = l.First[p] + uint64(n)
		largest = max(largest, n)
	}
	l.Nodes = l.First[len(sizes)]
	l.LocalBits = uint(bits.Len32(max(largest, 1) - 1))
	l.partBits = uint(bits.Len(uint(len(sizes) - 1)))
	for (len(sizes)-1)>>l.groupBits+1 > shardsMax {
		l.groupBits++
	}
	base := l.partBits + 2*l.LocalBits
	for l.groupBits > 0 && base+l.groupBits > 64 {
		l.groupBits--
	}
	if base+l.groupBits > 64 {
		return nil, fmt.Errorf("%w: %d partitions of up to %d nodes need %d key bits (most: 64); use more partitions",
			source.ErrOptions, len(sizes), largest, base)
	}
	// Whether columns ride in the key must not depend on the number of shards,
	// which depends on the budget: ties are ordered differently otherwise.
	if payloadBits > 0 && base+l.partBits+payloadBits <= 64 {
		l.InlineBits = payloadBits
	}
	return l, nil
}

// Partitions is their number.
func (l *Layout) Partitions() int { return len(l.Sizes) }

// Shards is the number of shards that keys are distributed over.
func (l *Layout) Shards() int { return (len(l.Sizes)-1)>>l.groupBits + 1 }

// PlaceBits is the width of a place.
func (l *Layout) PlaceBits() uint { return l.partBits + l.LocalBits }

// PlaceBits is that of a layout of partitions, the largest of so many nodes.
func PlaceBits(partitions int, largest uint64) uint {
	return uint(bits.Len(uint(partitions-1)) + bits.Len64(max(largest, 1)-1))
}

// key packs an edge between places, without payload bits, and returns its shard.
func (l *Layout) key(src, dst uint64) (shard int, key uint64) {
	lb := l.LocalBits
	mask := uint64(1)<<lb - 1
	dp, sp := dst>>lb, src>>lb
	dp, shard = dp&(1<<l.groupBits-1), int(dp>>l.groupBits)
	return shard, ((dp<<l.partBits|sp)<<lb|dst&mask)<<lb | src&mask
}

// Internal returns the internal id of a place.
func (l *Layout) Internal(place uint64) uint64 {
	return l.First[place>>l.LocalBits] + place&(1<<l.LocalBits-1)
}
