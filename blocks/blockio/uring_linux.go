package blockio

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gstore/gstore/blocks/panics"
)

// uring is the engine on io_uring. One goroutine, locked to its thread, owns
// the ring: it alone submits, waits and registers, which is what SINGLE_ISSUER
// and DEFER_TASKRUN ask for. Callers of Do put jobs into a queue and wake the
// owner: by a channel when it is parked (nothing in flight), through an eventfd
// that the ring reads when it waits in the kernel.
//
// Invariants: every transfer in flight occupies one slot, and the slot's piece
// keeps its buffer alive until its completion is reaped.
type uring struct {
	o     Options
	stats counters
	r     *ring
	efd   int
	gone  chan struct{} // closed when the owner has ended

	// The owner's own.
	slots   []piece
	free    []uint32
	flying  int // slots in use
	eventOK bool
	event   *[8]byte      // where the ring reads the eventfd to
	refused time.Duration // how long the ring has taken nothing
	lost    time.Time     // when the ring began to fail
	ended   bool          // the ring was closed with transfers in flight

	mu       sync.Mutex
	jobs     []*job
	commands []*command
	parked   bool // the owner waits on wake
	inKernel bool // the owner waits in enter and would take more
	closed   bool
	failed   error // the ring failed: nothing is taken any more; written by the owner
	wake     chan struct{}

	// Written by commands on the owner's thread, read there.
	fileTable bool
	fileSlots []int // free slots of the table
	buffers   []fixedBuffer
	bufTable  int // slots of the table of buffers; 0 if the kernel has none
}

// command is a function that the owner runs on its thread.
type command struct {
	run  func() error
	err  error
	done chan struct{}
}

// fixedBuffer is a registered range of memory.
type fixedBuffer struct {
	base, length uintptr
	index        uint16
}

const (
	fileTableSlots   = 256
	bufferTableSlots = 1024
	// fixedBufferBytes is the most that the kernel takes as one registered buffer.
	fixedBufferBytes = 1 << 30

	eventTag = ^uint64(0)

	// settleTimeout is how long a failed ring is asked for what is in flight.
	settleTimeout = 10 * time.Second
	// retryPause is the time between attempts where the kernel is short of something.
	retryPause = 100 * time.Microsecond
)

// newUring makes the engine and proves that the ring works: some containers
// refuse io_uring altogether, others only its use.
func newUring(o Options) (Engine, string, error) {
	e := &uring{o: o, gone: make(chan struct{}), wake: make(chan struct{}, 1), event: new([8]byte)}
	ready := make(chan error, 1)
	go e.own(ready)
	if err := <-ready; err != nil {
		<-e.gone
		return nil, "", fmt.Errorf("io_uring: %w: %w", ErrUnsupported, err)
	}
	return e, e.describe(), nil
}

func (e *uring) describe() string {
	parts := []string{fmt.Sprintf("io_uring of depth %d", e.o.Depth)}
	if e.r.flags&setupDeferTaskrun != 0 {
		parts = append(parts, "deferred completions")
	}
	if e.fileTable {
		parts = append(parts, "registered files")
	}
	if e.bufTable > 0 {
		parts = append(parts, "registered buffers")
	}
	return strings.Join(parts, ", ")
}

// Name implements Engine.
func (e *uring) Name() string { return "io_uring" }

// Stats implements Engine.
func (e *uring) Stats() Stats { return e.stats.snapshot() }

// start makes the ring, on the owner's thread.
func (e *uring) start() error {
	r, err := newRing(uint32(e.o.Depth + 2)) // transfers, the eventfd's read, and a spare
	if err != nil {
		return err
	}
	e.r = r
	if e.efd, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		_ = r.close()
		return fmt.Errorf("eventfd: %w", err)
	}
	e.slots = make([]piece, e.o.Depth)
	for i := range e.slots {
		e.free = append(e.free, uint32(len(e.slots)-1-i))
	}
	if err := e.probe(); err != nil {
		_ = unix.Close(e.efd)
		_ = r.close()
		return err
	}
	if r.registerFileTable(fileTableSlots) == nil {
		e.fileTable = true
		for i := range fileTableSlots {
			e.fileSlots = append(e.fileSlots, fileTableSlots-1-i)
		}
	}
	if r.registerBufferTable(bufferTableSlots) == nil {
		e.bufTable = bufferTableSlots
	}
	return nil
}

// probe sends one read of the eventfd through the ring.
func (e *uring) probe() error {
	e.signal()
	e.armEvent()
	for e.eventOK {
		if err := e.r.enter(1); err != nil && err != unix.EINTR {
			return fmt.Errorf("io_uring_enter: %w", err)
		}
		var res int32
		e.r.reap(func(_ uint64, n int32) { e.eventOK, res = false, n })
		if !e.eventOK && res != 8 {
			return fmt.Errorf("io_uring read: %w", unix.Errno(-res))
		}
	}
	return nil
}

// signal makes the eventfd readable.
func (e *uring) signal() {
	one := [8]byte{1}
	_, _ = retry(func() (int, error) { return unix.Write(e.efd, one[:]) })
}

// armEvent keeps one read of the eventfd in the ring.
func (e *uring) armEvent() {
	if e.eventOK {
		return
	}
	s := e.r.push()
	if s == nil {
		return
	}
	s.opcode, s.fd, s.addr, s.length, s.userData = opRead, int32(e.efd), uint64(uintptr(unsafe.Pointer(e.event))), 8, eventTag
	e.eventOK = true
}

