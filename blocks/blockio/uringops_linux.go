package blockio

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// fill moves pieces of the queued jobs into free slots; e.mu is held.
func (e *uring) fill() {
	for len(e.free) > 0 && len(e.jobs) > 0 {
		p, ok := e.jobs[0].take()
		if !ok {
			e.jobs[0] = nil
			e.jobs = e.jobs[1:]
			continue
		}
		slot := e.free[len(e.free)-1]
		e.free = e.free[:len(e.free)-1]
		e.slots[slot] = p
		e.flying++
		e.submit(slot)
	}
	e.stats.sawDepth(uint64(e.flying))
}

// submit queues the transfer of a slot's remaining bytes. There is room: the
// queue has more entries than there are slots.
func (e *uring) submit(slot uint32) {
	if e.failed != nil {
		e.settle(slot, e.failed)
		return
	}
	p := &e.slots[slot]
	s := e.r.push()
	if s == nil {
		e.settle(slot, errors.New("submission queue is full"))
		return
	}
	e.stats.transfers.Add(1)
	s.userData = uint64(slot)
	s.fd = int32(p.file.fd)
	if p.file.slot >= 0 {
		s.fd, s.flags = int32(p.file.slot), sqeFixedFile
	}
	if p.op == Sync {
		s.opcode, s.opFlags = opFsync, fsyncDatasync
		return
	}
	n := e.o.faults.length(len(p.buf), p.file.direct)
	s.off, s.addr, s.length = uint64(p.offset), uint64(addressOf(p.buf)), uint32(n)
	s.opcode = opRead
	if p.op == Write {
		s.opcode = opWrite
	}
	if index, ok := e.fixed(p.buf); ok {
		s.opcode = opReadFixed
		if p.op == Write {
			s.opcode = opWriteFixed
		}
		s.bufIndex = index
	}
}

// fixed returns the registered buffer that holds b.
func (e *uring) fixed(b []byte) (uint16, bool) {
	at := addressOf(b)
	for i := range e.buffers {
		if f := &e.buffers[i]; at >= f.base && at+uintptr(len(b)) <= f.base+f.length {
			return f.index, true
		}
	}
	return 0, false
}

// complete takes one completion from the ring.
func (e *uring) complete(tag uint64, res int32) {
	if tag == eventTag {
		e.eventOK = false
		return
	}
	slot := uint32(tag)
	p := &e.slots[slot]
	n, err := int(res), error(nil)
	if res < 0 {
		n, err = 0, unix.Errno(-res)
	}
	n, err = e.o.faults.outcome(p.op, n, err)
	if err == unix.EINTR || err == unix.EAGAIN {
		e.submit(slot)
		return
	}
	more := false
	if err == nil {
		more, err = p.advance(n)
	}
	if more {
		e.submit(slot)
		return
	}
	e.settle(slot, err)
}

// settle returns a slot's piece with its outcome.
func (e *uring) settle(slot uint32, err error) {
	e.slots[slot].finish(err)
	e.slots[slot] = piece{}
	e.free = append(e.free, slot)
	e.flying--
}

// fail ends the engine's service after an error of the ring itself. Jobs are
// abandoned and what the kernel has not taken yet is given back. What it has taken is
// still waited for, since it may write to the buffers: later calls of step ask for
// it. A ring that does not answer for settleTimeout is closed, which makes the
// kernel cancel what it can, and the rest ends as ErrUnsettled.
func (e *uring) fail(err error) {
	now := time.Now()
	e.mu.Lock()
	if e.failed == nil {
		e.failed, e.lost = err, now
	}
	for _, j := range e.jobs {
		j.abandon(e.failed)
	}
	e.jobs = nil
	e.mu.Unlock()
	e.r.retract(func(tag uint64) {
		if tag == eventTag {
			e.eventOK = false
			return
		}
		e.settle(uint32(tag), e.failed)
	})
	if e.flying == 0 || now.Sub(e.lost) < e.timeout() {
		time.Sleep(time.Millisecond)
		return
	}
	_ = e.r.close()
	e.ended = true
	go hold(slices.Clone(e.slots))
	for slot := range e.slots {
		if e.slots[slot].job != nil {
			e.settle(uint32(slot), fmt.Errorf("%w: %w", ErrUnsettled, e.failed))
		}
	}
}

// hold keeps buffers from the garbage collector for ever: memory of the Go heap
// must not be used for anything else either.
func hold(held []piece) {
	<-make(chan struct{})
	runtime.KeepAlive(held)
}

// post wakes the owner; e.mu is held.
func (e *uring) post() {
	switch {
	case e.parked:
		e.parked = false
		e.wake <- struct{}{}
	case e.inKernel:
		e.inKernel = false
		e.signal()
	}
}
