package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/feed"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/rows"
)

// Options say what a [Loader] yields beside what its Config says. The zero value is what [Node] trains on.
type Options struct {
	// Seeds names the nodes that batches are of: "train" (default), "valid" or "test".
	Seeds string
	// Nodes, if not nil, are the seeds instead: ascending, each once, at least one. The Loader keeps a set of them.
	Nodes []store.NodeID
	// Sequential keeps a step's seeds in their order instead of shuffling them.
	Sequential bool
	// Full leaves out batches of fewer than Config.BatchSize seeds, and makes all others of a step full. Not with World.
	Full bool
	// Finish, if not nil, is called for each batch once it is sampled, on the sampling goroutines, with the macro-batch that
	// it is of. What it makes belongs into b.Extra, which a batch keeps from one use of its memory to the next: no more than
	// Config.Threads + 2 batches are alive at once. In plan rows the macro-batch has no features: see [Loader.Rows].
	Finish func(mb *buffer.MacroBatch, b *mini.Batch) error
	// Structure leaves the feature columns unread: for those who only look at what is sampled.
	Structure bool
	// World, if not 0, is how many processes train one model together, and Rank which of them this is, from 0. Each has its
	// part of every epoch: all ranks do equally many mini-batches, and their seeds together are the epoch's.
	Rank, World int
	// Info describes the device of the run whose plan is wanted: with Config.MemoryBytes its tensors' share of the budget is
	// left to the caller.
	Info gpu.Info
}

// Loader yields the mini-batches that [Node] trains on with the same store and Config, in the same order, for training loops
// elsewhere: one seed gives the same batches to the bit. It is for one goroutine.
//
//	l, err := train.OpenLoader(ctx, st, train.Config{Fanouts: []int{15, 10}, MemoryBytes: 1 << 30}, train.LoaderOptions{})
//	defer l.Close()
//	for epoch := range 10 {
//		for err := l.Start(epoch, progress.Place{}); err == nil && l.Next(); {
//			step(l.MacroBatch(), l.Batch(), l.Features(), l.Rows())
//		}
//		if err := l.Err(); err != nil { … }
//	}
type Loader struct {
	cfg       config.Config
	ctx       context.Context
	why       []string
	it        planning.OpenBatches
	Feed      *feed.Feeder // of plan rows, else nil
	plan      feed.Plans
	passes    feed.Passes
	batches   *feed.Batches
	ranks     *macro.Dealer     // nil: this process is all
	policy    macro.Policy      // what plan makes epochs by
	Mb        buffer.MacroBatch // in hand, its step numbered as in the whole epoch
	store     *store.Store
	seeds     string // whose nodes
	lists     *lists // instead of them, of the epoch under way
	nodes     uint64 // of the store
	relations int
	inverse   bool
	shift     *feed.LabelShift

	epoch  int
	now    buffer.Plan    // the epoch's
	from   progress.Place // in the step that comes next
	inside bool           // a step
	slots  []uint32       // of plan rows: where the rows of the batch in hand are; nil: none is
	ahead  turn           // of plan rows: what comes next of what is sampled ahead
	err    error
}

// turn is a mini-batch's, of all epochs.
type turn struct {
	epoch int
	place progress.Place
}

