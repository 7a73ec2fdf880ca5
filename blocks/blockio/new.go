package blockio

import (
	"errors"
	"fmt"
	"time"
)

// Options tune an engine. The zero value suits a local disk.
type Options struct {
	// Depth is the most transfers in flight; default 32. io_uring: queue depth;
	// pread: threads; mmap ignores it.
	Depth int
	// SplitBytes is the largest transfer: longer requests are split; a multiple
	// of Alignment, default 1 MiB.
	SplitBytes int

	faults *faults
}

// DefaultDepth is Options.Depth where it is 0.
const DefaultDepth = 32

// Defaults: on the disks measured (docs/benchmarks.md, "I/O engines") bandwidth
// is flat from 16 transfers of 1 MiB on.
const (
	defaultDepth      = DefaultDepth
	defaultSplitBytes = 1 << 20
	depthMax          = 4096
)

// Validate reports what makes the options unusable.
func (o Options) Validate() error {
	if o.Depth < 0 || o.Depth > depthMax {
		return fmt.Errorf("blockio: depth %d (expected 1 to %d, or 0 for %d)", o.Depth, depthMax, defaultDepth)
	}
	if o.SplitBytes < 0 || o.SplitBytes%Alignment != 0 || o.SplitBytes > 1<<30 {
		return fmt.Errorf("blockio: split at %d bytes (expected a multiple of %d up to 1 GiB, or 0 for %d)", o.SplitBytes, Alignment, defaultSplitBytes)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Depth == 0 {
		o.Depth = defaultDepth
	}
	if o.SplitBytes == 0 {
		o.SplitBytes = defaultSplitBytes
	}
	return o
}

// Names lists what New accepts.
func Names() []string { return []string{"auto", "io_uring", "pread", "mmap"} }

// New makes an engine by name: "io_uring", "pread", "mmap", or "auto" (also
// ""), which is io_uring where it works and else pread. why says what was
// chosen and, where that is a fallback, what refused the first choice. An engine asked
// for by name that does not work here is ErrUnsupported.
func New(name string, o Options) (e Engine, why string, err error) {
	if err := o.Validate(); err != nil {
		return nil, "", err
	}
	o = o.withDefaults()
	e, why, err = local(name, o)
	if err != nil {
		return nil, why, err
	}
	return withElsewhere(e, o), why, nil
}

// local makes an engine of this machine's files.
func local(name string, o Options) (e Engine, why string, err error) {
	switch name {
	case "io_uring":
		return newUring(o)
	case "pread":
		e, why = newPread(o)
		return e, why, nil
	case "mmap":
		e, why = newMmap(o)
		return e, why, nil
	case "auto", "":
		e, why, err = newUring(o)
		if errors.Is(err, ErrUnsupported) {
			reason := err
			e, why = newPread(o)
			return e, fmt.Sprintf("%s, because %v", why, reason), nil
		}
		return e, why, err
	}
	return nil, "", fmt.Errorf("blockio: unknown engine %q (known: auto, io_uring, pread, mmap)", name)
}

// faults is the seam through which tests make the kernel's answers worse than
// they are. nil in production.
type faults struct {
	// shorten returns how many of the n bytes of a transfer are asked for.
	shorten func(n int, direct bool) int
	// result replaces the outcome of a transfer.
	result func(op Op, n int, err error) (int, error)
	// enter fails io_uring_enter, which is then not called, where it returns an error.
	enter func() error
	// settle replaces settleTimeout.
	settle time.Duration
}

func (f *faults) length(n int, direct bool) int {
	if f == nil || f.shorten == nil {
		return n
	}
	return f.shorten(n, direct)
}

func (f *faults) outcome(op Op, n int, err error) (int, error) {
	if f == nil || f.result == nil {
		return n, err
	}
	return f.result(op, n, err)
}
