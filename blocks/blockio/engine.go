// Package blockio moves bytes between block files and caller-owned buffers.
//
// One interface, [Engine], has three implementations: io_uring (the default
// where kernel, container and file system allow it), pread on a pool of
// threads (the fallback) and mmap (in-memory mode and small arrays). All pass
// one conformance suite, blockiotest. [New] chooses one and says why.
//
// A caller hands an engine a batch of requests and learns of each completion
// as it happens; buffers stay the caller's throughout, and an engine touches
// them only between the call of Do and its return ([ErrUnsettled] is the one exception):
//
//	engine, why, err := blockio.New("auto", blockio.Options{})
//	slab, err := blockio.AllocSlab(64<<20, blockio.SlabOptions{})
//	engine.Register(slab.Bytes())
//	f, err := engine.Open("data/000007.gsb", blockio.OpenOptions{Direct: true})
//	err = engine.Do(ctx, []blockio.Request{{File: f, Offset: 4096, Buf: slab.Bytes()[:1<<20]}}, nil)
//
// Requests are split into transfers of at most [Options.SplitBytes], up to
// [Options.Depth] of which are in flight at once; short transfers, EINTR and
// EAGAIN are continued inside.
package blockio

import (
	"context"
	"errors"
	"fmt"
)

// Alignment is what offset, length and memory address of a direct request
// must be multiples of, in bytes.
const Alignment = 4096

// Sentinels that callers match with errors.Is.
var (
	// ErrClosed is returned by every call on a closed engine or file.
	ErrClosed = errors.New("blockio: closed")
	// ErrUnsupported says that kernel, container or file system refuses an
	// engine or a mode; the message names which and why.
	ErrUnsupported = errors.New("blockio: unsupported here")
	// ErrUnsettled is part of the error of a batch whose end the kernel did not tell: its
	// buffers may be unmapped, but not used for anything else.
	ErrUnsettled = errors.New("blockio: the kernel may still be using the buffers")
	// ErrUnaligned refuses a request on a direct file whose offset, length or
	// address is not a multiple of [Alignment].
	ErrUnaligned = errors.New("not a multiple of 4096")
)

// Op is what a request does.
type Op uint8

// Operations.
const (
	Read  Op = iota // fill Buf from Offset
	Write           // write Buf at Offset
	// Sync makes earlier completed writes of File durable (fdatasync); Offset
	// and Buf are ignored. Requests of one batch run in any order, so a Sync
	// belongs into a batch after the one that writes.
	Sync
)

// String returns "read", "write" or "sync".
func (o Op) String() string {
	switch o {
	case Read:
		return "read"
	case Write:
		return "write"
	case Sync:
		return "sync"
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// Request is one transfer. Short transfers are continued by the engine: a
// request completes with len(Buf) bytes or with an error. A read that meets
// the file's end is io.ErrUnexpectedEOF.
type Request struct {
	Op     Op
	File   File
	Offset int64  // bytes from the start of the file; a multiple of Alignment on a direct file
	Buf    []byte // owned by the caller; aligned likewise on a direct file
}

// Error is a transfer that failed: which file, where, and the cause (a
// syscall.Errno, io.ErrUnexpectedEOF, ErrClosed, …).
type Error struct {
	Op     Op
	Path   string
	Offset int64 // bytes from the start of the file
	Length int   // bytes that were still to transfer
	Err    error
}

// Error names operation, file, offset and cause.
func (e *Error) Error() string {
	if e.Op == Sync {
		return fmt.Sprintf("sync %s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("%v %s: %d bytes at offset %d: %v", e.Op, e.Path, e.Length, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// File is a file opened through an engine. It is used only with the engine
// that opened it, and closed before that engine.
type File interface {
	Path() string
	// Direct reports whether the file was opened with O_DIRECT.
	Direct() bool
	// Size is the file's length in bytes when it was opened.
	Size() int64
	// Close waits for the batches that use the file and closes it.
	Close() error
}

// OpenOptions say how a file will be used. The zero value is a buffered,
// read-only file.
type OpenOptions struct {
	Direct bool // ask for O_DIRECT; the engine falls back to buffered I/O where the file system refuses, and Direct() tells
	Write  bool // open for writing too
}

// Engine executes batches of requests. Its methods may be called from any
// number of goroutines at once.
type Engine interface {
	// Name is "io_uring", "pread" or "mmap": what metrics and inspect print.
	Name() string
	Open(path string, opts OpenOptions) (File, error)
	// Register offers long-lived buffers (slabs) to the kernel so that requests
	// into them cost less. It is a hint: an engine that cannot (RLIMIT_MEMLOCK,
	// pread, mmap) returns nil and works on; Stats tells how much was taken. The
	// slabs stay registered, and must stay mapped, until Close.
	Register(slabs ...[]byte) error
	// Do executes a batch and returns when every request has completed or been
	// abandoned, with the first error. done, if not nil, is called once for each request
	// that completed successfully, as it completes and in any order ([InOrder]
	// makes it the batch's), with its index in the batch; calls are made on the
	// caller's goroutine. When ctx ends or a request fails, transfers not yet
	// started are abandoned, those in flight are waited for, and ctx.Err() or
	// the [*Error] is returned.
	Do(ctx context.Context, batch []Request, done func(i int)) error
	// Stats are totals since the engine was made.
	Stats() Stats
	// Close abandons what is queued (ErrClosed), waits for what is in flight
	// and frees the engine's resources.
	Close() error
}

// Stats counts what an engine has done.
type Stats struct {
	Requests        uint64 // requests completed
	Transfers       uint64 // operations handed to the kernel: requests are split, short ones continued
	BytesRead       uint64
	BytesWritten    uint64
	InFlightMax     uint64 // deepest queue seen, in transfers
	RegisteredBytes uint64 // slabs that the kernel holds registered
}

// InOrder wraps a done function so that it is called in the batch's order
// 0 … n−1, each as soon as it and all before it are complete.
func InOrder(n int, done func(i int)) func(i int) {
	complete := make([]bool, n)
	next := 0
	return func(i int) {
		complete[i] = true
		for next < n && complete[next] {
			next++
			done(next - 1)
		}
	}
}
