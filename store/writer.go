package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/internal/meta"
)

// WriterOptions say how a store is created or opened for writing. The zero
// value is what most callers want.
type WriterOptions struct {
	// KeepVersions is how many versions stay readable after a commit, the new
	// one included; 0 = 1. Readers that have an older one open keep it, and so does an embedding table that
	// was made for it, until it is dropped or replaced.
	KeepVersions int
	// KeepUnnamed leaves files that no version names, and the scratch
	// directory, where they are at open: for resuming an interrupted ingest.
	KeepUnnamed bool
	// LockTimeout is how long to wait for readers that are opening the store;
	// 0 = 30 s. Another writer is never waited for.
	LockTimeout time.Duration
	// FS is the file system; nil = the operating system's.
	FS vfs.FS
	// Now is the clock that versions are dated by; nil = time.Now.
	Now func() time.Time
}

// Writer makes a store's next version. There is one at a time, in all
// processes; it is for one goroutine. Files are written to DataPath by block
// writers, and become part of the store in Commit. Between Create and Commit
// nothing a reader sees changes.
type Writer struct {
	env     meta.Env
	o       WriterOptions
	lk      *meta.Lock
	base    *Manifest // nil before the first version
	created bool      // by this writer: Abort removes the directory's contents
	closed  bool
}

// Create makes a store in directory dir, which must not exist, be empty, or
// hold a store in which nothing was ever committed (whose remains are removed
// unless o.KeepUnnamed). Otherwise it fails with ErrExists.
// The store cannot be opened for reading before the first Commit.
func Create(dir string, o WriterOptions) (*Writer, error) {
	return newWriter(context.Background(), dir, o, true)
}

// OpenWriter opens an existing store to make its next version. It removes
// what earlier writers left behind unless o.KeepUnnamed. It fails with
// ErrNotFound, or with ErrLocked if there is another writer.
func OpenWriter(dir string, o WriterOptions) (*Writer, error) {
	return newWriter(context.Background(), dir, o, false)
}

