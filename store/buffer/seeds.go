package buffer

import (
	"fmt"
	"iter"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/gstore/gstore/store"
)

// Seeds are given nodes to train on. The set outlives every macro-batch and is asked for ranges of it alone, for which a roaring bitmap
// (Lemire et al., "Roaring Bitmaps: Implementation of an Optimized Software Library", 2018) takes two bytes a node or less, a bit where
// seeds are dense, and an array eight. It does not change and may be read by many goroutines.
type Seeds struct {
	set   *roaring64.Bitmap
	count int
}

// NewSeeds makes the set of ascending nodes, each once, of a store of so many; the caller may reuse them.
func NewSeeds(ascending []store.NodeID, nodes uint64) (*Seeds, error) {
	s := &Seeds{roaring64.New(), len(ascending)}
	for i, v := range ascending {
		if uint64(v) >= nodes || i > 0 && ascending[i-1] >= v {
			return nil, fmt.Errorf("%w: seed %d is node %d, expected ascending nodes below %d, each once", store.ErrInvalid, i, v, nodes)
		}
		s.set.Add(uint64(v))
	}
	s.set.RunOptimize()
	return s, nil
}

// Len is how many there are.
func (s *Seeds) Len() int { return s.count }

// Bytes is about what the set takes in memory; 0 of nil.
func (s *Seeds) Bytes() int64 {
	if s == nil {
		return 0
	}
	return 2 * int64(s.set.GetSizeInBytes())
}

// most is the largest; 0 of none.
func (s *Seeds) most() store.NodeID {
	if s.count == 0 {
		return 0
	}
	return store.NodeID(s.set.Maximum())
}

// below is how many are less than v.
func (s *Seeds) below(v store.NodeID) uint64 {
	if v == 0 {
		return 0
	}
	return s.set.Rank(uint64(v) - 1)
}

// In yields those that a partition has, ascending.
func (s *Seeds) In(p *store.PartitionInfo) iter.Seq[store.NodeID] {
	return func(yield func(store.NodeID) bool) {
		it, end := s.set.Iterator(), uint64(p.First)+p.Nodes
		for it.AdvanceIfNeeded(uint64(p.First)); it.HasNext(); {
			if v := it.Next(); v >= end || !yield(store.NodeID(v)) {
				return
			}
		}
	}
}

// All yields all of them, ascending.
func (s *Seeds) All() iter.Seq[store.NodeID] {
	return func(yield func(store.NodeID) bool) {
		for it := s.set.Iterator(); it.HasNext(); {
			if !yield(store.NodeID(it.Next())) {
				return
			}
		}
	}
}

// Count counts them by partition.
func (s *Seeds) Count(m *store.Manifest) []uint64 {
	counts := make([]uint64, len(m.Partitions))
	for p := range counts {
		info := &m.Partitions[p]
		counts[p] = s.below(info.First+store.NodeID(info.Nodes)) - s.below(info.First)
	}
	return counts
}
