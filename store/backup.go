package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/internal/meta"
)

// Backup is all that a store holds at one moment, file by file, for who copies it: the versions that can be read, embedding tables,
// the dictionary and the history, the models and measurements of runs. A folder of these files is the store.
//
// It holds descriptors, no lock that writers wait for: they commit, and remove files, meanwhile. Tables alone cannot be trained
// until it is closed.
type Backup struct {
	Manifest *Manifest // of the newest version
	History  *History
	Dropped  []uint64     // numbers of runs that were dropped
	Files    []BackupFile // by Path

	locks []*meta.Lock
}

// BackupFile is a file of a store, as it is while the [Backup] is open.
type BackupFile struct {
	// Path in the store's folder, with slashes.
	Path string
	Size int64
	// Ref is what versions say of a data file that is never written again; nil of other files.
	Ref *FileRef
	io.ReaderAt
	closer io.Closer
}

// OpenBackup opens all that the store in dir holds now. Of o, FS and LockTimeout are looked at. It fails with ErrLocked while a table
// of embeddings is trained.
func OpenBackup(ctx context.Context, dir string, o Options) (_ *Backup, err error) {
	m, err := meta.OpenStore(ctx, meta.NewEnv(dir, o.FS, o.LockTimeout), false)
	if err != nil {
		return nil, err
	}
	b := &Backup{}
	// Nothing is written, and nothing swept, while the metadata are open.
	defer func() {
		if err = errors.Join(err, m.Close()); err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.Manifest, err = readSnapshot(m, 0); err != nil {
		return b, err
	}
	if b.History, b.Dropped, err = readHistory(m); err != nil {
		return b, err
	}
	for _, add := range []func(*meta.DB) error{b.addData, func(m *meta.DB) error { return b.addTables(ctx, m) }, b.addMeta, b.addRuns} {
		if err := add(m); err != nil {
			return b, err
		}
	}
	slices.SortFunc(b.Files, func(x, y BackupFile) int { return strings.Compare(x.Path, y.Path) })
	return b, nil
}

// addData adds the data files of all versions that are kept.
func (b *Backup) addData(m *meta.DB) error {
	all, err := readManifests(m)
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for _, man := range all {
		for _, ref := range man.Files {
			if have[ref.Name] {
				continue
			}
			have[ref.Name] = true
			f, err := openRef(m.Env, ref)
			if err != nil {
				return err
			}
			b.Files = append(b.Files, BackupFile{Path: meta.DataName + "/" + ref.Name, Size: ref.Size, Ref: &ref, ReaderAt: dataFile{f}, closer: f})
		}
	}
	return nil
}

// dataFile is a data file as an [io.ReaderAt] of what lies inside of it.
type dataFile struct{ *blocks.File }

// ReadAt implements [io.ReaderAt].
func (f dataFile) ReadAt(b []byte, at int64) (int, error) {
	if err := f.File.ReadAt(b, at); err != nil {
		return 0, err
	}
	return len(b), nil
}

// addTables adds the files of embedding tables, which nobody may train until the end.
func (b *Backup) addTables(ctx context.Context, m *meta.DB) error {
	records, err := m.Tables()
	if err != nil {
		return err
	}
	for _, r := range records {
		lk, err := m.LockTable(ctx, r.Name, false, 0)
		if errors.Is(err, ErrLocked) {
			return fmt.Errorf("%w: table %q of %s is being trained", ErrLocked, r.Name, m.Dir)
		}
		if err != nil {
			return err
		}
		b.locks = append(b.locks, lk)
		if _, err := b.add(m.Env, meta.DataName, r.File); err != nil && (r.Ready || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// addMeta adds the metadata. What Pebble writes once is opened; the rest, which is small, is read, as writers go on with it.
func (b *Backup) addMeta(m *meta.DB) error {
	names, err := m.FS.List(m.Path(meta.MetaName))
	if err != nil {
		return fmt.Errorf("list metadata: %w", err)
	}
	for _, name := range names {
		f, err := b.add(m.Env, meta.MetaName, name)
		if err != nil {
			return err
		}
		if ext := path.Ext(name); ext == ".sst" || ext == ".blob" || f == nil {
			continue
		}
		all := make([]byte, f.Size)
		if _, err = f.ReadAt(all, 0); err == io.EOF && len(all) == 0 {
			err = nil
		}
		if err := errors.Join(err, f.closer.Close()); err != nil {
			return fmt.Errorf("read %s: %w", f.Path, err)
		}
		f.ReaderAt, f.closer = bytes.NewReader(all), io.NopCloser(nil)
	}
	return nil
}

// addRuns adds the models, checkpoints and measurements of runs that have ended.
func (b *Backup) addRuns(m *meta.DB) error {
	names, err := m.FS.List(m.Path(RunsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	mine := map[string]bool{}
	for _, r := range b.History.Runs {
		mine[ModelFile(r.Number)], mine[MetricsFile(r.Number)] = true, true
	}
	for _, name := range names {
		if !mine[name] && path.Ext(name) != RunExtension {
			continue
		}
		if _, err := b.add(m.Env, RunsDir, name); err != nil && !errors.Is(err, fs.ErrNotExist) { // a checkpoint may go meanwhile
			return err
		}
	}
	return nil
}

// add opens a file; one that is a folder is left out, and nil.
func (b *Backup) add(e meta.Env, folder, name string) (*BackupFile, error) {
	p := e.Path(folder, name)
	f, err := e.FS.Open(p, vfs.RandomReadsOption)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", p, err)
	}
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		return nil, errors.Join(err, f.Close())
	}
	b.Files = append(b.Files, BackupFile{Path: folder + "/" + name, Size: info.Size(), ReaderAt: f, closer: f})
	return &b.Files[len(b.Files)-1], nil
}

// Close gives tables free and closes the files.
func (b *Backup) Close() error {
	var errs []error
	for _, f := range b.Files {
		errs = append(errs, f.closer.Close())
	}
	for _, lk := range b.locks {
		errs = append(errs, lk.Close())
	}
	b.Files, b.locks = nil, nil
	return errors.Join(errs...)
}
