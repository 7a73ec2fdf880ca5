package link

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// topology is a store's whole graph in memory, in both directions, with relations if there are several. Row v is the node of
// internal id v; its neighbours lie in order of theirs, of whatever macro-batch is trained.
type topology struct {
	in, out buffer.Adjacency
	slab    *blockio.Slab
	read    int64 // bytes
}

// stripeBytes is how much topology is read at a time, if no bucket is larger.
const stripeBytes = 4 << 20

// stripeLimit is stripeBytes, or less for a small graph.
func stripeLimit(m *store.Manifest) int64 {
	return min(stripeBytes, blocks.AlignUp(blocks.RangeBytes(8*int64(m.Edges))))
}

// topologyBytes is what a store's topology takes: for each direction 4 bytes a node, and 4, with relations 6, an edge.
func topologyBytes(m *store.Manifest) int64 {
	edge := int64(4)
	if len(m.Schema.Relations) > 1 {
		edge += 2
	}
	return 2 * blocks.AlignUp(4*int64(m.Nodes+1)+edge*int64(m.Edges))
}

// openTopology reads the stripes of st twice: for degrees, then for neighbours.
func openTopology(ctx context.Context, st *store.Store) (_ *topology, err error) {
	m, t := st.Manifest(), &topology{}
	if t.slab, err = blockio.AllocSlab(topologyBytes(m), blockio.SlabOptions{Lazy: true}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	n, edges := int64(m.Nodes), int64(m.Edges)
	for i, a := range []*buffer.Adjacency{&t.in, &t.out} {
		words, err := blocks.View[uint32](t.slab.Bytes()[int64(i)*topologyBytes(m)/2:][:4*(n+1+edges)])
		if err != nil {
			return nil, err
		}
		a.Starts, a.Indices, a.Bases = words[:n+1], words[n+1:], make([]int64, n>>16+1)
		if len(m.Schema.Relations) > 1 {
			if a.Relations, err = blocks.View[uint16](t.slab.Bytes()[int64(i)*topologyBytes(m)/2+4*(n+1+edges):][:2*edges]); err != nil {
				return nil, err
			}
		}
	}
	if err := t.edges(ctx, st, func(dst, src uint32, _ uint16) { t.in.Starts[dst]++; t.out.Starts[src]++ }); err != nil {
		return nil, err
	}
	for _, a := range []*buffer.Adjacency{&t.in, &t.out} {
		if err := a.Begin(); err != nil {
			return nil, err
		}
	}
	err = t.edges(ctx, st, func(dst, src uint32, relation uint16) {
		t.in.Put(dst, src, relation, 0)
		t.out.Put(src, dst, relation, 0)
	})
	t.in.End()
	t.out.End()
	return t, err
}

// edges is eachEdge of the whole store, and counts what is read.
func (t *topology) edges(ctx context.Context, st *store.Store, f func(dst, src uint32, relation uint16)) error {
	m := st.Manifest()
	columns := relationColumns(m)
	for j := range m.Partitions {
		_, x, err := st.Files().Topology(store.PartitionID(j))
		if err != nil {
			return err
		}
		t.read += blocks.AlignUp(x.Length)
		for _, c := range columns {
			_, x, err := st.Files().Column(c.Name, store.PartitionID(j))
			if err != nil {
				return err
			}
			t.read += blocks.AlignUp(x.Length)
		}
	}
	return eachEdge(ctx, st, 0, len(m.Partitions), func(dst, src uint32, relation uint16) error {
		f(dst, src, relation)
		return nil
	})
}

// relationColumns are the columns that say of what relation an edge is, where there are several.
func relationColumns(m *store.Manifest) []*store.ColumnInfo {
	if len(m.Schema.Relations) > 1 {
		return m.ColumnsOf(store.RoleRelation)
	}
	return nil
}

// eachEdge calls f with internal ids and relation of every edge with an end in partitions lo ≤ p < hi, ordered by partition of the
// destination, partition of the source, destination, source.
func eachEdge(ctx context.Context, st *store.Store, lo, hi int, f func(dst, src uint32, relation uint16) error) (err error) {
	m := st.Manifest()
	columns := relationColumns(m)
	stripes := st.ReadStripes(columns, stripeLimit(m), 0)
	defer func() { err = errors.Join(err, stripes.Close()) }()
	for j := range m.Partitions {
		first, last := lo, hi
		if j >= lo && j < hi {
			first, last = 0, len(m.Partitions)
		}
		err := stripes.Stripe(ctx, store.PartitionID(j), first, last, func(b *store.BucketPart) error {
			to, from := m.Partitions[b.Dst], m.Partitions[b.Src]
			if err := b.Check(); err != nil {
				return err
			}
			if uint64(b.DstNodes) != to.Nodes || uint64(b.SrcNodes) != from.Nodes {
				return fmt.Errorf("%w: bucket (%d,%d) of %d and %d nodes, expected %d and %d", store.ErrCorrupt, b.Src, b.Dst, b.SrcNodes, b.DstNodes, from.Nodes, to.Nodes)
			}
			k := 0
			for dst, src := range b.All() {
				relation := uint16(0)
				if len(columns) > 0 {
					if relation, err = relationAt(b.Columns[0], columns[0].Elem, k); err != nil {
						return err
					}
				}
				if err := f(uint32(to.First)+dst, uint32(from.First)+src, relation); err != nil {
					return err
				}
				k++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// relationAt is number k of a relation column.
func relationAt(column []byte, elem blocks.ElemType, k int) (uint16, error) {
	switch {
	case elem == blocks.Uint8 && k < len(column):
		return uint16(column[k]), nil
	case elem == blocks.Uint16 && 2*k+1 < len(column):
		return uint16(column[2*k]) | uint16(column[2*k+1])<<8, nil
	}
	return 0, fmt.Errorf("%w: edge %d of a relation column of %d bytes of %v", store.ErrCorrupt, k, len(column), elem)
}

func (t *topology) close() error { return t.slab.Free() }
