package feed

import (
	"fmt"

	"github.com/gstore/gstore/store/buffer"
)

// Passes decides how often each macro-batch is trained (HANOI, thesis section 4.2). A fixed
// number is the plan's. With [macro.ReuseAuto] a macro-batch is trained again as long as the next one is
// not in memory, at most [macro.ReuseMax] times more: passes then depend on timing, so they are recorded,
// and a run given the record repeats it.
type Passes struct {
	Replay [][]int     // by epoch and step; nil: none
	Ready  func() bool // whether the next macro-batch is in memory
	Taken  []int       // of the epoch's steps, where the plan leaves it open
}

// more reports whether a step gets another pass after done ones, at least one.
func (p *Passes) more(epoch, step int, s *buffer.Step, done int) bool {
	switch {
	case done == 0:
		return true
	case done >= max(1, s.Passes):
		return false
	case !s.WhilePending:
		return true
	case p.Replay != nil:
		return done < p.Replay[epoch][step]
	}
	return !p.Ready()
}

// begin starts an epoch.
func (p *Passes) begin(epoch int, plan *buffer.Plan) error {
	p.Taken = nil
	if p.Replay != nil && len(p.Replay[epoch]) != len(plan.Steps) {
		return fmt.Errorf("train: epoch %d: passes of %d steps are recorded, the plan has %d: the record is of another store, seed or memory budget", epoch+1, len(p.Replay[epoch]), len(plan.Steps))
	}
	return nil
}

// done records a step's passes.
func (p *Passes) done(s *buffer.Step, n int) {
	if s.WhilePending {
		p.Taken = append(p.Taken, n)
	}
}
