package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
	if run := unfinishedRun(dir); run != "" && !force && !old.same(s, true) {
		return nil, fmt.Errorf("%w: %s has an unfinished run (%s), which snapshot %d has not: gstore train --resume goes on with it; pull into another folder, or lose it with --force", errUnfinished, dir, run, s.Number)
	}
	return old, nil
}

// errUnfinished is an ErrConflict over a run that has not ended.
var errUnfinished = fmt.Errorf("%w", ErrConflict)

// unfinishedRun is the checkpoint of a run of the store in dir that has not ended, "" if there is none. Its measurements lie beside it until
// they get the run's number; they go to no address, so one that was pulled is another store's.
func unfinishedRun(dir string) string {
	measured, _ := filepath.Glob(filepath.Join(dir, store.RunsDir, "last*"+store.MetricsExtension)) // the pattern is right
	for _, path := range measured {
		name := strings.TrimSuffix(filepath.Base(path), store.MetricsExtension) + store.RunExtension
		if _, err := os.Stat(filepath.Join(dir, store.RunsDir, name)); err == nil {
			return store.RunsDir + "/" + name
		}
	}
	return ""
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
