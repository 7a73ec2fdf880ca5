package blockio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/edsrzf/mmap-go"
)

// mmapEngine copies from mapped files: right for files that stay in the page
// cache (in-memory mode) and small arrays, wrong for a graph larger than memory,
// where every page is faulted in, copied and evicted again (docs/benchmarks.md:
// a third of the speed of direct reads, 10 to 50 times the CPU time). Copies run on
// the caller's goroutine. Writes go through the descriptor; on Linux mappings
// see them at once.
type mmapEngine struct {
	o     Options
	stats counters

	mu     sync.Mutex
	idle   sync.Cond
	calls  int // of Do, running
	closed bool
}

func newMmap(o Options) (Engine, string) {
	e := &mmapEngine{o: o}
	e.idle.L = &e.mu
	return e, "mmap, by request"
}

// Name implements Engine.
func (e *mmapEngine) Name() string { return "mmap" }

// Register implements Engine: there is nothing to register with.
func (e *mmapEngine) Register(...[]byte) error { return nil }

// Stats implements Engine.
func (e *mmapEngine) Stats() Stats { return e.stats.snapshot() }

// Open implements Engine. Direct is ignored: a mapping is the page cache.
func (e *mmapEngine) Open(path string, o OpenOptions) (File, error) {
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("open %s: %w", path, ErrClosed)
	}
	o.Direct = false
	f, err := openFile(e, path, o)
	if err != nil {
		return nil, err
	}
	if f.size == 0 { // the system maps nothing
		return f, nil
	}
	// mmap-go takes an *os.File, whose Close would close the descriptor under
	// f; the mapping outlives it.
	of, err := os.Open(path)
	if err == nil {
		var m mmap.MMap
		m, err = mmap.MapRegion(of, int(f.size), mmap.RDONLY, 0, 0)
		err = errors.Join(err, of.Close())
		f.mapping = m
		f.unhook = func() error { return m.Unmap() }
	}
	if err != nil {
		f.unhook = nil
		_ = f.Close()
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return f, nil
}

// Do implements Engine: requests run one after the other, in the batch's order.
func (e *mmapEngine) Do(ctx context.Context, batch []Request, done func(i int)) error {
	j, err := newJob(e, batch, e.o.SplitBytes, &e.stats, false)
	if err != nil {
		return err
	}
	defer j.release()
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return ErrClosed
	}
	e.calls++
	e.mu.Unlock()
	defer e.leave()
	if len(batch) > 0 {
		e.stats.sawDepth(1)
	}
	for {
		if err := ctx.Err(); err != nil && j.req < len(j.batch) {
			return err
		}
		p, ok := j.take()
		if !ok {
			return j.err
		}
		last := j.at == 0 // the cursor moved on: this piece completes its request
		p.finish(e.run(&p))
		if j.err != nil {
			return j.err
		}
		if last && done != nil {
			done(p.req)
		}
	}
}

func (e *mmapEngine) leave() {
	e.mu.Lock()
	if e.calls--; e.calls == 0 {
		e.idle.Broadcast()
	}
	e.mu.Unlock()
}

func (e *mmapEngine) run(p *piece) error {
	if p.op != Read {
		return p.run(e.o.faults)
	}
	// A file cut short under its mapping faults where a page is gone and reads
	// as zeros on its last page; only the size now tells the latter.
	size, err := p.file.currentSize()
	if err != nil {
		return err
	}
	for {
		e.stats.transfers.Add(1)
		n, err := 0, error(nil)
		if size = min(size, int64(len(p.file.mapping))); p.offset < size {
			b := p.buf[:e.o.faults.length(len(p.buf), false)]
			n, err = copyMapped(b, p.file.mapping[p.offset:size])
		}
		if n, err = e.o.faults.outcome(Read, n, err); err == syscall.EINTR || err == syscall.EAGAIN {
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

// copyMapped copies from a mapping; pages that cannot be read any more (the file
// was cut short, or its device fails) are an error instead of a crash.
func copyMapped(dst, src []byte) (n int, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			fault, ok := r.(interface {
				error
				Addr() uintptr
			})
			if !ok {
				panic(r)
			}
			n, err = 0, fmt.Errorf("%w (%v)", io.ErrUnexpectedEOF, fault)
		}
	}()
	return copy(dst, src), nil
}

// Close implements Engine.
func (e *mmapEngine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	e.closed = true
	for e.calls > 0 {
		e.idle.Wait()
	}
	return nil
}
