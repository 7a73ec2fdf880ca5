package blockio

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gstore/gstore/blocks/panics"
)

// pread is the engine of blocking calls on a pool of threads: it works wherever
// the file system does. Each worker is a goroutine that spends its life in
// system calls, hence a thread while it transfers.
type pread struct {
	o       Options
	stats   counters
	busy    atomic.Int64 // workers in a transfer
	workers sync.WaitGroup

	mu      sync.Mutex
	cond    sync.Cond
	jobs    []*job // oldest first
	started int    // workers
	idle    int    // workers waiting for a job
	closed  bool
}

func newPread(o Options) (Engine, string) {
	e := &pread{o: o}
	e.cond.L = &e.mu
	return e, fmt.Sprintf("pread on %d threads", o.Depth)
}

// Name implements Engine.
func (e *pread) Name() string { return "pread" }

// Open implements Engine.
func (e *pread) Open(path string, o OpenOptions) (File, error) {
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("open %s: %w", path, ErrClosed)
	}
	f, err := openFile(e, path, o)
	if err != nil {
		return nil, err // not f: a nil *file is no nil File
	}
	return f, nil
}

// Register implements Engine: there is nothing to register with.
func (e *pread) Register(...[]byte) error { return nil }

// Stats implements Engine.
func (e *pread) Stats() Stats { return e.stats.snapshot() }

// Do implements Engine.
func (e *pread) Do(ctx context.Context, batch []Request, done func(i int)) error {
	return runJob(ctx, e, batch, e.o.SplitBytes, &e.stats, done, e.start)
}

func (e *pread) start(j *job) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	e.jobs = append(e.jobs, j)
	n := j.pieces(e.o.Depth)
	for range min(n-e.idle, e.o.Depth-e.started) {
		e.started++
		e.workers.Add(1)
		go e.work()
	}
	for range n {
		e.cond.Signal()
	}
	return nil
}

func (e *pread) work() {
	defer e.workers.Done()
	for {
		p, ok := e.take()
		if !ok {
			return
		}
		e.stats.sawDepth(uint64(e.busy.Add(1)))
		err := panics.Call(func() error { return p.run(e.o.faults) })
		e.busy.Add(-1)
		p.finish(err)
	}
}

// take waits for a piece; false means that the engine is closed.
func (e *pread) take() (piece, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		for len(e.jobs) > 0 {
			if p, ok := e.jobs[0].take(); ok {
				return p, true
			}
			e.jobs[0] = nil
			e.jobs = e.jobs[1:]
		}
		if e.closed {
			return piece{}, false
		}
		e.idle++
		e.cond.Wait()
		e.idle--
	}
}

// Close implements Engine.
func (e *pread) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return ErrClosed
	}
	e.closed = true
	for _, j := range e.jobs {
		j.abandon(ErrClosed)
	}
	e.cond.Broadcast()
	e.mu.Unlock()
	e.workers.Wait()
	return nil
}
