package blockio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
)

// job is one call of Do on an engine with workers: a cursor over the batch that
// workers take pieces from, and the account of what has come back.
//
// A job has ended when nothing is out and nothing can be taken any more: the
// cursor is at the end, or err is set.
type job struct {
	batch []Request
	split int
	stats *counters

	mu    sync.Mutex
	req   int   // cursor: the request
	at    int   // and the bytes of it already taken
	out   int   // pieces taken and not yet returned
	left  []int // bytes each request still waits for
	ready []int // requests completed and not yet reported
	err   error // first error
	want  bool  // the caller wants to hear of each completion
	wake  chan struct{}
}

// piece is one transfer: at most split bytes of one request.
type piece struct {
	job    *job
	req    int
	file   *file
	op     Op
	buf    []byte // still to transfer
	offset int64  // of buf in the file
	size   int    // bytes when it was taken
}

// newJob checks a batch and takes a reference on its files, to be released
// with release.
func newJob(owner any, batch []Request, split int, stats *counters, want bool) (*job, error) {
	j := &job{batch: batch, split: split, stats: stats, want: want, left: make([]int, len(batch)), wake: make(chan struct{}, 1)}
	for i := range batch {
		if err := j.admit(owner, i); err != nil {
			j.releaseFirst(i)
			return nil, err
		}
	}
	return j, nil
}

func (j *job) admit(owner any, i int) error {
	r := &j.batch[i]
	f, ok := r.File.(*file)
	if !ok || f.owner != owner {
		return fmt.Errorf("blockio: request %d is for a file of another engine", i)
	}
	if err := f.check(r); err != nil {
		return err
	}
	j.left[i] = max(1, r.size())
	return f.acquire(r)
}

// size returns the bytes a request transfers.
func (r *Request) size() int {
	if r.Op == Sync {
		return 0
	}
	return len(r.Buf)
}

// check refuses requests that cannot succeed.
func (f *file) check(r *Request) error {
	fail := func(err error) error {
		return &Error{Op: r.Op, Path: f.path, Offset: r.Offset, Length: len(r.Buf), Err: err}
	}
	switch {
	case r.Op > Sync:
		return fail(fmt.Errorf("unknown operation %v", r.Op))
	case r.Op != Read && !f.write:
		return fail(syscall.EBADF)
	case r.Op == Sync:
		return nil
	case r.Offset < 0:
		return fail(syscall.EINVAL)
	case f.direct && (r.Offset|int64(len(r.Buf))|int64(addressOf(r.Buf)))%Alignment != 0:
		return fail(fmt.Errorf("offset, length or address %p of a direct request: %w", r.Buf, ErrUnaligned))
	}
	return nil
}

// runJob is Do of the engines with workers. start queues the job and wakes them,
// or says why the engine takes none.
func runJob(ctx context.Context, owner any, batch []Request, split int, stats *counters, done func(int), start func(*job) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j, err := newJob(owner, batch, split, stats, done != nil)
	if err != nil {
		return err
	}
	defer j.release()
	if err := start(j); err != nil || len(batch) == 0 {
		return err
	}
	return j.wait(ctx, done)
}

func (j *job) release() { j.releaseFirst(len(j.batch)) }

func (j *job) releaseFirst(n int) {
	for i := range n {
		j.batch[i].File.(*file).release()
	}
}

// take returns the next piece, or false if there is none (any more).
func (j *job) take() (piece, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil || j.req == len(j.batch) {
		return piece{}, false
	}
	r := &j.batch[j.req]
	p := piece{job: j, req: j.req, file: r.File.(*file), op: r.Op, offset: r.Offset + int64(j.at)}
	size := r.size()
	n := min(size-j.at, j.split)
	p.buf, p.size = r.Buf[j.at:j.at+n:j.at+n], n
	j.at += n
	if j.at == size {
		j.req, j.at = j.req+1, 0
	}
	j.out++
	return p, true
}

// pieces returns how many pieces a job will give, at most limit.
func (j *job) pieces(limit int) int {
	n := 0
	for i := range j.batch {
		n += max(1, (j.batch[i].size()+j.split-1)/j.split)
		if n >= limit {
			return limit
		}
	}
	return n
}

// advance accounts for n bytes moved by the kernel and reports whether the piece
// needs another transfer.
func (p *piece) advance(n int) (more bool, err error) {
	if len(p.buf) == 0 {
		return false, nil
	}
	if p.file.direct {
		n &^= Alignment - 1 // the rest of a torn block is transferred again
	}
	if n <= 0 {
		if p.op == Write {
			return false, io.ErrShortWrite
		}
		return false, io.ErrUnexpectedEOF
	}
	p.buf = p.buf[n:]
	p.offset += int64(n)
	return len(p.buf) > 0, nil
}

// finish returns a piece with its outcome.
func (p *piece) finish(err error) {
	j := p.job
	if err != nil {
		err = &Error{Op: p.op, Path: p.file.path, Offset: p.offset, Length: len(p.buf), Err: err}
	} else {
		j.stats.moved(p.op, p.size)
	}
	j.mu.Lock()
	j.out--
	if err != nil {
		if j.err == nil || errors.Is(err, ErrUnsettled) {
			j.err = err
		}
	} else if j.left[p.req] -= max(1, p.size); j.left[p.req] == 0 {
		j.stats.requests.Add(1)
		if j.want {
			j.ready = append(j.ready, p.req)
		}
	}
	notify := len(j.ready) > 0 || j.ended()
	j.mu.Unlock()
	if notify {
		j.notify()
	}
}

func (j *job) ended() bool { return j.out == 0 && (j.err != nil || j.req == len(j.batch)) }

func (j *job) notify() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// abandon stops the job from giving pieces; err is what Do will return unless
// an error came before.
func (j *job) abandon(err error) {
	j.mu.Lock()
	// A job whose last piece has been taken completes as if nothing happened.
	if j.err == nil && j.req < len(j.batch) {
		j.err = err
	}
	j.mu.Unlock()
	j.notify()
}

// wait reports completions until the job has ended.
func (j *job) wait(ctx context.Context, done func(int)) error {
	cancelled := ctx.Done()
	for {
		select {
		case <-j.wake:
		case <-cancelled:
			cancelled = nil
			j.abandon(ctx.Err())
		}
		j.mu.Lock()
		ready, ended, err := j.ready, j.ended(), j.err
		j.ready = nil
		j.mu.Unlock()
		for _, i := range ready {
			done(i)
		}
		if ended {
			return err
		}
	}
}

// counters are an engine's Stats as it runs.
type counters struct {
	requests, transfers, read, written, inFlightMax, registered atomic.Uint64
}

func (c *counters) moved(op Op, n int) {
	switch op {
	case Read:
		c.read.Add(uint64(n))
	case Write:
		c.written.Add(uint64(n))
	}
}

// sawDepth keeps the deepest queue seen.
func (c *counters) sawDepth(n uint64) {
	for old := c.inFlightMax.Load(); n > old && !c.inFlightMax.CompareAndSwap(old, n); old = c.inFlightMax.Load() {
	}
}

func (c *counters) snapshot() Stats {
	return Stats{Requests: c.requests.Load(), Transfers: c.transfers.Load(), BytesRead: c.read.Load(),
		BytesWritten: c.written.Load(), InFlightMax: c.inFlightMax.Load(), RegisteredBytes: c.registered.Load()}
}
