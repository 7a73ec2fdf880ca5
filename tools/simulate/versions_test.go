package simulate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/store"
)

// kept are the versions that can be read, oldest first.
func (w *world) kept() (versions []uint64, err error) {
	h, err := store.ReadHistory(w.ctx, w.dir, w.open())
	if err != nil {
		return nil, err
	}
	for _, v := range h.Versions {
		if v.Readable {
			versions = append(versions, v.Version)
		}
	}
	return versions, nil
}

// write opens the store's writer for do.
func (w *world) write(do func(*store.Writer) error) error {
	wr, err := store.OpenWriter(w.dir, store.WriterOptions{FS: w.disk.fs})
	if err != nil {
		return err
	}
	return errors.Join(do(wr), wr.Close())
}

// rollback makes an earlier version the newest.
func (w *world) rollback() (bool, error) {
	versions, err := w.kept()
	if err != nil {
		return false, err
	}
	versions = slices.DeleteFunc(versions, func(v uint64) bool { return v == w.version || w.past[v] == nil })
	if len(versions) == 0 {
		return false, nil
	}
	to := pick(w, versions...)
	return true, w.change(fmt.Sprintf("roll back to version %d", to), w.past[to].clone(), func() error {
		return w.write(func(wr *store.Writer) error {
			_, err := wr.Rollback(w.ctx, to)
			return err
		})
	})
}

// prune drops all but the newest versions.
func (w *world) prune() (bool, error) {
	keep := 1 + w.rng.IntN(2)
	var dropped store.Dropped
	err := w.change(fmt.Sprintf("prune, keep %d versions", keep), w.now, func() error {
		return w.write(func(wr *store.Writer) (err error) {
			dropped, err = wr.DropVersions(w.ctx, func(kept []uint64) []uint64 { return kept[:max(len(kept)-keep, 0)] })
			if w.disk.stopped() { // what came after the crash never happened
				dropped = store.Dropped{}
			}
			return err
		})
	})
	if err != nil {
		return true, err
	}
	versions, err := w.kept()
	for _, v := range dropped.Versions {
		if slices.Contains(versions, v) && err == nil {
			err = fmt.Errorf("version %d was dropped and can be read", v)
		}
	}
	return true, err
}
