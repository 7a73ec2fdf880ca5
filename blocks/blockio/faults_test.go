package blockio_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/blockio/blockiotest"
)

var engines = []string{"pread", "io_uring", "mmap"}

// TestConformanceUnderFaults runs the whole suite while most transfers are
// short and some are interrupted: the suite must not notice.
func TestConformanceUnderFaults(t *testing.T) {
	for _, name := range engines {
		t.Run(name, func(t *testing.T) {
			var n, short, interrupted atomic.Int64
			worse := blockio.Faults{
				Shorten: func(bytes int, direct bool) int {
					if n.Add(1)%3 == 0 || bytes < 2 {
						return bytes
					}
					short.Add(1)
					if direct {
						return max(blockio.Alignment, bytes/2&^(blockio.Alignment-1))
					}
					return 1 + bytes/2
				},
				Result: func(_ blockio.Op, got int, err error) (int, error) {
					switch n.Add(1) % 7 {
					case 0:
						interrupted.Add(1)
						return 0, unix.EINTR
					case 1:
						interrupted.Add(1)
						return 0, unix.EAGAIN
					}
					return got, err
				},
			}
			blockiotest.Run(t, func(t testing.TB, o blockio.Options) blockio.Engine {
				return maker(name)(t, blockio.WithFaults(o, worse))
			})
			if short.Load() == 0 || interrupted.Load() == 0 {
				t.Fatalf("%d short, %d interrupted: the seam was not used", short.Load(), interrupted.Load())
			}
		})
	}
}

