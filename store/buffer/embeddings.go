package buffer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// embeddingBuffer holds a [table.Table]'s rows of the partitions in the buffer, one
// array a plane, numbered like everything else by row (MariusGNN section 3: "node
// representations … are read from disk and written back as partitions are swapped"). A
// mini-batch changes rows in place; a partition is written back when its slot
// is wanted for another one or when [Buffer.Checkpoint] asks, into the slot on disk that
// no checkpoint names.
//
// Writing back is the writer goroutine's work ([Buffer.writeBack]), reading the reader's: both overlap with
// training and with each other. io is held shared while bytes move and exclusively by a checkpoint,
// which so comes between transfers and sees every partition either in memory or
// wholly written. The rest needs no lock: writer and reader touch slots that no step in hand
// uses, the trainer those in its hands, and the pipeline orders the three: a slot is the writer's once the
// steps that use it are released, the reader's once it is written back, the trainer's once it is loaded.
type embeddingBuffer struct {
	table   *table.Table
	planes  [][]byte // the buffer's
	stride  int
	threads int
	layout  *layout

	io    sync.RWMutex
	slots []embeddingSlot // what memory holds, which lags behind what is scheduled
	where []int32         // partition → slot that holds it, −1 = none

	mu    sync.Mutex
	stats TableStats
}

type embeddingSlot struct {
	part  int32 // −1 = nothing
	dirty bool  // rows may differ from the table's
}

// TableStats count what a run moved between buffer and table, in bytes.
type TableStats struct {
	ReadBytes int64
	// EvictedBytes were written to make room, FlushedBytes for checkpoints. Padding counts.
	EvictedBytes int64
	FlushedBytes int64
	// ChangedBytes are the rows that had to be written for EvictedBytes, without padding.
	ChangedBytes int64
	Checkpoints  int
	Read         time.Duration // with requests in flight
	Write        time.Duration // likewise, evictions
	Checkpoint   time.Duration // training stood still for checkpoints
}

// WriteAmplification is bytes written by evictions over bytes that had to be; 1 before any.
func (s *TableStats) WriteAmplification() float64 {
	if s.ChangedBytes == 0 {
		return 1
	}
	return float64(s.EvictedBytes) / float64(s.ChangedBytes)
}

func newEmbeddingBuffer(b *memory, l *layout, o *Options, partitions int) *embeddingBuffer {
	e := &embeddingBuffer{table: o.Table, stride: 4 * o.TableDim, threads: o.Threads, layout: l,
		slots: make([]embeddingSlot, len(l.slots)), where: make([]int32, partitions)}
	for _, p := range b.planes {
		e.planes = append(e.planes, b.bytes(p))
	}
	for i := range e.slots {
		e.slots[i].part = -1
	}
	for p := range e.where {
		e.where[p] = -1
	}
	return e
}

// views returns where partition p's planes lie while it is in a slot.
func (e *embeddingBuffer) views(slot int, p store.PartitionID) [][]byte {
	at := int64(e.layout.slots[slot].table) * int64(e.stride)
	n := e.table.PlaneBytes(p)
	views := make([][]byte, len(e.planes))
	for i, b := range e.planes {
		views[i] = b[at : at+n : at+n]
	}
	return views
}

// evict writes back what lies in the loads' slots, which then hold nothing. Writes under way are
// finished even if ctx ends: half of one would cost the partition's rows since the last checkpoint.
func (e *embeddingBuffer) evict(ctx context.Context, loads []slotLoad, st *stepMeter) error {
	e.io.RLock()
	defer e.io.RUnlock()
	var leaving []int
	for _, l := range loads {
		// After an epoch was broken off, a slot may hold rows of a partition that is
		// read again elsewhere.
		for _, slot := range []int{l.slot, int(e.where[l.part])} {
			if slot >= 0 && e.slots[slot].part >= 0 && !slices.Contains(leaving, slot) {
				leaving = append(leaving, slot)
			}
		}
	}
	var out []int
	var bytes, changed int64
	for _, slot := range leaving {
		if e.slots[slot].dirty {
			p := store.PartitionID(e.slots[slot].part)
			out = append(out, slot)
			bytes += int64(len(e.planes)) * e.table.PlaneBytes(p)
			changed += int64(len(e.planes)) * e.table.PayloadBytes(p)
		}
	}
	start := time.Now()
	if err := e.write(context.WithoutCancel(ctx), out); err != nil {
		return err
	}
	took := time.Since(start)
	for _, slot := range leaving {
		e.where[e.slots[slot].part] = -1
		e.slots[slot] = embeddingSlot{part: -1}
	}
	st.wrote(bytes, took)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.Write += took
	e.stats.EvictedBytes += bytes
	e.stats.ChangedBytes += changed
	return nil
}

