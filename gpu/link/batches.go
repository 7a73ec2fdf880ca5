package link

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/sampler/negative"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// batches yields the mini-batches of macro-batches as training takes them, sampled ahead: pass after pass over the edges of a
// step's buckets, each in an order of its own. It is for one goroutine.
type batches struct {
	cfg       *Config
	relations int
	relation  int               // whose edges are trained; −1: all
	types     *eval.AnswerTypes // of answers; nil: any
	loader    *mini.Loader
	negatives *negative.Sampler
	finish    func(mb *buffer.MacroBatch, b *mini.Batch, e *Edges) error // nil: nothing
	places    []place                                                    // of a step's examples: room for the next step's
	share     mini.Share                                                 // of a step's batches: the rank's
	absent    *absent                                                    // what is sampled from beside the macro-batch; nil: it alone

	ctx   context.Context // of the step that was entered, as all below
	epoch int
	mb    *buffer.MacroBatch
	x     *examples
	from  *answers
	graph mini.Graph
	pass  int
}

// newBatches makes the batches of runs of cfg on a store, whose answers are of such types, sampled on so many goroutines, of which so
// many ahead are looked at.
func newBatches(cfg *Config, m *store.Manifest, types *eval.AnswerTypes, threads, ahead int) (b *batches, err error) {
	b = &batches{cfg: cfg, relations: len(m.Schema.Relations), relation: -1, types: types}
	switch r, err := cfg.predicted(m); {
	case err != nil:
		return nil, err
	case r != nil:
		b.relation = int(*r)
	}
	if b.negatives, err = negative.New(negative.Config{Count: cfg.Negatives, Chunks: cfg.Chunks, DegreeShare: cfg.DegreeShare, Seed: cfg.Seed}); err != nil {
		return nil, err
	}
	b.loader, err = mini.NewLoader(mini.Config{Fanouts: cfg.Fanouts, Seed: cfg.Seed}, mini.LoaderOptions{Threads: threads, Depth: threads + 2 + ahead})
	return b, err
}

// enter begins a step of an epoch, counted from 0, from a place in it on. mb is in use until leave. One without edges has no batches.
func (b *batches) enter(ctx context.Context, epoch int, mb *buffer.MacroBatch, from progress.Place) (err error) {
	b.ctx, b.epoch, b.mb, b.pass = ctx, epoch, mb, from.Pass
	b.x = newExamples(mb, b.relation, b.places, placesMax)
	b.places = b.x.places
	if b.x.n == 0 { // its partitions may be empty: no nodes to draw negatives from
		return nil
	}
	pool, err := negative.NewPool(mb)
	if err != nil {
		return fmt.Errorf("train: epoch %d, step %d: %w", epoch+1, mb.StepIndex, err)
	}
	pools, err := typedPools(mb, pool, b.types)
	if err != nil {
		return fmt.Errorf("train: epoch %d, step %d: types of nodes: %w", epoch+1, mb.StepIndex, err)
	}
	b.from = newAnswers(b.x, pools, b.cfg.Chunks, b.cfg.NegativesFrom)
	b.graph = mini.Graph{In: mb.In, Out: mb.Out, Relations: b.relations}
	if b.absent != nil {
		b.absent.enter(mb)
		b.graph.In, b.graph.Out = &b.absent.topology.in, &b.absent.topology.out
	}
	if b.pass < b.passes() {
		b.start(from.Batch)
	}
	return nil
}

func (b *batches) passes() int { return max(1, b.mb.Step.Passes) }

// start begins a pass at one of its batches.
func (b *batches) start(batch int) {
	c, step := b.cfg, b.mb.StepIndex
	key := mini.Key{Epoch: b.epoch, Step: step, Pass: b.pass}
	place := func(of uint64) keyed.Key {
		return keyed.New(c.Seed).With(of).With(uint64(b.epoch)).With(uint64(step)).With(uint64(b.pass))
	}
	s := &source{Share: b.share, x: b.x, order: keyed.NewPermutation(place(placeEdges), b.x.n), size: c.BatchSize, relations: b.relations, key: key, negatives: b.negatives,
		perChunk: c.Negatives, answers: b.from, hide: c.hidesEdges(), kept: place(placeKept), keep: c.KeepBatchEdges, absent: b.absent}
	if b.finish != nil {
		mb := b.mb
		s.finish = func(batch *mini.Batch, e *Edges) error { return b.finish(mb, batch, e) }
	}
	key.Batch = s.From(batch)
	b.loader.Start(b.ctx, key, b.graph, s)
}

// next goes to the next mini-batch, b.loader.Batch, of the step; false where there is none, or on an error, b.loader.Err.
func (b *batches) next() bool {
	if b.x.n == 0 || b.pass >= b.passes() {
		return false
	}
	for !b.loader.Next() {
		if b.loader.Err() != nil || b.pass+1 >= b.passes() {
			return false
		}
		b.pass++
		b.start(0)
	}
	return true
}

// place is that of the mini-batch after the one in hand.
func (b *batches) place() progress.Place {
	return progress.Place{Step: b.mb.StepIndex, Pass: b.pass, Batch: b.loader.Batch().Key.Batch + 1}
}

// leave ends a step: nothing uses its macro-batch any more.
func (b *batches) leave() { b.loader.Stop() }

func (b *batches) close() error { return b.loader.Close() }
