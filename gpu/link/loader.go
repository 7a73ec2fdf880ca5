package link

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/table"
)

// LoaderOptions say what a [Loader] does beside what its Config says. The zero value is what [Train] trains on.
type LoaderOptions struct {
	// Table's rows are in memory with their partitions, in the macro-batches' Planes, and written back behind the training, as
	// [buffer.Options].Table says. It stays the caller's. nil: the embeddings are elsewhere, and Config.MemoryBytes leaves
	// their caller what training's table would take.
	Table *table.Table
	// Finish, if not nil, is called for each batch once it is sampled, on the sampling goroutines: see [Edges].
	Finish func(mb *buffer.MacroBatch, b *mini.Batch, e *Edges) error
	// World, if not 0, is how many processes train one model together, and Rank which of them this is, from 0: see
	// [train.LoaderOptions]. Embeddings are elsewhere then: a table has one opener.
	Rank, World int
	// Info describes the device of the run whose plan is wanted: with Config.MemoryBytes its tensors' share of the budget is
	// left to the caller.
	Info gpu.Info
	// Structure leaves the feature columns unread: for those who only look at what is sampled.
	Structure bool
}

// Loader yields the mini-batches that [Train] trains on with the same store and Config, in the same order, for training loops
// elsewhere: one seed gives the same batches to the bit. It is for one goroutine, and goes on as [train.Loader] does: Start,
// Next, Batch.
type Loader struct {
	cfg     Config
	ctx     context.Context
	why     []string
	it      *buffer.Buffer
	table   bool // it holds one's rows
	policy  macro.Policy
	plans   map[int]buffer.Plan // by epoch: the one under way and the one that was announced
	batches *batches
	ranks   *macro.Dealer     // nil: this process is all
	sizes   *Decision         // which knows the ranks' buckets; nil: there are none
	mb      buffer.MacroBatch // in hand, its step numbered as in the whole epoch

	epoch  int
	from   progress.Place // in the step that comes next
	began  bool           // an epoch, not ended
	inside bool           // a step
	err    error
}

// OpenLoader plans as [Train] would with the same Config and opens the partition buffer. Of cfg counts what concerns data,
// sampling, negatives, plan and memory: of the encoder, that it samples neighbours. The store need not have edges to evaluate.
func OpenLoader(ctx context.Context, st *store.Store, cfg Config, o LoaderOptions) (_ *Loader, err error) {
	m := st.Manifest()
	if err := checkEdges(m); err != nil {
		return nil, err
	}
	if !evaluable(m) {
		cfg.EvalEvery = -1
	}
	cfg.Absent = AbsentIgnore
	if cfg.Preset == "" { // a caller's own model is trained as it was before there were presets
		cfg.Preset = PresetMarius
	}
	if err := cfg.Normalize(); err != nil {
		return nil, err
	}
	if o.Table != nil && (o.Table.Dim() != cfg.TableDim() || o.Table.Planes() != cfg.TablePlanes()) {
		return nil, fmt.Errorf("%w: a table of %d planes of %d, expected %d of %d", store.ErrInvalid, o.Table.Planes(), o.Table.Dim(), cfg.TablePlanes(), cfg.TableDim())
	}
	if o.Table != nil && o.World > 1 {
		return nil, fmt.Errorf("%w: a table's rows on %d ranks: one process opens a table, the ranks' embeddings must lie elsewhere", store.ErrInvalid, o.World)
	}
	d, err := Decide(ctx, st, o.Info, cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil || o.World <= 1 {
			err = errors.Join(err, d.Close())
		}
	}()
	types, err := d.memory.answerTypes(ctx, st)
	if err != nil {
		return nil, err
	}
	l := &Loader{cfg: d.Config, ctx: ctx, why: d.Choice.Why, policy: d.Policy, plans: map[int]buffer.Plan{}}
	if o.World > 1 {
		l.sizes = d
		l.ranks = &macro.Dealer{Ranks: macro.Ranks{Rank: o.Rank, World: o.World, BatchSize: l.cfg.BatchSize,
			Edges: func(b buffer.BucketID) uint64 { return d.Forecaster().BucketEdges(b.Src, b.Dst) }}}
		if err := l.ranks.Validate(); err != nil {
			return nil, fmt.Errorf("train: loader: %w", err)
		}
	}
	d.Options.Table = o.Table
	if o.Table == nil {
		d.Options.TableDim, d.Options.TablePlanes = 0, 0
	} else { // rows that were stepped are written when ctx has ended, too
		ctx = context.WithoutCancel(ctx)
	}
	if o.Structure {
		d.Options.Features = d.Options.Features[len(l.cfg.Features):] // types of nodes may follow
	}
	if l.it, err = buffer.Open(ctx, st, d.Options); err != nil {
		return nil, fmt.Errorf("train: plan %s with %d of %d partitions in memory: %w", l.cfg.Plan, l.cfg.Buffer, len(m.Partitions), err)
	}
	if l.batches, err = newBatches(&l.cfg, m, types, l.cfg.Threads, 0); err != nil {
		return nil, errors.Join(err, l.it.Close())
	}
	l.batches.finish, l.table = o.Finish, o.Table != nil
	return l, nil
}

