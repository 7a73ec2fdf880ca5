// Package blockio moves bytes between block files and caller-owned buffers.
//
// One interface, [Engine], has three implementations: io_uring (the default
// where kernel, container and file system allow it), pread on a pool of
// threads (the fallback) and mmap (in-memory mode and small arrays). All pass
// one conformance suite, blockiotest.
//
// A caller hands an engine a batch of requests and learns of each completion
// as it happens; buffers stay the caller's throughout, and an engine touches
// them only between the call of Do and its return.
package blockio

import (
	"context"
	"errors"
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
)

// Op is what a request does.
type Op uint8

// Operations.
const (
	Read  Op = iota // fill Buf from Offset
	Write           // write Buf at Offset
	Sync            // make earlier completed writes of File durable (fdatasync); Buf is ignored
)

// Request is one transfer. Short transfers are continued by the engine: a
// request completes with len(Buf) bytes or with an error.
type Request struct {
	Op     Op
	File   File
	Offset int64  // bytes from the start of the file; a multiple of Alignment on a direct file
	Buf    []byte // owned by the caller; aligned likewise on a direct file
}

// File is a file opened through an engine. It is used only with the engine
// that opened it, and closed before that engine.
type File interface {
	Path() string
	// Direct reports whether the file was opened with O_DIRECT.
	Direct() bool
	// Size is the file's length in bytes when it was opened.
	Size() int64
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
	// pread, mmap) returns nil and works on. The slabs stay registered until
	// Close.
	Register(slabs ...[]byte) error
	// Do executes a batch and returns when every request has completed or been
	// abandoned, with the first error. done, if not nil, is called once for each request
	// that completed successfully, as it completes and in any order, with its
	// index in the batch; calls are not concurrent with each other. When ctx
	// ends, requests not yet started are abandoned, those in flight are waited
	// for, and ctx.Err() is returned. Errors name path and offset.
	Do(ctx context.Context, batch []Request, done func(i int)) error
	// Stats are totals since the engine was made.
	Stats() Stats
	Close() error
}

// Stats counts what an engine has done.
type Stats struct {
	Requests     uint64 // transfers asked for
	BytesRead    uint64
	BytesWritten uint64
	InFlightMax  uint64 // deepest queue seen
}
