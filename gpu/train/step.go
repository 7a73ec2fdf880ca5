package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/replay"
	"github.com/gstore/gstore/gpu/sampling"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/feed"
	"github.com/gstore/gstore/gpu/train/history"
	"github.com/gstore/gstore/gpu/train/ondevice"
	"github.com/gstore/gstore/gpu/train/sparse"
	"github.com/gstore/gstore/gpu/vectors"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// trainer trains a model on macro-batches. It owns the queue, the model, the
// batches and the arenas of their tensors.
type trainer struct {
	cfg     *config.Config
	queue   *gpu.Queue
	pipe    *gpu.Pipeline
	model   *nn.Model
	batches *feed.Batches
	key     keyed.Key
	adam    gpu.AdamOptions // of the epoch in hand
	labels  []int32         // room for a mini-batch's
	graphs  []gpu.Graph     // likewise
	parts
	sets  *nn.LabelSets     // nil: a node has one label at most
	draws *sampling.Sampler // of the device; nil: the host draws

	// The stages of a mini-batch, see [minibatch].
	drawer    drawer
	rowStage  rowStage
	memory    *memoryRows // of rowStage
	completer completer
	issuer    issuer
	updater   updater
	replay    *replay.Steps // recordings, nil where none are made

	relations    int           // of the store
	degrees      degreeCounter // of a macro-batch's nodes
	blockBytes   int64         // crossed to a device of its own memory for blocks that the host drew
	copied       time.Duration // the device's, for the copies of whole partitions
	featureBytes int64         // the most that feature rows of a macro-batch's partitions took
	// stepping is true while, and after an error in, a mini-batch's step: the parameters may be half of one, or ahead of
	// the epoch's counts.
	stepping bool
	// choices is how layers are computed, once the first mini-batch was measured; chosen, if
	// not nil, is told.
	choices []nn.Choice
	chosen  func([]nn.Choice)
}

// parts are what a run's stages work with beside the model; nil where it has none.
type parts struct {
	sparse  *sparse.Table      // the feature, where it is mostly 0 and read by what is not
	feed    *feed.Feeder       // reads the rows of mini-batches, in plan rows
	history history.Set        // what nodes outside memory contribute
	vectors *vectors.Resident  // those learned of nodes that lie in a table
	shift   *feed.LabelShift   // corrects the loss for the step's mixture of classes
	weights *feed.ClassWeights // weighs the loss by class
	rows    *ondevice.Rows     // feature rows that the device keeps
	probe   *probe             // of [Checkpoint.AggregateErrors]
}

// newTrainer makes the trainer of a model whose device is told of batches ahead, or draws them, as plan says.
func newTrainer(ctx context.Context, dev gpu.Device, cfg *config.Config, s config.Shape, plan *ondevice.Plan) (_ *trainer, err error) {
	t := &trainer{cfg: cfg, key: keyed.New(cfg.Seed), relations: s.Relations,
		adam: gpu.AdamOptions{LR: float32(cfg.LR), Beta1: .9, Beta2: .999, Epsilon: 1e-8, WeightDecay: float32(cfg.DecayUsed())}}
	if t.queue, err = gpu.NewQueue(dev); err != nil {
		return nil, err
	}
	t.pipe = gpu.NewPipeline(t.queue)
	if t.model, err = nn.New(ctx, t.queue, cfg.ModelConfig(s)); err == nil {
		if c := t.model.Config(); cfg.Unrecorded(&c) == "" {
			t.replay = replay.New(t.queue)
		}
		if cfg.Accumulate > 1 {
			err = t.model.Params().OpenSums()
		}
	}
	if err == nil {
		t.sets, err = nn.OpenLabelSets(ctx, t.queue, s.Sets.Words())
	}
	if err == nil && plan.Draw == nil {
		t.batches, err = feed.NewBatches(cfg, t.model.Hops(), s.Sampling, s.Degree, max(1, cfg.Threads-1), plan.Cache.Window)
	} else if err == nil {
		if t.draws, err = sampling.New(dev, *plan.Draw); err == nil {
			t.batches, err = feed.BatchesBy(cfg, mini.Config{}, 1, sampling.Ahead) // of seeds alone
		}
	}
	if err != nil {
		_ = t.close()
		return nil, err
	}
	t.choose()
	return t, nil
}

