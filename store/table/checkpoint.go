package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/internal/meta"
)

// Checkpoint makes the rows written so far, and blobs, the state that Open
// restores: the table's file is synced, then one synced Pebble batch names the
// new slots and stores the blobs. Every dirty partition must have been written; no
// Write may be under way. After an error the last checkpoint still stands, or
// the new one does; the table refuses to go on and must be opened again.
//
// The newest Options.Keep checkpoints are kept, and those that [Table.Spare] names among them.
func (t *Table) Checkpoint(ctx context.Context, blobs ...Blob) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return store.ErrClosed
	case t.readOnly:
		return t.readOnlyError()
	case t.failed != nil:
		return t.failed
	case t.writing > 0:
		return fmt.Errorf("%w: checkpoint of table %q while %d partitions are being written", store.ErrInvalid, t.record.Name, t.writing)
	}
	err := t.engine.Do(ctx, []blockio.Request{{Op: blockio.Sync, File: t.file}}, nil)
	if err == nil {
		err = t.commit(ctx, blobs)
	}
	if err != nil {
		t.failed = fmt.Errorf("checkpoint of table %q: %w", t.record.Name, err)
		return t.failed
	}
	return nil
}

// readOnlyError refuses a write.
func (t *Table) readOnlyError() error {
	return fmt.Errorf("%w: table %q is open for reading", store.ErrInvalid, t.record.Name)
}

// commit writes the next checkpoint's metadata and adopts it.
func (t *Table) commit(ctx context.Context, blobs []Blob) error {
	next := Checkpoint{Number: t.last().Number + 1, Created: time.Now().UTC(), Slots: append([]tableSlot{}, t.current...)}
	kept := append(slices.Clone(t.kept), next)
	var gone Checkpoint // one at most: those before were as many as are kept
	if len(kept) > t.record.Keep {
		i := slices.IndexFunc(kept, func(c Checkpoint) bool { return !slices.Contains(t.spared, c.Number) })
		gone = kept[i]
		kept = slices.Delete(kept, i, i+1)
	}
	err := t.update(ctx, gone.Number, gone.Number+1, func(m *meta.DB) ([]meta.Entry, error) {
		entries, err := t.recordEntry()
		if err != nil {
			return nil, err
		}
		for i, b := range blobs {
			next.Blobs = append(next.Blobs, b.Name)
			entries = append(entries, meta.Entry{Key: meta.BlobKey(t.record.Name, next.Number, uint32(i)), Value: append([]byte{}, b.Data...)})
		}
		j, err := json.Marshal(next)
		if err != nil {
			return nil, fmt.Errorf("%w: checkpoint: %w", store.ErrInvalid, err)
		}
		return append(entries, meta.Entry{Key: meta.CheckpointKey(t.record.Name, next.Number), Value: j}), nil
	})
	if err != nil {
		return err
	}
	kept[len(kept)-1] = next // with the names of its blobs
	t.kept = kept
	return nil
}

// Spare names the kept checkpoints that the coming ones do not take the place of, fewer than Options.Keep: an older one that is
// not named goes first. It holds until it is called again, or the table is opened again.
func (t *Table) Spare(numbers ...uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range numbers {
		if !slices.ContainsFunc(t.kept, func(c Checkpoint) bool { return c.Number == n }) {
			return t.noCheckpoint(n)
		}
	}
	if len(numbers) >= t.record.Keep {
		return fmt.Errorf("%w: checkpoints %d of table %q are spared, which keeps %d: expected fewer", store.ErrInvalid, numbers, t.record.Name, t.record.Keep)
	}
	t.spared = slices.Clone(numbers)
	return nil
}

// ReadAt makes a kept checkpoint's rows what is read from now on, while no transfer is under way. Nothing can be written any more.
func (t *Table) ReadAt(number uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.kept, func(c Checkpoint) bool { return c.Number == number })
	if i < 0 {
		return t.noCheckpoint(number)
	}
	t.readOnly, t.current = true, slices.Clone(t.kept[i].Slots)
	return nil
}

// noCheckpoint says which checkpoints there are.
func (t *Table) noCheckpoint(number uint64) error {
	return fmt.Errorf("%w: checkpoint %d of table %q: it keeps %d, from %d to %d", store.ErrNotFound, number, t.record.Name, len(t.kept), t.kept[0].Number, t.last().Number)
}

// GoBack makes the kept checkpoint of that number the last one, on disk only where the table may be
// written, while no transfer is under way; 0 changes nothing.
func (t *Table) GoBack(ctx context.Context, number uint64) error {
	if number == 0 || number == t.last().Number {
		return nil
	}
	i := slices.IndexFunc(t.kept, func(c Checkpoint) bool { return c.Number == number })
	if i < 0 {
		return t.noCheckpoint(number)
	}
	if !t.readOnly {
		if err := t.update(ctx, number+1, math.MaxUint64, func(*meta.DB) ([]meta.Entry, error) { return nil, nil }); err != nil {
			return err
		}
	}
	t.kept = t.kept[:i+1]
	t.current = slices.Clone(t.last().Slots)
	return nil
}

