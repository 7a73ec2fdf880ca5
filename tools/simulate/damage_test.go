package simulate

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/verify"
)

// files lists the files under dir, the same on every run.
func files(fs vfs.FS, dir string) (paths []string, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			paths = append(paths, path)
			continue
		}
		below, err := files(fs, path)
		if err != nil {
			return nil, err
		}
		paths = append(paths, below...)
	}
	return paths, nil
}

// damage changes a file of a copy of the store behind its back: verify finds it, or all that can be read is as it was.
func (w *world) damage() (bool, error) {
	if w.disk.mem == nil {
		return false, nil
	}
	copied := newDisk(nil)
	w.disk.fault, w.disk.seed = stopped, w.rng.Uint64()
	copied.on(w.disk.clone())
	w.disk.fault = sound
	paths, err := files(copied.fs, w.dir)
	if err != nil {
		return false, err
	}
	path := pick(w, paths...)
	// Where a crash left no seal, a damaged end of the metadata's log is what a crash before the last commit leaves too.
	_, unsealed := copied.fs.Stat(copied.fs.PathJoin(w.dir, "meta", "SEAL"))
	older := unsealed != nil && strings.Contains(path, "/meta/")
	how, err := w.spoil(copied.mem.MemFS, path)
	if err != nil || how == "" {
		return false, err
	}
	w.note("damage a copy: %s of %s", how, path)
	o := w.open()
	o.FS = copied.fs
	r, err := verify.Store(w.ctx, w.dir, verify.Options{Open: o, Workers: 1, MemoryBytes: 1 << 20, Model: train.VerifyFile})
	switch {
	case older && errors.Is(err, store.ErrNoVersion):
		w.counts["damage as a crash"]++
		return true, nil
	case err != nil && !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrFormatVersion):
		return false, fmt.Errorf("verify says nothing of damage: %w", err)
	case err != nil || len(r.Damage) > 0:
		w.counts["damage found"]++
		return true, nil
	}
	s, err := store.Open(w.dir, o)
	if err != nil {
		return false, fmt.Errorf("verify finds nothing, open fails: %w", err)
	}
	l, err := read(w.ctx, s, false)
	if err = errors.Join(err, s.Close()); err != nil {
		return false, fmt.Errorf("verify finds nothing, reading fails: %w", err)
	}
	if older && s.Manifest().Version < w.version {
		w.counts["damage as a crash"]++
		return true, nil
	}
	if s.Manifest().Version != w.version {
		return false, fmt.Errorf("verify finds nothing, the store is at version %d, expected %d", s.Manifest().Version, w.version)
	}
	if err := l.same(w.now); err != nil {
		return false, fmt.Errorf("verify finds nothing: %w", err)
	}
	if t := w.training; t != nil && t.version == w.version {
		if got, err := t.run(w, o); err != nil || got != t.want {
			return false, fmt.Errorf("verify finds nothing, training ends with %s, expected %s: %w", got, t.want, err)
		}
	}
	w.counts["damage without effect"]++
	return true, nil
}

// spoil changes a file and says how; "" = there was nothing to change.
func (w *world) spoil(fs vfs.FS, path string) (how string, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	if len(b) == 0 {
		return "removal", fs.Remove(path)
	}
	at := w.rng.IntN(len(b))
	switch w.rng.IntN(5) {
	case 0:
		b[at] ^= 1 << w.rng.IntN(8)
		how = fmt.Sprintf("a bit of byte %d", at)
	case 1:
		b[at] ^= byte(1 + w.rng.IntN(255))
		how = fmt.Sprintf("byte %d", at)
	case 2:
		b = b[:at]
		how = fmt.Sprintf("all from byte %d", at)
	case 3:
		zeros := b[at:min(at+1+w.rng.IntN(512), len(b))]
		clear(zeros)
		how = fmt.Sprintf("%d bytes set to 0 from %d", len(zeros), at)
	default:
		return "removal", fs.Remove(path)
	}
	out, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return "", err
	}
	_, err = out.Write(b)
	return how, errors.Join(err, out.Close())
}
