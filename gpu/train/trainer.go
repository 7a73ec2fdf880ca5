package train

import (
	"context"
	"errors"
	"time"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/feed"
	"github.com/gstore/gstore/gpu/train/ondevice"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// Trainer trains a model on macro-batches that its caller brings, for those who
// iterate themselves: benchmarks, and programs with a loop of their own. It is for one goroutine.
type Trainer struct {
	t   *trainer
	cfg config.Config
	sum progress.Counts
}

// NewTrainer makes a model for feature rows of in elements and the given
// number of classes on dev, which stays the caller's. Of cfg only what concerns model, sampling
// and optimiser counts; models of relations are not for it.
func NewTrainer(ctx context.Context, dev gpu.Device, cfg config.Config, in, classes int) (*Trainer, error) {
	if err := cfg.Normalize(); err != nil {
		return nil, err
	}
	r := &Trainer{cfg: cfg}
	var err error
	r.t, err = newTrainer(ctx, dev, &r.cfg, config.Shape{In: in, Classes: classes}, &ondevice.Plan{})
	return r, err
}

// MacroBatch trains all seeds of mb, as often as its step says; where that is open, once.
func (r *Trainer) MacroBatch(ctx context.Context, epoch int, mb *buffer.MacroBatch) error {
	b, err := r.t.enter(ctx, epoch, mb, &feed.Passes{Ready: func() bool { return true }}, progress.Place{})
	if err != nil {
		return err
	}
	return run.Step(ctx, b, &r.sum, func(progress.Place) error { return nil })
}

// Step takes one optimiser step on each of some batches of mb that were sampled elsewhere.
func (r *Trainer) Step(ctx context.Context, mb *buffer.MacroBatch, batches ...*mini.Batch) error {
	err := r.t.rowStage.enter(mb, 0, 0)
	for _, b := range batches {
		if err == nil {
			err = r.t.batch(ctx, mb, b, &r.sum)
		}
	}
	return r.t.rowStage.leave(ctx, errors.Join(err, r.t.pipe.Drain(ctx), r.t.issuer.settle()))
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
