// Package reach counts what a graph model sees of the nodes that it trains on: whether any neighbour sends them a message. A model whose
// training nodes have none learns from their own features alone, without a word, if nobody counts.
package reach

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// Seen counts training nodes by what a graph model sees of them. A node is no neighbour of its own.
type Seen struct {
	Training uint64 `json:"training"` // nodes
	Without  uint64 `json:"without"`  // of them, that have no neighbour in the directions that the model reads
	Isolated uint64 `json:"isolated"` // of these, that have none in the other direction either
}

// Share is the share of the training nodes that have no neighbour, 0 without training nodes.
func (s *Seen) Share() float64 { return float64(s.Without) / float64(max(1, s.Training)) }

// Options says whose neighbours [Count] counts.
type Options struct {
	Split string // column, "" the store's first
	// Both says that edges are read against their direction too. Edges of undirected graphs always are.
	Both bool
	// MemoryBytes bounds what is held outside of Go's heap: two bits a node, else the edges are read more than once, beside
	// the largest stripe of the topology. 0: no bound.
	MemoryBytes int64
}

// rangeNodes is the least number of nodes whose bits are held at once.
const rangeNodes = 1 << 16

// Count reads the graph's edges once, or more often where Options.MemoryBytes bounds it, and a byte a node of the split. read is
// what it read of the store.
func Count(ctx context.Context, st *store.Store, o Options) (s Seen, read int64, err error) {
	c := &counter{st: st, m: st.Manifest(), both: o.Both || st.Manifest().Schema.Undirected}
	column, err := c.m.SplitColumn(o.Split)
	if err != nil {
		return Seen{}, 0, fmt.Errorf("train: count neighbours: %w", err)
	}
	c.split = column.Name
	if c.m.Nodes == 0 {
		return Seen{}, 0, nil
	}
	if err := c.open(o.MemoryBytes); err != nil {
		return Seen{}, 0, fmt.Errorf("train: count neighbours: %w", err)
	}
	defer func() { err = errors.Join(err, c.stripe.Free(), c.slab.Free()) }()
	for c.first = 0; c.first < c.m.Nodes; c.first += c.nodes {
		if err := c.pass(ctx); err != nil {
			return Seen{}, c.read, fmt.Errorf("train: count neighbours: %w", err)
		}
	}
	return c.seen, c.read, nil
}

// counter counts the training nodes of a range of nodes at a time.
type counter struct {
	st     *store.Store
	m      *store.Manifest
	split  string
	both   bool
	stripe *blockio.Slab // room for the largest one; nil: no partition has edges
	slab   *blockio.Slab // of the bits
	// Of the nodes from first on: a bit says that a message arrives, or that an edge touches the node.
	arrives, touches []uint64
	first, nodes     uint64
	row              []byte // of the split
	seen             Seen
	read             int64
}

// open makes room for the largest stripe, and for the bits of as many nodes as the bound allows.
func (c *counter) open(memory int64) (err error) {
	var largest int64
	for p := range c.m.Partitions {
		_, e, err := c.st.Files().Topology(store.PartitionID(p))
		if err != nil {
			return err
		}
		largest = max(largest, e.Length)
	}
	c.nodes = (c.m.Nodes + 63) / 64 * 64
	if memory > 0 { // a quarter of a byte a node
		c.nodes = min(c.nodes, max(uint64(max(0, memory-largest))*4, rangeNodes)/64*64)
	}
	if largest > 0 {
		if c.stripe, err = blockio.AllocSlab(largest, blockio.SlabOptions{}); err != nil {
			return err
		}
	}
	words := int64(c.nodes / 64)
	if c.slab, err = blockio.AllocSlab(16*words, blockio.SlabOptions{}); err != nil {
		return errors.Join(err, c.stripe.Free())
	}
	all, err := blocks.View[uint64](c.slab.Bytes()[:16*words])
	if err != nil {
		return errors.Join(err, c.stripe.Free(), c.slab.Free())
	}
	c.arrives, c.touches = all[:words:words], all[words:]
	return nil
}

// set sets a node's bit, if it is in the range.
func (c *counter) set(of []uint64, node uint64) {
	if at := node - c.first; at < c.nodes { // nodes before the range are far behind it, as unsigned numbers
		of[at/64] |= 1 << (at % 64)
	}
}

// pass counts the training nodes of the range.
func (c *counter) pass(ctx context.Context) error {
	clear(c.arrives)
	clear(c.touches)
	for p := range c.m.Partitions {
		if c.m.Partitions[p].Nodes == 0 {
			continue
		}
		if err := c.edges(ctx, p); err != nil {
			return err
		}
	}
	if c.both {
		copy(c.arrives, c.touches)
	}
	for p := range c.m.Partitions {
		info := &c.m.Partitions[p]
		first := uint64(info.First)
		if first >= c.first+c.nodes || first+info.Nodes <= c.first {
			continue
		}
		var err error
		if c.row, err = c.st.ReadColumn(ctx, c.split, store.PartitionID(p), c.row); err != nil {
			return err
		}
		c.read += int64(len(c.row))
		for i, v := range c.row {
			if at := first + uint64(i) - c.first; v == store.SplitTrain && at < c.nodes {
				c.count(at)
			}
		}
	}
	return nil
}

// count counts a training node of the range.
func (c *counter) count(at uint64) {
	c.seen.Training++
	without := ^c.arrives[at/64] >> (at % 64) & 1
	c.seen.Without += without
	c.seen.Isolated += without & (^c.touches[at/64] >> (at % 64))
}

// edges sets the bits of the ends of the edges into partition p. Of those within it each is looked at, since it may lead from a node to
// itself; of others the lists of their ends do.
func (c *counter) edges(ctx context.Context, p int) error {
	var room []byte
	if c.stripe != nil {
		room = c.stripe.Bytes()
	}
	stripe, b, err := c.st.ReadStripe(ctx, store.PartitionID(p), room)
	if err != nil {
		return err
	}
	c.read += int64(len(b))
	dst := uint64(c.m.Partitions[p].First)
	for i := range c.m.Partitions {
		k, err := stripe.Bucket(i)
		if err != nil {
			return err
		}
		src := uint64(c.m.Partitions[i].First)
		if i == p {
			for d, s := range k.All() {
				if d != s {
					c.set(c.arrives, dst+uint64(d))
					c.set(c.touches, dst+uint64(d))
					c.set(c.touches, src+uint64(s))
				}
			}
			continue
		}
		setAll(c, c.arrives, dst, k.Dst16, k.Dst32)
		setAll(c, c.touches, dst, k.Dst16, k.Dst32)
		setAll(c, c.touches, src, k.Src16, k.Src32)
	}
	return nil
}

// setAll sets the bits of nodes of a partition, by lists of which one is empty.
func setAll(c *counter, of []uint64, first uint64, narrow []uint16, wide []uint32) {
	for _, v := range narrow {
		c.set(of, first+uint64(v))
	}
	for _, v := range wide {
		c.set(of, first+uint64(v))
	}
}
