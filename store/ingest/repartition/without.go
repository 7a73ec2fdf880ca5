package repartition

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/source"
)

// Without takes nodes, by s's internal ids, out of s, with all edges that lead from or to them, and commits the result as the store's next
// version: all other nodes stay in their partitions, with their columns and external ids. What was computed from the graph before is left
// out. Nodes that learn vectors keep the numbers that they have, so that models which were trained before know them; nobody gets the numbers
// of the ones that go. Of o what counts for [Run] does. keepVersions is how many versions the store has afterwards, 0 as many as by default: earlier ones still
// have the nodes.
//
// After a failure the store is as it was.
func Without(ctx context.Context, s *store.Store, gone *roaring64.Bitmap, keepVersions int, o ingest.Options) (*ingest.Report, error) {
	m := s.Manifest()
	n := gone.GetCardinality()
	switch {
	case n == 0:
		return nil, fmt.Errorf("%w: no nodes are to be taken out", source.ErrOptions)
	case gone.Maximum() >= m.Nodes:
		return nil, fmt.Errorf("%w: node %d of %d", source.ErrOptions, gone.Maximum(), m.Nodes)
	case n == m.Nodes:
		return nil, fmt.Errorf("%w: all of the store's %d nodes are to be taken out", source.ErrOptions, n)
	}
	return run(ctx, s, staying{m}, gone, keepVersions, o)
}

// staying is the assignment of nodes to the partitions that they are in, by internal ids.
type staying struct{ m *store.Manifest }

func (a staying) Nodes() uint64                { return a.m.Nodes }
func (a staying) Partitions() int              { return len(a.m.Partitions) }
func (a staying) Pinned() []blocks.PartitionID { return a.m.Pinned }

// Assign implements [partitioner.Assigner].
func (a staying) Assign(first uint64, dst []blocks.PartitionID) {
	for i := 0; i < len(dst); {
		p, err := a.m.Partition(store.NodeID(first + uint64(i)))
		if err != nil { // it is one of Nodes
			panic(err)
		}
		info := &a.m.Partitions[p]
		for ; i < len(dst) && first+uint64(i) < uint64(info.First)+info.Nodes; i++ {
			dst[i] = p
		}
	}
}

// leaveOut takes nodes out of what is streamed.
func (src *storeSource) leaveOut(gone *roaring64.Bitmap) error {
	d := &src.desc
	if len(d.NodeTypes) > 1 && !src.known {
		return errors.New("the store does not say of which type each node is: nodes cannot be taken out of it")
	}
	src.gone = gone
	var order []stretch
	for _, t := range src.order {
		base := uint64(src.m.Partitions[t.part].First)
		kind := max(t.kind, 1) - 1
		row, end := t.first, t.first+t.rows
		it := gone.Iterator()
		for it.AdvanceIfNeeded(base + row); row < end; {
			stop := end
			if it.HasNext() {
				stop = min(end, it.PeekNext()-base)
			}
			if stop > row {
				order = append(order, stretch{part: t.part, kind: t.kind, first: row, rows: stop - row})
			}
			if row = stop; row < end { // it is gone
				d.NodeTypes[kind].Count--
				row++
				it.Next()
			}
		}
	}
	src.order = order
	d.Nodes -= int64(gone.GetCardinality())
	d.Edges = -1
	d.NodeColumns = slices.DeleteFunc(d.NodeColumns, func(spec source.ColumnSpec) bool {
		c, err := src.m.Column(spec.Name)
		derived := err == nil && c.Derived != ""
		if derived {
			src.notes = append(src.notes, fmt.Sprintf("column %s is not in this version: it was computed from the graph before (gstore precompute adds it again)", spec.Name))
		}
		return derived
	})
	src.number()
	return nil
}

// without reports whether one of an edge's ends is taken out.
func (src *storeSource) without(s, d store.NodeID) bool {
	return src.gone != nil && (src.gone.Contains(uint64(s)) || src.gone.Contains(uint64(d)))
}

// keepNumbers says how many numbers of learned vectors were given, where nodes that had some are gone.
func (src *storeSource) keepNumbers(c *store.ColumnInfo) {
	if k, ok := src.m.Category(c.Name); ok && src.gone != nil && c.Categories == nil && c.Name != store.TypeColumn {
		c.Numbered = k.Nodes
	}
}
