package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks/blockio"
)

// Checkpoint makes the rows written so far, and blobs, the state that OpenTable
// restores: the table's file is synced, then one synced Pebble batch names the
// new slots and stores the blobs. Every dirty partition must have been written; no
// Write may be under way. After an error the last checkpoint still stands, or
// the new one does; the table refuses to go on and must be opened again.
//
// Only the last checkpoint is kept: each older one would cost a further copy of
// the table. Who wants one exports it.
func (t *Table) Checkpoint(ctx context.Context, blobs ...Blob) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return ErrClosed
	case t.failed != nil:
		return t.failed
	case t.writing > 0:
		return fmt.Errorf("%w: checkpoint of table %q while %d partitions are being written", ErrInvalid, t.record.Name, t.writing)
	}
	err := t.io.sync(ctx)
	if err == nil {
		err = t.commit(ctx, blobs)
	}
	if err != nil {
		t.failed = fmt.Errorf("checkpoint of table %q: %w", t.record.Name, err)
		return t.failed
	}
	return nil
}

// commit writes the next checkpoint's metadata and adopts it.
func (t *Table) commit(ctx context.Context, blobs []Blob) error {
	next := Checkpoint{Number: t.checkpoint.Number + 1, Created: time.Now().UTC(), Slots: append([]tableSlot{}, t.current...)}
	err := t.update(ctx, func(m *meta) ([]entry, error) {
		entries, err := t.recordEntry()
		if err != nil {
			return nil, err
		}
		for i, b := range blobs {
			next.Blobs = append(next.Blobs, b.Name)
			entries = append(entries, entry{blobKey(t.record.Name, next.Number, uint32(i)), append([]byte{}, b.Data...)})
		}
		j, err := json.Marshal(next)
		if err != nil {
			return nil, fmt.Errorf("%w: checkpoint: %w", ErrInvalid, err)
		}
		return append(entries, entry{checkpointKey(t.record.Name, next.Number), j}), nil
	})
	if err != nil {
		return err
	}
	t.checkpoint = next
	return nil
}

// update commits one batch: the entries that fn returns (a nil value deletes
// the key), and the removal of the checkpoint before.
func (t *Table) update(ctx context.Context, fn func(*meta) ([]entry, error)) (err error) {
	m, err := openMeta(ctx, t.env, true)
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
	b := m.db.NewBatch()
	for _, prefix := range [][]byte{checkpointPrefix(t.record.Name), blobPrefix(t.record.Name)} {
		if err := b.DeleteRange(prefix, prefixEnd(prefix), nil); err != nil {
			return m.wrap("write", err)
		}
	}
	for _, e := range entries {
		if e.value == nil {
			err = b.Delete(e.key, nil)
		} else {
			err = b.Set(e.key, e.value, nil)
		}
		if err != nil {
			return m.wrap("write", err)
		}
	}
	return m.apply(b)
}

func (t *Table) recordEntry() ([]entry, error) {
	j, err := json.Marshal(t.record)
	if err != nil {
		return nil, fmt.Errorf("%w: table: %w", ErrInvalid, err)
	}
	return []entry{{tableKey(t.record.Name), j}}, nil
}

// LastCheckpoint describes the checkpoint that the table was opened at or
// made last.
func (t *Table) LastCheckpoint() Checkpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.checkpoint
}

// Blob returns a blob of the last checkpoint; ErrNotFound if it has none of
// that name. The bytes are the caller's.
func (t *Table) Blob(ctx context.Context, name string) (_ []byte, err error) {
	c := t.LastCheckpoint()
	for i, b := range c.Blobs {
		if b != name {
			continue
		}
		m, err := openMeta(ctx, t.env, false)
		if err != nil {
			return nil, err
		}
		data, ok, err := m.get(blobKey(t.record.Name, c.Number, uint32(i)))
		if err == nil && !ok {
			err = m.corrupt("checkpoint of table "+t.record.Name, "blob %q is missing", name)
		}
		return data, errors.Join(err, m.Close())
	}
	return nil, fmt.Errorf("%w: blob %q in checkpoint %d of table %q", ErrNotFound, name, c.Number, t.record.Name)
}

// Verify reads every partition of the last checkpoint and checks it; buf is
// scratch of the largest PlaneBytes, aligned.
func (t *Table) Verify(ctx context.Context, buf []byte) error {
	for p := range t.layout.Nodes {
		id := PartitionID(p)
		for plane := range t.layout.Planes {
			if err := t.readPlane(ctx, id, plane, buf[:t.layout.PlaneBytes(id)]); err != nil {
				return err
			}
		}
	}
	return nil
}