func newWriter(ctx context.Context, dir string, o WriterOptions, create bool) (_ *Writer, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.KeepVersions == 0 {
		o.KeepVersions = 1
	}
	if o.KeepVersions < 0 {
		return nil, fmt.Errorf("%w: KeepVersions is %d", ErrInvalid, o.KeepVersions)
	}
	w := &Writer{env: meta.NewEnv(dir, o.FS, o.LockTimeout), o: o, created: create}
	if create {
		if err := w.makeDir(); err != nil {
			return nil, err
		}
	} else if err := w.env.Find(); err != nil {
		return nil, err
	}
	if w.lk, err = w.env.Lock(ctx, meta.LockWriter, true, 0); err != nil {
		if errors.Is(err, ErrLocked) {
			return nil, fmt.Errorf("another writer is at work in %s: %w", dir, err)
		}
		return nil, fmt.Errorf("%s cannot be written to: %w", dir, err)
	}
	defer func() {
		if err != nil {
			_ = w.lk.Close()
		}
	}()
	m, err := meta.Open(ctx, w.env, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return w, w.begin(m)
}

// makeDir makes the directory, or fails with ErrExists if something else than
// the remains of a writer is in it.
func (w *Writer) makeDir() error {
	info, err := w.env.FS.Stat(w.env.Dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return fmt.Errorf("create store: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%w: %s is not a directory", ErrExists, w.env.Dir)
	default:
		names, err := w.env.FS.List(w.env.Dir)
		if err != nil {
			return fmt.Errorf("create store: %w", err)
		}
		of := []string{meta.LockName, meta.MetaName, meta.DataName, meta.TempName}
		if slices.Contains(names, meta.MetaName) { // a store, which is refused as one
			of = append(of, RunsDir)
		}
		for _, n := range names {
			if !slices.Contains(of, n) {
				return fmt.Errorf("%w: directory %s is not empty (it holds %q) and not a store", ErrExists, w.env.Dir, n)
			}
		}
	}
	if err := w.env.FS.MkdirAll(w.env.Dir, 0o777); err != nil {
		return fmt.Errorf("create store: %w", err)
	}
	return w.env.SyncDir(w.env.FS.PathDir(w.env.Dir))
}

// begin reads the current version, or writes the first keys, and sweeps.
func (w *Writer) begin(m *meta.DB) error {
	fresh, err := m.CheckFormat()
	if err != nil {
		return err
	}
	if fresh {
		b := m.Pebble.NewBatch()
		if err := b.Set([]byte(meta.KeyFormat), []byte(meta.Format), nil); err != nil {
			return m.Wrap("write", err)
		}
		if err := m.Apply(b); err != nil {
			return err
		}
	}
	newest, err := m.Current()
	if err != nil {
		return err
	}
	if newest > 0 {
		if w.created {
			return fmt.Errorf("%w: %s holds a store (version %d): append adds to it; a new one needs another name, or this one removed", ErrExists, w.env.Dir, newest)
		}
		if w.base, err = readManifest(m, newest); err != nil {
			return err
		}
	}
	for _, d := range []string{meta.DataName, meta.TempName} {
		if err := w.env.FS.MkdirAll(w.env.Path(d), 0o777); err != nil {
			return fmt.Errorf("create store: %w", err)
		}
	}
	if err := w.env.SyncDir(w.env.Dir); err != nil {
		return err
	}
	if w.o.KeepUnnamed {
		return nil
	}
	return w.sweep(m)
}

// Base is the version that the next one is made from, nil if there is none.
// It is the writer's own: Clone it.
func (w *Writer) Base() *Manifest { return w.base }

// Version is the number that the next Commit will give.
func (w *Writer) Version() uint64 {
	if w.base == nil {
		return 1
	}
	return w.base.Version + 1
}

// Dir is the store's directory, FS the file system it is on.
func (w *Writer) Dir() string { return w.env.Dir }

// FS is the file system the store is on.
func (w *Writer) FS() vfs.FS { return w.env.FS }

// NewFile returns the name and header id of a data file of the next version. base says
// what it holds ("topology", "x"); names are unique within a version if bases
// are. Both results depend on base and Version only, so a repeated ingest
// makes the same files.
func (w *Writer) NewFile(base string) (name string, id uint64) {
	return meta.DataFile(base, w.Version())
}

// DataPath returns where the data file called name lies.
func (w *Writer) DataPath(name string) string { return w.env.DataPath(name) }

// TempDir is a scratch directory in the store's file system, swept with the unnamed
// files.
func (w *Writer) TempDir() string { return w.env.Path(meta.TempName) }

// CreateFile starts a data file of the next version: NewFile and
// blocks.Create. h.FileID is set; h.Name stays the caller's. The file's
// reference for the manifest is Ref(name, info) once it is closed.
func (w *Writer) CreateFile(base string, h blocks.Header) (name string, bw *blocks.Writer, err error) {
	if w.closed {
		return "", nil, ErrClosed
	}
	name, h.FileID = w.NewFile(base)
	if !meta.ValidFileName(name) {
		return "", nil, fmt.Errorf("%w: %q cannot be part of a file name", ErrInvalid, base)
	}
	bw, err = blocks.Create(w.env.FS, w.env.DataPath(name), h)
	return name, bw, err
}

// Ref makes a manifest's reference to a closed data file.
func Ref(name string, info blocks.FileInfo) FileRef {
	return FileRef{Name: name, Size: info.Size, FooterChecksum: info.FooterChecksum}
}

// Commit makes m the store's next version, durably and at once: until it
// returns nil readers see the old version, and afterwards the new one. After
// an error the store holds one of the two, whole; reopen to learn which. The
// files m lists must be closed and complete; they are opened and compared
// first. Version, Parent and Created of m are set. Afterwards the writer
// goes on from the new version.
func (w *Writer) Commit(ctx context.Context, m *Manifest) error {
	if w.closed {
		return ErrClosed
	}
	m.Version, m.Parent, m.Created = w.Version(), 0, w.o.Now().UTC()
	if w.base != nil {
		m.Parent = w.base.Version
	}
	sort.Slice(m.Files, func(i, j int) bool { return m.Files[i].Name < m.Files[j].Name })
	if err := m.Validate(); err != nil {
		return err
	}
	if err := w.checkFiles(m); err != nil {
		return fmt.Errorf("commit version %d: %w", m.Version, err)
	}
	// Block writers have synced the files; their names are synced here.
	for _, d := range []string{w.env.Path(meta.DataName), w.env.Dir} {
		if err := w.env.SyncDir(d); err != nil {
			return err
		}
	}
	db, err := meta.Open(ctx, w.env, true)
	if err != nil {
		return err
	}
	if err := w.commit(ctx, db, m); err != nil {
		return errors.Join(err, db.Close())
	}
	// Committed: from here on nothing is an error. What cannot be removed now
	// is removed by the next writer.
	w.base = m.Clone()
	w.created = false
	if db.Flush() == nil {
		_ = w.sweep(db)
	}
	_ = db.Close()
	return nil
}

// checkFiles opens the version like a reader would.
func (w *Writer) checkFiles(m *Manifest) error {
	s := &Store{env: w.env, manifest: m, files: map[string]*blocks.File{}, columns: map[string]extentMap{}}
	defer func() { _ = s.Close() }()
	for _, ref := range m.Files {
		f, err := openRef(w.env, ref)
		if err != nil {
			return err
		}
		s.files[ref.Name] = f
	}
	return s.locate()
}

func (w *Writer) commit(ctx context.Context, db *meta.DB, m *Manifest) error {
	newest, err := db.Current()
	if err != nil {
		return err
	}
	if newest != m.Parent {
		return fmt.Errorf("%w: version %d was committed meanwhile, expected %d", ErrLocked, newest, m.Parent)
	}
	if err := w.ingestDictionary(ctx, db, m); err != nil {
		return err
	}
	kept, err := readManifests(db)
	if err != nil {
		return err
	}
	trained, err := db.TableVersions()
	if err != nil {
		return err
	}
	b := db.Pebble.NewBatch()
	put := func(key []byte, v any) error {
		j, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode manifest: %w", err)
		}
		return b.Set(key, j, nil)
	}
	err = errors.Join(
		put(meta.NumberKey(meta.PrefixManifest, m.Version), m),
		put(meta.NumberKey(meta.PrefixHistory, m.Version), infoOf(m)),
		b.Set([]byte(meta.KeyCurrent), binary.BigEndian.AppendUint64(nil, m.Version), nil),
	)
	if m.needsRuns() {
		err = errors.Join(err, b.Set([]byte(meta.KeyFormat), []byte(meta.FormatRuns), nil))
	}
	for _, old := range kept[:max(0, len(kept)-w.o.KeepVersions+1)] {
		if !trained[old.Version] {
			err = errors.Join(err, b.Delete(meta.NumberKey(meta.PrefixManifest, old.Version), nil))
		}
	}
	if err != nil {
		return errors.Join(err, b.Close())
	}
	return db.Apply(b)
}

