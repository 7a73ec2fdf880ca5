package gpu

import (
	"context"
	"time"
)

// Mark is a place between the operations of a stream: what was issued before it can be waited for while
// what was issued after it runs.
type Mark interface {
	// Wait waits until everything issued before the mark is done, and returns the first error of it since the last Sync.
	// What was downloaded before the mark has arrived then. Marks are waited for in their order; an error stays the
	// stream's until Sync, which waits for all marks.
	Wait(ctx context.Context) error
	// Passed reports, without waiting, whether everything issued before the mark is done: Wait returns at once then.
	Passed() bool
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
func (noMark) Passed() bool               { return true }
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

// Pipeline issues mini-batches to a queue. Where the device runs operations after they were issued, [Info].Async, it runs
// behind: results are taken as they come, and the host waits only for room, once [Info.InFlight] mini-batches are on their way,
// until half of them are over. Elsewhere one is finished before the next. All have the tensors of one arena: what the
// next one writes there, the stream writes after the last one has read it. It is for the queue's goroutine.
type Pipeline struct {
	queue  *Queue
	arena  *Arena
	most   int // mini-batches on their way
	flying []flight
	spent  Spent
}

// flight is a mini-batch that was issued and not looked at.
type flight struct {
	mark Mark
	done func(error) error
}

// Spent is what the mini-batches of a pipeline came to so far.
type Spent struct {
	Took  time.Duration // the device's time for those that are over, see [Mark]
	Waits int64         // how often the host waited for the device, for room or for what is on its way
}

// NewPipeline makes a pipeline on q, which stays the caller's.
func NewPipeline(q *Queue) *Pipeline {
	return &Pipeline{queue: q, arena: NewArena(q.dev), most: q.dev.Info().InFlight()}
}

// InFlight returns how many mini-batches of training are on their way to the device at once, each with page-locked copies of
// its arrays: 4 of one that is Async, else 1.
func (i Info) InFlight() int {
	if i.Async {
		return 4
	}
	return 1
}

// Bound limits the arena, see [Arena.Bound].
func (p *Pipeline) Bound(most int64) { p.arena.Bound(most) }

// Arena is that of the mini-batch that is issued now.
func (p *Pipeline) Arena() *Arena { return p.arena }

// Issued says that a mini-batch is issued whole, and resets the arena. done is called once, here or in a later call, when the mini-batch
// is over: with what failed of it, or nil when what it downloaded is there. What done returns ends the call, and no mini-batch issued
// after that one is looked at. ctx does not end a wait: a mini-batch that was begun is finished.
func (p *Pipeline) Issued(ctx context.Context, done func(error) error) error {
	p.flying = append(p.flying, flight{p.queue.Mark(), done})
	if err := p.arena.Reset(); err != nil {
		p.queue.Fail(err)
	}
	most := len(p.flying)
	if most >= p.most {
		most = p.most / 2
	}
	for over := 0; most > 0 && p.flying[over].mark.Passed(); over++ {
		most = min(most, len(p.flying)-over-1)
	}
	return p.until(ctx, most)
}

// Drain waits for all mini-batches: afterwards the device's state is that after the last one.
func (p *Pipeline) Drain(ctx context.Context) error { return p.until(ctx, 0) }

// until waits until no more than most mini-batches are in flight.
func (p *Pipeline) until(ctx context.Context, most int) error {
	ctx = context.WithoutCancel(ctx)
	if over := len(p.flying) - most; over > 0 {
		if last := p.flying[over-1].mark; !last.Passed() {
			p.spent.Waits++
			_ = last.Wait(ctx) // it fails below, where its turn comes
		}
	}
	for len(p.flying) > most {
		f := p.flying[0]
		p.flying = append(p.flying[:0], p.flying[1:]...)
		err := f.mark.Wait(ctx)
		if err == nil {
			p.spent.Took += f.mark.Took()
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

// Spent is what the mini-batches came to so far.
func (p *Pipeline) Spent() Spent { return p.spent }

// DeviceTimes is how a device spent a part of a run, as far as this process trained it. All are 0 where operations run as they
// are issued.
type DeviceTimes struct {
	// DeviceSeconds is the device's time at mini-batches, from each one's first operation to its last.
	DeviceSeconds float64 `json:"device_seconds,omitempty"`
	// DeviceIdleSeconds is the rest: it waited for the disk, samples, copies, or a step's first mini-batch.
	DeviceIdleSeconds float64 `json:"device_idle_seconds,omitempty"`
	// DeviceCopySeconds is its time at copies of whole partitions, which run beside both.
	DeviceCopySeconds float64 `json:"device_copy_seconds,omitempty"`
	// DeviceSampleSeconds is its time at drawing mini-batches, beside training, where it does that.
	DeviceSampleSeconds float64 `json:"device_sample_seconds,omitempty"`
	// DeviceBlockBytes is what mini-batches took to a device of its own memory beside features: their blocks, or, where it draws them,
	// neighbour lists and seeds.
	DeviceBlockBytes int64 `json:"device_block_bytes,omitempty"`
	// DeviceWaits is how often the host waited for the device: for room for another mini-batch, or at a step's end for the
	// last ones, or for how large one became that it draws.
	DeviceWaits int64 `json:"device_waits,omitempty"`
	// ReplayedBatches are the mini-batches that were run by one call of the host, by recordings of ReplayShapes shapes.
	ReplayedBatches int64 `json:"replayed_batches,omitempty"`
	ReplayShapes    int   `json:"replay_shapes,omitempty"`
	// RecordError is why the last recording that failed did: its mini-batch was issued operation by operation.
	RecordError string `json:"record_error,omitempty"`
}

// Times is how the device spent so many seconds, at whose beginning Spent was so much; copies apart.
func (p *Pipeline) Times(seconds float64, was Spent) (t DeviceTimes) {
	if p.most > 1 {
		t.DeviceSeconds = (p.spent.Took - was.Took).Seconds()
		t.DeviceIdleSeconds = max(0, seconds-t.DeviceSeconds)
		t.DeviceWaits = p.spent.Waits - was.Waits
	}
	return t
}

// Close frees the arena. The queue must have been synced.
func (p *Pipeline) Close() error { return p.arena.Close() }