// Open plans as [Node] would with the same Config and opens the partition buffer, or of plan rows the graph. Of cfg counts what
// concerns data, sampling, plan and memory. Reuse must be a number, and History is no Loader's: [OpenHistory] makes one beside it.
func Open(ctx context.Context, st *store.Store, cfg config.Config, o Options) (_ *Loader, err error) {
	cfg.Absent = config.AbsentIgnore
	if err := cfg.Normalize(); err != nil {
		return nil, err
	}
	if o.Structure {
		cfg.History = false // which adds no row to a batch
	}
	if cfg.History || cfg.Reuse == macro.ReuseAuto {
		return nil, fmt.Errorf("train: loader: history %v and reuse %d: expected no passes that depend on timing, and a history beside the loader (OpenHistory)", cfg.History, cfg.Reuse)
	}
	if o.Structure && cfg.Plan == macro.Rows {
		return nil, fmt.Errorf("train: loader: plan %s without features is plan %s: choose it", macro.Rows, macro.Memory)
	}
	m := st.Manifest()
	if _, err := m.SplitColumn(cfg.Split); err != nil && o.Nodes == nil {
		return nil, fmt.Errorf("train: loader: whose nodes are the seeds: %w: name them (Python: input_nodes=, or split=None for all), or divide those with labels (gstore append --split-random 60/20/20, split_random= of an ingest)", err)
	}
	if o.Nodes != nil && len(o.Nodes) == 0 || o.Full && o.World > 1 {
		return nil, fmt.Errorf("train: loader: %w: %d seeds, full batches alone %v on %d ranks: expected seeds, and full batches on one", store.ErrInvalid, len(o.Nodes), o.Full, o.World)
	}
	if o.Nodes != nil {
		if cfg.Nodes, err = buffer.NewSeeds(o.Nodes, m.Nodes); err != nil {
			return nil, err
		}
	}
	cfg.FillFeatures(m)
	y, err := planning.OpenMemory(ctx, st, o.Info, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, y.Close()) }()
	y.Bare = o.Structure
	y.Sampled().AnySeeds()
	planned, err := y.Planned(cfg.MemoryBytes)
	if err != nil {
		return nil, err
	}
	seeds := cmp.Or(o.Seeds, "train")
	if planned.Choice.Policy == macro.TrainNodes && seeds != "train" && o.Nodes == nil {
		return nil, fmt.Errorf("train: loader: plan %s has %s nodes in memory by the way only: choose plan %s for them", macro.TrainNodes, seeds, macro.Hanoi)
	}
	planned.Options.Split, planned.Options.Labels = seeds, m.Labels() != nil
	if o.Structure {
		planned.Options.Features = nil
	}
	if !planned.Options.Labels || seeds != "train" || o.Nodes != nil {
		cfg.Mixture, cfg.LabelShift = config.MixtureRandom, config.ShiftOff
	} else if err := y.MixSteps(ctx, &planned); err != nil {
		return nil, err
	} else if cfg.Mixture = planned.Mixture; planned.Labels == nil {
		cfg.LabelShift = config.ShiftOff
	}
	l := &Loader{cfg: cfg, ctx: ctx, why: planned.Choice.Why, store: st, seeds: seeds, nodes: m.Nodes, relations: len(m.Schema.Relations), inverse: cfg.Directions(m) == 2}
	var policy macro.Policy
	if l.it, policy, err = planning.OpenMacroBatches(ctx, st, &l.cfg, &planned.Choice, planned.Options); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	l.plan.Make, l.passes.Ready, l.policy = policy.Epoch, l.it.NextReady, policy
	if o.World > 1 {
		l.ranks = &macro.Dealer{Ranks: macro.Ranks{Rank: o.Rank, World: o.World, BatchSize: cfg.BatchSize}}
		if err := l.ranks.Validate(); err != nil {
			return nil, fmt.Errorf("train: loader: %w", err)
		}
		if l.ranks.Nodes, err = l.seedCounts(ctx); err != nil {
			return nil, err
		}
		l.plan.Make = func(epoch int) buffer.Plan { return l.ranks.Plan(epoch, policy.Epoch(epoch)) }
	}
	relations, err := l.cfg.RelationSampling(m)
	if err != nil {
		return nil, err
	}
	if l.batches, err = feed.NewBatches(&l.cfg, len(l.cfg.Sampled()), relations, cfg.MeanDegree(m), cfg.Threads, 0); err != nil {
		return nil, err
	}
	l.batches.Sequential, l.batches.Full = o.Sequential, o.Full
	l.batches.Source = func(s *mini.Shuffled) mini.SeedSource { return l.source(s, o.Finish) }
	if reader, ok := l.it.(*rows.Reader); ok {
		if err := l.feedRows(m, reader, policy); err != nil {
			return nil, err
		}
	}
	if l.cfg.LabelShift == config.ShiftAuto {
		l.shift = feed.NewLabelShift(planned.Labels, planned.Nodes, m.Schema.Classes)
	}
	return l, err
}

// shareOf is the rank's of the batches of step i of its plan.
func shareOf(d *macro.Deal, i int) mini.Share {
	return mini.Share{Parts: d.Parts[i], First: d.First, Every: d.Every}
}

// Config is the configuration in full: the plan chosen, its partitions in memory.
func (l *Loader) Config() config.Config { return l.cfg }

// Why says in sentences why the plan was chosen.
func (l *Loader) Why() []string { return l.why }

// BesideBytes is what the budget leaves beside program and partition buffer: the caller's, for batches. 0: there is no bound.
func (l *Loader) BesideBytes() int64 { return budget.Beside(l.cfg.MemoryBytes, l.it.MemoryBytes()) }

// Stats are the partition buffer's.
func (l *Loader) Stats() buffer.Stats { return l.it.Stats() }

// Batches is how many mini-batches an epoch has, counted from 0. It may be asked at any time.
func (l *Loader) Batches(ctx context.Context, epoch int) (n int, err error) {
	nodes, err := l.seedCounts(ctx)
	if err != nil {
		return 0, fmt.Errorf("train: epoch %d: %w", epoch+1, err)
	}
	all := l.policy.Epoch(epoch)
	deal := &macro.Deal{Plan: all, Parts: make([]int, len(all.Steps))}
	if l.ranks != nil {
		if deal, err = l.ranks.Deal(all); err != nil {
			return 0, fmt.Errorf("train: epoch %d: %w", epoch+1, err)
		}
	}
	for i := range deal.Plan.Steps {
		seeds, step := uint64(0), &deal.Plan.Steps[i]
		for _, p := range step.Train {
			seeds += nodes[p]
		}
		share := shareOf(deal, i)
		share.Full = l.batches.Full
		n += share.Of(seeds, l.cfg.BatchSize) * max(1, step.Passes)
	}
	return n, nil
}

