package partitioner

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner/graph"
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
	if nodeBytes <= 0 {
		return 0, fmt.Errorf("%w: hubs of %d bytes: nodes have no columns that take any; give a share of them", ErrOption, budget)
	}
	n := uint64(max(budget, 0)) / uint64(nodeBytes)
	if n == 0 || n > nodes/2 {
		return 0, fmt.Errorf("%w: hubs of %d bytes are %d nodes of %d bytes each, expected 1 to %d nodes, half of them: %d to %d bytes",
			ErrOption, budget, n, nodeBytes, nodes/2, nodeBytes, int64(nodes/2)*nodeBytes)
	}
	return n, nil
}

// HubBytes is what [SelectHubs] takes besides graph and classes: four vectors, and the assignment before and after.
func HubBytes(nodes uint64) int64 { return 24*int64(nodes) + selectBytes }

// Influence returns each node's influence on the training nodes (value > 0 of
// classes; all nodes if nil) of other partitions than its own: the sum over them of how likely a reverse
// lazy random walk of `hops` steps ends there that has left its partition (thesis
// section 4.3.1, equation 4.1). A lazy walk stays with probability 1/2, else goes to a uniform neighbour.
//
// The thesis sums over all training nodes (section 4.3.3). But within a partition a node is
// resident with those that need it, hub or not; and most of all a training node influences itself, so that where
// degrees are alike the hubs would be training nodes, which as hubs lose their neighbours.
//
// Each hop is one pass over the graph, which pushes the mass of walks that have left
// and of those that have not. dst and the three of scratch have one entry a node; the result is in dst.
func Influence(ctx context.Context, g graph.Graph, classes []uint16, part []blocks.PartitionID, hops int, dst []float32, scratch [3][]float32) error {
	left, nextLeft, home, nextHome := dst, scratch[0], scratch[1], scratch[2]
	clear(left)
	for v := range home {
		home[v] = 0
		if classes == nil || classes[v] > 0 {
			home[v] = 1
		}
	}
	for hop := range hops {
		clear(nextLeft)
		clear(nextHome)
		err := graph.EachNode(ctx, g, func(v uint32, neighbours []uint32) {
			away, still := left[v], home[v]
			if away == 0 && still == 0 {
				return
			}
			if len(neighbours) == 0 {
				nextLeft[v] += away
				nextHome[v] += still
				return
			}
			nextLeft[v] += away / 2
			nextHome[v] += still / 2
			share := 1 / float32(2*len(neighbours))
			away *= share
			still *= share
			for _, u := range neighbours {
				if part[u] == part[v] {
					nextLeft[u] += away
					nextHome[u] += still
				} else {
					nextLeft[u] += away + still
				}
			}
		})
		if err != nil {
			return fmt.Errorf("influence, hop %d: %w", hop+1, err)
		}
		left, nextLeft, home, nextHome = nextLeft, left, nextHome, home
	}
	if hops%2 == 1 {
		copy(dst, left)
	}
	return nil
}

// SelectHubs moves the nodes of most [Influence] into one more partition, the last, which is pinned (thesis
// section 4.3.3). a is not modified; its own
// pinned partitions must be none.
func SelectHubs(ctx context.Context, g graph.Graph, a Assigner, o HubOptions) (*Assignment, error) {
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
	case o.Classes != nil && !slices.ContainsFunc(o.Classes, func(c uint16) bool { return c > 0 }):
		return nil, fmt.Errorf("%w: hubs are chosen by their influence on training nodes, and there are none", ErrOption)
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
	var mem graph.Arrays
	defer mem.Free()
	x, scratch := mem.Float32s(int(nodes)), [3][]float32{}
	for i := range scratch {
		scratch[i] = mem.Float32s(int(nodes))
	}
	if mem.Err != nil {
		return nil, mem.Err
	}
	part := make([]blocks.PartitionID, nodes)
	a.Assign(0, part)
	if err := Influence(ctx, g, o.Classes, part, hops, x, scratch); err != nil {
		return nil, err
	}
	// Floats ≥ 0 compare like their bits.
	key := graph.Float32Bits(x)
	hub := blocks.PartitionID(a.Partitions())
	isHub := topK(key, count)
	for v := range part {
		if isHub(uint32(v)) {
			part[v] = hub
		}
	}
	return &Assignment{part: part, partitions: a.Partitions() + 1, pinned: []blocks.PartitionID{hub}}, nil
}