// checkStore checks that the store fits the task, and has the edges that are ranked if any are.
func checkStore(m *store.Manifest, ranks bool) error {
	if task := m.Task(); task != store.TaskLink && (ranks || task != "") { // lists make the task where nothing else says it
		return fmt.Errorf("train: the store's task is %q, expected %q: ingest edges with lists valid and test, without labels of nodes", task, store.TaskLink)
	}
	if err := checkEdges(m); err != nil {
		return err
	}
	if m.Nodes > 1<<32-1 {
		return fmt.Errorf("train: %d nodes, evaluation in memory numbers them with 32 bits", m.Nodes)
	}
	if ranks && !m.Lists("valid") {
		return fmt.Errorf("train: %w: edge list %q, with edges", store.ErrNotFound, "valid")
	}
	return nil
}

// checkEdges checks that the store's edges can be examples.
func checkEdges(m *store.Manifest) error {
	if m.Schema.Undirected {
		return store.Invalid(errors.New("train: link prediction needs directed edges: ingest without --undirected"))
	}
	return nil
}

// evaluable reports whether a store has the edges that training validates with.
func evaluable(m *store.Manifest) bool { return m.Lists("valid") }

// Config is the configuration in full: the plan chosen, its partitions in memory.
func (l *Loader) Config() Config { return l.cfg }

// Why says in sentences why the plan was chosen.
func (l *Loader) Why() []string { return l.why }

// BesideBytes is what the budget leaves beside program and partition buffer: the caller's, for batches. 0: there is no bound.
func (l *Loader) BesideBytes() int64 { return budget.Beside(l.cfg.MemoryBytes, l.it.MemoryBytes()) }

// Buffer is the partition buffer, whose Flush and Checkpoint may be called between batches.
func (l *Loader) Buffer() *buffer.Buffer { return l.it }

// plan returns an epoch's plan. The partition buffer knows an announced one by its steps, which an equal plan made again does
// not share, so that the next epoch's is kept.
func (l *Loader) plan(epoch int) buffer.Plan {
	p, made := l.plans[epoch]
	if !made {
		p = l.policy.Epoch(epoch)
		if l.ranks != nil {
			p = l.ranks.Plan(epoch, p)
		}
		l.plans[epoch] = p
	}
	return p
}

// Start begins an epoch, counted from 0, at a place in it: the zero Place is its beginning.
func (l *Loader) Start(epoch int, from progress.Place) error {
	l.leave()
	if l.err == nil && l.table && l.began { // an epoch that is left early leaves rows that were stepped
		l.err = l.it.Flush(context.WithoutCancel(l.ctx))
	}
	if l.err != nil {
		return l.err
	}
	for e := range l.plans {
		if e != epoch {
			delete(l.plans, e)
		}
	}
	l.epoch, l.from, l.began = epoch, from, true
	now, step := l.plan(epoch), from.Step
	if l.ranks != nil {
		d, err := l.ranks.Of(epoch)
		if err != nil {
			return err
		}
		there := false
		if step, there = d.At(step); !there {
			l.from = progress.Place{}
		}
	}
	if err := l.it.StartAt(now, step); err != nil {
		return fmt.Errorf("train: epoch %d: %w", epoch+1, err)
	}
	l.mb = *l.it.MacroBatch()
	if len(now.Steps) == 1 { // what is resident stays: nothing to announce
		return nil
	}
	if err := l.it.Announce(l.plan(epoch + 1)); err != nil {
		return fmt.Errorf("train: epoch %d: %w", epoch+2, err)
	}
	return nil
}

// Next waits for the next mini-batch and reports whether there is one. The one before becomes invalid.
func (l *Loader) Next() bool {
	for l.err == nil {
		if l.inside {
			if l.batches.next() {
				return true
			}
			l.err = l.batches.loader.Err()
			l.leave()
			continue
		}
		if l.err = l.ctx.Err(); l.err != nil {
			break
		}
		next := l.it.Next()
		l.mb = *l.it.MacroBatch() // empty where there is none: rows of the one before are no longer its
		if !next {
			l.err, l.began = l.it.Err(), false
			break
		}
		if l.ranks != nil {
			d, _ := l.ranks.Of(l.epoch) // Start looked at its error
			l.batches.share = mini.Share{Parts: d.Parts[l.mb.StepIndex], First: d.First, Every: d.Every}
			l.mb.StepIndex = d.Steps[l.mb.StepIndex]
		}
		l.err = l.batches.enter(l.ctx, l.epoch, &l.mb, l.from)
		l.from, l.inside = progress.Place{}, true
	}
	return false
}

func (l *Loader) leave() {
	if l.inside {
		l.batches.leave()
		l.inside = false
	}
}

// MacroBatch is what the batch in hand is of, and valid as long as that; empty where none is.
func (l *Loader) MacroBatch() *buffer.MacroBatch { return &l.mb }

// Batch is the mini-batch in hand: its Seeds are the distinct nodes of its edges and negatives, see [EdgesOf].
func (l *Loader) Batch() *mini.Batch { return l.batches.loader.Batch() }

// Ready is the mini-batch that the coming Next yields, where it is of the same step and pass and sampled already; else nil. It is
// valid until the Next after that one, Start or Close.
func (l *Loader) Ready() *mini.Batch {
	if !l.inside {
		return nil
	}
	return l.batches.loader.Ready()
}

// Place is that of the mini-batch after the one in hand.
func (l *Loader) Place() progress.Place { return l.batches.place() }

// Err is what ended the batches early, if anything did.
func (l *Loader) Err() error { return l.err }

// Close ends sampling, writes the table's rows that steps changed, and frees the buffer.
func (l *Loader) Close() error {
	l.leave()
	var err error
	if l.table {
		err = l.it.Flush(context.WithoutCancel(l.ctx))
	}
	if l.sizes != nil {
		err = errors.Join(err, l.sizes.Close())
	}
	return errors.Join(err, l.batches.close(), l.it.Close())
}