// sweep removes data files that no kept version and no embedding table names, dictionary
// generations likewise, and the scratch directory's contents. The metadata lock is held
// exclusively, so no reader is between reading a manifest and opening its files.
func (w *Writer) sweep(m *meta.DB) error {
	kept, err := readManifests(m)
	if err != nil {
		return err
	}
	named := map[string]bool{}
	gens := map[uint64]bool{}
	for _, man := range kept {
		for _, f := range man.Files {
			named[f.Name] = true
		}
		for _, g := range man.IDs.Dictionaries {
			gens[g] = true
		}
	}
	if err := m.TableFiles(named); err != nil {
		return err
	}
	if err := w.removeFiles(w.env.Path(meta.DataName), func(name string) bool {
		return !named[name] && strings.HasSuffix(name, meta.FileSuffix)
	}); err != nil {
		return err
	}
	if err := w.removeFiles(w.env.Path(meta.TempName), func(string) bool { return true }); err != nil {
		return err
	}
	return sweepDictionaries(m, gens)
}

func (w *Writer) removeFiles(dir string, which func(name string) bool) error {
	names, err := w.env.FS.List(dir)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	for _, n := range names {
		if which(n) {
			if err := w.env.FS.RemoveAll(w.env.FS.PathJoin(dir, n)); err != nil {
				return fmt.Errorf("sweep: %w", err)
			}
		}
	}
	return nil
}

// sweepDictionaries deletes dictionary generations that are not in keep.
func sweepDictionaries(m *meta.DB, keep map[uint64]bool) error {
	var drop []uint64
	err := m.Iterate(meta.PrefixDictionary, func(it *pebble.Iterator) error {
		for ok := it.First(); ok; {
			if len(it.Key()) < len(meta.PrefixDictionary)+8 {
				return m.Corrupt("dictionary", "key %q is too short", it.Key())
			}
			gen := binary.BigEndian.Uint64(it.Key()[len(meta.PrefixDictionary):])
			if !keep[gen] {
				drop = append(drop, gen)
			}
			ok = it.SeekGE(meta.NumberKey(meta.PrefixDictionary, gen+1))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(drop) == 0 {
		return nil
	}
	b := m.Pebble.NewBatch()
	for _, gen := range drop {
		if err := b.DeleteRange(meta.NumberKey(meta.PrefixDictionary, gen), meta.NumberKey(meta.PrefixDictionary, gen+1), nil); err != nil {
			return m.Wrap("sweep", err)
		}
	}
	return m.Apply(b)
}

// Close gives the writer's place free. Uncommitted files stay until the next
// writer opens, so that an interrupted ingest can be resumed.
func (w *Writer) Close() error {
	if w.closed {
		return ErrClosed
	}
	w.closed = true
	return w.lk.Close()
}

// Abort is Close, and removes what was not committed: all of the store if it
// never had a version.
func (w *Writer) Abort() error {
	if w.closed {
		return ErrClosed
	}
	var err error
	if w.base == nil {
		for _, n := range []string{meta.DataName, meta.TempName, meta.MetaName} {
			err = errors.Join(err, w.env.FS.RemoveAll(w.env.Path(n)))
		}
	} else {
		err = w.abandon()
	}
	err = errors.Join(err, w.Close())
	if w.base == nil && err == nil {
		// The lock's file goes last and the directory only if nothing else is in it.
		_ = w.env.FS.Remove(w.env.Path(meta.LockName))
		_ = w.env.FS.Remove(w.env.Dir)
	}
	return err
}

func (w *Writer) abandon() error {
	m, err := meta.Open(context.Background(), w.env, true)
	if err != nil {
		return err
	}
	return errors.Join(w.sweep(m), m.Close())
}
