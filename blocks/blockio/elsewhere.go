package blockio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
)

// Elsewhere is the content of a file that is not on this machine's disk.
type Elsewhere interface {
	io.ReaderAt // from many goroutines at once
	io.Closer
	Size() int64
	// Fetch has bytes kept on this machine's disk, of which AheadBytes may be fetched before they are read.
	Fetch(offset, length int64) error
	AheadBytes() int64
}

// Fetch has bytes of a file that lies elsewhere kept on disk until they are read; of other files they are.
func Fetch(f File, offset, length int64) error {
	if e := contentOf(f); e != nil {
		return e.Fetch(offset, length)
	}
	return nil
}

// AheadBytes is how much it pays to [Fetch] before it is read: 0 of a file on disk.
func AheadBytes(f File) int64 {
	if e := contentOf(f); e != nil {
		return e.AheadBytes()
	}
	return 0
}

func contentOf(f File) Elsewhere {
	if far, ok := f.(*file); ok {
		return far.content
	}
	return nil
}

// elsewhere opens, by the path that it would have, a file that is not on disk. It fails with fs.ErrNotExist of what it does not know.
var elsewhere atomic.Pointer[func(path string) (Elsewhere, error)]

// SetElsewhere has engines that are made from now on read files that are not on disk, where open knows them. A package that keeps such
// files calls it once, when it is initialised.
func SetElsewhere(open func(path string) (Elsewhere, error)) { elsewhere.Store(&open) }

// mixed is an engine, and one of blocking calls beside it for files that lie elsewhere, whose every transfer is a call of theirs.
type mixed struct {
	Engine
	open func(path string) (Elsewhere, error)
	o    Options

	mu     sync.Mutex
	far    *pread // nil until such a file is opened
	closed bool
}

// withElsewhere gives an engine files that lie elsewhere, if anybody keeps such.
func withElsewhere(e Engine, o Options) Engine {
	if open := elsewhere.Load(); open != nil && *open != nil {
		return &mixed{Engine: e, open: *open, o: o}
	}
	return e
}

// Open implements Engine.
func (e *mixed) Open(path string, o OpenOptions) (File, error) {
	f, err := e.Engine.Open(path, o)
	if !errors.Is(err, fs.ErrNotExist) || o.Write {
		return f, err
	}
	content, ferr := e.open(path)
	if errors.Is(ferr, fs.ErrNotExist) {
		return nil, err
	}
	if ferr != nil {
		return nil, ferr
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, ErrClosed), content.Close())
	}
	if e.far == nil {
		far, _ := newPread(e.o)
		e.far = far.(*pread)
	}
	far := &file{owner: e.far, path: path, fd: -1, size: content.Size(), slot: -1, content: content}
	far.idle.L = &far.mu
	return far, nil
}

// Do implements Engine. What lies elsewhere is read after what is here, as it takes longest.
func (e *mixed) Do(ctx context.Context, batch []Request, done func(i int)) error {
	e.mu.Lock()
	far := e.far
	e.mu.Unlock()
	if far == nil {
		return e.Engine.Do(ctx, batch, done)
	}
	var here, there []int
	for i := range batch {
		if f, ok := batch[i].File.(*file); ok && f.owner == any(far) {
			there = append(there, i)
		} else {
			here = append(here, i)
		}
	}
	switch {
	case len(there) == 0:
		return e.Engine.Do(ctx, batch, done)
	case len(here) == 0:
		return far.Do(ctx, batch, done)
	}
	if err := part(ctx, e.Engine, batch, here, done); err != nil {
		return err
	}
	return part(ctx, far, batch, there, done)
}

// part does some requests of a batch.
func part(ctx context.Context, e Engine, batch []Request, which []int, done func(i int)) error {
	some := make([]Request, len(which))
	for k, i := range which {
		some[k] = batch[i]
	}
	if done == nil {
		return e.Do(ctx, some, nil)
	}
	return e.Do(ctx, some, func(k int) { done(which[k]) })
}

// Stats implements Engine.
func (e *mixed) Stats() Stats {
	s := e.Engine.Stats()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.far == nil {
		return s
	}
	f := e.far.Stats()
	s.Requests += f.Requests
	s.Transfers += f.Transfers
	s.BytesRead += f.BytesRead
	s.BytesWritten += f.BytesWritten
	s.InFlightMax = max(s.InFlightMax, f.InFlightMax)
	return s
}

// Close implements Engine.
func (e *mixed) Close() error {
	e.mu.Lock()
	far, closed := e.far, e.closed
	e.closed = true
	e.mu.Unlock()
	err := e.Engine.Close()
	if far != nil && !closed {
		err = errors.Join(err, far.Close())
	}
	return err
}
