package table

import (
	"context"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store"
)

// Read fills planes[i] with plane i of partition p and checks it. Each buffer
// has PlaneBytes(p) bytes, is aligned to blockio.Alignment in memory, and
// stays the caller's; fewer buffers than planes read fewer planes. Rows
// written last are what is read.
func (t *Table) Read(ctx context.Context, p store.PartitionID, planes ...[]byte) error {
	s, err := t.begin(p, planes, 1)
	if err != nil {
		return err
	}
	// Pieces are summed as they come, while the rest is read.
	var batch []blockio.Request
	var planeOf []int
	left := make([]int64, len(planes)) // of the payload, not yet summed
	sums := make([]uint32, len(planes))
	for i, b := range planes {
		left[i] = t.layout.PayloadBytes(p)
		at := t.layout.Offset(p, i, s.Slot)
		for piece := range slices.Chunk(b, tablePieceBytes) {
			batch = append(batch, blockio.Request{File: t.file, Offset: at, Buf: piece})
			planeOf = append(planeOf, i)
			at += int64(len(piece))
		}
	}
	if err := t.engine.Do(ctx, batch, blockio.InOrder(len(batch), func(k int) {
		i := planeOf[k]
		n := min(left[i], int64(len(batch[k].Buf)))
		sums[i] = blocks.ChecksumUpdate(sums[i], batch[k].Buf[:n])
		left[i] -= n
	})); err != nil {
		return err
	}
	for i := range planes {
		if err := t.checkSum(p, i, s, sums[i]); err != nil {
			return err
		}
	}
	return nil
}

// tablePieceBytes is how much of a plane is read before it is summed.
const tablePieceBytes = 1 << 20

// readPlane is Read for one plane.
func (t *Table) readPlane(ctx context.Context, p store.PartitionID, plane int, b []byte) error {
	s, err := t.begin(p, [][]byte{b}, 1)
	if err != nil || len(b) == 0 {
		return err
	}
	if err := t.engine.Do(ctx, []blockio.Request{{File: t.file, Offset: t.layout.Offset(p, plane, s.Slot), Buf: b}}, nil); err != nil {
		return err
	}
	return t.checkSum(p, plane, s, blocks.Checksum(b[:t.layout.PayloadBytes(p)]))
}

// checkSum compares the checksum of what was read of a plane.
func (t *Table) checkSum(p store.PartitionID, plane int, s tableSlot, sum uint32) error {
	if sum != s.Sums[plane] {
		if err := t.overtaken(); err != nil {
			return err
		}
		return &blocks.CorruptError{Path: t.env.DataPath(t.record.File), Extent: t.layout.ExtentName(p, plane, s.Slot),
			Offset: t.layout.Offset(p, plane, s.Slot), Reason: fmt.Sprintf("checksum %08x, expected %08x", sum, s.Sums[plane])}
	}
	return nil
}

// Write stores all planes of partition p in a slot that no checkpoint
// names. The buffers are as in Read; they must not change until it returns.
// Rows are durable only after the next Checkpoint. After an error, rows of
// that partition written since the last checkpoint may be lost: the table refuses
// further checkpoints, and training resumes from the last one.
func (t *Table) Write(ctx context.Context, p store.PartitionID, planes ...[]byte) (err error) {
	if len(planes) != t.layout.Planes {
		return fmt.Errorf("%w: %d planes written, table %q has %d", store.ErrInvalid, len(planes), t.record.Name, t.layout.Planes)
	}
	if _, err := t.begin(p, planes, t.layout.Planes); err != nil {
		return err
	}
	if t.readOnly {
		return t.readOnlyError()
	}
	t.mu.Lock()
	if t.failed != nil {
		defer t.mu.Unlock()
		return t.failed
	}
	next := tableSlot{Slot: t.free(p), Sums: make([]uint32, len(planes))}
	t.writing++
	t.mu.Unlock()
	payload := t.layout.PayloadBytes(p)
	for _, b := range planes {
		clear(b[payload:])
	}
	var summing panics.Group
	summing.Go(func() { // while it is written
		for i, b := range planes {
			next.Sums[i] = blocks.Checksum(b[:payload])
		}
	})
	err = t.engine.Do(ctx, t.writes(p, next.Slot, planes), nil)
	summing.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writing--
	if err != nil {
		// The slot holds a mix; only the checkpoint's slot is whole.
		t.failed = fmt.Errorf("table %q lost partition %d: %w", t.record.Name, p, err)
		return err
	}
	t.current[p] = next
	return nil
}

// begin checks arguments and returns where partition p's newest rows are.
func (t *Table) begin(p store.PartitionID, planes [][]byte, least int) (tableSlot, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return tableSlot{}, store.ErrClosed
	}
	if int(p) >= len(t.current) {
		return tableSlot{}, fmt.Errorf("%w: partition %d of table %q", store.ErrNotFound, p, t.record.Name)
	}
	if len(planes) < least || len(planes) > t.layout.Planes {
		return tableSlot{}, fmt.Errorf("%w: %d buffers for %d planes", store.ErrInvalid, len(planes), t.layout.Planes)
	}
	for _, b := range planes {
		if int64(len(b)) != t.layout.PlaneBytes(p) {
			return tableSlot{}, fmt.Errorf("%w: buffer of %d bytes for partition %d, expected %d", store.ErrInvalid, len(b), p, t.layout.PlaneBytes(p))
		}
	}
	return t.current[p], nil
}

// free is the first slot of partition p that no kept checkpoint names; mu is held.
func (t *Table) free(p store.PartitionID) int {
	slot := 0
	for slices.ContainsFunc(t.kept, func(c Checkpoint) bool { return c.Slots[p].Slot == slot }) {
		slot++
	}
	return slot
}

func (t *Table) writes(p store.PartitionID, slot int, planes [][]byte) []blockio.Request {
	var r []blockio.Request
	for i, b := range planes {
		if len(b) > 0 {
			r = append(r, blockio.Request{Op: blockio.Write, File: t.file, Offset: t.layout.Offset(p, i, slot), Buf: b})
		}
	}
	return r
}
