package train

import (
	"fmt"

	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store/buffer"
)

// passes decides how often each macro-batch is trained (HANOI, thesis section 4.2). A fixed
// number is the plan's. With [macro.ReuseAuto] a macro-batch is trained again as long as the next one is
// not in memory, at most [macro.ReuseMax] times more: passes then depend on timing, so they are recorded,
// and a run given the record repeats it.
type passes struct {
	replay [][]int     // by epoch and step; nil: none
	ready  func() bool // whether the next macro-batch is in memory
	taken  []int       // of the epoch's steps, where the plan leaves it open
}

// more reports whether a step gets another pass after done ones, at least one.
func (p *passes) more(epoch, step int, s *buffer.Step, done int) bool {
	switch {
	case done == 0:
		return true
	case done >= max(1, s.Passes):
		return false
	case !s.WhilePending:
		return true
	case p.replay != nil:
		return done < p.replay[epoch][step]
	}
	return !p.ready()
}

// checkPasses says what is wrong with a record for a run of so many epochs.
func checkPasses(replay [][]int, epochs int) error {
	if len(replay) < epochs {
		return fmt.Errorf("train: passes of %d epochs are recorded, the run has %d", len(replay), epochs)
	}
	for e, steps := range replay {
		for s, n := range steps {
			if n < 1 || n > 1+macro.ReuseMax {
				return fmt.Errorf("train: epoch %d, step %d: %d passes are recorded, expected 1 to %d", e+1, s, n, 1+macro.ReuseMax)
			}
		}
	}
	return nil
}

// begin starts an epoch.
func (p *passes) begin(epoch int, plan *buffer.Plan) error {
	p.taken = nil
	if p.replay != nil && len(p.replay[epoch]) != len(plan.Steps) {
		return fmt.Errorf("train: epoch %d: passes of %d steps are recorded, the plan has %d: the record is of another store, seed or memory budget", epoch+1, len(p.replay[epoch]), len(plan.Steps))
	}
	return nil
}

// done records a step's passes.
func (p *passes) done(s *buffer.Step, n int) {
	if s.WhilePending {
		p.taken = append(p.taken, n)
	}
}
