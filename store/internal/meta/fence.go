package meta

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// fence stands between one open Pebble instance and the world. Where writing
// fails Pebble expects the process to end (Logger.Fatalf, panic), or repeats
// the work for ever; a library may do neither. So the first failure takes the
// instance out of service: every operation of meta fails with it from then
// on, none of the instance's file operations reaches the disk (the lock is
// about to be released), and the goroutine that met it is parked before Pebble
// sees it. What remains of the instance is memory and descriptors, the price
// of a failed disk. The next open reads from disk whether the last batch was
// committed.
type fence struct {
	mu    sync.Mutex
	first error
	down  chan struct{} // closed at the first failure
}

func newFence() *fence { return &fence{down: make(chan struct{})} }

func (f *fence) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == nil { // what fails later fails because of it
		f.first = err
		close(f.down)
	}
}

func (f *fence) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first
}

// Fatalf, Errorf and Infof make the fence Pebble's logger.
func (f *fence) Fatalf(format string, args ...any) {
	// Pebble passes the cause as an argument: it is wrapped, so that errors.Is finds ENOSPC and the like.
	err := fmt.Errorf("pebble: "+format, args...)
	for _, a := range args {
		if cause, ok := a.(error); ok {
			err = fmt.Errorf("pebble: %w", cause)
		}
	}
	f.fail(err)
}

// Errorf ignores what Pebble also returns.
func (*fence) Errorf(string, ...any) {}

// Infof ignores Pebble's chatter.
func (*fence) Infof(string, ...any) {}

// park takes the instance out of service and never returns. It must not unwind
// the stack either: Pebble holds, and has dropped, locks that its deferred calls expect.
// It is Pebble's BackgroundError hook, too.
func (f *fence) park(err error) {
	// First whoever waits in Do is let go, then this goroutine stays here for good: it may be the one that Do started.
	f.fail(fmt.Errorf("pebble: %w", err))
	select {}
}

var errFenced = errors.New("metadata out of service after an earlier failure")

// MaybeError and String make the fence an errorfs.Injector.
func (f *fence) MaybeError(errorfs.Op) error {
	if f.err() != nil {
		return errFenced
	}
	return nil
}

func (*fence) String() string { return "fence" }

// metaFS is the file system as Pebble sees it: one in which nothing that
// writes ever fails.
type metaFS struct {
	vfs.FS
	fence *fence
}

// Lock does nothing: Pebble's own lock would refuse a second reader, and the
// metadata lock already excludes writers.
func (metaFS) Lock(string) (io.Closer, error) { return nopCloser{}, nil }

// Create syncs the directory before a marker names another file: Pebble syncs
// that file but not its name, so that after a crash the marker could name a file
// that is not there.
func (m metaFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(m.PathBase(name), "marker.") {
		d, err := m.OpenDir(m.PathDir(name))
		if err != nil {
			m.fence.park(err)
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			m.fence.park(err)
		}
	}
	return m.file(m.FS.Create(name, c))
}

// ReuseForWrite is Create for a recycled log.
func (m metaFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return m.file(m.FS.ReuseForWrite(from, to, c))
}

// OpenReadWrite opens a file for changing it in place.
func (m metaFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return m.file(m.FS.OpenReadWrite(name, c, o...))
}

// Rename renames a file.
func (m metaFS) Rename(from, to string) error {
	if err := m.FS.Rename(from, to); err != nil {
		m.fence.park(err)
	}
	return nil
}

// OpenDir opens a directory for syncing.
func (m metaFS) OpenDir(name string) (vfs.File, error) {
	d, err := m.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return metaFile{d, m.fence}, nil
}

func (m metaFS) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		m.fence.park(err)
	}
	return metaFile{f, m.fence}, nil
}

// Unwrap lets vfs.Root see through.
func (m metaFS) Unwrap() vfs.FS { return m.FS }

// metaFile is a file or directory whose writes and syncs never fail.
type metaFile struct {
	vfs.File
	fence *fence
}

func (f metaFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	if err != nil {
		f.fence.park(err)
	}
	return n, nil
}

func (f metaFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	if err != nil {
		f.fence.park(err)
	}
	return n, nil
}

// Preallocate does nothing. Pebble reserves 4.5 MB for each log, more than a whole small
// store and, until the next writer opens, for good; ours holds a few manifests.
func (metaFile) Preallocate(_, _ int64) error { return nil }

func (f metaFile) Sync() error { return f.synced(f.File.Sync()) }

func (f metaFile) SyncData() error { return f.synced(f.File.SyncData()) }

func (f metaFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.synced(err)
}

func (f metaFile) synced(err error) error {
	if err != nil {
		f.fence.park(err)
	}
	return nil
}

type nopCloser struct{}

func (nopCloser) Close() error { return nil }
