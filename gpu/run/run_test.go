package run_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/store"
)

// average trains a number towards the numbers of its examples: epochs of three steps, of four, none and five mini-batches, two of which
// make an optimiser step.
type average struct {
	rule   *run.Rule
	value  float64
	sum    float64 // of the mini-batches of an optimiser step
	kept   []kept
	told   []int // epochs
	worst  int   // the epoch that diverges
	steps  int   // of the epoch that were returned
	losses []float64
}

// kept is a checkpoint.
type kept struct {
	at    run.Position
	value float64
}

func (a *average) Begin(_ context.Context, x *run.Epoch) error {
	a.steps = x.From.Step
	x.Moved = func(t *progress.Totals) { t.BytesRead += int64(a.steps - x.From.Step) }
	return nil
}

func (a *average) Step(_ context.Context, x *run.Epoch) (run.Batches, error) {
	if !x.Wait(func() bool { return a.steps < 3 }) {
		return nil, nil
	}
	a.steps++
	return &batches{average: a, epoch: x.Number, step: a.steps - 1, at: x.From.Batch - 1, of: []int{4, 0, 5}[a.steps-1]}, nil
}

func (a *average) Trained(x *run.Epoch) { a.losses = append(a.losses, x.Loss()) }

func (a *average) Validate(_ context.Context, x *run.Epoch) error {
	if x.Number+1 == a.worst {
		return run.ErrDiverged
	}
	if a.rule.Best == 0 || x.Number < 3 { // it improves for three epochs
		a.rule.Best = x.Number + 1
	}
	return nil
}

func (a *average) Checkpoint(_ context.Context, at run.Position) error {
	a.kept = append(a.kept, kept{at, a.value})
	return nil
}

func (a *average) Report(x *run.Epoch) { a.told = append(a.told, x.Number+1) }
func (a *average) Torn() bool          { return false }

type batches struct {
	*average
	epoch, step, at, of int
}

func (b *batches) Next() (bool, error) { b.at++; return b.at < b.of, nil }

func (b *batches) Train(_ context.Context, sum *progress.Counts) error {
	if b.at%2 == 0 {
		b.sum = 0
	}
	example := float64(b.epoch*100 + b.step*10 + b.at)
	b.sum += example - b.value
	if _, whole := b.Place(); whole {
		b.value += .1 * b.sum
	}
	sum.Loss += (example - b.value) * (example - b.value)
	sum.Examples++
	sum.Batches++
	return nil
}

func (b *batches) Place() (progress.Place, bool) {
	return progress.Place{Step: b.step, Batch: b.at + 1}, b.at%2 == 1 || b.at+1 == b.of
}

func (b *batches) Settle(context.Context) error             { return nil }
func (b *batches) Leave(_ context.Context, err error) error { return err }
func newRun(t *testing.T, a *average, every progress.Interval) *run.Run {
	dev := host.New(host.Options{Threads: 1})
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	p := gpu.NewPipeline(q)
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), q.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
	})
	r := &run.Run{Task: a, Rule: run.Rule{Epochs: 2, EvalEvery: 1}, Clock: progress.NewClock(every), Pipeline: p, Where: "a file", Empty: "no numbers"}
	a.rule = &r.Rule
	return r
}