// TestDeviceError fails one transfer in the middle of a batch with EIO: the
// error names operation, file and offset, nothing hangs, and the engine goes on.
func TestDeviceError(t *testing.T) {
	for _, name := range engines {
		for _, op := range []blockio.Op{blockio.Read, blockio.Write, blockio.Sync} {
			t.Run(name+"/"+op.String(), func(t *testing.T) {
				var n atomic.Int64
				var broken atomic.Bool
				broken.Store(true)
				e := maker(name)(t, blockio.WithFaults(blockio.Options{SplitBytes: 4096}, blockio.Faults{
					Result: func(_ blockio.Op, got int, err error) (int, error) {
						if broken.Load() && n.Add(1)%20 == 0 {
							return 0, syscall.EIO
						}
						return got, err
					},
				}))
				defer e.Close()
				path := filepath.Join(t.TempDir(), "f")
				if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
					t.Fatal(err)
				}
				f, err := e.Open(path, blockio.OpenOptions{Write: true})
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				batch := make([]blockio.Request, 64)
				for i := range batch {
					batch[i] = blockio.Request{Op: op, File: f, Offset: int64(i) * 16384, Buf: make([]byte, 16384)}
				}
				err = e.Do(context.Background(), batch, func(int) {})
				var ioErr *blockio.Error
				if !errors.Is(err, syscall.EIO) || !errors.As(err, &ioErr) || ioErr.Path != path || ioErr.Op != op ||
					(op != blockio.Sync && (ioErr.Offset%4096 != 0 || ioErr.Length != 4096)) {
					t.Fatalf("%v (%+v)", err, ioErr)
				}
				broken.Store(false)
				if err := e.Do(context.Background(), batch, nil); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// TestRealDeviceError reads what the kernel itself cannot: a hole of our own
// address space through /proc/self/mem is EIO.
func TestRealDeviceError(t *testing.T) {
	for _, name := range []string{"pread", "io_uring"} {
		t.Run(name, func(t *testing.T) {
			e := maker(name)(t, blockio.Options{})
			defer e.Close()
			f, err := e.Open("/proc/self/mem", blockio.OpenOptions{})
			if err != nil {
				t.Skip(err)
			}
			defer f.Close()
			err = e.Do(context.Background(), []blockio.Request{{File: f, Offset: 4096, Buf: make([]byte, 100)}}, nil)
			if !errors.Is(err, syscall.EIO) {
				t.Fatal(err)
			}
		})
	}
}

// TestDescriptorClosedUnderEngine closes the descriptor behind the engine's back: an
// error, no hang. io_uring holds its own reference to a registered file and
// reads on.
func TestDescriptorClosedUnderEngine(t *testing.T) {
	for _, name := range []string{"pread", "io_uring"} {
		t.Run(name, func(t *testing.T) {
			e := maker(name)(t, blockio.Options{})
			defer e.Close()
			path := filepath.Join(t.TempDir(), "f")
			want := bytes.Repeat([]byte("gstore "), 1000)
			if err := os.WriteFile(path, want, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := e.Open(path, blockio.OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			fd := descriptorOf(t, path)
			if err := unix.Close(fd); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(want))
			err = e.Do(context.Background(), []blockio.Request{{File: f, Buf: got}}, nil)
			if err == nil && !bytes.Equal(got, want) {
				t.Fatal("other bytes, and no error")
			}
			if err != nil && !errors.Is(err, syscall.EBADF) {
				t.Fatal(err)
			}
			if err := f.Close(); !errors.Is(err, syscall.EBADF) {
				t.Fatalf("closing a file whose descriptor is gone: %v", err)
			}
		})
	}
}

func descriptorOf(t *testing.T, path string) int {
	t.Helper()
	for fd := range 4096 {
		var link [4096]byte
		n, err := unix.Readlink(filepath.Join("/proc/self/fd", strconv.Itoa(fd)), link[:])
		if err == nil && string(link[:n]) == path {
			return fd
		}
	}
	t.Skip("no descriptor found in /proc/self/fd")
	return -1
}

// TestMemlock checks that buffers which RLIMIT_MEMLOCK does not admit are left
// unregistered and read into all the same.
func TestMemlock(t *testing.T) {
	e := maker("io_uring")(t, blockio.Options{})
	defer e.Close()
	slab, err := blockio.AllocSlab(64<<20, blockio.SlabOptions{Lazy: true})
	if err != nil {
		t.Fatal(err)
	}
	defer slab.Free()
	// What is unmapped cannot be pinned either: the same way back.
	hole, err := blockio.AllocSlab(4<<20, blockio.SlabOptions{Lazy: true})
	if err != nil {
		t.Fatal(err)
	}
	gone := hole.Bytes()
	if err := hole.Free(); err != nil {
		t.Fatal(err)
	}
	if err := e.Register(gone); err != nil {
		t.Fatal(err)
	}
	if n := e.Stats().RegisteredBytes; n != 0 {
		t.Fatalf("%d bytes registered of memory that is not there", n)
	}
	if err := e.Register(slab.Bytes()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "f")
	want := bytes.Repeat([]byte("gstore. "), 1<<17)
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := e.Open(path, blockio.OpenOptions{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := slab.Bytes()[32<<20:][:len(want)]
	if err := e.Do(context.Background(), []blockio.Request{{File: f, Buf: got}}, nil); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("registered %d bytes; %v", e.Stats().RegisteredBytes, err)
	}
}

// TestMappedFault cuts a file between the check of its size and the copy from its
// mapping, so that the copy itself faults (SIGBUS): an error, not a crash.
func TestMappedFault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	cut := blockio.Faults{Shorten: func(n int, _ bool) int {
		if err := os.Truncate(path, 0); err != nil { // called after the check, before the copy
			t.Error(err)
		}
		return n
	}}
	e := maker("mmap")(t, blockio.WithFaults(blockio.Options{}, cut))
	defer e.Close()
	f, err := e.Open(path, blockio.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = e.Do(context.Background(), []blockio.Request{{File: f, Buf: make([]byte, 1<<20)}}, nil)
	var ioErr *blockio.Error
	if !errors.As(err, &ioErr) || ioErr.Path != path {
		t.Fatal(err)
	}
}
