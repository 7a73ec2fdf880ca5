package ingest

import (
	"fmt"
	"math/bits"
)

// layout says where nodes lie. A node's place is its partition and its local
// id packed into one number, part << localBits | local: places order like
// internal ids, and both halves come out without a look-up.
//
// An edge's key packs, from the top: the dst partition's number within its
// shard, src partition, dst local, src local, then the payload bits of edges
// whose columns are narrow enough to ride along. Sorting keys inside a shard,
// shards in order, is the order of the format.
type layout struct {
	nodes      uint64
	sizes      []uint32 // nodes of each partition
	first      []uint64 // internal id of each partition's first node; len p+1
	localBits  uint
	partBits   uint
	groupBits  uint // a shard holds 1<<groupBits dst partitions
	inlineBits uint // payload bits in the key
}

// newLayout plans keys for partitions of the given sizes. payloadBits is what
// edge columns take, shardsMin and shardsMax bound the number of shards.
func newLayout(sizes []uint32, payloadBits uint, shardsMax int) (*layout, error) {
	l := &layout{sizes: sizes, first: make([]uint64, len(sizes)+1)}
	largest := uint32(0)
	for p, n := range sizes {
		l.first[p+1] = l.first[p] + uint64(n)
		largest = max(largest, n)
	}
	l.nodes = l.first[len(sizes)]
	l.localBits = uint(bits.Len32(max(largest, 1) - 1))
	l.partBits = uint(bits.Len(uint(len(sizes) - 1)))
	for (len(sizes)-1)>>l.groupBits+1 > shardsMax {
		l.groupBits++
	}
	base := l.partBits + 2*l.localBits
	for l.groupBits > 0 && base+l.groupBits > 64 {
		l.groupBits--
	}
	if base+l.groupBits > 64 {
		return nil, fmt.Errorf("%w: %d partitions of up to %d nodes need %d key bits (most: 64); use more partitions",
			ErrOptions, len(sizes), largest, base)
	}
	// Whether columns ride in the key must not depend on the number of shards,
	// which depends on the budget: ties are ordered differently otherwise.
	if payloadBits > 0 && base+l.partBits+payloadBits <= 64 {
		l.inlineBits = payloadBits
	}
	return l, nil
}

func (l *layout) partitions() int { return len(l.sizes) }
func (l *layout) shards() int     { return (len(l.sizes)-1)>>l.groupBits + 1 }

// placeBits is the width of a place.
func (l *layout) placeBits() uint { return l.partBits + l.localBits }

// placeBits is that of a layout of partitions, the largest of so many nodes.
func placeBits(partitions int, largest uint64) uint {
	return uint(bits.Len(uint(partitions-1)) + bits.Len64(max(largest, 1)-1))
}

// key packs an edge between places, without payload bits, and returns its shard.
func (l *layout) key(src, dst uint64) (shard int, key uint64) {
	lb := l.localBits
	mask := uint64(1)<<lb - 1
	dp, sp := dst>>lb, src>>lb
	dp, shard = dp&(1<<l.groupBits-1), int(dp>>l.groupBits)
	return shard, ((dp<<l.partBits|sp)<<lb|dst&mask)<<lb | src&mask
}

// internal returns the internal id of a place.
func (l *layout) internal(place uint64) uint64 {
	return l.first[place>>l.localBits] + place&(1<<l.localBits-1)
}
