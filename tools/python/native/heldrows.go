package native

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// heldRows are a table's rows in the memory of a loader of links: those of the step in hand, which the loader's partition buffer
// reads ahead and writes back behind the training. The table's own cache then has one partition, for those who look at others.
type heldRows struct {
	by     *loader
	loader *link.Loader
	frame  frame // the partition that was held last
}

// heldBy gives the rows to a loader that was opened on the table; mu is the loader's too, and the rows are lent.
func (e *embeddings) heldBy(o *loader, l *link.Loader) {
	o.table = e
	e.held = &heldRows{by: o, loader: l}
}

// lend empties the table's own memory, for a loader that takes the rows.
func (e *embeddings) lend(ctx context.Context) error {
	if e.held != nil {
		return fmt.Errorf("%w: the table's rows are in another loader: close that first", store.ErrLocked)
	}
	if err := e.cache.flush(ctx); err != nil {
		return err
	}
	return e.renew(1)
}

// renew gives the table's own memory back and makes it one of so many partitions.
func (e *embeddings) renew(frames int) error {
	err := e.cache.free()
	e.cache = newPartitionCache(e.table, e.device, e.cache.bytes, frames)
	return err
}

// released takes the rows back from a loader that was closed with err.
func (e *embeddings) released(err error) {
	e.held = nil
	if err != nil && e.failed == nil {
		e.failed = fmt.Errorf("table: rows that were stepped could not be written: open it again, at its last checkpoint: %w", err)
	}
	if e.closed {
		return
	}
	if err := errors.Join(e.table.Use(e.engine), e.renew(e.frames)); err != nil && e.failed == nil {
		e.failed = err
	}
}

// resident reports whether a partition's rows are in memory.
func (e *embeddings) resident(p store.PartitionID) bool {
	if e.held == nil {
		return e.cache.where[p] != nil
	}
	for _, r := range e.held.loader.MacroBatch().Partitions {
		if r.ID == p {
			return true
		}
	}
	return false
}

// hold returns a partition's rows until the next call.
func (e *embeddings) hold(ctx context.Context, p store.PartitionID) (*frame, error) {
	if e.held == nil {
		return e.cache.hold(ctx, p)
	}
	mb := e.held.loader.MacroBatch()
	for _, r := range mb.Partitions {
		if r.ID != p {
			continue
		}
		f, dim := &e.held.frame, e.table.Dim()
		f.part, f.planes = p, f.planes[:0]
		for _, plane := range mb.Planes {
			f.planes = append(f.planes, blocks.Bytes(plane[int(r.Base)*dim:int(r.Base+r.Nodes)*dim]))
		}
		return f, nil
	}
	return e.cache.hold(ctx, p)
}

// reads prepares that rows of spans are read: what a loader holds of others than its step's partitions is written first.
func (e *embeddings) reads(ctx context.Context, spans []span) error {
	if e.held == nil {
		return nil
	}
	for _, s := range spans {
		if !e.resident(s.part) {
			if err := e.held.loader.Buffer().Flush(context.WithoutCancel(ctx)); err != nil {
				return err
			}
			e.cache.forget() // since then the loader has written
			return nil
		}
	}
	return nil
}

// steppable refuses a step on rows that a loader does not hold.
func (e *embeddings) steppable(spans []span) error {
	if e.held == nil {
		return nil
	}
	for _, s := range spans {
		if !e.resident(s.part) {
			return fmt.Errorf("%w: a step on nodes of partition %d, which are not of the loader's batch in hand: step its nodes only, or close the loader first", store.ErrInvalid, s.part)
		}
	}
	return nil
}

// commit makes a checkpoint of the rows as they are.
func (e *embeddings) commit(ctx context.Context, blobs []table.Blob) error {
	if e.held != nil {
		return e.held.loader.Buffer().Checkpoint(ctx, blobs...)
	}
	if err := e.cache.flush(ctx); err != nil {
		return err
	}
	return e.table.Checkpoint(ctx, blobs...)
}
