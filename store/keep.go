package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/store/internal/meta"
)

// Dropped is what dropping versions gives back.
type Dropped struct {
	Versions []uint64 // that can no longer be read
	Kept     []uint64 // that stay though nobody asked for them: embedding tables were trained on them
	Bytes    int64    // of the files that no version names any more
}

// Rollback makes what the store was at an earlier version, which must be readable, its next version, which shares that one's files: nothing
// is written but metadata. All versions stay, those after it too. It returns the new version's manifest.
func (w *Writer) Rollback(ctx context.Context, version uint64) (*Manifest, error) {
	m, kept, err := w.readable(ctx, version)
	if err != nil {
		return nil, err
	}
	m.Note = fmt.Sprintf("version %d again", version)
	keep := w.o.KeepVersions
	w.o.KeepVersions = kept + 1
	err = w.Commit(ctx, m)
	w.o.KeepVersions = keep
	if err != nil {
		return nil, err
	}
	return m, nil
}

// readable returns the manifest of an earlier version, and how many versions are kept.
func (w *Writer) readable(ctx context.Context, version uint64) (m *Manifest, kept int, err error) {
	if w.closed {
		return nil, 0, ErrClosed
	}
	if w.base == nil {
		return nil, 0, fmt.Errorf("%s: %w", w.env.Dir, ErrNoVersion)
	}
	if version == w.base.Version {
		return nil, 0, fmt.Errorf("%w: version %d is the newest of %s", ErrInvalid, version, w.env.Dir)
	}
	db, err := meta.Open(ctx, w.env, false)
	if err != nil {
		return nil, 0, err
	}
	all, err := readManifests(db)
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, 0, err
	}
	at := slices.IndexFunc(all, func(m *Manifest) bool { return m.Version == version })
	if at < 0 {
		var named []uint64
		for _, m := range all {
			named = append(named, m.Version)
		}
		return nil, 0, fmt.Errorf("%w: version %d of %s; versions %v are kept", ErrNotFound, version, w.env.Dir, named)
	}
	return all[at], len(all), nil
}

// DropVersions makes the versions that unwanted names unreadable, in one step, and removes the files that none of the others has. The newest
// stays, and so do those on which embedding tables were trained (see table.Drop). Readers that have one open keep it.
func (w *Writer) DropVersions(ctx context.Context, unwanted func(kept []uint64) []uint64) (d Dropped, err error) {
	if w.closed {
		return d, ErrClosed
	}
	if w.base == nil {
		return d, fmt.Errorf("%s: %w", w.env.Dir, ErrNoVersion)
	}
	db, err := meta.Open(ctx, w.env, true)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	all, err := readManifests(db)
	if err != nil {
		return d, err
	}
	trained, err := db.TableVersions()
	if err != nil {
		return d, err
	}
	var versions []uint64
	for _, m := range all {
		versions = append(versions, m.Version)
	}
	drop := unwanted(versions)
	b := db.Pebble.NewBatch()
	before, after := map[string]int64{}, map[string]bool{}
	for _, m := range all {
		gone := slices.Contains(drop, m.Version) && m.Version != w.base.Version
		if gone && trained[m.Version] {
			gone, d.Kept = false, append(d.Kept, m.Version)
		}
		for _, f := range m.Files {
			if before[f.Name] = f.Size; !gone {
				after[f.Name] = true
			}
		}
		if gone {
			d.Versions = append(d.Versions, m.Version)
			err = errors.Join(err, b.Delete(meta.NumberKey(meta.PrefixManifest, m.Version), nil))
		}
	}
	if err != nil || len(d.Versions) == 0 {
		return d, errors.Join(err, b.Close())
	}
	if err := db.Apply(b); err != nil {
		return Dropped{}, err
	}
	for name, size := range before {
		if !after[name] {
			d.Bytes += size
		}
	}
	if db.Flush() == nil { // what cannot be removed now is removed by the next writer
		_ = w.sweep(db)
	}
	return d, nil
}
