package table

import (
	"context"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// Reader reads a table's embeddings a partition at a time into one buffer, which Close frees. It is for one goroutine.
type Reader struct {
	t    *Table
	room *blockio.Slab // nil until used
}

// NewReader reads from t, which must stay open.
func NewReader(t *Table) *Reader { return &Reader{t: t} }

// Table is the one that it reads from.
func (r *Reader) Table() *Table { return r.t }

// ReaderBytes is the memory that reading takes of a table of dim floats a row, most rows in the largest partition.
func ReaderBytes(most uint64, dim int) int64 { return blocks.AlignUp(int64(most) * int64(dim) * 4) }

// Read returns the embeddings of partition p's rows, dim little-endian floats each, valid until the next call.
func (r *Reader) Read(ctx context.Context, p store.PartitionID) ([]byte, error) {
	if r.room == nil {
		var err error
		if r.room, err = blockio.AllocSlab(max(ReaderBytes(slices.Max(r.t.layout.Nodes), r.t.Dim()), 1), blockio.SlabOptions{Threads: 1}); err != nil {
			return nil, err
		}
	}
	b := r.room.Bytes()[:r.t.PlaneBytes(p)]
	if err := r.t.Read(ctx, p, b); err != nil {
		return nil, err
	}
	return b[:r.t.PayloadBytes(p)], nil
}

// Close frees the buffer.
func (r *Reader) Close() error {
	if r.room == nil {
		return nil
	}
	room := r.room
	r.room = nil
	return room.Free()
}
