package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gstore/gstore/store"
)

// oldStore is what the folder of a pull holds.
type oldStore struct {
	files map[string]store.BackupFile
	sums  map[string]string
	far   map[string]bool // files that are not on disk
}

// readOld looks at the store in dir, nil if there is none, and whether the snapshot may take its place.
func readOld(ctx context.Context, dir string, s *Snapshot, force bool) (_ *oldStore, err error) {
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
	if !force {
		if err := held(dir, b, s); err != nil {
			return nil, err
		}
	}
	old := &oldStore{files: map[string]store.BackupFile{}, sums: map[string]string{}, far: map[string]bool{}}
	for _, f := range b.Files {
		old.files[f.Path] = f
		_, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(f.Path)))
		old.far[f.Path] = errors.Is(err, fs.ErrNotExist)
		// What never changes is known by its footer; the rest is small, but for dictionaries and tables.
		if f.Ref == nil {
			if old.sums[f.Path], err = sumOf(ctx, io.NewSectionReader(f, 0, f.Size)); err != nil {
				return nil, err
			}
		}
	}
	return old, nil
}

// held fails where the store has what the snapshot has not.
func held(dir string, b *store.Backup, s *Snapshot) error {
	has := func(all []Mark, number uint64, t time.Time) bool {
		for _, m := range all {
			if m.Number == number && m.Time.Equal(t) {
				return true
			}
		}
		return false
	}
	lost := func(what string, number uint64) error {
		return fmt.Errorf("%w: %s has %s %d, which snapshot %d has not: push it first, pull into another folder, or lose it with --force", ErrConflict, dir, what, number, s.Number)
	}
	for _, v := range b.History.Versions {
		if !has(s.Versions, v.Version, v.Created) {
			return lost("version", v.Version)
		}
	}
	for _, r := range b.History.Runs {
		if !has(s.Runs, r.Number, r.Started) {
			return lost("run", r.Number)
		}
	}
	return nil
}

// has reports whether the store has a file as the snapshot has it.
func (o *oldStore) has(f *File) bool {
	if o == nil {
		return false
	}
	old, ok := o.files[f.Path]
	if !ok || old.Size != f.Size {
		return false
	}
	if old.Ref != nil {
		return f.Footer != nil && *f.Footer == old.Ref.FooterChecksum
	}
	return o.sums[f.Path] == f.SHA256
}

// same reports whether the store has all files of the snapshot, and no others.
func (o *oldStore) same(s *Snapshot, lazy bool) bool {
	if o == nil || len(o.files) != len(s.Files) {
		return false
	}
	for i := range s.Files {
		if f := &s.Files[i]; !o.has(f) || !lazy && o.far[f.Path] {
			return false
		}
	}
	return true
}
