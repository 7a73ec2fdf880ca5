// Package run is the skeleton of a training run, whatever is trained:
//
//	for each epoch
//	    for each step of its plan                 Task.Step, which waits for the step's macro-batch
//	        for each mini-batch                   Batches.Next, Batches.Train
//	            a checkpoint, where one is due    Batches.Settle, Task.Checkpoint
//	    evaluate, keep the best                   Task.Validate
//	    a checkpoint, where one is due            Task.Checkpoint
//	    stop, if the rule says so                 Rule.More
//
// A [Task] says what an example is, how its loss is made, what is validated and what a checkpoint holds. It owns none of these loops: where a
// run goes on that was interrupted, what its epochs count and how long they take, when a checkpoint is due and when the run ends is decided
// here, for nodes, links and edges at moments alike.
//
// A run is for one goroutine.
package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
)

// ErrDiverged marks the end of a run whose loss or parameters are no numbers any more. Where a better epoch was kept, it is the result.
var ErrDiverged = errors.New("the run diverged")

// Task is what a [Run] trains.
type Task interface {
	// Begin begins an epoch: at x.From, whose step comes first. It sets x.Moved.
	Begin(ctx context.Context, x *Epoch) error
	// Step waits, by [Epoch.Wait], for the epoch's next step and returns its mini-batches, from x.From on if it is the first; nil where no
	// step is left.
	Step(ctx context.Context, x *Epoch) (Batches, error)
	// Trained is called once no step is left: x.Trained says what training took.
	Trained(x *Epoch)
	// Validate evaluates the model if it is time, keeps it if it is the best, and counts the epoch in the task's summary.
	Validate(ctx context.Context, x *Epoch) error
	// Checkpoint keeps where the run stands. Nothing is in flight.
	Checkpoint(ctx context.Context, at Position) error
	// Report tells the caller about an epoch that is over, its checkpoint included.
	Report(x *Epoch)
	// Torn reports whether an optimiser step may be half done: no checkpoint can be made then.
	Torn() bool
}

// Batches are the mini-batches of a step.
type Batches interface {
	// Next goes to the next mini-batch; false where there is none.
	Next() (bool, error)
	// Train issues the mini-batch in hand. Its loss is in sum once it is over, at the latest after Settle or Leave.
	Train(ctx context.Context, sum *progress.Counts) error
	// Place is that of the mini-batch after the one in hand. whole is false where an optimiser step is not complete with the latter.
	Place() (next progress.Place, whole bool)
	// Settle waits for all mini-batches that were issued: model and rows are as they left them then.
	Settle(ctx context.Context) error
	// Leave ends the step, also after an error, err: nothing uses its macro-batch any more. Mini-batches that were issued are over. It
	// returns err, or what failed since.
	Leave(ctx context.Context, err error) error
}

// Position is where a run stands: with the model and the optimiser's state, all that it goes on from. Random draws are keyed by seed and
// place, so that the place is their state.
type Position struct {
	Epoch  int             `json:"epoch"` // finished epochs
	Place  progress.Place  `json:"place"` // in the epoch after those
	Totals progress.Totals `json:"totals"`
}

// Within reports whether an epoch is begun, and so of which mini-batches were trained beside the finished ones.
func (p *Position) Within() bool { return p.Totals.Batches > 0 }

// Last is the epoch that was trained last, from 1: the one that is under way, or else the last finished one.
func (p *Position) Last() int {
	if p.Within() {
		return p.Epoch + 1
	}
	return max(p.Epoch, 1)
}

// Run trains a task.
type Run struct {
	Task     Task
	Rule     Rule
	From     Position // where the run begins or goes on
	Clock    *progress.Clock
	Pipeline *gpu.Pipeline // of the task's mini-batches; nil: each is over before the next, and the device's times are not told
	// Where says what --resume goes on from, such as a file's path; empty: the run keeps no checkpoints.
	Where string
	// Between is why the run can only be resumed between epochs, as what comes after "as"; empty: it can within them, too.
	Between string
	// KeepBest has a checkpoint made of each epoch that is the best so far, for the task to go back to.
	KeepBest bool
	// Empty is why an epoch may have no example, for the error that says so.
	Empty string
	Batch func(epoch int, batches int64) // called after each mini-batch, epoch from 0; may be nil

	// Diverged is the epoch, from 1, in which the run diverged while an earlier one's model is the result; 0: none.
	Diverged int
	epoch    *Epoch // in hand
}

