package partitioner

import (
	"context"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner/graph"
)

// hdr is HyDRA's high-degree replication (SC'24, Algorithm 1): the top
// o.HubFraction of nodes by degree are in reach of every partition, and the others go, in
// groups of consecutive ids, to the partition with the lowest sum of degrees
// so far. Where HyDRA copies the top nodes into every partition, gstore pins one
// partition that holds them: the same nodes are resident, once.
//
// One pass for degrees, which are kept (4 bytes a node).
func hdr(ctx context.Context, g graph.Graph, o Options) (*Assignment, error) {
	nodes := g.Nodes()
	if need := 8*int64(nodes) + selectBytes + 16*int64(o.Partitions); o.MemoryBytes > 0 && need > o.MemoryBytes {
		return nil, fmt.Errorf("%w: hdr over %d nodes needs %d bytes besides the graph, the budget has %d", ErrBudget, nodes, need, o.MemoryBytes)
	}
	var a graph.Arrays
	defer a.Free()
	degree := a.Uint32s(int(nodes))
	if a.Err != nil {
		return nil, a.Err
	}
	err := graph.EachNode(ctx, g, func(v uint32, neighbours []uint32) {
		degree[v] = uint32(min(len(neighbours), math.MaxUint32))
	})
	if err != nil {
		return nil, fmt.Errorf("hdr: degrees: %w", err)
	}
	hubs := uint64(o.HubFraction * float64(nodes))
	k := o.Partitions
	part := make([]blocks.PartitionID, nodes)
	isHub := topK(degree, hubs)
	limit := o.limit(nodes - hubs)
	load, size := make([]uint64, k), make([]uint32, k)
	// HyDRA's batch size n: 64 groups a partition balance degrees and leave
	// most of an input's locality.
	batch, left := max(nodes/uint64(k)/64, 1), uint64(0)
	to := 0
	for v := range part {
		if isHub(uint32(v)) {
			part[v] = blocks.PartitionID(k)
			continue
		}
		if left == 0 || size[to] >= limit {
			left, to = batch, -1
			for p := range k {
				if size[p] < limit && (to < 0 || load[p] < load[to]) {
					to = p
				}
			}
		}
		part[v] = blocks.PartitionID(to)
		size[to]++
		load[to] += uint64(degree[v])
		left--
	}
	if o.Progress != nil {
		largest := 0.0
		for _, n := range size {
			largest = max(largest, float64(n))
		}
		o.Progress(Pass{
			Method: MethodHDR, Pass: 1, Cycle: 1, Edges: g.Entries() / 2, Moved: nodes, CutRate: -1,
			Largest: largest * float64(k) / max(float64(nodes-hubs), 1),
		})
	}
	if hubs == 0 {
		return &Assignment{part: part, partitions: k}, nil
	}
	return &Assignment{part: part, partitions: k + 1, pinned: []blocks.PartitionID{blocks.PartitionID(k)}}, nil
}

// Memory of topK.
const selectBytes = 2 << 19

// topK selects the k nodes of the highest keys, ties by the lower id, with two histograms
// of 2^16 cells and no sorting. The function it returns must be called with
// every node once, ascending.
func topK(key []uint32, k uint64) func(v uint32) bool {
	cell := make([]uint64, 1<<16)
	find := func(in func(x uint32) (uint32, bool), k uint64) (at uint32, left uint64) {
		clear(cell)
		for _, x := range key {
			if c, ok := in(x); ok {
				cell[c]++
			}
		}
		for c := len(cell) - 1; c > 0; c-- {
			if cell[c] > k {
				return uint32(c), k
			}
			k -= cell[c]
		}
		return 0, k
	}
	high, left := find(func(x uint32) (uint32, bool) { return x >> 16, true }, k)
	low, ties := find(func(x uint32) (uint32, bool) { return x & 0xffff, x>>16 == high }, left)
	bar := high<<16 | low // everything above is in, and `ties` of those at it
	return func(v uint32) bool {
		switch x := key[v]; {
		case x > bar:
			return true
		case x == bar && ties > 0:
			ties--
			return true
		}
		return false
	}
}