// DropTable removes a table and its checkpoints. It fails with ErrLocked while
// the table is open.
func DropTable(ctx context.Context, dir, name string, o Options) error {
	e := newEnv(dir, o.FS, o.LockTimeout)
	if err := e.find(); err != nil {
		return err
	}
	t, err := lockTable(ctx, e, TableOptions{Name: name})
	if err != nil {
		return err
	}
	t.record.Name = name
	var file string
	err = t.update(ctx, func(m *meta) ([]entry, error) {
		var old tableRecord
		if ok, err := m.getJSON(tableKey(name), "table "+name, &old); err != nil || !ok {
			return nil, errors.Join(err, fmt.Errorf("%w: table %q in %s", ErrNotFound, name, dir))
		}
		file = old.File
		return []entry{{key: tableKey(name)}}, nil
	})
	// A file left here by a crash is unnamed: the next writer sweeps it.
	if err == nil {
		err = e.fs.Remove(e.dataPath(file))
	}
	return errors.Join(err, t.lk.Close())
}

// Tables lists the names of the store's tables.
func Tables(ctx context.Context, dir string, o Options) (names []string, err error) {
	e := newEnv(dir, o.FS, o.LockTimeout)
	if err := e.find(); err != nil {
		return nil, err
	}
	m, err := openMeta(ctx, e, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	records, err := m.tables()
	for _, r := range records {
		if r.Ready {
			names = append(names, r.Name)
		}
	}
	return names, err
}

func (m *meta) tables() ([]tableRecord, error) {
	entries, err := m.scan(prefixTable)
	if err != nil {
		return nil, err
	}
	var records []tableRecord
	for _, e := range entries {
		var r tableRecord
		if err := json.Unmarshal(e.value, &r); err != nil {
			return nil, m.corrupt("table", "%v", err)
		}
		records = append(records, r)
	}
	return records, nil
}

// tableFiles adds the data files of embedding tables to named.
func (m *meta) tableFiles(named map[string]bool) error {
	records, err := m.tables()
	for _, r := range records {
		named[r.File] = true
	}
	return err
}

func checkpointPrefix(table string) []byte { return []byte(prefixCheckpoint + table + "\x00") }

func blobPrefix(table string) []byte { return []byte(prefixBlob + table + "\x00") }

// initRows sets x to uniform numbers in [−bound, bound): element i is a
// function of (seed, first+i). The generator is splitmix64's finaliser over a
// counter (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
// OOPSLA 2014). Part of what "the same seed gives the same run" means.
func initRows(x []float32, seed uint64, bound float32, first uint64) {
	key := mix64(seed + 0x9e3779b97f4a7c15)
	for i := range x {
		z := mix64(key + (first+uint64(i))*0x9e3779b97f4a7c15)
		x[i] = (float32(z>>40)*(1.0/(1<<23)) - 1) * bound
	}
}

func mix64(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// tableRange is one contiguous range of the table's file.
type tableRange struct {
	offset int64
	buf    []byte
}

// tableIO moves a table's bytes: through an engine, or through the file system.
type tableIO interface {
	move(ctx context.Context, op blockio.Op, ts []tableRange) error
	sync(ctx context.Context) error
	close() error
}

func (t *Table) openIO(engine blockio.Engine) error {
	path := t.dataPath(t.record.File)
	if engine == nil {
		f, err := t.fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
		if err != nil {
			return fmt.Errorf("open table: %w", err)
		}
		t.io = fileIO{f}
		return nil
	}
	if !t.onDisk() {
		return fmt.Errorf("%w: %s is not on the operating system's file system", blockio.ErrUnsupported, t.dir)
	}
	f, err := engine.Open(path, blockio.OpenOptions{Direct: true, Write: true})
	if err != nil {
		return fmt.Errorf("open table: %w", err)
	}
	t.io = engineIO{engine, f}
	return nil
}

type engineIO struct {
	engine blockio.Engine
	file   blockio.File
}

func (e engineIO) move(ctx context.Context, op blockio.Op, ts []tableRange) error {
	batch := make([]blockio.Request, len(ts))
	for i, t := range ts {
		batch[i] = blockio.Request{Op: op, File: e.file, Offset: t.offset, Buf: t.buf}
	}
	return e.engine.Do(ctx, batch, nil)
}

func (e engineIO) sync(ctx context.Context) error {
	return e.engine.Do(ctx, []blockio.Request{{Op: blockio.Sync, File: e.file}}, nil)
}

func (e engineIO) close() error { return e.file.Close() }

type fileIO struct{ f vfs.File }

func (f fileIO) move(ctx context.Context, op blockio.Op, ts []tableRange) error {
	for _, t := range ts {
		err := ctx.Err()
		if err == nil && op == blockio.Read {
			_, err = f.f.ReadAt(t.buf, t.offset)
		} else if err == nil {
			_, err = f.f.WriteAt(t.buf, t.offset)
		}
		if err != nil {
			return fmt.Errorf("%v table at byte %d: %w", op, t.offset, err)
		}
	}
	return nil
}

func (f fileIO) sync(context.Context) error { return f.f.Sync() }

func (f fileIO) close() error { return f.f.Close() }
