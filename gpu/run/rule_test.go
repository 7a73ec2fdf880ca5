package run_test

import (
	"testing"

	"github.com/gstore/gstore/gpu/run"
)

// TestDue: every so many epochs are validated, and the last one, which a number of epochs says or the limit of a run that has none.
func TestDue(t *testing.T) {
	for name, c := range map[string]struct {
		rule run.Rule
		due  []int
		not  []int
	}{
		"each":      {run.Rule{Epochs: 3, EvalEvery: 1}, []int{1, 2, 3}, nil},
		"last too":  {run.Rule{Epochs: 5, EvalEvery: 3}, []int{3, 5}, []int{1, 2, 4}},
		"no number": {run.Rule{EvalEvery: 7}, []int{7, 14, run.EpochsMax}, []int{1, 6, 8, run.EpochsMax - 1}},
		"blind":     {run.Rule{EvalEvery: 9, Blind: true}, []int{9, run.EpochsBlind}, []int{1, run.EpochsBlind - 2}},
	} {
		for _, epoch := range c.due {
			if !c.rule.Due(epoch) {
				t.Errorf("%s: epoch %d is not validated", name, epoch)
			}
		}
		for _, epoch := range c.not {
			if c.rule.Due(epoch) {
				t.Errorf("%s: epoch %d is validated", name, epoch)
			}
		}
	}
}

// TestMore: a run of so many epochs ends with them; one without a number when validation has not improved for so long, not before the
// least, and only where it validates.
func TestMore(t *testing.T) {
	for name, c := range map[string]struct {
		rule run.Rule
		last int // epoch: there is more after the one before it, and no more after it
	}{
		"number":      {run.Rule{Epochs: 4, EvalEvery: 1, Best: 1, Patience: 1}, 4},
		"patience":    {run.Rule{EvalEvery: 1, Best: 5, Patience: 3}, 8},
		"validation":  {run.Rule{EvalEvery: 5, Best: 5, Patience: 3}, 10},
		"least":       {run.Rule{EvalEvery: 1, Best: 1, Patience: 2, Least: 20}, 20},
		"no best yet": {run.Rule{EvalEvery: 1, Patience: 3}, run.EpochsMax},
		"blind":       {run.Rule{EvalEvery: 1, Best: 1, Patience: 3, Blind: true}, run.EpochsBlind},
	} {
		if !c.rule.More(c.last-1) || c.rule.More(c.last) {
			t.Errorf("%s: more after %d %v, after %d %v, expected the end there", name, c.last-1, c.rule.More(c.last-1), c.last, c.rule.More(c.last))
		}
		if c.rule.Enough = true; c.rule.More(1) {
			t.Errorf("%s: more than enough", name)
		}
	}
}
