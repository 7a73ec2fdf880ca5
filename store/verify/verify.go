// Package verify checks a whole store: every byte of every data file against
// its checksum, and what the files say against each other and the manifest.
//
// It streams: pieces of files are read direct through an I/O engine by several
// workers, each of which checks what it read while the others read on, so that it runs
// at the disk's speed in bounded memory. All damage is collected, not only the
// first.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/internal/meta"
	"github.com/gstore/gstore/store/table"
)

// Options say how a store is verified. The zero value verifies the newest
// version.
type Options struct {
	Open    store.Options // which version, and how
	Engine  string        // a name for blockio.New; "" = auto
	Workers int           // default 2 for each of GOMAXPROCS
	// MemoryBytes bounds the buffers; default 1 GiB. Whole extents of topology and
	// of text are held while they are checked, so the largest of them may exceed
	// it: then one worker runs.
	MemoryBytes int64
	// Model checks a file of the store's runs folder on the store's file system, a model or the checkpoint of a run; damage is a
	// *blocks.CorruptError. nil = they are not checked.
	Model func(fs vfs.FS, path string) error
	// Progress is told bytes as they are checked, from several goroutines; may be nil.
	Progress func(bytes int64)
}

// rowPiece returns the size of a file's pieces: chunks that hold whole rows,
// where their contents are checked (columns of one number, edge lists).
func rowPiece(h *blocks.Header) int64 {
	if h.RowBytes() == 24 { // an edge list with relations
		return pieceBytes / blocks.ChunkBytes / 3 * 3 * blocks.ChunkBytes
	}
	return pieceBytes
}

// Report says what was checked and found.
type Report struct {
	Version uint64
	Engine  string  // what read, and why it
	Files   int     // data files looked at
	Bytes   int64   // checked
	Damage  []error // each a *blocks.CorruptError; sorted by file and offset
	// Warnings are oddities that are no damage: numbers of features that are not finite, models of runs that are missing.
	Warnings []string
	Tables   int      // embedding tables checked
	Busy     []string // tables that another process has open, left alone
}

// pieceBytes is how much of an extent a worker reads at once: a multiple of
// the chunk and of an engine's transfers.
const pieceBytes = 4 << 20

// Store verifies the store in dir. Damage is no error: it is in the report. An
// error means that verification itself could not be done (no such store, a disk
// that fails to read, ctx ended).
func Store(ctx context.Context, dir string, o Options) (r Report, err error) {
	if o.Workers <= 0 {
		o.Workers = 2 * runtime.GOMAXPROCS(0)
	}
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = 1 << 30
	}
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	s, err := store.Open(dir, o.Open)
	if errors.Is(err, blocks.ErrCorrupt) {
		// A store that does not open has a damaged header, footer or manifest: look at
		// every file by itself to name all that is damaged.
		return filesAlone(ctx, dir, o, err)
	}
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	engine, why, err := blockio.New(o.Engine, blockio.Options{})
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	v := &verifier{s: s, engine: engine, o: o, files: map[string]blockio.File{}, odd: map[string]uint64{}, splits: make([][4]uint64, len(s.Manifest().Partitions))}
	defer func() { err = errors.Join(err, v.close()) }()
	r = Report{Version: s.Manifest().Version, Engine: why, Files: len(s.Manifest().Files)}
	pieces, err := v.plan()
	if err != nil {
		return r, err
	}
	err = v.run(ctx, pieces)
	if err == nil && len(v.damage) == 0 { // ids are compared through undamaged files only
		err = v.checkIDs(ctx)
	}
	if err == nil {
		v.checkSplits()
		r.Warnings = v.warnings()
		var t *table.Report
		if t, err = table.Verify(ctx, dir, o.Open, o.Progress); err == nil {
			r.Tables, r.Busy = t.Checked, t.Busy
			r.Files += t.Checked
			v.bytes.Add(t.Bytes)
			v.damage = append(v.damage, t.Damage...)
		} else if errors.Is(err, blocks.ErrCorrupt) {
			v.damage, err = append(v.damage, err), nil
		}
	}
	if err == nil {
		err = v.metadata(ctx, dir)
	}
	if err == nil {
		err = o.runs(dir, &r, v.collect)
	}
	if err == nil {
		err = v.collect(o.missingModels(ctx, dir, &r))
	}
	r.Bytes += v.bytes.Load()
	r.Damage = sorted(v.damage)
	return r, err
}

