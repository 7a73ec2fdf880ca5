package feed

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// placeShuffle is the place of the random draws (see keyed) that shuffle seeds.
const placeShuffle = 0x73687566 // "shuf"

// MacroBatches is the part of the store's iterator that training uses.
type MacroBatches interface {
	StartAt(plan buffer.Plan, first int) error
	Next() bool
	// NextReady reports whether Next would return without waiting.
	NextReady() bool
	MacroBatch() *buffer.MacroBatch
	Err() error
	// Announce tells the next epoch's plan, so that its first steps are read early.
	Announce(plan buffer.Plan) error
	PredictBytes(plan buffer.Plan) int64
	Stats() buffer.Stats
}

// Plans makes each epoch's plan once: the partition buffer knows the plan that was announced by its steps, which an
// equal plan made again does not share. The last one is kept.
type Plans struct {
	Make func(epoch int) buffer.Plan
	made bool
	at   int // the epoch of last, from 0
	last buffer.Plan
}

// Epoch returns the plan of epoch e, counted from 0.
func (p *Plans) Epoch(e int) buffer.Plan {
	if !p.made || p.at != e {
		p.made, p.at, p.last = true, e, p.Make(e)
	}
	return p.last
}

// StartEpoch begins epoch e, counted from 0, at a step of its plan. announce says that another epoch is to follow.
func StartEpoch(it MacroBatches, plan *Plans, p *Passes, e, step int, announce bool) error {
	now := plan.Epoch(e)
	if err := it.StartAt(now, step); err != nil {
		return fmt.Errorf("train: epoch %d: %w", e+1, err)
	}
	if announce {
		if err := it.Announce(plan.Epoch(e + 1)); err != nil {
			return fmt.Errorf("train: epoch %d: %w", e+2, err)
		}
	}
	return p.begin(e, &now)
}

// Batches yields the mini-batches of macro-batches as training takes them, sampled ahead: pass after pass over a step's seeds,
// each in an order of its own. It is for one goroutine.
type Batches struct {
	Loader     *mini.Loader
	key        keyed.Key                            // of the run
	size       int                                  // seeds a batch, at most
	even       bool                                 // batches of a step are of one size, see [config.Config.evenBatches]
	Sequential bool                                 // seeds are in their order
	Full       bool                                 // full batches alone
	Share      mini.Share                           // of a step's batches: the rank's
	Source     func(*mini.Shuffled) mini.SeedSource // of a pass over its seeds; nil: these themselves

	ctx    context.Context // of the step that was entered, as all below
	epoch  int
	Mb     *buffer.MacroBatch
	graph  mini.Graph
	alone  alone
	passes *Passes
	pass   int
	total  int // mini-batches of the pass
}

// NewBatches makes the batches of a run of cfg, see [config.Config.sampler], which looks so many batches ahead.
func NewBatches(cfg *config.Config, hops int, relations config.RelationSampling, degree float64, threads, ahead int) (*Batches, error) {
	sampler, err := cfg.SamplerConfig(hops, relations, degree)
	if err != nil {
		return nil, err
	}
	if len(sampler.Fanouts) == 0 { // the sampler draws at least one hop; trainer.blocks leaves it
		sampler.Fanouts = []int{1}
	}
	return BatchesBy(cfg, sampler, threads, ahead)
}

// BatchesBy makes batches that a sampler draws.
func BatchesBy(cfg *config.Config, sampler mini.Config, threads, ahead int) (*Batches, error) {
	l, err := mini.NewLoader(sampler, mini.LoaderOptions{Threads: threads, Depth: threads + 2 + ahead})
	if err != nil {
		return nil, err
	}
	return &Batches{Loader: l, key: keyed.New(cfg.Seed), size: cfg.BatchSize, even: cfg.EvenBatches()}, nil
}

// Enter begins a step of an epoch, counted from 0, from a place in it on. mb is in use until leave.
func (b *Batches) Enter(ctx context.Context, epoch int, mb *buffer.MacroBatch, g mini.Graph, p *Passes, from progress.Place) {
	g.In = b.alone.within(mb, g.In)
	b.ctx, b.epoch, b.Mb, b.graph, b.passes, b.pass = ctx, epoch, mb, g, p, from.Pass
	b.start(from.Batch)
}

// start begins a pass at one of its batches.
func (b *Batches) start(batch int) {
	place := b.key.With(placeShuffle).With(uint64(b.epoch)).With(uint64(b.Mb.StepIndex)).With(uint64(b.pass))
	seeds := mini.NewShuffled(place, b.Mb.Seeds, b.size)
	if b.Sequential {
		seeds = mini.NewSequential(b.Mb.Seeds, b.size)
	}
	seeds.Share = b.Share
	seeds.Even, seeds.Full = b.even && !b.Sequential && !b.Full, b.Full
	b.total = seeds.Batches()
	source := mini.SeedSource(seeds)
	if b.Source != nil {
		source = b.Source(seeds)
	}
	b.Loader.Start(b.ctx, mini.Key{Epoch: b.epoch, Step: b.Mb.StepIndex, Pass: b.pass, Batch: seeds.From(batch)}, b.graph, source)
}

// Next goes to the next mini-batch, b.loader.Batch, of the step; false where there is none, or on an error, b.loader.Err.
func (b *Batches) Next() bool {
	for !b.Loader.Next() {
		if b.Loader.Err() != nil {
			return false
		}
		if !b.passes.more(b.epoch, b.Mb.StepIndex, &b.Mb.Step, b.pass+1) {
			b.passes.done(&b.Mb.Step, b.pass+1)
			return false
		}
		b.pass++
		b.start(0)
	}
	return true
}

// Within returns of the mini-batch in hand whether it is the first and the last of those, count of them, that make a step. Each is one
// without b, of batches that come from elsewhere.
func (b *Batches) Within(count int) (first, last bool) {
	if b == nil || count <= 1 {
		return true, true
	}
	at := b.Loader.Batch().Key.Batch
	return at%count == 0, (at+1)%count == 0 || at+1 == b.total
}

// Place is that of the mini-batch after the last one.
func (b *Batches) Place() progress.Place {
	return progress.Place{Step: b.Mb.StepIndex, Pass: b.pass, Batch: b.Loader.Batch().Key.Batch + 1}
}

// Leave ends a step: nothing uses its macro-batch any more.
func (b *Batches) Leave() { b.Loader.Stop() }

// Neighbours is what mini-batches of a store of so many relations are sampled from: a directed graph whose relations are
// told apart in both directions, anything else along its edges.
func Neighbours(mb *buffer.MacroBatch, relations int, inverse bool) mini.Graph {
	if inverse {
		return mini.Graph{In: mb.In, Out: mb.Out, Relations: relations, Keys: mb.Keys}
	}
	return mini.Graph{In: mb.In, Keys: mb.Keys}
}
