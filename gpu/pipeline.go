package gpu

import (
	"context"
	"errors"
	"time"
)

// Mark is a place between the operations of a stream: what was issued before it can be waited for while
// what was issued after it runs.
type Mark interface {
	// Wait waits until everything issued before the mark is done, and returns the first error of it since the last Sync.
	// What was downloaded before the mark has arrived then. Marks are waited for in their order; an error stays the
	// stream's until Sync, which waits for all marks.
	Wait(ctx context.Context) error
	// Took is the device's time from the first operation between the mark before and this one to the last of them,
	// gaps in which it waited for the next to be issued included. The mark has been waited for.
	Took() time.Duration
}

// queueMark is a stream's mark, and what the queue found wrong before it.
type queueMark struct {
	Mark
	err error
}

func (m *queueMark) Wait(ctx context.Context) error {
	err := m.Mark.Wait(ctx)
	if m.err != nil {
		return m.err
	}
	return err
}

// noMark is a closed queue's.
type noMark struct{}

func (noMark) Wait(context.Context) error { return ErrClosed }
func (noMark) Took() time.Duration        { return 0 }

// Mark notes the place after everything issued so far.
func (q *Queue) Mark() Mark {
	if q.closed {
		return noMark{}
	}
	m := q.stream.Mark()
	if q.err != nil {
		return &queueMark{m, q.err}
	}
	return m
}

// Pipeline issues mini-batches to a queue, each with an arena of its own. Where the device runs operations after
// they were issued, [Info].Async, the next mini-batch is issued before the results of the last one are looked at, so that the device
// always has something to do; elsewhere one is finished before the next, in one arena. It is for the queue's goroutine.
type Pipeline struct {
	queue  *Queue
	arenas []*Arena
	at     int // the arena of the mini-batch that is issued now
	flying []flight
	took   time.Duration
}

// flight is a mini-batch that was issued and not looked at.
type flight struct {
	mark  Mark
	arena *Arena
	done  func(error) error
}

// NewPipeline makes a pipeline on q, which stays the caller's.
func NewPipeline(q *Queue) *Pipeline {
	p := &Pipeline{queue: q}
	for range q.dev.Info().InFlight() {
		p.arenas = append(p.arenas, NewArena(q.dev))
	}
	return p
}

// InFlight returns how many mini-batches of training the device holds the tensors of at once: 2 of one that is Async, else 1.
func (i Info) InFlight() int {
	if i.Async {
		return 2
	}
	return 1
}

// Bound limits each arena, see [Arena.Bound].
func (p *Pipeline) Bound(most int64) {
	for _, a := range p.arenas {
		a.Bound(most)
	}
}

// Arena is that of the mini-batch that is issued now; it is reset once that is done.
func (p *Pipeline) Arena() *Arena { return p.arenas[p.at] }

// Issued says that a mini-batch is issued whole. done is called once, here or in a later call, when the mini-batch is over: with what failed of
// it, or nil when what it downloaded is there. What done returns ends the call, and no mini-batch issued after that one is
// looked at. ctx does not end a wait: a mini-batch that was begun is finished.
func (p *Pipeline) Issued(ctx context.Context, done func(error) error) error {
	p.flying = append(p.flying, flight{p.queue.Mark(), p.Arena(), done})
	p.at = (p.at + 1) % len(p.arenas)
	return p.until(ctx, len(p.arenas)-1)
}

// Drain waits for all mini-batches: afterwards the device's state is that after the last one.
func (p *Pipeline) Drain(ctx context.Context) error { return p.until(ctx, 0) }

// until waits until no more than most mini-batches are in flight.
func (p *Pipeline) until(ctx context.Context, most int) error {
	ctx = context.WithoutCancel(ctx)
	for len(p.flying) > most {
		f := p.flying[0]
		p.flying = append(p.flying[:0], p.flying[1:]...)
		err := f.mark.Wait(ctx)
		if err == nil {
			p.took += f.mark.Took()
			err = f.arena.Reset()
		}
		if err = f.done(err); err != nil {
			_ = p.queue.Sync(ctx) // its error follows from this one
			p.flying = p.flying[:0]
			return err
		}
	}
	return nil
}

// Flying returns how many mini-batches are issued and not looked at.
func (p *Pipeline) Flying() int { return len(p.flying) }

// Took is the device's time for the mini-batches that are over, see [Mark].
func (p *Pipeline) Took() time.Duration { return p.took }

// DeviceTimes is how a device spent a part of a run, as far as this process trained it. All are 0 where operations run as they
// are issued.
type DeviceTimes struct {
	// DeviceSeconds is the device's time at mini-batches, from each one's first operation to its last.
	DeviceSeconds float64 `json:"device_seconds,omitempty"`
	// DeviceIdleSeconds is the rest: it waited for the disk, samples, copies, or a step's first mini-batch.
	DeviceIdleSeconds float64 `json:"device_idle_seconds,omitempty"`
	// DeviceCopySeconds is its time at copies of whole partitions, which run beside both.
	DeviceCopySeconds float64 `json:"device_copy_seconds,omitempty"`
}

// Times is how the device spent so many seconds, at whose beginning Took was so much; copies apart.
func (p *Pipeline) Times(seconds float64, took time.Duration) (t DeviceTimes) {
	if len(p.arenas) > 1 {
		t.DeviceSeconds = (p.took - took).Seconds()
		t.DeviceIdleSeconds = max(0, seconds-t.DeviceSeconds)
	}
	return t
}

// Reset resets the arenas. Nothing may be in flight.
func (p *Pipeline) Reset() error {
	var err error
	for _, a := range p.arenas {
		err = errors.Join(err, a.Reset())
	}
	return err
}

// Close frees the arenas. The queue must have been synced.
func (p *Pipeline) Close() error {
	var err error
	for _, a := range p.arenas {
		err = errors.Join(err, a.Close())
	}
	return err
}
