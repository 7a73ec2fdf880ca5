package table

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// From is a table whose rows another one begins with.
type From struct {
	// Table is of the same Dim, was opened without an engine, and has rows of all nodes of its version. It stays the caller's.
	Table *Table
	// Scale is what embeddings are multiplied by. State has the optimiser's state begin with Table's, which has as much of it then, and not as a
	// new table's.
	Scale float32
	State bool
	// Rows sets old, one for each of partition p's nodes in order, to the node of Table's version whose row it begins with;
	// [store.NoNode] stands for none.
	Rows func(ctx context.Context, p store.PartitionID, old []store.NodeID) error
	// Init sets the first embeddings of consecutive nodes of partition p, its row-th and those behind, that have none; their state is zeros.
	Init func(ctx context.Context, p store.PartitionID, row uint64, rows []float32) error
}

// check refuses a table of another shape, and reads what is taken of it once, as single rows have no checksums.
func (f *From) check(ctx context.Context, o *Options) error {
	t := f.Table
	if t.record.Dim != o.Dim || f.State && t.record.States != o.States || t.record.Some || o.Some != nil {
		return fmt.Errorf("%w: table %q of dim %d with %d state planes begins with table %q of dim %d with %d: expected the same, and rows of all nodes",
			store.ErrInvalid, o.Name, o.Dim, o.States, t.record.Name, t.record.Dim, t.record.States)
	}
	most := int64(1)
	for p := range t.layout.Nodes {
		most = max(most, t.PlaneBytes(store.PartitionID(p)))
	}
	room, err := blockio.AllocSlab(most, blockio.SlabOptions{Threads: 1})
	if err != nil {
		return err
	}
	planes := 1
	if f.State {
		planes = t.layout.Planes
	}
	return errors.Join(t.verify(ctx, planes, room.Bytes()), room.Free())
}

// filler fills a new table's file, front to back, with the rows of another one, and new ones where that has none.
type filler struct {
	*From
	ctx   context.Context
	nodes []uint64       // of the new table's partitions
	first []uint64       // nodes of Table's partitions before each one, and of all
	of    int            // the partition that old is of
	old   []store.NodeID // see [From].Rows
}

func newFiller(ctx context.Context, from *From, nodes []uint64) *filler {
	f := &filler{From: from, ctx: ctx, nodes: nodes, first: []uint64{0}, of: -1}
	for _, n := range from.Table.layout.Nodes {
		f.first = append(f.first, f.first[len(f.first)-1]+n)
	}
	return f
}

// fill is the callback of [blocks.CreateEmbedding]: runs of rows that lie next to each other in the other table are read together.
func (f *filler) fill(p store.PartitionID, plane int, row uint64, b []byte) error {
	if plane > 0 && !f.State {
		clear(b)
		return nil
	}
	if f.of != int(p) {
		f.of, f.old = int(p), make([]store.NodeID, f.nodes[p])
		if err := f.Rows(f.ctx, p, f.old); err != nil {
			return err
		}
	}
	rowBytes := f.Table.layout.Header.RowBytes()
	for len(b) > 0 {
		old := f.old[row:]
		n, most := 1, int(int64(len(b))/rowBytes)
		if old[0] == store.NoNode {
			for n < most && old[n] == store.NoNode {
				n++
			}
			if err := f.begin(p, plane, row, b[:int64(n)*rowBytes]); err != nil {
				return err
			}
		} else {
			q := sort.Search(len(f.first)-1, func(q int) bool { return f.first[q+1] > uint64(old[0]) })
			if q == len(f.first)-1 {
				return fmt.Errorf("%w: node %d of table %q, which has %d", store.ErrNotFound, old[0], f.Table.record.Name, f.first[q])
			}
			for n < most && old[n] == old[0]+store.NodeID(n) && uint64(old[n]) < f.first[q+1] {
				n++
			}
			rows := b[:int64(n)*rowBytes]
			if err := f.Table.readRows(f.ctx, store.PartitionID(q), plane, uint64(old[0])-f.first[q], rows); err != nil {
				return err
			}
			if err := f.scale(plane, rows); err != nil {
				return err
			}
		}
		b, row = b[int64(n)*rowBytes:], row+uint64(n)
	}
	return nil
}

// scale makes embeddings that were read what the table begins with.
func (f *filler) scale(plane int, b []byte) error {
	if plane > 0 || f.Scale == 1 {
		return nil
	}
	x, err := blocks.View[float32](b)
	for i := range x {
		x[i] *= f.Scale
	}
	return err
}

// begin fills in rows that the other table does not have.
func (f *filler) begin(p store.PartitionID, plane int, row uint64, b []byte) error {
	if plane > 0 {
		clear(b)
		return nil
	}
	x, err := blocks.View[float32](b)
	if err != nil {
		return err
	}
	return f.Init(f.ctx, p, row, x)
}