// metadata reads all of the metadata.
func (v *verifier) metadata(ctx context.Context, dir string) error {
	db, err := meta.Open(ctx, meta.NewEnv(dir, v.o.Open.FS, v.o.Open.LockTimeout), false)
	if err == nil {
		err = errors.Join(db.Verify(ctx, func(n int64) { v.bytes.Add(n); v.o.Progress(n) }), db.Close())
	}
	return v.collect(err)
}

// runs checks the models and checkpoints in the store's runs folder.
func (o *Options) runs(dir string, r *Report, collect func(error) error) error {
	fs := o.Open.FS
	if fs == nil {
		fs = vfs.Default
	}
	folder := fs.PathJoin(dir, store.RunsDir)
	names, err := fs.List(folder)
	if errors.Is(err, os.ErrNotExist) || o.Model == nil {
		return nil
	} else if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		path := fs.PathJoin(folder, name)
		info, err := fs.Stat(path)
		if err != nil {
			return err
		}
		if ext := filepath.Ext(name); ext != store.ModelExtension && ext != store.RunExtension || info.IsDir() { // a lock, a file that a crash left
			continue
		}
		r.Files++
		r.Bytes += info.Size()
		o.Progress(info.Size())
		if err := collect(o.Model(fs, path)); err != nil {
			return err
		}
	}
	return nil
}

// missingModels warns of models that the run history names and that are not there. That is no damage: whoever needs the room may
// remove a model, and a run that was killed while it saved its model has none.
func (o *Options) missingModels(ctx context.Context, dir string, r *Report) error {
	h, err := store.ReadHistory(ctx, dir, o.Open)
	if err != nil {
		return err
	}
	fs := o.Open.FS
	if fs == nil {
		fs = vfs.Default
	}
	for _, run := range h.Runs {
		path := fs.PathJoin(dir, store.RunsDir, store.ModelFile(run.Number))
		if _, err := fs.Stat(path); run.Model && errors.Is(err, os.ErrNotExist) {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s, the model of run %d, is missing", path, run.Number))
		}
	}
	return nil
}

