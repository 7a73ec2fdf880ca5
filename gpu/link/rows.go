package link

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/table"
)

// residentRows are the embeddings of a macro-batch that holds all partitions, valid as long as it is.
func residentRows(mb *buffer.MacroBatch, dim int) eval.Embeddings {
	return func(_ context.Context, id store.PartitionID) ([]byte, error) {
		for _, p := range mb.Partitions {
			if p.ID == id {
				return blocks.Bytes(mb.Planes[0][int(p.Base)*dim : int(p.Base+p.Nodes)*dim]), nil
			}
		}
		return nil, fmt.Errorf("evaluation: partition %d is not in memory: %w", id, store.ErrNotFound)
	}
}

// tableRows reads embeddings from a table, a partition at a time into one buffer.
type tableRows struct {
	t    *table.Table
	room *blockio.Slab // nil until used
}

// newTableRows reads from t, which must stay open.
func newTableRows(t *table.Table) *tableRows { return &tableRows{t: t} }

// Bytes returns the memory that reading takes.
func (r *tableRows) Bytes() int64 {
	var most int64
	for p := range r.t.Partitions() {
		most = max(most, r.t.PlaneBytes(store.PartitionID(p)))
	}
	return most
}

// tableRowsBytes is TableRows.Bytes of a table that is yet to be made.
func tableRowsBytes(m *store.Manifest, dim int) int64 {
	var most int64
	for _, p := range m.Partitions {
		most = max(most, blocks.AlignUp(int64(p.Nodes)*int64(dim)*4))
	}
	return most
}

// Read implements [eval.Embeddings].
func (r *tableRows) Read(ctx context.Context, p store.PartitionID) ([]byte, error) {
	if r.room == nil {
		var err error
		if r.room, err = blockio.AllocSlab(max(r.Bytes(), 1), blockio.SlabOptions{Threads: 1}); err != nil {
			return nil, err
		}
	}
	b := r.room.Bytes()[:r.t.PlaneBytes(p)]
	if err := r.t.Read(ctx, p, b); err != nil {
		return nil, err
	}
	return b[:int64(r.t.Nodes(p))*int64(r.t.Dim())*4], nil
}

// Close frees the buffer.
func (r *tableRows) Close() error {
	if r.room == nil {
		return nil
	}
	room := r.room
	r.room = nil
	return room.Free()
}
