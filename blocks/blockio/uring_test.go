package blockio_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gstore/gstore/blocks/blockio"
)

// ringFault answers io_uring_enter with an errno while it is set.
type ringFault struct{ errno atomic.Int64 }

func (r *ringFault) enter() error {
	if e := r.errno.Load(); e != 0 {
		return syscall.Errno(e)
	}
	return nil
}

// pipe is an engine with a read in flight that ends when something is written.
type pipe struct {
	e     blockio.Engine
	fault ringFault
	path  string
	buf   []byte
	file  blockio.File // what the read is of
	other blockio.File // a plain file of 1 MiB
}

func newPipe(t *testing.T, settle time.Duration) *pipe {
	t.Helper()
	p := &pipe{path: filepath.Join(t.TempDir(), "pipe"), buf: make([]byte, 512)}
	p.e = maker("io_uring")(t, blockio.WithFaults(blockio.Options{Depth: 4}, blockio.Faults{Enter: p.fault.enter, Settle: settle}))
	if err := unix.Mkfifo(p.path, 0o600); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(filepath.Dir(p.path), "plain")
	if err := os.WriteFile(plain, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if p.file, err = p.e.Open(p.path, blockio.OpenOptions{Write: true}); err != nil {
		t.Fatal(err)
	}
	if p.other, err = p.e.Open(plain, blockio.OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// read starts the read and returns when the kernel has it.
func (p *pipe) read(t *testing.T, ctx context.Context) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- p.e.Do(ctx, []blockio.Request{{File: p.file, Buf: p.buf}}, nil) }()
	for p.e.Stats().Transfers == 0 {
		time.Sleep(time.Millisecond)
	}
	// The owner submits in the order of calls: once another read is back, ours is in the kernel.
	if err := p.plain(); err != nil {
		t.Fatal(err)
	}
	return ended
}

func (p *pipe) plain() error {
	return p.e.Do(context.Background(), []blockio.Request{{File: p.other, Buf: make([]byte, 4096)}}, nil)
}

func (p *pipe) write(t *testing.T) {
	t.Helper()
	fd, err := unix.Open(p.path, unix.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	b := make([]byte, len(p.buf))
	for i := range b {
		b[i] = byte(i) | 1
	}
	if _, err := unix.Write(fd, b); err != nil {
		t.Fatal(err)
	}
}

// close closes what still can be.
func (p *pipe) close(t *testing.T) {
	t.Helper()
	if err := errors.Join(p.file.Close(), p.other.Close(), p.e.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestCancelInFlight cancels a batch that the kernel has: Do returns when the
// kernel is done with the buffer, not before.
func TestCancelInFlight(t *testing.T) {
	p := newPipe(t, 0)
	ctx, cancel := context.WithCancel(context.Background())
	ended := p.read(t, ctx)
	cancel()
	for range 3 { // the engine works on meanwhile
		if err := p.plain(); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("Do returned with its read in flight: %v", err)
	default:
	}
	p.write(t)
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if p.buf[0] == 0 || p.buf[len(p.buf)-1] == 0 {
		t.Fatal("Do returned before the bytes")
	}
	p.close(t)
}

// TestRingFails lets io_uring_enter fail: batches that the kernel has not taken
// end with the error, the one that it has ends when the ring answers again, and the engine
// takes nothing more.
func TestRingFails(t *testing.T) {
	p := newPipe(t, 0)
	ended := p.read(t, context.Background())
	p.fault.errno.Store(int64(syscall.ENXIO))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := p.plain(); !errors.Is(err, syscall.ENXIO) || errors.Is(err, blockio.ErrUnsettled) {
				t.Errorf("a batch of a failed ring: %v", err)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-ended:
		t.Fatalf("the batch in flight returned: %v", err)
	default:
	}
	p.fault.errno.Store(0)
	p.write(t)
	if err := <-ended; err != nil || p.buf[0] == 0 {
		t.Fatalf("the batch in flight: %v", err)
	}
	if err := p.plain(); !errors.Is(err, syscall.ENXIO) {
		t.Fatalf("a batch after the failure: %v", err)
	}
	if _, err := p.e.Open(p.path, blockio.OpenOptions{Write: true}); !errors.Is(err, syscall.ENXIO) {
		t.Fatalf("open after the failure: %v", err)
	}
	p.close(t)
}

// TestRingLost never lets the ring answer again: what the kernel has is given
// up after a while, with an error that says so.
func TestRingLost(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EBADF, syscall.EBUSY} { // EBUSY is retried, but not for ever
		t.Run(errno.Error(), func(t *testing.T) {
			p := newPipe(t, 20*time.Millisecond)
			ended := p.read(t, context.Background())
			p.fault.errno.Store(int64(errno))
			if err := p.plain(); !errors.Is(err, errno) || errors.Is(err, blockio.ErrUnsettled) {
				t.Errorf("a batch that the kernel never had: %v", err)
			}
			var named *blockio.Error
			if err := <-ended; !errors.Is(err, blockio.ErrUnsettled) || !errors.Is(err, errno) || !errors.As(err, &named) || named.Path != p.path {
				t.Fatalf("a batch that the kernel has: %v", err)
			}
			p.close(t)
		})
	}
}

// TestRingRecovers answers every other call with a passing shortage: nobody notices.
func TestRingRecovers(t *testing.T) {
	var n atomic.Int64
	passing := []syscall.Errno{syscall.EINTR, syscall.EAGAIN, syscall.EBUSY, syscall.ENOMEM}
	e := maker("io_uring")(t, blockio.WithFaults(blockio.Options{Depth: 3, SplitBytes: 4096}, blockio.Faults{Enter: func() error {
		if k := n.Add(1); k%2 == 0 {
			return passing[k/2%int64(len(passing))]
		}
		return nil
	}}))
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := e.Open(path, blockio.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Do(context.Background(), []blockio.Request{{File: f, Buf: make([]byte, 1<<20)}}, nil); err != nil {
		t.Fatal(err)
	}
	if n.Load() < 20 {
		t.Fatalf("%d calls: the seam was not used", n.Load())
	}
	if err := errors.Join(f.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
}