// collect notes damage and returns other errors.
func (v *verifier) collect(err error) error {
	if !errors.Is(err, blocks.ErrCorrupt) {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.damage = append(v.damage, err)
	return nil
}

func sorted(damage []error) []error {
	slices.SortStableFunc(damage, func(a, b error) int {
		var x, y *blocks.CorruptError
		if !errors.As(a, &x) || !errors.As(b, &y) {
			return 0
		}
		return cmp.Or(strings.Compare(x.Path, y.Path), cmp.Compare(x.Offset, y.Offset))
	})
	return damage
}

// filesAlone verifies the data files without the manifest.
func filesAlone(ctx context.Context, dir string, o Options, first error) (Report, error) {
	r := Report{Engine: "file by file: the store does not open", Damage: []error{first}}
	fs := o.Open.FS
	if fs == nil {
		fs = vfs.Default
	}
	names, err := fs.List(fs.PathJoin(dir, "data"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return r, err
	}
	slices.Sort(names)
	for _, name := range names {
		if filepath.Ext(name) != blocks.Extension {
			continue
		}
		r.Files++
		if strings.HasPrefix(name, "table-") { // a table has no footer; what is valid in it only its checkpoint says
			if _, err := blocks.OpenEmbedding(fs, fs.PathJoin(dir, "data", name)); errors.Is(err, blocks.ErrCorrupt) {
				r.Damage = append(r.Damage, err)
			} else if err != nil {
				return r, err
			}
			continue
		}
		err := fileAlone(ctx, fs, fs.PathJoin(dir, "data", name), func(n int64) { r.Bytes += n; o.Progress(n) })
		switch {
		case errors.Is(err, blocks.ErrCorrupt):
			if err.Error() != first.Error() {
				r.Damage = append(r.Damage, err)
			}
		case err != nil:
			return r, err
		}
	}
	err = o.runs(dir, &r, func(err error) error {
		if !errors.Is(err, blocks.ErrCorrupt) {
			return err
		}
		r.Damage = append(r.Damage, err)
		return nil
	})
	r.Damage = sorted(r.Damage)
	return r, err
}

func fileAlone(ctx context.Context, fs vfs.FS, path string, progress func(int64)) (err error) {
	f, err := blocks.Open(fs, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Verify(ctx, progress)
}

// verifier is one run.
type verifier struct {
	s      *store.Store
	engine blockio.Engine
	o      Options
	files  map[string]blockio.File // by the manifest's name; nil: read through the store's file system
	bytes  atomic.Int64

	mu     sync.Mutex
	damage []error
	odd    map[string]uint64 // by feature column: numbers that are not finite
	splits [][4]uint64       // by partition: nodes of each part of the first split
}

// piece is what a worker reads and checks at once.
type piece struct {
	file   *blocks.File
	direct blockio.File // nil: the store is not on the operating system's file system
	extent blocks.Extent
	from   int64 // in the extent
	bytes  int64 // padding included
	// check looks at the contents: b is payload from offset from.
	check func(e blocks.Extent, from int64, b []byte) error
}

// plan lists the pieces of all files, in order of file and offset.
func (v *verifier) plan() ([]piece, error) {
	checks := v.contentChecks()
	var pieces []piece
	for _, ref := range v.s.Manifest().Files {
		f, err := v.s.Files().File(ref.Name)
		if err != nil {
			return nil, err
		}
		direct, err := v.s.Files().Open(v.engine, ref.Name, blockio.OpenOptions{Direct: true})
		if err != nil && !errors.Is(err, blockio.ErrUnsupported) {
			return nil, err
		}
		if err == nil {
			v.files[ref.Name] = direct
		} else {
			direct = nil
		}
		h := f.Header()
		whole, n := h.RowBytes() == 0, rowPiece(&h)
		for _, e := range f.Extents() {
			p := piece{file: f, direct: direct, extent: e, bytes: blocks.AlignUp(e.Length), check: checks[extentKey{ref.Name, e.ID}]}
			for !whole && p.bytes > n {
				head := p
				head.bytes = n
				pieces = append(pieces, head)
				p.from += n
				p.bytes -= n
			}
			if p.bytes > 0 {
				pieces = append(pieces, p)
			}
		}
	}
	return pieces, nil
}

// run checks the pieces, in parallel.
func (v *verifier) run(ctx context.Context, pieces []piece) error {
	longest := int64(pieceBytes)
	for _, p := range pieces {
		longest = max(longest, p.bytes)
	}
	workers := int(max(1, min(int64(v.o.Workers), v.o.MemoryBytes/longest)))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg panics.Group
	for range workers {
		wg.Go(func() {
			if err := v.work(ctx, pieces, &next, longest); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (v *verifier) work(ctx context.Context, pieces []piece, next *atomic.Int64, longest int64) (err error) {
	// Not touched in advance: only a row as long as the longest needs it all.
	slab, err := blockio.AllocSlab(longest, blockio.SlabOptions{Lazy: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, slab.Free()) }()
	for {
		i := next.Add(1) - 1
		if i >= int64(len(pieces)) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		p := &pieces[i]
		b := slab.Bytes()[:p.bytes]
		err := v.read(ctx, p, b)
		if err == nil {
			err = p.verify(b)
		}
		if err != nil {
			var damage *blocks.CorruptError
			if !errors.As(err, &damage) {
				return err
			}
			v.mu.Lock()
			v.damage = append(v.damage, damage)
			v.mu.Unlock()
		}
		v.bytes.Add(p.bytes)
		v.o.Progress(p.bytes)
	}
}

func (v *verifier) read(ctx context.Context, p *piece, b []byte) error {
	at := p.extent.Offset + p.from
	if p.direct == nil {
		return p.file.ReadAt(b, at)
	}
	return v.engine.Do(ctx, []blockio.Request{{File: p.direct, Offset: at, Buf: b}}, nil)
}

// verify checks a piece's bytes: checksums first, so that contents are only looked
// at when they are what was written.
func (p *piece) verify(b []byte) error {
	h := p.file.Header()
	if h.RowBytes() == 0 {
		if err := p.file.VerifyExtent(p.extent, b); err != nil {
			return err
		}
	} else if err := p.file.VerifyPart(p.extent, p.from, b); err != nil {
		return err
	}
	if p.check == nil {
		return nil
	}
	payload := b[:min(p.bytes, p.extent.Length-p.from)]
	if err := p.check(p.extent, p.from, payload); err != nil {
		return &blocks.CorruptError{Path: p.file.Path(), Extent: h.ExtentName(p.extent.ID), Offset: p.extent.Offset + p.from, Reason: err.Error()}
	}
	return nil
}

func (v *verifier) close() error {
	var errs []error
	for _, f := range v.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// damaged notes damage that is of no single piece.
func (v *verifier) damaged(f *blocks.File, extent, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.damage = append(v.damage, &blocks.CorruptError{Path: f.Path(), Extent: extent, Offset: -1, Reason: fmt.Sprintf(format, args...)})
}
