package train

import (
	"context"
	"errors"
	"time"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// Trainer trains a model on macro-batches that its caller brings, for those who
// iterate themselves: benchmarks, and programs with a loop of their own. It is for one goroutine.
type Trainer struct {
	t   *trainer
	cfg Config
	sum progress.Counts
}

// NewTrainer makes a model for feature rows of in elements and the given
// number of classes on dev, which stays the caller's. Of cfg only what concerns model, sampling
// and optimiser counts; models of relations are not for it.
func NewTrainer(ctx context.Context, dev gpu.Device, cfg Config, in, classes int) (*Trainer, error) {
	if err := cfg.Normalize(); err != nil {
		return nil, err
	}
	r := &Trainer{cfg: cfg}
	var err error
	r.t, err = newTrainer(ctx, dev, &r.cfg, shape{in: in, classes: classes}, &DevicePlan{})
	return r, err
}

// MacroBatch trains all seeds of mb, as often as its step says; where that is open, once.
func (r *Trainer) MacroBatch(ctx context.Context, epoch int, mb *buffer.MacroBatch) error {
	return r.t.macroBatch(ctx, epoch, mb, &passes{ready: func() bool { return true }}, progress.Place{}, &r.sum, func(progress.Place) error { return nil })
}

// Step takes one optimiser step on each of some batches of mb that were sampled elsewhere.
func (r *Trainer) Step(ctx context.Context, mb *buffer.MacroBatch, batches ...*mini.Batch) error {
	tables, release, err := r.t.tables(mb)
	if err != nil {
		return err
	}
	defer release()
	for _, b := range batches {
		if err := r.t.batch(ctx, mb, tables, b, &r.sum); err != nil {
			return errors.Join(err, r.t.pipe.Drain(ctx))
		}
	}
	return errors.Join(r.t.pipe.Drain(ctx), r.t.replay.Settle())
}

// DeviceTime returns how long the device was at the steps so far, from each one's first operation to its last.
func (r *Trainer) DeviceTime() time.Duration { return r.t.pipe.Spent().Took }

// Batches returns the number of optimiser steps so far.
func (r *Trainer) Batches() int64 { return r.sum.Batches }

// Loss returns the mean loss over all examples so far; 0 before the first.
func (r *Trainer) Loss() float64 { return r.sum.Loss / float64(max(1, r.sum.Examples)) }

// Profile returns where the time went so far.
func (r *Trainer) Profile() progress.Profile { return r.sum.Profile }

// Close frees the model.
func (r *Trainer) Close() error { return r.t.close() }
