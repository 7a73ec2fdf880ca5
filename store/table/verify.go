package table

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/internal/meta"
)

// Report is what Verify found.
type Report struct {
	Checked int      // tables
	Busy    []string // tables that another process trains, which were left alone
	Bytes   int64
	Damage  []error // each a *blocks.CorruptError
}

// Verify checks every embedding table of the store in dir: header and directory of its
// file, the rows, paddings and checksums of every kept checkpoint, and that its blobs are there.
// Slots that no checkpoint names hold nothing, and are not looked at. Damage is in the report; an error
// means that tables could not be checked. progress, if not nil, is told bytes as they are checked.
func Verify(ctx context.Context, dir string, o store.Options, progress func(bytes int64)) (*Report, error) {
	names, err := Names(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	for _, name := range names {
		err := r.table(ctx, meta.NewEnv(dir, o.FS, o.LockTimeout), name, progress)
		switch {
		case errors.Is(err, store.ErrLocked):
			r.Busy = append(r.Busy, name)
		case errors.Is(err, blocks.ErrCorrupt):
			r.Checked++
			r.Damage = append(r.Damage, err)
		case err != nil:
			return nil, err
		default:
			r.Checked++
		}
	}
	return r, nil
}

// table checks one table. What it returns if it is corrupt belongs to the whole of it; other
// damage is added to r.
func (r *Report) table(ctx context.Context, e meta.Env, name string, progress func(int64)) (err error) {
	t, err := lock(ctx, e, Options{Name: name, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.lk.Close()) }()
	if err := t.load(ctx, name); err != nil {
		return err
	}
	path := t.env.DataPath(t.record.File)
	if !e.Exists(path) {
		return &blocks.CorruptError{Path: path, Extent: "file", Offset: -1, Reason: "it is missing"}
	}
	if t.layout, err = blocks.OpenEmbedding(e.FS, path); err != nil {
		return err
	}
	l := t.layout
	if l.Planes != 1+t.record.States || l.Slots != t.record.Keep+1 || int(l.Header.Dim) != t.record.Dim || len(l.Nodes) != len(t.current) {
		return &blocks.CorruptError{Path: path, Extent: "directory", Offset: -1, Reason: "its shape is not what the table's record says"}
	}
	f, err := e.FS.Open(path)
	if err != nil {
		return fmt.Errorf("open table: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	largest := int64(blocks.Alignment)
	for p := range l.Nodes {
		largest = max(largest, l.PlaneBytes(store.PartitionID(p)))
	}
	slab, err := blockio.AllocSlab(largest, blockio.SlabOptions{Lazy: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, slab.Free()) }()
	for _, c := range t.kept {
		if len(c.Slots) != len(l.Nodes) {
			return &blocks.CorruptError{Path: path, Extent: "checkpoint", Offset: -1, Reason: fmt.Sprintf("it names %d partitions, the file has %d", len(c.Slots), len(l.Nodes))}
		}
		for p, s := range c.Slots {
			id := store.PartitionID(p)
			for plane := range l.Planes {
				if err := ctx.Err(); err != nil {
					return err
				}
				b := slab.Bytes()[:l.PlaneBytes(id)]
				if len(b) == 0 {
					continue
				}
				if _, err := f.ReadAt(b, l.Offset(id, plane, s.Slot)); err != nil {
					return fmt.Errorf("read table %s: %w", path, err)
				}
				if err := t.checkPlane(id, plane, s, b); err != nil {
					r.Damage = append(r.Damage, err)
				}
				r.Bytes += int64(len(b))
				if progress != nil {
					progress(int64(len(b)))
				}
			}
		}
	}
	return t.checkBlobs(ctx)
}

// checkPlane compares the checksum and looks at the padding too.
func (t *Table) checkPlane(p store.PartitionID, plane int, s tableSlot, b []byte) error {
	if err := t.checkSum(p, plane, s, blocks.Checksum(b[:t.layout.PayloadBytes(p)])); err != nil {
		return err
	}
	payload := t.layout.PayloadBytes(p)
	for i, c := range b[payload:] {
		if c != 0 {
			return &blocks.CorruptError{Path: t.env.DataPath(t.record.File), Extent: t.layout.ExtentName(p, plane, s.Slot),
				Offset: t.layout.Offset(p, plane, s.Slot) + payload + int64(i), Reason: fmt.Sprintf("padding byte is %#02x, expected 0", c)}
		}
	}
	return nil
}

// checkBlobs looks for every blob of the kept checkpoints.
func (t *Table) checkBlobs(ctx context.Context) (err error) {
	m, err := meta.Open(ctx, t.env, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	for _, c := range t.kept {
		for i, name := range c.Blobs {
			_, ok, err := m.Get(meta.BlobKey(t.record.Name, c.Number, uint32(i)))
			if err != nil { // what could not be read may be there
				return err
			}
			if !ok {
				return m.Corrupt("checkpoint of table "+t.record.Name, "blob %q is missing", name)
			}
		}
	}
	return nil
}
