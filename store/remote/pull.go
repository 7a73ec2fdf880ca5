package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/internal/meta"
)

// PullOptions say how a store is pulled. The zero value is what most callers want.
type PullOptions struct {
	Snapshot uint64 // number; 0 = the newest
	// Force replaces a store that has versions or runs which the snapshot has not: they are lost.
	Force bool
	// Lazy leaves data files where they are: the store reads them from the bucket when they are needed, and keeps what it has read in a folder
	// of its own, at most CacheBytes of it; 0 = half of what the disk has room for.
	Lazy       bool
	CacheBytes int64
	// Progress is told bytes that were downloaded, of how many, from several goroutines; may be nil.
	Progress func(done, total int64)
}

const (
	partBytes = 16 << 20 // of a request
	partsMost = 8        // requests at a time
	// PullSuffix ends the name of the folder beside a store in which it is pulled; an interrupted pull leaves it to the next one.
	PullSuffix = ".pull"
)

// Pull makes the store in dir what a snapshot at b holds. The folder must be empty or not there, or hold a store all of whose versions
// and runs the snapshot has; else it fails with ErrConflict. The store appears, or changes, in one step, when all of it is there and its
// checksums are right.
func Pull(ctx context.Context, b Bucket, dir string, o PullOptions) (p Moved, err error) {
	s, err := Read(ctx, b, o.Snapshot)
	if err != nil {
		return p, err
	}
	p.Snapshot = s
	dir = filepath.Clean(dir)
	old, err := readOld(ctx, dir, s, o.Force)
	if err != nil || old.same(s, o.Lazy) {
		return p, err
	}
	d := download{bucket: b, s: s, o: o, dir: dir, temp: dir + PullSuffix, old: old, p: &p}
	if err := os.MkdirAll(d.temp, 0o777); err != nil {
		return p, err
	}
	lock, err := d.alone(ctx)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := d.files(ctx); err != nil {
		return p, fmt.Errorf("%w (what is there stays in %s for the next pull)", err, d.temp)
	}
	p.Fresh = true
	if old != nil {
		return p, store.Replace(ctx, dir, d.temp, store.Options{}, func() error { return d.replaces(ctx) })
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // an empty one
		return p, err
	}
	return p, errors.Join(os.Rename(d.temp, dir), syncDir(filepath.Dir(dir)))
}

// replaces fails where the old store has got, since it was read, what the snapshot has not.
func (d *download) replaces(ctx context.Context) error {
	h, err := store.ReadHistory(ctx, d.dir, store.Options{})
	if err == nil && !d.o.Force {
		err = lost(d.dir, h, d.s)
	}
	if err == nil && d.o.Lazy { // it goes on with what was read
		_ = os.Rename(filepath.Join(d.dir, cacheName), filepath.Join(d.temp, cacheName))
	}
	return err
}

// download is a pull under way.
type download struct {
	bucket Bucket
	s      *Snapshot
	o      PullOptions
	dir    string
	temp   string
	old    oldStore // nil: there is none
	p      *Moved

	tally tally
	total int64
}

// tally counts under a lock.
type tally struct {
	mu   sync.Mutex
	done int64
}

// alone locks the temporary folder against other pulls. The LOCK in it may be the old store's, as [store.Replace] links it: where a pull was
// killed at its last step, this one would lock itself out.
func (d *download) alone(ctx context.Context) (*meta.Lock, error) {
	e, old := meta.NewEnv(d.temp, nil, 0), meta.NewEnv(d.dir, nil, 0)
	path := e.Path(meta.LockName)
	linked := func() bool {
		a, err := os.Stat(path)
		b, oldErr := os.Stat(old.Path(meta.LockName))
		return err == nil && oldErr == nil && os.SameFile(a, b)
	}
	if linked() {
		lock, err := old.Lock(ctx, meta.LockWriter, true, 0) // who replaces the store has it
		if err != nil {
			return nil, fmt.Errorf("another pull, or a writer, is at work in %s: %w", d.dir, err)
		}
		if linked() {
			err = os.Remove(path)
		}
		if err = errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
	}
	lock, err := e.Lock(ctx, meta.LockWriter, true, 0)
	if err == nil && !lock.Of(path) { // it was replaced after it was opened
		err = errors.Join(store.ErrLocked, lock.Close())
	}
	if errors.Is(err, store.ErrLocked) {
		return nil, fmt.Errorf("%w: another pull is at work in %s", store.ErrLocked, d.temp)
	}
	return lock, err
}

