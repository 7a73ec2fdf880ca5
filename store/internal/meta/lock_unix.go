//go:build linux || darwin

package meta

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gstore/gstore/blocks"
)

// Bytes of the LOCK file and what holding a lock on each means. Part of the
// format: processes of different builds meet here.
const (
	LockWriter = 0 // exclusive for a Writer's life: one writer at a time
	lockMeta   = 1 // shared while a reader has Pebble open, exclusive while a writer has
	lockGate   = 2 // exclusive while a writer waits for lockMeta; readers pass it, shared for a moment, before lockMeta
)

// Lock is an open-file-description lock on one byte of a file. Such locks
// belong to the descriptor, so two opens in one process exclude each other
// like two processes do, and they vanish with the process however it ends.
type Lock struct{ f *os.File }

// lockByte locks one byte, waiting up to timeout (0 = one attempt) for other
// holders. It fails with ErrLocked or with the context's error. Waiting polls
// (1 to 20 ms) because a blocked fcntl cannot be cancelled.
func lockByte(ctx context.Context, path string, offset int64, exclusive bool, timeout time.Duration) (*Lock, error) {
	flag, typ := os.O_RDWR|os.O_CREATE, int16(unix.F_WRLCK)
	if !exclusive {
		flag, typ = os.O_RDONLY, int16(unix.F_RDLCK)
	}
	f, err := os.OpenFile(path, flag, 0o666)
	if !exclusive && errors.Is(err, os.ErrNotExist) {
		return nil, &blocks.CorruptError{Path: path, Extent: "file", Offset: -1, Reason: "it is missing; what writes the store next makes it again"}
	}
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	deadline := time.Now().Add(timeout)
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		lk := unix.Flock_t{Type: typ, Start: offset, Len: 1}
		err := unix.FcntlFlock(f.Fd(), setLock, &lk)
		switch {
		case err == nil:
			return &Lock{f}, nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES):
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		case time.Now().After(deadline):
			_ = f.Close()
			return nil, fmt.Errorf("%w: %s, byte %d is held by another process (waited %v)", ErrLocked, path, offset, timeout)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("waiting for %s: %w", path, ctx.Err())
		}
	}
}

// Of reports whether the file that is locked is the one that has this name now.
func (l *Lock) Of(path string) bool {
	locked, err := l.f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(locked, named)
}

// Close releases the lock. A nil lock closes to nothing.
func (l *Lock) Close() error {
	if l == nil || l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}
