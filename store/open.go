package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/internal/meta"
)

// Options say how a store is opened for reading. The zero value opens the
// newest version.
type Options struct {
	// Version to open; 0 = the newest.
	Version uint64
	// LockTimeout is how long to wait for a committing writer; 0 = 30 s.
	LockTimeout time.Duration
	// CacheDir is a directory in which the measurements of devices are kept for
	// other processes ([Files.Calibration]); made if need be. "" = they last as long as the Store.
	CacheDir string
	// Reads overrides, field by field, how iterators read that do not say it in
	// their own options; 0 = they go by the device ([buffer.Tuning]).
	Reads ReadTuning
	// Scratch is an existing directory for temporary files of what works on the store; "" = see [Store.ScratchDir].
	Scratch string
	// FS is the file system; nil = the operating system's. Locks between
	// processes exist only there.
	FS vfs.FS
}

// Store is a snapshot of one committed version, open for reading. It holds a
// descriptor of every data file of the version and no lock, so writers may
// commit and sweep while it is open. Its methods may be called from any
// number of goroutines.
type Store struct {
	env      meta.Env
	manifest *Manifest
	files    map[string]*blocks.File
	columns  map[string]extentMap
	topology extentMap
	external extentMap
	idMap    map[uint64]located // dense ids

	cacheDir     string
	scratch      string // Options.Scratch
	reads        ReadTuning
	gap          atomic.Int64 // of point reads, once it is known
	calibrating  sync.Mutex   // held while measuring: once is enough
	calibrations map[string]calibrationRecord

	mu     sync.Mutex
	closed bool
}

// extentMap finds the extent of each partition.
type extentMap []located

type located struct {
	file   *blocks.File
	extent blocks.Extent
}

// Open opens the store in directory dir. It fails with ErrNotFound if there is
// none, ErrNoVersion if nothing was committed, a CorruptError if a file is
// missing, truncated or damaged in header or footer (payloads are checked as they are read),
// and ErrLocked if a writer's commit did not end within o.LockTimeout.
func Open(dir string, o Options) (*Store, error) {
	return open(context.Background(), dir, o)
}

func open(ctx context.Context, dir string, o Options) (_ *Store, err error) {
	s := &Store{env: meta.NewEnv(dir, o.FS, o.LockTimeout), files: map[string]*blocks.File{}, columns: map[string]extentMap{},
		cacheDir: o.CacheDir, scratch: o.Scratch, reads: o.Reads, calibrations: map[string]calibrationRecord{}}
	if err := s.env.Find(); err != nil {
		return nil, err
	}
	if err := checkScratch(o.Scratch); err != nil {
		return nil, err
	}
	m, err := meta.Open(ctx, s.env, false)
	if err != nil {
		return nil, err
	}
	// The lock is held until the files are open: a later version's sweep waits.
	defer func() {
		err = errors.Join(err, m.Close())
		if err != nil {
			_ = s.Close()
		}
	}()
	if s.manifest, err = readSnapshot(m, o.Version); err != nil {
		return nil, err
	}
	for _, ref := range s.manifest.Files {
		f, err := openRef(s.env, ref)
		if err != nil {
			return nil, err
		}
		s.files[ref.Name] = f
	}
	return s, s.locate()
}

// openRef opens a data file and compares it with what a manifest says.
func openRef(e meta.Env, ref FileRef) (*blocks.File, error) {
	path := e.DataPath(ref.Name)
	f, err := blocks.Open(e.FS, path)
	if err != nil {
		if !e.Exists(path) {
			return nil, &blocks.CorruptError{Path: path, Extent: "file", Offset: -1, Reason: fmt.Sprintf("it is missing, expected %d bytes", ref.Size)}
		}
		if info, at := e.FS.Stat(path); at == nil && info.IsDir() || errors.Is(at, syscall.ELOOP) {
			return nil, &blocks.CorruptError{Path: path, Extent: "file", Offset: -1, Reason: fmt.Sprintf("it is a folder or a loop of links, expected a file of %d bytes", ref.Size), Cause: err}
		}
		return nil, err
	}
	if got := f.Info(); got.Size != ref.Size || got.FooterChecksum != ref.FooterChecksum {
		_ = f.Close()
		return nil, &blocks.CorruptError{Path: path, Extent: "file", Offset: -1, Reason: fmt.Sprintf(
			"it has %d bytes and footer checksum %08x, the manifest says %d and %08x", got.Size, got.FooterChecksum, ref.Size, ref.FooterChecksum)}
	}
	return f, nil
}

// Close closes the snapshot's files.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.closed = true
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

func (s *Store) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	return nil
}

// Manifest describes the version. It is the store's own: read only.
func (s *Store) Manifest() *Manifest { return s.manifest }

// Dir is the store's directory.
func (s *Store) Dir() string { return s.env.Dir }