// files puts all files of the snapshot into the temporary folder, durably.
func (d *download) files(ctx context.Context) error {
	folders := map[string]bool{d.temp: true}
	for _, f := range d.s.Files {
		folders[filepath.Dir(filepath.Join(d.temp, filepath.FromSlash(f.Path)))] = true
	}
	for folder := range folders {
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return err
		}
	}
	if err := d.clean(); err != nil {
		return err
	}
	var err error
	var need []*File
	for i := range d.s.Files {
		f := &d.s.Files[i]
		there, err := d.place(ctx, f)
		if err != nil {
			return err
		}
		if !there && !(d.o.Lazy && f.far()) {
			need = append(need, f)
			d.total += f.Size
		}
	}
	parts := make(limit, partsMost)
	err = make(limit, transfers).each(ctx, len(need), func(ctx context.Context, i int) error { return d.file(ctx, need[i], parts) })
	if err != nil {
		return err
	}
	if d.o.Lazy {
		most := d.o.CacheBytes
		if usage, err := vfs.Default.GetDiskUsage(d.temp); err == nil && most == 0 {
			most = int64(usage.AvailBytes / 2)
		}
		if err := attach(d.temp, d.bucket.Address(), most, d.s); err != nil {
			return err
		}
	}
	for folder := range folders {
		if err := syncDir(folder); err != nil {
			return err
		}
	}
	return nil
}

// clean removes what an earlier pull of another snapshot left and this one does not need.
func (d *download) clean() error {
	mine := map[string]bool{filepath.Join(d.temp, meta.LockName): true}
	for _, f := range d.s.Files {
		mine[filepath.Join(d.temp, filepath.FromSlash(f.Path))] = true
	}
	return filepath.WalkDir(d.temp, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || mine[path] {
			return err
		}
		return os.Remove(path)
	})
}

// place finds a file that is here already: an earlier pull's, or the old store's, which is linked.
func (d *download) place(ctx context.Context, f *File) (there bool, err error) {
	path := filepath.Join(d.temp, filepath.FromSlash(f.Path))
	if file, err := os.Open(path); err == nil {
		sum, err := sumOf(ctx, file)
		if err = errors.Join(err, file.Close()); err != nil {
			return false, err
		}
		if sum == f.SHA256 {
			return true, nil
		}
		if err := os.Remove(path); err != nil {
			return false, err
		}
	}
	if !d.old.has(f) {
		return false, nil
	}
	from := filepath.Join(d.dir, filepath.FromSlash(f.Path))
	if ext := filepath.Ext(f.Path); f.Footer != nil || ext == ".sst" || ext == ".blob" {
		return os.Link(from, path) == nil, nil
	}
	return d.copy(ctx, f, from, path), nil
}

// copy copies a file that the old store's next writer may change, and reports whether it is still what it must be.
func (d *download) copy(ctx context.Context, f *File, from, path string) bool {
	r, err := os.Open(from)
	if err != nil {
		return false
	}
	defer func() { _ = r.Close() }()
	w, err := os.Create(path)
	if err != nil {
		return false
	}
	sum, err := sumOf(ctx, io.TeeReader(r, w))
	if err = errors.Join(err, w.Sync(), w.Close()); err != nil || sum != f.SHA256 {
		_ = os.Remove(path)
		return false
	}
	return true
}

// file downloads a file, in parts, under another name until its checksum is right. One that is wrong may have got so on its way: it
// is tried once more.
func (d *download) file(ctx context.Context, f *File, parts limit) error {
	err := d.try(ctx, f, parts)
	if errors.Is(err, store.ErrCorrupt) {
		d.tally.mu.Lock()
		d.tally.done -= f.Size
		d.tally.mu.Unlock()
		err = d.try(ctx, f, parts)
	}
	return err
}

func (d *download) try(ctx context.Context, f *File, parts limit) (err error) {
	path := filepath.Join(d.temp, filepath.FromSlash(f.Path))
	part := path + ".part"
	w, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(part))
		}
	}()
	err = parts.each(ctx, int((f.Size+partBytes-1)/partBytes), func(ctx context.Context, i int) error {
		at := int64(i) * partBytes
		return d.part(ctx, f, w, at, min(partBytes, f.Size-at))
	})
	sum := ""
	if err == nil {
		sum, err = sumOf(ctx, io.NewSectionReader(w, 0, f.Size))
	}
	if err == nil && sum != f.SHA256 {
		err = damagedObject(d.bucket, f, "its SHA-256 is %s", sum)
	}
	if err == nil {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	d.tally.mu.Lock()
	d.p.Files++
	d.p.Bytes += f.Size
	d.tally.mu.Unlock()
	return os.Rename(part, path)
}

// part downloads length bytes from at.
func (d *download) part(ctx context.Context, f *File, w io.WriterAt, at, length int64) error {
	err := retry(ctx, length, func(ctx context.Context) error {
		r, err := d.bucket.Get(ctx, f.object(), at, length)
		if err == nil {
			_, err = io.CopyN(io.NewOffsetWriter(w, at), readerOf(ctx, r), length)
			err = errors.Join(err, r.Close())
		}
		return unread(ctx, d.bucket, f, err)
	})
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		err = fmt.Errorf("download %s: %w", f.Path, err)
	}
	if err != nil {
		return err
	}
	d.tally.mu.Lock()
	defer d.tally.mu.Unlock()
	d.tally.done += length
	if d.o.Progress != nil {
		d.o.Progress(d.tally.done, d.total)
	}
	return nil
}

// syncDir makes a folder's entries durable.
func syncDir(path string) error { return meta.Env{FS: vfs.Default}.SyncDir(path) }
