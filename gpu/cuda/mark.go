//go:build cuda

package cuda

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/cuda/driver"
)

// segment is what the operations between two marks hold: it is free for others once the later mark was waited for.
type segment struct {
	dev          *Device
	began, ended driver.Event
	status       []byte // page-locked: a copy of the stream's status at the mark
	staging      staging
	old          []*memory // scratch that was grown out of
}

func newSegment(d *Device) (_ *segment, err error) {
	g := &segment{dev: d, staging: staging{dev: d}}
	for _, e := range []*driver.Event{&g.began, &g.ended} {
		if *e, err = d.ctx.NewEvent(); err != nil {
			_ = g.free()
			return nil, d.lose(err, nil)
		}
	}
	if g.status, err = d.ctx.AllocHost(statusBytes); err != nil {
		_ = g.free()
		return nil, &MemoryError{Device: d.name, Pinned: true, AskedBytes: statusBytes, FreeBytes: -1, Err: err}
	}
	return g, nil
}

// settle delivers downloads, if deliver says so, and gives back what may be used again. What was issued is done.
func (g *segment) settle(deliver bool) error {
	g.staging.settle(deliver)
	var err error
	for _, m := range g.old {
		err = errors.Join(err, m.Free())
	}
	g.old = g.old[:0]
	return err
}

// free gives back everything; nil has nothing.
func (g *segment) free() error {
	if g == nil {
		return nil
	}
	err := errors.Join(g.settle(false), g.staging.free())
	if g.status != nil {
		err = errors.Join(err, g.dev.ctx.FreeHost(g.status))
	}
	for _, e := range []driver.Event{g.began, g.ended} {
		if e != (driver.Event{}) {
			err = errors.Join(err, g.dev.ctx.DestroyEvent(e))
		}
	}
	return err
}

// found returns what the kernels noted until the mark.
func (g *segment) found() error {
	w := unsafe.Slice((*uint32)(unsafe.Pointer(&g.status[0])), statusBytes/4)
	if w[0] == 0 {
		return nil
	}
	return &IndexError{Device: g.dev.name, Op: operation(w[0]).String(), Place: int64(w[1]), Value: int64(int32(w[2])), Limit: int64(w[3])}
}

// mark implements [gpu.Mark].
type mark struct {
	s    *stream
	of   *segment // that it ends; nil: there was nothing to wait for, or it was waited for
	err  error    // what had failed before it, or in it
	done bool
	took time.Duration
}

// start begins a segment with its first operation.
func (s *stream) start() bool {
	var err error
	if n := len(s.spare); s.now == nil && n > 0 {
		s.now, s.spare = s.spare[n-1], s.spare[:n-1]
	} else if s.now == nil {
		s.now, err = newSegment(s.dev)
	}
	if err != nil {
		s.fail(err)
		return false
	}
	s.dirty = true
	s.issued(s.dev.ctx.Record(s.now.began, s.cu))
	return s.err == nil
}

// Mark notes the place after everything issued so far.
func (s *stream) Mark() gpu.Mark { return s.mark() }

func (s *stream) mark() *mark {
	if !s.unrecorded("a mark") {
		return &mark{s: s, err: s.err, done: true}
	}
	s.flush()
	m := &mark{s: s}
	if s.dirty {
		m.of, s.now, s.dirty = s.now, nil, false
		if s.err == nil {
			s.issued(s.dev.ctx.Download(unsafe.Pointer(&m.of.status[0]), s.status, statusBytes, s.cu))
		}
		if s.dev.broken() == nil {
			s.issued(s.dev.ctx.Record(m.of.ended, s.cu))
		}
	}
	m.err = s.err
	s.flying = append(s.flying, m)
	return m
}

// Follow lets what is issued to s from here on run once all is done that was issued to before. It begins no segment, so that waiting
// counts as nobody's time.
func (s *stream) Follow(before gpu.Stream) {
	b := before.(*stream)
	if !s.unrecorded("a wait for another stream") || !b.unrecorded("a wait of another stream") {
		return
	}
	s.flush()
	b.flush()
	if s.err == nil && s.dev.broken() == nil {
		s.issued(s.dev.ctx.Record(b.event, b.cu))
	}
	if s.err == nil {
		s.issued(s.dev.ctx.Follow(s.cu, b.event))
	}
}

// settle waits for a mark and those before it, once for all. The first error becomes the stream's.
func (s *stream) settle(m *mark) {
	if m.of != nil && s.dev.broken() == nil {
		_ = s.dev.ctx.WaitEvent(m.of.ended) // said again below
	}
	for !m.done {
		f := s.flying[0]
		s.flying = append(s.flying[:0], s.flying[1:]...)
		f.end()
		if f.err != nil {
			s.fail(f.err)
		}
	}
}

// end waits for one mark; those before it have been waited for.
func (m *mark) end() {
	m.done = true
	g, d := m.of, m.s.dev
	if g == nil {
		return
	}
	m.of = nil
	fail := func(err error) {
		if err != nil && m.err == nil {
			m.err = err
		}
	}
	passed := d.broken() == nil
	if passed {
		if err := d.ctx.WaitEvent(g.ended); err != nil {
			passed = false
			fail(d.lose(err, m.s.recent))
		}
	}
	fail(d.broken())
	fail(g.settle(m.err == nil))
	if m.err == nil {
		fail(g.found())
	}
	if passed {
		if took, err := d.ctx.Elapsed(g.began, g.ended); err == nil { // else it has no time: nothing that counts depends on it
			m.took = took
		}
	}
	m.s.spare = append(m.s.spare, g)
}

func (m *mark) Wait(ctx context.Context) error {
	m.s.settle(m)
	if m.err != nil {
		return m.err
	}
	return context.Cause(ctx)
}

func (m *mark) Passed() bool {
	return m.done || m.of == nil || m.s.dev.broken() != nil || m.s.dev.ctx.Passed(m.of.ended)
}

func (m *mark) Took() time.Duration { return m.took }