// TestRunGoesOnFromAnyMiniBatch: a run that its context ends behind any mini-batch, and that goes on from the checkpoint made then, ends
// with the value, the losses and the counts of one that was left alone.
func TestRunGoesOnFromAnyMiniBatch(t *testing.T) {
	whole := &average{}
	if err := newRun(t, whole, progress.Interval{}).Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(whole.kept) != 1 || whole.kept[0].at.Epoch != 2 || fmt.Sprint(whole.told) != "[1 2]" {
		t.Fatalf("a run without interruption kept %+v, told %v", whole.kept, whole.told)
	}
	for stop := 1; stop <= 10; stop++ { // optimiser steps: 2 and 3 an epoch
		ctx, cancel := context.WithCancel(t.Context())
		first, seen := &average{}, 0
		r := newRun(t, first, progress.Interval{})
		r.Batch = func(int, int64) {
			if seen++; seen == stop {
				cancel()
			}
		}
		err := r.Train(ctx)
		cancel()
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "--resume goes on there (a file)") || len(first.kept) == 0 {
			t.Fatalf("interrupted after %d: %v, kept %+v", stop, err, first.kept)
		}
		last := first.kept[len(first.kept)-1]
		second := &average{value: last.value}
		r = newRun(t, second, progress.Interval{})
		r.From = last.at
		if err := r.Train(t.Context()); err != nil {
			t.Fatal(err)
		}
		losses := append(first.losses[:len(whole.losses)-len(second.losses)], second.losses...)
		if second.value != whole.value || fmt.Sprint(losses) != fmt.Sprint(whole.losses) {
			t.Errorf("interrupted after %d: value %v and losses %v, expected %v and %v", stop, second.value, losses, whole.value, whole.losses)
		}
	}
}

// TestRunStopsAndKeeps: where the run ends without a number of epochs, what a divergence leaves, when checkpoints are made, and what is said of
// a run that cannot be resumed where it is.
func TestRunStopsAndKeeps(t *testing.T) {
	a := &average{}
	r := newRun(t, a, progress.Interval{Batches: 2})
	r.Rule = run.Rule{Patience: 4, EvalEvery: 2}
	if err := r.Train(t.Context()); err != nil || len(a.told) != 8 { // the best is epoch 3; 7 is not validated
		t.Errorf("%v: told of epochs %v, expected 8", err, a.told)
	}
	if at := a.kept[0].at; at.Place.Batch == 0 || at.Totals.Batches == 0 || at.Epoch != 0 {
		t.Errorf("the first checkpoint is at %+v, expected one in the first epoch", at)
	}
	keeps := &average{}
	r = newRun(t, keeps, progress.Interval{})
	r.Rule, r.KeepBest = run.Rule{Epochs: 6, EvalEvery: 1}, true
	if err := r.Train(t.Context()); err != nil || len(keeps.kept) != 4 || keeps.kept[2].at.Epoch != 3 || keeps.kept[3].at.Epoch != 6 {
		t.Errorf("%v: kept %+v, expected the three best epochs and the last one", err, keeps.kept)
	}
	bad := &average{worst: 2}
	r = newRun(t, bad, progress.Interval{})
	if err := r.Train(t.Context()); err != nil || r.Diverged != 2 || len(bad.told) != 1 {
		t.Errorf("the second epoch diverges: %v, diverged %d, told of %v", err, r.Diverged, bad.told)
	}
	bad = &average{worst: 1}
	if err := newRun(t, bad, progress.Interval{}).Train(t.Context()); !errors.Is(err, run.ErrDiverged) {
		t.Errorf("the first epoch diverges: %v", err)
	}
	for _, c := range []struct {
		change func(*run.Run)
		want   string
	}{{func(r *run.Run) { r.Where = "" }, "without a file of checkpoints"}, {func(r *run.Run) { r.Between = "numbers are added" }, "as numbers are added"}} {
		ctx, cancel := context.WithCancel(t.Context())
		a := &average{}
		r := newRun(t, a, progress.Interval{Batches: 1})
		c.change(r)
		r.Batch = func(int, int64) { cancel() }
		if err := r.Train(ctx); err == nil || !strings.Contains(err.Error(), c.want) || len(a.kept) > 0 {
			t.Errorf("%v, kept %+v; expected %q and nothing kept", err, a.kept, c.want)
		}
	}
	r = newRun(t, &average{}, progress.Interval{})
	r.From.Place = progress.Place{Step: 3}
	if err := r.Train(t.Context()); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "no numbers") {
		t.Errorf("an epoch without examples: %v", err)
	}
}
