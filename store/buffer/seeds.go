package buffer

import (
	"slices"

	"github.com/gstore/gstore/store"
)

// SeedsIn returns those of ascending nodes that a partition has.
func SeedsIn(seeds []store.NodeID, p *store.PartitionInfo) []store.NodeID {
	lo, _ := slices.BinarySearch(seeds, p.First)
	n, _ := slices.BinarySearch(seeds[lo:], p.First+store.NodeID(p.Nodes))
	return seeds[lo : lo+n]
}

// CountSeeds counts ascending nodes by partition.
func CountSeeds(seeds []store.NodeID, m *store.Manifest) []uint64 {
	counts := make([]uint64, len(m.Partitions))
	for p := range counts {
		counts[p] = uint64(len(SeedsIn(seeds, &m.Partitions[p])))
	}
	return counts
}
