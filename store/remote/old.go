package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gstore/gstore/store"
)

// oldStore is what the folder of a pull holds: files by path.
type oldStore map[string]oldFile

type oldFile struct {
	size   int64
	footer *uint32 // of data that never change, which it is known by
	sum    string  // SHA-256 of other files
	far    bool    // it is not on disk
}

// readOld looks at the store in dir, nil if there is none, and whether the snapshot may take its place.
func readOld(ctx context.Context, dir string, s *Snapshot, force bool) (_ oldStore, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := store.OpenBackup(ctx, dir, store.Options{})
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%w: %s is no store, and not empty: pull into another folder", store.ErrExists, dir)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := lost(dir, b.History, s); err != nil && !force {
		return nil, err
	}
	old := oldStore{}
	for i := range b.Files {
		f := &b.Files[i]
		_, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(f.Path)))
		o := oldFile{size: f.Size, far: errors.Is(err, fs.ErrNotExist)}
		if f.Ref != nil {
			o.footer = &f.Ref.FooterChecksum
		} else if o.sum, err = sumOf(ctx, io.NewSectionReader(f, 0, f.Size)); err != nil {
			return nil, err
		}
		old[f.Path] = o
	}
	return old, nil
}

// lost fails where the store in dir has what the snapshot has not.
func lost(dir string, h *store.History, s *Snapshot) error {
	l := marksOf(h).lackIn(s.marks(), nil)
	if l == nil {
		return nil
	}
	return fmt.Errorf("%w: %s has %s %d, which snapshot %d has not: push it first, pull into another folder, or lose it with --force", ErrConflict, dir, l.what, l.mark.Number, s.Number)
}

// has reports whether the store has a file as the snapshot has it.
func (o oldStore) has(f *File) bool {
	old, ok := o[f.Path]
	if !ok || old.size != f.Size {
		return false
	}
	if old.footer != nil {
		return f.Footer != nil && *f.Footer == *old.footer
	}
	return old.sum == f.SHA256
}

// same reports whether the store has all files of the snapshot, and no others; all on disk, if not lazy.
func (o oldStore) same(s *Snapshot, lazy bool) bool {
	if len(o) != len(s.Files) {
		return false
	}
	for i := range s.Files {
		if f := &s.Files[i]; !o.has(f) || !lazy && o[f.Path].far {
			return false
		}
	}
	return true
}
