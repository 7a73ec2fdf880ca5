package blockio

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// file is the engines' File. Batches hold a reference while they run, so that
// Close cannot hand the descriptor's number to another file under them.
type file struct {
	owner  any // the engine
	path   string
	fd     int
	direct bool
	write  bool
	size   int64

	slot    int          // io_uring: index in the ring's file table, −1 if none
	mapping []byte       // mmap: the whole file
	unhook  func() error // engine's part of Close, before the descriptor is closed
	content Elsewhere    // of a file that is not on disk, which has no descriptor

	mu     sync.Mutex
	idle   sync.Cond
	refs   int
	closed bool
}

// openFile opens path; owner is the engine.
func openFile(owner any, path string, o OpenOptions) (*file, error) {
	flags := unix.O_CLOEXEC | unix.O_RDONLY
	if o.Write {
		flags = unix.O_CLOEXEC | unix.O_RDWR
	}
	f := &file{owner: owner, path: path, write: o.Write, slot: -1}
	f.idle.L = &f.mu
	var err error
	if o.Direct {
		f.fd, err = retry(func() (int, error) { return unix.Open(path, flags|oDirect, 0) })
		if err == nil && directWorks(f.fd) {
			f.direct = true
		} else if err == nil {
			_ = unix.Close(f.fd)
			err = unix.EINVAL
		}
	}
	if !o.Direct || (!f.direct && errors.Is(err, unix.EINVAL)) {
		f.fd, err = retry(func() (int, error) { return unix.Open(path, flags, 0) })
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	if f.size, err = f.currentSize(); err != nil {
		_ = unix.Close(f.fd)
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return f, nil
}

// retry repeats a system call that a signal interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}

func (f *file) currentSize() (int64, error) {
	var st unix.Stat_t
	if _, err := retry(func() (int, error) { return 0, unix.Fstat(f.fd, &st) }); err != nil {
		return 0, err
	}
	return st.Size, nil
}

// Path implements File.
func (f *file) Path() string { return f.path }

// Direct implements File.
func (f *file) Direct() bool { return f.direct }

// Size implements File.
func (f *file) Size() int64 { return f.size }

func (f *file) acquire(r *Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return &Error{Op: r.Op, Path: f.path, Offset: r.Offset, Length: len(r.Buf), Err: ErrClosed}
	}
	f.refs++
	return nil
}

func (f *file) release() {
	f.mu.Lock()
	if f.refs--; f.refs == 0 {
		f.idle.Broadcast()
	}
	f.mu.Unlock()
}

// Close implements File. A second call is ErrClosed.
func (f *file) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return fmt.Errorf("close %s: %w", f.path, ErrClosed)
	}
	f.closed = true
	for f.refs > 0 {
		f.idle.Wait()
	}
	f.mu.Unlock()
	var err error
	if f.unhook != nil {
		err = f.unhook()
	}
	cerr := error(nil)
	if f.content != nil {
		cerr = f.content.Close()
	} else {
		cerr = unix.Close(f.fd)
	}
	if err == nil && cerr != nil {
		err = cerr
	}
	if err != nil {
		return &os.PathError{Op: "close", Path: f.path, Err: err}
	}
	return nil
}

// transfer makes one system call for a piece: the blocking path, used by pread
// threads and for writes of the mmap engine. It returns the bytes moved.
func (p *piece) transfer(fl *faults) (int, error) {
	b := p.buf
	if p.op != Sync {
		b = b[:fl.length(len(b), p.file.direct)]
	}
	if p.file.content != nil {
		n, err := p.file.content.ReadAt(b, p.offset)
		if err == io.EOF { // fewer bytes say it
			err = nil
		}
		return fl.outcome(p.op, n, err)
	}
	n, err := retry(func() (int, error) {
		switch p.op {
		case Read:
			return unix.Pread(p.file.fd, b, p.offset)
		case Write:
			return unix.Pwrite(p.file.fd, b, p.offset)
		default:
			return 0, datasync(p.file.fd)
		}
	})
	return fl.outcome(p.op, n, err)
}

// run transfers a whole piece with blocking calls.
func (p *piece) run(fl *faults) error {
	for {
		p.job.stats.transfers.Add(1)
		n, err := p.transfer(fl)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil {
			return err
		}
		if more, err := p.advance(n); err != nil || !more {
			return err
		}
	}
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// alignedBytes returns n bytes that begin at a multiple of Alignment.
func alignedBytes(n int) []byte {
	b := make([]byte, n+Alignment)
	skip := int(-addressOf(b) & (Alignment - 1))
	return b[skip : skip+n : skip+n]
}
