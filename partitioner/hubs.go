package partitioner

import (
	"context"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
)

// HubOptions of [SelectHubs]. The zero value of a field means its default.
type HubOptions struct {
	// Fraction of the nodes that become hubs, or Count of them if that is not 0; one is required.
	Fraction float64
	Count    uint64
	// Hops is L, the layers of the model. Default 2.
	Hops int
	// Classes tells training nodes (value > 0) from others, as in Options; nil means that all are.
	Classes []uint16
	// MemoryBytes bounds the memory besides graph and classes, both assignments included; 0 means no bound.
	MemoryBytes int64
}

// HubCount is how many nodes of nodeBytes each a budget pins: 1 to half of nodes, else [ErrOption].
func HubCount(budget, nodeBytes int64, nodes uint64) (uint64, error) {
	n := uint64(max(budget, 0)) / uint64(max(nodeBytes, 1))
	if n == 0 || n > nodes/2 {
		return 0, fmt.Errorf("%w: hubs of %d bytes are %d nodes of %d bytes, expected 1 to half of %d", ErrOption, budget, n, nodeBytes, nodes)
	}
	return n, nil
}

// HubBytes is what [SelectHubs] takes besides graph and classes: two vectors, and the assignment before and after.
func HubBytes(nodes uint64) int64 { return 16*int64(nodes) + selectBytes }

// Influence returns each node's influence on the training nodes (value > 0 of
// classes; all nodes if nil): how likely reverse lazy random walks of `hops` steps, one from each of
// them, end there (thesis section 4.3.1, equation 4.1, where the sum over
// partitions of section 4.3.3 is this sum over their training nodes, since
// the product is linear). A lazy walk stays with probability 1/2, else goes to a uniform neighbour.
//
// Each hop is one pass over the graph: x ← Ã·x by streaming rows. dst and
// scratch have one entry a node; the result is in dst.
func Influence(ctx context.Context, g Graph, classes []uint16, hops int, dst, scratch []float32) error {
	for v := range dst {
		dst[v] = 0
		if classes == nil || classes[v] > 0 {
			dst[v] = 1
		}
	}
	x, next := dst, scratch
	for hop := range hops {
		clear(next)
		err := eachNode(ctx, g, func(v uint32, neighbours []uint32) {
			mass := x[v]
			if mass == 0 {
				return
			}
			if len(neighbours) == 0 {
				next[v] += mass
				return
			}
			next[v] += mass / 2
			share := mass / float32(2*len(neighbours))
			for _, u := range neighbours {
				next[u] += share
			}
		})
		if err != nil {
			return fmt.Errorf("influence, hop %d: %w", hop+1, err)
		}
		x, next = next, x
	}
	if hops%2 == 1 {
		copy(dst, scratch)
	}
	return nil
}

// SelectHubs moves the nodes of most influence on the training nodes into one
// more partition, the last, which is pinned (thesis section 4.3.3). a is not modified; its own
// pinned partitions must be none.
func SelectHubs(ctx context.Context, g Graph, a Assigner, o HubOptions) (*Assignment, error) {
	nodes := a.Nodes()
	count := o.Count
	if count == 0 {
		count = uint64(math.Round(o.Fraction * float64(nodes)))
	}
	switch {
	case !(o.Fraction >= 0 && o.Fraction <= 0.5) || count == 0 || count > nodes/2:
		return nil, fmt.Errorf("%w: %d hubs (fraction %g) of %d nodes, expected 1 to half of them", ErrOption, count, o.Fraction, nodes)
	case len(a.Pinned()) > 0:
		return nil, fmt.Errorf("%w: the assignment has pinned partitions already", ErrOption)
	case g.Nodes() != nodes || o.Classes != nil && uint64(len(o.Classes)) != nodes:
		return nil, fmt.Errorf("%w: %d nodes assigned, %d in the graph, %d classes", ErrOption, nodes, g.Nodes(), len(o.Classes))
	case a.Partitions() >= MaxPartitions:
		return nil, fmt.Errorf("%w: no partition is left for hubs", ErrOption)
	}
	hops := o.Hops
	if hops == 0 {
		hops = 2
	}
	if need := HubBytes(nodes); o.MemoryBytes > 0 && need > o.MemoryBytes {
		return nil, fmt.Errorf("%w: hubs among %d nodes need %d bytes besides the graph, the budget has %d", ErrBudget, nodes, need, o.MemoryBytes)
	}
	var mem arrays
	defer mem.free()
	x, scratch := mem.float32s(int(nodes)), mem.float32s(int(nodes))
	if mem.err != nil {
		return nil, mem.err
	}
	if err := Influence(ctx, g, o.Classes, hops, x, scratch); err != nil {
		return nil, err
	}
	// Floats ≥ 0 compare like their bits.
	key := float32Bits(x)
	part := make([]blocks.PartitionID, nodes)
	a.Assign(0, part)
	hub := blocks.PartitionID(a.Partitions())
	isHub := topK(key, count)
	for v := range part {
		if isHub(uint32(v)) {
			part[v] = hub
		}
	}
	return &Assignment{part: part, partitions: a.Partitions() + 1, pinned: []blocks.PartitionID{hub}}, nil
}