// own is the owner's life.
func (e *uring) own(ready chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(e.gone)
	if err := e.start(); err != nil {
		ready <- err
		return
	}
	ready <- nil
	for e.step() {
	}
	// Nothing is in flight but the eventfd's read: let it end before its
	// descriptor goes.
	if e.eventOK && !e.ended {
		e.signal()
		for e.eventOK {
			if err := e.enter(1); err != nil && err != unix.EINTR {
				break
			}
			e.r.reap(func(tag uint64, _ int32) { e.eventOK = e.eventOK && tag != eventTag })
		}
	}
	if !e.ended {
		_ = e.r.close()
	}
	_ = unix.Close(e.efd)
}

// step runs commands, submits, waits and reaps once; false ends the owner.
func (e *uring) step() bool {
	// Only this goroutine touches the ring; under the lock it takes what others left: commands, and requests for as many
	// entries as are free.
	e.mu.Lock()
	commands := e.commands
	e.commands = nil
	if e.failed == nil {
		e.fill()
	}
	// Nothing to do: sleep on a channel rather than in the kernel, so that no system call wakes the owner.
	if e.flying == 0 && len(commands) == 0 {
		if e.closed {
			e.mu.Unlock()
			return false
		}
		e.parked = true
		e.mu.Unlock()
		<-e.wake
		return true
	}
	// Whoever queues while the owner waits in the kernel must signal the event descriptor, which costs a system call: so it
	// is said only where a new request could be submitted at once.
	e.inKernel = len(commands) == 0 && len(e.free) > 0 // else it could not take more
	e.mu.Unlock()
	// Commands (open, register) run without the lock: their system calls may take long.
	for _, c := range commands {
		if c.err = e.failed; c.err == nil {
			c.err = panics.Call(c.run)
		}
		close(c.done)
	}
	if e.flying == 0 {
		return true
	}
	least := uint32(1)
	if len(commands) > 0 {
		least = 0 // someone may have queued meanwhile without waking us
	} else {
		e.armEvent()
	}
	// One system call submits what fill prepared and waits for the first completion.
	err := e.enter(least)
	e.mu.Lock()
	e.inKernel = false
	e.mu.Unlock()
	e.r.reap(e.complete)
	switch err {
	case nil, unix.EINTR:
		e.refused = 0
	case unix.EAGAIN, unix.EBUSY, unix.ENOMEM: // short of memory, or completions overflow: reaped above
		if e.refused += retryPause; e.refused < e.timeout() {
			time.Sleep(retryPause)
			break
		}
		fallthrough
	default:
		e.fail(fmt.Errorf("io_uring_enter: %w", err))
	}
	return true
}

// timeout is settleTimeout, or a test's.
func (e *uring) timeout() time.Duration {
	if f := e.o.faults; f != nil && f.settle > 0 {
		return f.settle
	}
	return settleTimeout
}

// enter is the ring's, or a test's answer in its place.
func (e *uring) enter(least uint32) error {
	if f := e.o.faults; f != nil && f.enter != nil {
		if err := f.enter(); err != nil {
			return err
		}
	}
	return e.r.enter(least)
}

// onOwner runs f on the owner's thread.
func (e *uring) onOwner(f func() error) error {
	c := &command{run: f, done: make(chan struct{})}
	e.mu.Lock()
	if err := e.refusal(); err != nil {
		e.mu.Unlock()
		return err
	}
	e.commands = append(e.commands, c)
	e.post()
	e.mu.Unlock()
	<-c.done
	return c.err
}

// Open implements Engine.
func (e *uring) Open(path string, o OpenOptions) (File, error) {
	f, err := openFile(e, path, o)
	if err != nil {
		return nil, err
	}
	err = e.onOwner(func() error {
		if n := len(e.fileSlots); n > 0 && e.r.setFile(e.fileSlots[n-1], int32(f.fd)) == nil {
			f.slot, e.fileSlots = e.fileSlots[n-1], e.fileSlots[:n-1]
		}
		return nil
	})
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	f.unhook = func() error {
		if f.slot < 0 {
			return nil
		}
		err := e.onOwner(func() error {
			e.fileSlots = append(e.fileSlots, f.slot)
			return e.r.setFile(f.slot, -1)
		})
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.refusal() != nil {
			return nil // the table went, or goes, with the ring
		}
		return err
	}
	return f, nil
}

// Register implements Engine. What RLIMIT_MEMLOCK or the kernel refuses is left
// unregistered; Stats tells.
func (e *uring) Register(slabs ...[]byte) error {
	return e.onOwner(func() error {
		for _, b := range slabs {
			for len(b) > 0 && len(e.buffers) < e.bufTable {
				part := b[:min(len(b), fixedBufferBytes)]
				if e.r.setBuffer(len(e.buffers), part) != nil {
					return nil
				}
				e.buffers = append(e.buffers, fixedBuffer{base: addressOf(part), length: uintptr(len(part)), index: uint16(len(e.buffers))})
				e.stats.registered.Add(uint64(len(part)))
				b = b[len(part):]
			}
		}
		return nil
	})
}

// Do implements Engine.
func (e *uring) Do(ctx context.Context, batch []Request, done func(i int)) error {
	return runJob(ctx, e, batch, e.o.SplitBytes, &e.stats, done, e.queue)
}

func (e *uring) queue(j *job) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refusal(); err != nil {
		return err
	}
	e.jobs = append(e.jobs, j)
	e.post()
	return nil
}

// refusal is why the engine takes nothing any more; e.mu is held.
func (e *uring) refusal() error {
	if e.closed {
		return ErrClosed
	}
	return e.failed
}

// Close implements Engine.
func (e *uring) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return ErrClosed
	}
	e.closed = true
	for _, j := range e.jobs {
		j.abandon(ErrClosed)
	}
	e.post()
	e.mu.Unlock()
	<-e.gone
	return nil
}

func keepAlive(p any) { runtime.KeepAlive(p) }