func (s *Store) extent(what string, m extentMap, p PartitionID) (*blocks.File, blocks.Extent, error) {
	if err := s.check(); err != nil {
		return nil, blocks.Extent{}, err
	}
	if int(p) >= len(m) {
		return nil, blocks.Extent{}, fmt.Errorf("%w: partition %d of %s (the store has %d partitions)", ErrNotFound, p, what, len(m))
	}
	return m[p].file, m[p].extent, nil
}

// locate finds every partition's extents and checks that their shapes are
// what the manifest says.
func (s *Store) locate() error {
	man := s.manifest
	nodes := func(p PartitionID) uint64 { return man.Partitions[p].Nodes }
	edges := func(p PartitionID) uint64 { return man.Partitions[p].Edges }
	var err error
	if s.topology, err = s.locateAll(man.Topology, blocks.Topology, edges, nil); err != nil {
		return err
	}
	for i := range man.Columns {
		c := &man.Columns[i]
		if len(c.Files) == 0 {
			continue // it follows from types
		}
		kind, rows := blocks.NodeColumn, func(p PartitionID) uint64 { return man.NodeRows(c, p).Rows }
		if c.Role.OnEdges() {
			kind, rows = blocks.EdgeColumn, edges
		}
		if s.columns[c.Name], err = s.locateAll(c.Files, kind, rows, c); err != nil {
			return err
		}
	}
	if s.external, err = s.locateAll(man.IDs.External, blocks.ExternalIDs, nodes, nil); err != nil {
		return err
	}
	return s.checkLists()
}

// locateAll finds the extents of one column; later files override earlier ones.
func (s *Store) locateAll(names []string, kind blocks.Kind, rows func(PartitionID) uint64, c *ColumnInfo) (extentMap, error) {
	found := make(extentMap, len(s.manifest.Partitions))
	for _, name := range names {
		f := s.files[name]
		h := f.Header()
		if h.Kind != kind {
			return nil, mismatch(f, "header", "it is a %v file, the manifest says %v", h.Kind, kind)
		}
		if c != nil && (h.Elem != c.Elem || int(h.Dim) != c.Dim) && !c.holdsCodes(&h) {
			return nil, mismatch(f, "header", "rows are %d × %v, the manifest says %d × %v", h.Dim, h.Elem, c.Dim, c.Elem)
		}
		for _, e := range f.Extents() {
			if e.ID >= uint64(len(found)) {
				return nil, mismatch(f, h.ExtentName(e.ID), "the store has only %d partitions", len(found))
			}
			found[e.ID] = located{f, e}
		}
	}
	for p, l := range found {
		if l.file == nil {
			return nil, mismatch(s.files[names[len(names)-1]], "footer", "partition %d is in none of the files %v", p, names)
		}
		h := l.file.Header()
		want := rows(PartitionID(p))
		if l.extent.Rows != want {
			return nil, mismatch(l.file, h.ExtentName(l.extent.ID), "%d rows, the manifest says %d", l.extent.Rows, want)
		}
		if n := h.RowBytes(); n > 0 && uint64(l.extent.Length) != want*uint64(n) {
			return nil, mismatch(l.file, h.ExtentName(l.extent.ID), "%d bytes, expected %d rows of %d", l.extent.Length, want, n)
		}
	}
	return found, nil
}

// checkLists checks edge lists and the id map.
func (s *Store) checkLists() error {
	for _, l := range s.manifest.EdgeLists {
		f := s.files[l.File]
		if h := f.Header(); h.Kind != blocks.EdgeList {
			return mismatch(f, "header", "it is a %v file, the manifest says %v", h.Kind, blocks.EdgeList)
		}
		if f.Rows() != l.Rows {
			return mismatch(f, "footer", "%d rows, the manifest says %d", f.Rows(), l.Rows)
		}
	}
	return s.locateMap()
}

// locateMap finds the extents of the id map; later files override earlier ones.
func (s *Store) locateMap() error {
	ids := &s.manifest.IDs
	if ids.Map == "" {
		return nil
	}
	s.idMap = map[uint64]located{}
	for _, name := range append([]string{ids.Map}, ids.Maps...) {
		f := s.files[name]
		h := f.Header()
		if h.Kind != blocks.IDMap || h.ExtentRows == 0 {
			return mismatch(f, "header", "it is a %v file with %d rows an extent, the manifest says %v", h.Kind, h.ExtentRows, blocks.IDMap)
		}
		if first := s.files[ids.Map].Header().ExtentRows; h.ExtentRows != first {
			return mismatch(f, "header", "%d rows an extent, those of %s have %d", h.ExtentRows, ids.Map, first)
		}
		for _, e := range f.Extents() {
			s.idMap[e.ID] = located{f, e}
		}
	}
	return nil
}

func mismatch(f *blocks.File, extent, format string, args ...any) error {
	return &blocks.CorruptError{Path: f.Path(), Extent: extent, Offset: -1, Reason: fmt.Sprintf(format, args...)}
}