// update commits one batch: the entries that fn returns (a nil value deletes
// the key), and the removal of the checkpoints numbered from ≤ n < to.
func (t *Table) update(ctx context.Context, from, to uint64, fn func(*meta.DB) ([]meta.Entry, error)) (err error) {
	m, err := meta.Open(ctx, t.env, true)
	if err != nil {
		return err
	}
	defer func() {
		// Once the batch is in, a failing close changes nothing.
		if cerr := m.Close(); err != nil {
			err = errors.Join(err, cerr)
		}
	}()
	entries, err := fn(m)
	if err != nil {
		return err
	}
	b := m.Pebble.NewBatch()
	for _, r := range [][2][]byte{
		{meta.CheckpointKey(t.record.Name, from), meta.CheckpointKey(t.record.Name, to)},
		{meta.BlobKey(t.record.Name, from, 0), meta.BlobKey(t.record.Name, to, 0)},
	} {
		if err := b.DeleteRange(r[0], r[1], nil); err != nil {
			return m.Wrap("write", err)
		}
	}
	for _, e := range entries {
		if e.Value == nil {
			err = b.Delete(e.Key, nil)
		} else {
			err = b.Set(e.Key, e.Value, nil)
		}
		if err != nil {
			return m.Wrap("write", err)
		}
	}
	return m.Apply(b)
}

func (t *Table) recordEntry() ([]meta.Entry, error) {
	j, err := json.Marshal(t.record)
	if err != nil {
		return nil, fmt.Errorf("%w: table: %w", store.ErrInvalid, err)
	}
	return []meta.Entry{{Key: meta.TableKey(t.record.Name), Value: j}}, nil
}

// LastCheckpoint describes the checkpoint that the table was opened at or
// made last.
func (t *Table) LastCheckpoint() Checkpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last()
}

// Checkpoints describes the kept checkpoints, the oldest first.
func (t *Table) Checkpoints() []Checkpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.kept)
}

// Blob returns a blob of the last checkpoint; ErrNotFound if it has none of
// that name. The bytes are the caller's.
func (t *Table) Blob(ctx context.Context, name string) (_ []byte, err error) {
	return t.BlobOf(ctx, t.LastCheckpoint(), name)
}

// BlobOf is Blob of a kept checkpoint.
func (t *Table) BlobOf(ctx context.Context, c Checkpoint, name string) (_ []byte, err error) {
	for i, b := range c.Blobs {
		if b != name {
			continue
		}
		m, err := meta.Open(ctx, t.env, false)
		if err != nil {
			return nil, err
		}
		data, ok, err := m.Get(meta.BlobKey(t.record.Name, c.Number, uint32(i)))
		if err == nil && !ok {
			err = t.overtaken()
		}
		if err == nil && !ok {
			err = m.Corrupt("checkpoint of table "+t.record.Name, "blob %q is missing", name)
		}
		return data, errors.Join(err, m.Close())
	}
	return nil, fmt.Errorf("%w: blob %q in checkpoint %d of table %q", store.ErrNotFound, name, c.Number, t.record.Name)
}

// Verify reads every partition of the last checkpoint and checks it; buf is
// scratch of the largest PlaneBytes, aligned.
func (t *Table) Verify(ctx context.Context, buf []byte) error {
	return t.verify(ctx, t.layout.Planes, buf)
}

// verify is Verify of the first planes.
func (t *Table) verify(ctx context.Context, planes int, buf []byte) error {
	for p := range t.layout.Nodes {
		id := store.PartitionID(p)
		for plane := range planes {
			if err := t.readPlane(ctx, id, plane, buf[:t.layout.PlaneBytes(id)]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Drop removes a table and its checkpoints. It fails with ErrLocked while
// the table is open.
func Drop(ctx context.Context, dir, name string, o store.Options) error {
	e := meta.NewEnv(dir, o.FS, o.LockTimeout)
	if err := e.Find(); err != nil {
		return err
	}
	t, err := lock(ctx, e, Options{Name: name})
	if err != nil {
		return err
	}
	t.record.Name = name
	var file string
	err = t.update(ctx, 0, math.MaxUint64, func(m *meta.DB) ([]meta.Entry, error) {
		var old meta.TableRecord
		ok, err := m.GetJSON(meta.TableKey(name), "table "+name, &old)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("%w: table %q in %s", store.ErrNotFound, name, dir)
		}
		file = old.File
		return []meta.Entry{{Key: meta.TableKey(name)}}, nil
	})
	// A file left here by a crash is unnamed: the next writer sweeps it.
	// A table that was never finished may have no file.
	if err == nil {
		if err = e.FS.Remove(e.DataPath(file)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return errors.Join(err, t.unlock())
}

// Names lists the names of the store's tables.
func Names(ctx context.Context, dir string, o store.Options) (names []string, err error) {
	m, err := meta.OpenStore(ctx, meta.NewEnv(dir, o.FS, o.LockTimeout), false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	records, err := m.Tables()
	for _, r := range records {
		if r.Ready {
			names = append(names, r.Name)
		}
	}
	return names, err
}
