package table

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/internal/vfsengine"
)

// ReadRows fills rows with the embeddings (plane 0) of partition p's nodes from
// its first-th on; its length is a multiple of a row's. It needs a table opened without an engine and
// does not check what it reads: checksums cover whole partitions, so call
// [Table.Verify] first, and of a table that is open beside a run [Table.Standing] last. It is for readers that want rows in another order than the
// partitions'.
func (t *Table) ReadRows(ctx context.Context, p store.PartitionID, first uint64, rows []byte) error {
	return t.readRows(ctx, p, 0, first, rows)
}

// readRows is ReadRows of any plane.
func (t *Table) readRows(ctx context.Context, p store.PartitionID, plane int, first uint64, rows []byte) error {
	t.mu.Lock()
	if t.closed || int(p) >= len(t.current) {
		defer t.mu.Unlock()
		if t.closed {
			return store.ErrClosed
		}
		return fmt.Errorf("%w: partition %d of table %q", store.ErrNotFound, p, t.record.Name)
	}
	slot := t.current[p].Slot
	t.mu.Unlock()
	if _, ok := t.engine.(*vfsengine.Engine); !ok { // engines read whole blocks
		return fmt.Errorf("%w: rows of table %q through an engine", store.ErrInvalid, t.record.Name)
	}
	from := int64(first) * t.layout.Header.RowBytes()
	if end := from + int64(len(rows)); end > t.layout.PayloadBytes(p) || int64(len(rows))%t.layout.Header.RowBytes() != 0 {
		return fmt.Errorf("%w: bytes %d to %d of partition %d of table %q", store.ErrInvalid, from, end, p, t.record.Name)
	}
	if len(rows) == 0 {
		return ctx.Err()
	}
	return t.engine.Do(ctx, []blockio.Request{{File: t.file, Offset: t.layout.Offset(p, plane, slot) + from, Buf: rows}}, nil)
}
