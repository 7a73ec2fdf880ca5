package run

const (
	// EpochsMax ends a run that has no number of epochs and whose validation goes on improving.
	EpochsMax = 1000
	// EpochsBlind is how many epochs a run has that has no number and nothing to validate with.
	EpochsBlind = 100
)

// Rule says when a run ends.
type Rule struct {
	Epochs    int  // after so many; 0: once validation has not improved for Patience epochs
	Patience  int  // of a run without a number of epochs
	Least     int  // epochs of a run without a number that are trained whatever validation says
	EvalEvery int  // epochs from one validation to the next
	Best      int  // the best epoch so far, from 1; 0: none yet, or the task keeps the last one. It is the task's
	Fell      int  // the epoch of the least validation loss so far, of a task that waits for that too; else 0. It is the task's
	Blind     bool // there is nothing to validate with. It is the task's
	Enough    bool // no other epoch is wanted, whatever follows from the rest. It is the task's
}

// Limit is the number of epochs after which the run ends whatever its validations say.
func (r *Rule) Limit() int {
	switch {
	case r.Epochs > 0:
		return r.Epochs
	case r.Blind:
		return EpochsBlind
	}
	return EpochsMax
}

// More reports whether another epoch follows after so many. A run without a number of epochs ends where the best validation, and the least
// loss, lie Patience epochs back, or with the next validation after that.
func (r *Rule) More(epochs int) bool {
	if r.Enough {
		return false
	}
	if r.Epochs == 0 && !r.Blind && r.Best > 0 && epochs >= r.Least && epochs-max(r.Best, r.Fell) >= r.Patience && epochs%r.EvalEvery == 0 {
		return false
	}
	return epochs < r.Limit()
}

// Due reports whether an epoch, counted from 1, is validated: every EvalEvery epochs, and the last one.
func (r *Rule) Due(epoch int) bool { return epoch%r.EvalEvery == 0 || epoch == r.Limit() }