// load reads the loads' rows into their slots, which hold nothing.
func (e *embeddingBuffer) load(ctx context.Context, loads []slotLoad, st *stepMeter) error {
	e.io.RLock()
	defer e.io.RUnlock()
	start := time.Now()
	if err := parallel(len(loads), e.threads, func(i int) error {
		l := loads[i]
		views := e.views(l.slot, l.part)
		if err := e.table.Read(ctx, l.part, views...); err != nil {
			return err
		}
		for _, b := range views {
			st.read(int64(len(b)))
		}
		return nil
	}); err != nil {
		return err
	}
	st.took(start)
	for _, l := range loads {
		e.slots[l.slot].part = int32(l.part)
		e.where[l.part] = int32(l.slot)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.Read += time.Since(start)
	for _, l := range loads {
		e.stats.ReadBytes += int64(len(e.planes)) * e.table.PlaneBytes(l.part)
	}
	return nil
}

// write stores the slots' partitions in the table; they are clean then.
func (e *embeddingBuffer) write(ctx context.Context, slots []int) error {
	if err := parallel(len(slots), e.threads, func(i int) error {
		p := store.PartitionID(e.slots[slots[i]].part)
		return e.table.Write(ctx, p, e.views(slots[i], p)...)
	}); err != nil {
		return err
	}
	for _, slot := range slots {
		e.slots[slot].dirty = false
	}
	return nil
}

// changed says that the step in hand may change its partitions' rows.
func (e *embeddingBuffer) changed(slots []int) {
	for _, slot := range slots {
		e.slots[slot].dirty = true
	}
}

// flush writes everything that may differ from the table; io is held.
func (e *embeddingBuffer) flush(ctx context.Context) error {
	var out []int
	var bytes int64
	for slot, s := range e.slots {
		if s.dirty {
			out = append(out, slot)
			bytes += int64(len(e.planes)) * e.table.PlaneBytes(store.PartitionID(s.part))
		}
	}
	if err := e.write(ctx, out); err != nil {
		return err
	}
	e.mu.Lock()
	e.stats.FlushedBytes += bytes
	e.mu.Unlock()
	return nil
}

// parallel calls do(0) … do(n−1) on up to threads goroutines and returns all errors.
func parallel(n, threads int, do func(i int) error) error {
	if n == 1 {
		return do(0)
	}
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	errs := make([]error, n)
	var wg panics.Group
	for range min(n, threads) {
		wg.Go(func() {
			for i := range next {
				errs[i] = do(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Flush writes the rows that steps changed to [Options.Table], whose Read
// then returns them; no checkpoint is made. The macro-batch in hand stays as it is. It is called between
// mini-batches, by the goroutine that trains.
func (it *Buffer) Flush(ctx context.Context) error {
	return it.drain(ctx, func() error { return nil })
}

// Checkpoint makes the rows as they are now, together with blobs, the state
// that table.Open restores: see [table.Table.Checkpoint]. It is called between mini-batches, by
// the goroutine that trains, and waits for a write-back under way.
func (it *Buffer) Checkpoint(ctx context.Context, blobs ...table.Blob) error {
	return it.drain(ctx, func() error {
		if err := it.emb.table.Checkpoint(ctx, blobs...); err != nil {
			return err
		}
		it.emb.mu.Lock()
		it.emb.stats.Checkpoints++
		it.emb.mu.Unlock()
		return nil
	})
}

func (it *Buffer) drain(ctx context.Context, then func() error) error {
	e := it.emb
	switch {
	case it.closed:
		return store.ErrClosed
	case e == nil:
		return fmt.Errorf("%w: the macro-batches have no table", store.ErrInvalid)
	}
	start := time.Now()
	e.io.Lock()
	defer e.io.Unlock()
	if err := e.flush(ctx); err != nil {
		return err
	}
	if it.at >= 0 && it.at < len(it.current) { // training goes on with it
		e.changed(it.current[it.at].slot)
	}
	err := then()
	e.mu.Lock()
	e.stats.Checkpoint += time.Since(start)
	e.mu.Unlock()
	return err
}

// TableStats returns what moved between buffer and table so far. It may be called from any goroutine.
func (it *Buffer) TableStats() TableStats {
	if it.emb == nil {
		return TableStats{}
	}
	it.emb.mu.Lock()
	defer it.emb.mu.Unlock()
	return it.emb.stats
}