// Train trains from r.From on until the rule ends the run. Where ctx ends it, a checkpoint is made and the error says how to go on.
func (r *Run) Train(ctx context.Context) error {
	for e := r.From.Epoch; r.Rule.More(e); e++ {
		err := r.train(ctx, e)
		if errors.Is(err, ErrDiverged) && r.Rule.Best > 0 { // what was good before is the result
			r.Diverged = e + 1
			return nil
		}
		if err != nil {
			return r.interrupted(ctx, err)
		}
		if r.Clock.Epoch(e+1) || !r.Rule.More(e+1) || r.KeepBest && r.Rule.Best == e+1 {
			if err := r.Checkpoint(ctx, Position{Epoch: e + 1}); err != nil {
				return err
			}
		}
		r.Task.Report(r.epoch)
	}
	return nil
}

// train trains and evaluates an epoch, counted from 0, or what is left of it.
func (r *Run) train(ctx context.Context, e int) error {
	x := newEpoch(e, r)
	r.epoch = x
	if err := r.Task.Begin(ctx, x); err != nil {
		return err
	}
	for {
		b, err := r.Task.Step(ctx, x)
		if err != nil {
			return err
		}
		if b == nil {
			break
		}
		after := func(next progress.Place) error { return r.after(ctx, b, next) }
		if err := Step(ctx, b, &x.Counts, after); err != nil {
			return err
		}
		x.Steps, x.From = x.Steps+1, progress.Place{}
	}
	if x.Counts.Examples == 0 {
		return fmt.Errorf("train: epoch %d: %w: %s", e+1, store.ErrNotFound, r.Empty)
	}
	x.Stop()
	x.Trained = x.totals()
	if r.Pipeline != nil {
		x.Times = r.Pipeline.Times(x.Trained.Seconds-x.Was.Seconds, x.spent)
	}
	r.Task.Trained(x)
	return r.Task.Validate(ctx, x)
}

// Step trains the mini-batches of a step and leaves it. after is called with the place of the next mini-batch wherever one can begin.
func Step(ctx context.Context, b Batches, sum *progress.Counts, after func(next progress.Place) error) error {
	return b.Leave(ctx, batches(ctx, b, sum, after))
}

func batches(ctx context.Context, b Batches, sum *progress.Counts, after func(next progress.Place) error) error {
	for {
		start := time.Now()
		if there, err := b.Next(); !there || err != nil {
			return err
		}
		sum.Profile.Sample += time.Since(start)
		if err := b.Train(ctx, sum); err != nil {
			return err
		}
		if next, whole := b.Place(); whole {
			if err := after(next); err != nil {
				return err
			}
		}
	}
}

// after follows a mini-batch: the run may end here, or leave a checkpoint.
func (r *Run) after(ctx context.Context, b Batches, next progress.Place) error {
	x := r.epoch
	x.Next = next
	budget.Mark(ctx, "mini-batch")
	if r.Batch != nil {
		r.Batch(x.Number, x.Counts.Batches)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !r.Clock.Batch() || r.Between != "" || r.Where == "" {
		return nil
	}
	if err := b.Settle(ctx); err != nil {
		return err
	}
	return r.Checkpoint(ctx, x.position())
}

// Checkpoint keeps where the run stands, if it keeps checkpoints.
func (r *Run) Checkpoint(ctx context.Context, at Position) error {
	if r.Where == "" {
		return nil
	}
	err := r.Task.Checkpoint(context.WithoutCancel(ctx), at) // one that is begun is finished: half of one is a run that cannot go on
	r.Clock.Reset()
	return err
}

// interrupted makes a run that ctx ended one to resume from where it is: after its last mini-batch. Any other error, and one in the middle
// of an optimiser step, is returned as it is.
func (r *Run) interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil || r.Task.Torn() || !errors.Is(err, ctx.Err()) {
		return err
	}
	at := r.epoch.position()
	where, batches := fmt.Sprintf("train: interrupted in epoch %d", at.Epoch+1), at.Totals.Batches
	switch {
	case r.Between != "" && batches > 0:
		return fmt.Errorf("%s after %d mini-batches: --resume goes on from the last checkpoint before it (%s), as %s: %w", where, batches, r.Where, r.Between, err)
	case r.Where == "":
		return fmt.Errorf("%s after %d mini-batches, without a file of checkpoints to resume from: %w", where, batches, err)
	}
	if failed := r.Checkpoint(ctx, at); failed != nil {
		return errors.Join(err, failed)
	}
	return progress.Interrupted(err, at.Epoch+1, batches, r.Where)
}