// choose chooses the implementation of each stage by t.parts, once a run is planned. It is called again only where the device gives up what
// it keeps ([session.evaluate]).
func (t *trainer) choose() {
	c := t.model.Config()
	var groupers []nn.Grouper
	if c.Relations > 0 {
		groupers = c.Groupers(t.model.Hops())
	}
	t.memory = &memoryRows{t: t}
	t.drawer, t.rowStage = newHostDraw(t, groupers), t.memory
	switch {
	case t.draws != nil:
		drawn := &drawnRows{memoryRows{t: t}}
		t.drawer, t.rowStage, t.memory = &deviceDraw{t, t.draws}, drawn, &drawn.memoryRows
	case t.sparse != nil:
		held := &sparseRows{memoryRows: memoryRows{t: t}, table: t.sparse}
		t.rowStage, t.memory = held, &held.memoryRows
	case t.feed != nil:
		read := &fedRows{memoryRows: memoryRows{t: t}, feed: t.feed}
		t.rowStage, t.memory = read, &read.memoryRows
	}
	if c.NodeTypes > 0 {
		t.rowStage = &typedRows{rowStage: t.rowStage, of: t.memory}
	}
	t.completer = nothing{}
	if len(t.history) > 0 {
		t.completer = newHistories(t, t.history, groupers)
	}
	if t.probe != nil {
		t.completer = &probed{t.completer, t.probe}
	}
	step := each{t.model.Params(), &t.adam}
	t.updater = &step
	if t.cfg.Accumulate > 1 {
		t.updater = &accumulated{each: step}
	}
	if t.vectors != nil {
		t.rowStage = &tableRows{t.rowStage, t, t.vectors}
		t.updater = &stepVectors{t.updater, t, t.vectors}
	}
	t.issuer = &ordering{direct{t}}
	if t.choices != nil {
		t.ordered(t.choices)
	}
}

// ordered says how layers are computed, after which mini-batches can be recorded: orders depend on sizes.
func (t *trainer) ordered(choices []nn.Choice) {
	if t.choices == nil && t.chosen != nil {
		t.chosen(choices)
	}
	t.choices, t.issuer = choices, direct{t}
	if t.replay != nil {
		t.issuer = &recorded{direct: direct{t}, steps: t.replay}
	}
}

func (t *trainer) close() error {
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if t.batches != nil {
		keep(t.batches.Loader.Close())
	}
	if t.model != nil {
		keep(t.model.Close())
	}
	keep(t.sets.Close())
	keep(t.draws.Close())
	keep(t.rows.Close())
	keep(t.pipe.Close())
	keep(t.queue.Close())
	return first
}

// keepNothing gives up the rows that the device keeps, so that the host draws from the next step on.
func (t *trainer) keepNothing(s config.Shape) (err error) {
	if t.draws != nil {
		err = errors.Join(t.draws.Close(), t.batches.Loader.Close())
		if t.draws = nil; err == nil {
			t.batches, err = feed.NewBatches(t.cfg, t.model.Hops(), s.Sampling, s.Degree, max(1, t.cfg.Threads-1), 0)
		}
	}
	err = errors.Join(err, t.rows.Close())
	t.rows = nil
	t.choose()
	return err
}

// step is the mini-batches of a macro-batch. It implements [run.Batches].
type step struct {
	*trainer
	ctx context.Context // of mini-batches
	mb  *buffer.MacroBatch
}

// enter begins a step of an epoch, counted from 0, at a place in it: as many passes over mb as p says.
func (t *trainer) enter(ctx context.Context, epoch int, mb *buffer.MacroBatch, p *feed.Passes, from progress.Place) (_ *step, err error) {
	s := &step{trainer: t, ctx: ctx, mb: mb}
	defer func() {
		if err != nil {
			err = t.rowStage.leave(ctx, err)
		}
	}()
	if err := t.rowStage.enter(mb, epoch, from.Batch); err != nil {
		return nil, err
	}
	if err := t.completer.enter(mb); err != nil {
		return nil, fmt.Errorf("train: epoch %d, step %d: %w", epoch+1, mb.StepIndex, err)
	}
	if err := t.drawer.enter(ctx, mb); err != nil {
		return nil, err
	}
	t.shift.Enter(mb)
	if t.cfg.Accumulate > 1 { // a step that is begun is finished: Place says where ctx may end it
		s.ctx = context.WithoutCancel(ctx)
	}
	t.batches.Enter(s.ctx, epoch, mb, feed.Neighbours(mb, t.relations, t.model.Config().Relations > t.relations), p, from)
	return s, nil
}

// Next implements [run.Batches].
func (s *step) Next() (bool, error) {
	if s.batches.Next() {
		return true, nil
	}
	return false, s.batches.Loader.Err()
}

// Train implements [run.Batches].
func (s *step) Train(_ context.Context, sum *progress.Counts) error {
	l := s.batches.Loader
	if err := s.rowStage.announce(l); err != nil {
		return err
	}
	return s.batch(s.ctx, s.mb, l.Batch(), sum)
}

// Place implements [run.Batches].
func (s *step) Place() (progress.Place, bool) {
	_, last := s.batches.Within(s.cfg.Accumulate)
	return s.batches.Place(), last
}

// Settle implements [run.Batches].
func (s *step) Settle(ctx context.Context) error { return s.pipe.Drain(ctx) }

// Leave implements [run.Batches].
func (s *step) Leave(ctx context.Context, err error) error {
	defer s.batches.Leave() // after an error too, before the macro-batch is gone
	// What is in flight reads the macro-batch; and a run that ctx ends goes on after the last mini-batch that was issued.
	if failed := s.pipe.Drain(ctx); failed != nil {
		err = failed
	}
	if err == nil {
		err = s.issuer.settle()
	}
	if err == nil {
		err = s.drawer.leave(s.ctx)
	}
	return s.rowStage.leave(ctx, err)
}
