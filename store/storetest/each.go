package storetest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/store"
)

// FailEach runs use on copies of a disk, first undisturbed and then with one operation failing: each in turn, but of Pebble's,
// which are most, every step-th (see [Every]). use must return the error, or one that tells of damage, unless harmless says that the operation does not
// matter; and whatever fails, it must leave no file open and no lock held.
func FailEach(t *testing.T, disk *vfs.MemFS, step int, harmless func(op errorfs.Op) bool, use func(fs vfs.FS) error) {
	t.Helper()
	for k := -1; ; k++ {
		fs := &openFiles{FS: disk.CrashClone(vfs.CrashCloneCfg{}), open: map[int]string{}}
		var mu sync.Mutex
		n, pebble, failed := -1, 0, errorfs.Op{}
		hit := false
		inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if inPebble(op.Path) {
				if pebble++; pebble%step != 0 {
					return nil
				}
			}
			if n++; n == k {
				hit, failed = true, op
				return errorfs.ErrInjected
			}
			return nil
		})
		err := use(errorfs.Wrap(fs, inject))
		mu.Lock()
		switch {
		case k < 0 && err != nil:
			t.Fatalf("undisturbed: %v", err)
		case k < 0 && n < 20:
			t.Fatalf("%d operations: the injector sees nothing", n)
		case hit && err == nil && !harmless(failed):
			t.Errorf("operation %d of %s (kind %d) fails, and no error is returned", k, failed.Path, failed.Kind)
		case err != nil && !errors.Is(err, errorfs.ErrInjected) && !errors.Is(err, store.ErrCorrupt):
			t.Errorf("operation %d of %s (kind %d) fails: the error hides its cause: %v", k, failed.Path, failed.Kind, err)
		}
		for _, path := range fs.left() {
			// Pebble leaves files and directories of its own open where it cannot be opened, and the store's that it syncs.
			if inPebble(path) && inPebble(failed.Path) || path == CrashDir && failed.Kind == errorfs.OpFileSync {
				continue
			}
			t.Errorf("operation %d of %s (kind %d) fails: %s stays open", k, failed.Path, failed.Kind, path)
		}
		done := k >= 0 && !hit
		mu.Unlock()
		if done {
			return
		}
	}
}

// InPebble reports whether an operation is on the metadata. Where one fails, Pebble may go on without, such as with what
// it tidies up in the background.
func InPebble(op errorfs.Op) bool { return inPebble(op.Path) }

// inPebble reports whether a file of the store is Pebble's, or the folder that it is in.
func inPebble(path string) bool { return strings.HasPrefix(path, CrashDir+"/meta") }

// openFiles is a file system that knows which of its files are open and which locks are held.
type openFiles struct {
	vfs.FS
	mu   sync.Mutex
	n    int
	open map[int]string
}

func (f *openFiles) add(path string) (closed func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.n
	f.n++
	f.open[n] = path
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, n)
	}
}

// left returns the paths of what is open.
func (f *openFiles) left() (paths []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, path := range f.open {
		paths = append(paths, path)
	}
	return paths
}

// openFile is a file that is open until it is closed.
type openFile struct {
	vfs.File
	closed func()
}

func (f *openFile) Close() error {
	f.closed()
	return f.File.Close()
}

func (f *openFiles) file(path string, file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &openFile{file, f.add(path)}, nil
}

func (f *openFiles) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	return f.file(name, file, err)
}

func (f *openFiles) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name)
	file, err = f.file(name, file, err)
	for _, o := range opts {
		if err == nil {
			o.Apply(file)
		}
	}
	return file, err
}

func (f *openFiles) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.OpenReadWrite(name, category, opts...)
	return f.file(name, file, err)
}

func (f *openFiles) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	return f.file(name, file, err)
}

func (f *openFiles) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(from, to, category)
	return f.file(to, file, err)
}

// lock is one that is held until it is closed.
type lock struct {
	io.Closer
	closed func()
}

func (l *lock) Close() error {
	l.closed()
	return l.Closer.Close()
}

func (f *openFiles) Lock(name string) (io.Closer, error) {
	l, err := f.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	return &lock{l, f.add(fmt.Sprintf("lock %s", name))}, nil
}
