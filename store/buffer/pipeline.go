package buffer

import (
	"context"
	"slices"
	"sync"
)

// pipeline is what the caller, the readers and the assembler know of each
// other's progress. Steps pass every stage in order, so each stage is one
// number: how many steps it has finished.
//
//	read topology ─ staged ─► assemble ─ assembled ─┐
//	read columns  ─ loaded ──────────────────────── ready ─► train ─ released
//
// Where there is a table, its writer frees slots for the columns' reader: released ─► write back ─ freed.
// Staging, adjacencies and slots free up as a later stage passes; a stage
// whose target is in use waits for that. That is all back-pressure there is.
type pipeline struct {
	mu   sync.Mutex
	cond *sync.Cond

	queue     []*scheduled // not yet released, ascending seq
	staged    int64        // topology is in the staging area
	assembled int64        // staging may be overwritten
	loaded    int64        // columns are in their slots
	freed     int64        // with a table: loads, counted over all steps, whose slots are written back
	cleared   int64        // with a table: steps all of whose loads are freed
	ready     int64
	released  int64
	seedCount map[int64]int
	plans     map[int64]*topologyPlan

	err     error
	stopped bool
	cancel  context.CancelFunc
	unwatch func() bool
}

func newPipeline() *pipeline {
	p := &pipeline{seedCount: map[int64]int{}, plans: map[int64]*topologyPlan{}}
	p.cond = sync.NewCond(&p.mu)
	return p
}

// open starts a run under ctx; cancel ends it.
func (p *pipeline) open(ctx context.Context, cancel context.CancelFunc) {
	p.cancel = cancel
	p.unwatch = context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stopped = true
		p.cond.Broadcast()
	})
}

// stop makes every wait return false.
func (p *pipeline) stop() {
	p.mu.Lock()
	p.stopped = true
	p.cond.Broadcast()
	p.mu.Unlock()
	if p.cancel != nil {
		p.cancel()
		p.unwatch()
	}
}

// finish records how a goroutine ended.
func (p *pipeline) finish(err error) {
	p.mu.Lock()
	if p.err == nil && !p.stopped {
		p.err = err
	}
	p.cond.Broadcast()
	p.mu.Unlock()
	if err != nil {
		p.cancel()
	}
}

func (p *pipeline) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// wait blocks until ok holds (called with the lock held); false if the run ended before.
func (p *pipeline) wait(ok func() bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !ok() {
		if p.stopped || p.err != nil {
			return false
		}
		p.cond.Wait()
	}
	return true
}

// advance moves a counter on and wakes those who wait for it.
func (p *pipeline) advance(counter *int64, to int64) {
	p.mu.Lock()
	*counter = to
	p.cond.Broadcast()
	p.mu.Unlock()
}

func (p *pipeline) push(steps []*scheduled) {
	p.mu.Lock()
	p.queue = append(p.queue, steps...)
	p.cond.Broadcast()
	p.mu.Unlock()
}

// step waits for the step numbered seq to be scheduled; nil if the run ended.
func (p *pipeline) step(seq int64) *scheduled {
	var s *scheduled
	p.wait(func() bool {
		if n := len(p.queue); n > 0 && p.queue[n-1].seq >= seq {
			s = p.queue[seq-p.queue[0].seq]
		}
		return s != nil
	})
	return s
}

// epochSteps returns the queued steps of an epoch.
func (p *pipeline) epochSteps(epoch int) []*scheduled {
	p.mu.Lock()
	defer p.mu.Unlock()
	var steps []*scheduled
	for _, s := range p.queue {
		if s.epoch == epoch {
			steps = append(steps, s)
		}
	}
	return steps
}

func (p *pipeline) waitReady(seq int64) bool {
	return p.wait(func() bool { return p.ready > seq })
}

// release says that the caller is done with all steps up to seq.
func (p *pipeline) release(seq int64) {
	p.mu.Lock()
	p.released = seq + 1
	for len(p.queue) > 0 && p.queue[0].seq <= seq {
		delete(p.seedCount, p.queue[0].seq)
		p.queue = p.queue[1:]
	}
	p.cond.Broadcast()
	p.mu.Unlock()
}

// drop empties the queue and returns what was in it but not wholly loaded.
func (p *pipeline) drop() []*scheduled {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := slices.DeleteFunc(p.queue, func(s *scheduled) bool { return s.seq < p.loaded })
	p.queue = nil
	return q
}

func (p *pipeline) seeds(seq int64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seedCount[seq]
}

func (p *pipeline) setPlan(seq int64, t *topologyPlan) {
	p.mu.Lock()
	p.plans[seq] = t
	p.mu.Unlock()
}

func (p *pipeline) takePlan(seq int64) *topologyPlan {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.plans[seq]
	delete(p.plans, seq)
	return t
}
