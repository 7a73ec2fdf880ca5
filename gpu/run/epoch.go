package run

import (
	"time"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/progress"
)

// Epoch is the epoch in hand.
type Epoch struct {
	Number int             // from 0
	Last   bool            // no epoch follows, whatever this one's validation says
	From   progress.Place  // where the step that comes begins: inside only in a resumed run's first epoch
	Was    progress.Totals // what an earlier process had counted of the epoch
	Counts progress.Counts // so far, with Was
	Steps  int             // that are over, with Was
	Next   progress.Place  // of the mini-batch that comes next
	// Moved adds what the task counts of the epoch in this process: bytes, and whatever else only it knows. It is the task's.
	Moved func(t *progress.Totals)
	// Trained is what training took once it is over, and Times how the device spent it.
	Trained progress.Totals
	Times   gpu.DeviceTimes

	start   time.Time
	cpu     float64
	spent   gpu.Spent
	stopped *progress.Totals // the times of training, once that is over
}

func newEpoch(e int, r *Run) *Epoch {
	x := &Epoch{Number: e, Last: r.Rule.Limit() == e+1, Moved: func(*progress.Totals) {}, start: time.Now(), cpu: usage.CPUSeconds()}
	if r.Pipeline != nil {
		x.spent = r.Pipeline.Spent()
	}
	if r.From.Epoch == e {
		x.From, x.Next, x.Was = r.From.Place, r.From.Place, r.From.Totals
		x.Counts, x.Steps = x.Was.Counts(), x.Was.Steps
	}
	return x
}

// Wait waits for the next step, by what next says of it, and counts the time.
func (x *Epoch) Wait(next func() bool) bool {
	at := time.Now()
	there := next()
	x.Counts.Profile.Wait += time.Since(at)
	return there
}

// Stop says that training is over: what follows is no time of it.
func (x *Epoch) Stop() {
	if x.stopped == nil {
		t := x.timed()
		x.stopped = &t
	}
}

func (x *Epoch) timed() progress.Totals {
	t := x.Counts.Totals(&x.Was, x.start, x.Steps)
	t.CPUSeconds = x.Was.CPUSeconds + usage.CPUSeconds() - x.cpu
	return t
}

// totals are the epoch's so far.
func (x *Epoch) totals() progress.Totals {
	t := x.timed()
	if x.stopped != nil {
		t.Seconds, t.CPUSeconds = x.stopped.Seconds, x.stopped.CPUSeconds
	}
	t.BytesRead, t.BytesWritten = x.Was.BytesRead, x.Was.BytesWritten
	x.Moved(&t)
	return t
}

// position is where the run stands.
func (x *Epoch) position() Position {
	return Position{Epoch: x.Number, Place: x.Next, Totals: x.totals()}
}

// Loss is the mean over the epoch's examples.
func (x *Epoch) Loss() float64 { return x.Counts.Loss / float64(x.Counts.Examples) }

// Accuracy is the share of the epoch's examples that were answered right.
func (x *Epoch) Accuracy() float64 { return x.Counts.Correct / float64(x.Counts.Examples) }
