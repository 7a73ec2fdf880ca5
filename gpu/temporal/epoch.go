package temporal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
)

// task trains a model on a graph in memory: an epoch is one step, whose examples are the training edges in an order of their own. It
// implements [run.Task], and [run.Batches] of the step.
type task struct {
	run.InMemory[Config, Summary, Epoch]
	*data
	cfg    *Config
	rule   *run.Rule
	model  *model
	eval   *evaluation
	loader *mini.Loader
	valid  []event
}

// train trains all epochs from where at stands on, goes back to the best one's parameters, tests them and makes them c.
func train(ctx context.Context, dev gpu.Device, o *opened, hooks Hooks, at *unfinished, state []byte, c *Checkpoint) (err error) {
	cfg, d := &at.Config, o.data
	every, err := progress.ParseInterval(cfg.CheckpointEvery)
	if err != nil {
		return err
	}
	t := &task{data: d, cfg: cfg, valid: d.validation(cfg)}
	t.At, t.Hooks = at, hooks
	if t.model, err = newModel(ctx, dev, cfg, d); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.model.close()) }()
	t.Keep = t.model.keep
	t.model.arena.Bound(o.batch)
	if state != nil {
		if err := t.model.goOn(ctx, state); err != nil {
			return err
		}
	}
	if t.eval, err = newEvaluation(d, cfg); err != nil {
		return err
	}
	if t.loader, err = mini.NewLoader(mini.Config{Fanouts: cfg.Fanouts, Sampler: cfg.Sampler, Seed: cfg.Seed}, mini.LoaderOptions{Threads: max(1, cfg.Threads-1)}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.loader.Close()) }()
	sum := &at.Summary
	r := run.Run{Task: t, Rule: run.Rule{Epochs: cfg.Epochs, EvalEvery: 1, Best: sum.BestEpoch}, From: at.Position, Clock: progress.NewClock(every), Where: cfg.CheckpointFile,
		Empty: "no edge trains", Batch: hooks.Batch}
	t.rule = &r.Rule
	if err := r.Train(ctx); err != nil {
		return err
	}
	t.model.params.Restore(t.model.q)
	sum.DivergedEpoch = r.Diverged
	sum.Test, sum.TestRule, err = t.eval.run(ctx, t.model, d.test(cfg), 1, sum.RecallWeight)
	sum.CheckedEdges += t.eval.edges
	if err != nil {
		return err
	}
	return t.model.checkpoint(ctx, d, c)
}

// Begin implements [run.Task].
func (t *task) Begin(_ context.Context, x *run.Epoch) error {
	t.Fresh(Epoch{Epoch: x.Number + 1})
	t.eval.edges = 0
	return nil
}

// Step implements [run.Task].
func (t *task) Step(ctx context.Context, x *run.Epoch) (run.Batches, error) {
	if !t.Once() {
		return nil, nil
	}
	key, epoch := keyed.New(t.cfg.Seed).With(placeOrder), uint64(x.Number)
	order := keyed.NewPermutation(key.With(2).With(epoch), uint64(t.data.train))
	s := &source{d: t.data, events: t.events[:t.data.train], order: &order, size: t.cfg.BatchSize, key: key.With(3).With(epoch), wrong: t.cfg.Negatives,
		byDegree: int(t.cfg.DegreeShare * float64(t.cfg.Negatives)), ages: t.cfg.fixedAges(), number: !t.cfg.NoRecency}
	t.loader.Start(ctx, mini.Key{Epoch: x.Number, Batch: x.From.Batch}, mini.Graph{In: t.mb.In, Out: t.mb.Out}, s)
	return t, nil
}

// Next implements [run.Batches].
func (t *task) Next() (bool, error) {
	if t.loader.Next() {
		return true, nil
	}
	if err := t.loader.Err(); err != nil {
		return false, fmt.Errorf("train: %w", err)
	}
	return false, nil
}

// Train implements [run.Batches].
func (t *task) Train(ctx context.Context, sum *progress.Counts) error {
	b := t.loader.Batch()
	return t.Count(b, b.Extra.(*extra).edges, sum, func() (float64, error) { return t.model.step(ctx, b) })
}

// Place implements [run.Batches].
func (t *task) Place() (progress.Place, bool) {
	return progress.Place{Batch: t.loader.Batch().Key.Batch + 1}, true
}

// Leave implements [run.Batches].
func (t *task) Leave(_ context.Context, err error) error {
	t.loader.Stop()
	return err
}

// Trained implements [run.Task].
func (t *task) Trained(x *run.Epoch) {
	r := &t.Record
	r.Loss, r.Seconds, r.Batches, r.SampledEdges = x.Loss(), x.Trained.Seconds, int(x.Counts.Batches), x.Counts.Edges
}

// Validate implements [run.Task]: every epoch is validated, and the one of the highest mean reciprocal rank is the best.
func (t *task) Validate(ctx context.Context, x *run.Epoch) error {
	start, sum, r, m := time.Now(), &t.At.Summary, &t.Record, t.model
	ranks, rule, weight, err := t.eval.choose(ctx, m, t.valid, 0)
	if err != nil {
		return err
	}
	r.Valid, r.ValidSeconds, sum.ValidRule = ranks, time.Since(start).Seconds(), rule
	if sum.BestEpoch == 0 || ranks.MRR > sum.Valid.MRR {
		r.Best, sum.BestEpoch, sum.Valid, sum.RecallWeight, t.rule.Best = true, r.Epoch, ranks, weight, r.Epoch
		m.params.Keep(m.q)
		if err := m.q.Sync(ctx); err != nil {
			return err
		}
	}
	sum.CheckedEdges += r.SampledEdges + t.eval.edges
	sum.EpochSeconds = append(sum.EpochSeconds, r.Seconds)
	t.eval.edges = 0
	return nil
}