// Start begins an epoch, counted from 0, at a place in it: the zero Place is its beginning.
func (l *Loader) Start(epoch int, from progress.Place) error {
	l.leave()
	l.lists = nil
	return l.start(epoch, from)
}

func (l *Loader) start(epoch int, from progress.Place) error {
	if l.err != nil {
		return l.err
	}
	if l.Feed != nil && l.Feed.Cancel != nil && l.ahead != (turn{epoch, from}) {
		if l.err = l.Feed.Restart(epoch); l.err != nil {
			return l.err
		}
	}
	l.epoch, l.from, l.ahead = epoch, from, turn{epoch, from}
	l.now = l.plan.Epoch(epoch)
	if l.ranks == nil {
		return feed.StartEpoch(l.it, &l.plan, &l.passes, epoch, from.Step, true)
	}
	d, err := l.ranks.Of(epoch)
	if err != nil {
		return err
	}
	step, there := d.At(from.Step)
	if !there {
		l.from = progress.Place{}
	}
	return feed.StartEpoch(l.it, &l.plan, &l.passes, epoch, step, true)
}

// Next waits for the next mini-batch and reports whether there is one. The one before becomes invalid.
func (l *Loader) Next() bool {
	l.done()
	for l.err == nil {
		if l.inside {
			if l.batches.Next() {
				l.err = l.take()
				return l.err == nil
			}
			l.err = l.batches.Loader.Err()
			l.leave()
			continue
		}
		if !l.it.Next() {
			l.err = l.it.Err()
			l.ahead = turn{epoch: l.epoch + 1}
			break
		}
		mb := &l.Mb
		*mb = *l.it.MacroBatch()
		if l.ranks != nil {
			d, _ := l.ranks.Of(l.epoch) // Start looked at its error
			l.batches.Share = shareOf(d, mb.StepIndex)
			mb.StepIndex = d.Steps[mb.StepIndex]
		}
		if l.shift != nil {
			l.shift.Enter(mb)
		}
		if l.Feed != nil && len(mb.Seeds) > 0 {
			if l.err = l.Feed.Start(mb, l.epoch, l.from.Batch); l.err != nil {
				break
			}
		}
		l.batches.Enter(l.ctx, l.epoch, mb, feed.Neighbours(mb, l.relations, l.inverse), &l.passes, l.from)
		l.from, l.inside = progress.Place{}, true
	}
	return false
}

func (l *Loader) leave() {
	l.done()
	if l.inside {
		l.batches.Leave()
		l.inside = false
	}
}

// MacroBatch is what the batch in hand is of; it is valid as long as that.
func (l *Loader) MacroBatch() *buffer.MacroBatch { return &l.Mb }

// Batch is the mini-batch in hand.
func (l *Loader) Batch() *mini.Batch { return l.batches.Loader.Batch() }

// Features are the columns that [Loader.Rows] numbers: in plan rows of a cache, whose rows are other ones with each batch, else the
// macro-batch's. They are valid as long as the batch in hand.
func (l *Loader) Features() []buffer.Column {
	if l.Feed != nil {
		return l.Feed.Reader.Features()
	}
	return l.Mb.Features
}

// Rows are, of each node that feeds the batch's first layer, its row in [Loader.Features].
func (l *Loader) Rows() []uint32 {
	if l.Feed != nil {
		return l.slots
	}
	return l.cfg.Inputs(l.Batch())
}

// Ready is the mini-batch that the coming Next yields, where it is of the same step and pass and sampled already; else nil, as in
// plan rows, whose batches have their rows once they are in hand. It is valid until the Next after that one, Start or Close.
func (l *Loader) Ready() *mini.Batch {
	if !l.inside || l.Feed != nil {
		return nil
	}
	return l.batches.Loader.Ready()
}

// Place is that of the mini-batch after the one in hand.
func (l *Loader) Place() progress.Place { return l.batches.Place() }

// LabelShift is what the loss adds to each class's logit, so that a step whose classes are not mixed as the graph's teaches the
// graph's mixture all the same ([Config].LabelShift); empty where there is nothing to correct. It is valid as long as the batch in hand.
func (l *Loader) LabelShift() []float32 {
	if l.shift == nil {
		return nil
	}
	return l.shift.Logits
}

// Err is what ended the batches early, if anything did.
func (l *Loader) Err() error { return l.err }

// Close ends sampling and frees the buffer.
func (l *Loader) Close() error {
	l.leave()
	var err error
	if l.Feed != nil {
		err = l.Feed.Close()
	}
	if l.batches != nil {
		err = errors.Join(err, l.batches.Loader.Close())
	}
	return errors.Join(err, l.it.Close())
}
