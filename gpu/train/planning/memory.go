package planning

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/gpu/train/bound"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/history"
	"github.com/gstore/gstore/gpu/train/sparse"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
)

// Holders of a run's memory, beside the program.
const (
	HoldsEval    = "evaluation"
	HoldsBatch   = "mini-batches"
	HoldsSampled = "sampled batches"
	HoldsHistory = "history"
	HoldsCopy    = "copy of the model"
	HoldsDegrees = "degrees" // where absent neighbours count
	HoldsSeeds   = "seeds"   // that are given instead of a split's
	HoldsLabels  = "labels"  // sets of them, where a node has several
	HoldsBuffer  = "partition buffer"
	HoldsRows    = "graph and rows" // instead of it in plan rows
	HoldsSparse  = "features"       // elements of one that is mostly 0
	HoldsSorted  = "their order"    // of a mini-batch's of these, by column
)

// Memory says who holds what of a run on a store, for any budget: plan, refusal and the smallest budget follow from it. Opening
// it reads every topology directory once; what follows reads nothing.
type Memory struct {
	M        *store.Manifest
	store    *store.Store
	Bare     bool                // features are not read: no plan rows
	device   blockio.Calibration // if it was measured
	Cfg      config.Config       // without its budget
	info     gpu.Info
	Shape    config.Shape
	trained  []uint64 // training nodes by partition
	forecast *buffer.Forecaster
	batch    *batchMeter   // nil where the store does not fit the task
	eval     int64         // the least that evaluation takes
	failed   error         // of what a mini-batch takes
	Once     *Counted      // where what a mini-batch's relations draw comes from
	Vectors  *eval.Vectors // what evaluation reads of a table of learned vectors; nil without one
}

// OpenMemory looks at a store for runs of c, whose defaults and Features must be filled in, on a device that info describes.
// Where the store does not fit the task, tensors and evaluation count for nothing.
func OpenMemory(ctx context.Context, st *store.Store, info gpu.Info, c config.Config) (_ *Memory, err error) {
	return OpenMemoryOnce(ctx, st, info, c, new(Counted))
}

// OpenMemoryOnce is OpenMemory of a run whose draws are counted once.
func OpenMemoryOnce(ctx context.Context, st *store.Store, info gpu.Info, c config.Config, once *Counted) (_ *Memory, err error) {
	y := &Memory{M: st.Manifest(), store: st, Cfg: c, info: info, Once: once}
	if y.Shape.Sampling, err = c.RelationSampling(y.M); err != nil {
		return nil, err
	}
	if err := y.Cfg.CountVectors(ctx, st); err != nil {
		return nil, err
	}
	y.Vectors = y.Cfg.EvalVectors()
	o := y.Cfg.MacroOptions(y.M)
	if y.forecast, err = buffer.OpenForecaster(ctx, st, o); err != nil {
		return nil, fmt.Errorf("train: plan: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, y.Close())
		}
	}()
	if c.Nodes != nil {
		y.trained = c.Nodes.Count(y.M)
	} else if y.trained, err = st.TrainingNodes(ctx, c.Split); err != nil && (c.Split != "" || !errors.Is(err, store.ErrNotFound)) {
		return nil, fmt.Errorf("train: plan: %w", err)
	}
	y.device = knownDevice(ctx, st, c.IOEngine)
	if c.MemoryBytes == 0 {
		return y, nil
	}
	// A run on a store that does not fit the task ends with the error; its plan can be looked at.
	shape, err := config.ShapeOf(y.M, &y.Cfg)
	if err != nil {
		return y, nil
	}
	y.Shape = shape
	e, err := y.Evaluator(st, nil, 0)
	if err != nil {
		return y, nil
	}
	y.eval = e.LeastBytes()
	if y.batch, err = NewBatchMeter(ctx, info, y.M, &y.Cfg, y.Shape); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if err = e.Close(); err == nil && y.Cfg.Relational() {
		y.batch.Sampled, err = once.of(ctx, y)
	}
	if err != nil {
		return nil, err
	}
	return y, nil
}

// nodes is the number of training nodes.
func (y *Memory) nodes() (n uint64) {
	for _, of := range y.trained {
		n += of
	}
	return n
}

// Forecaster is the partition buffer's; it is closed with y.
func (y *Memory) Forecaster() *buffer.Forecaster { return y.forecast }

// Close releases the store's files.
func (y *Memory) Close() error {
	var err error
	if y.batch != nil {
		err = y.batch.Close()
	}
	return errors.Join(err, y.forecast.Close())
}

// Evaluator makes the run's evaluator within bytes, 0 for no bound.
func (y *Memory) Evaluator(st *store.Store, dev gpu.Device, bytes int64) (*eval.Evaluator, error) {
	o := eval.Options{Features: y.Cfg.Features, EdgeFeatures: y.Cfg.EdgeFeatures, Split: y.Cfg.Split, MemoryBytes: bytes, Model: y.Cfg.ModelConfig(y.Shape), Vectors: y.Vectors,
		Confusion: y.Cfg.ClassWeights == config.WeightsAuto, Ranking: y.Cfg.ClassWeights != config.WeightsAuto}
	return eval.New(st, dev, o, max(y.Cfg.Hidden, y.Shape.Classes))
}

// evalBytes is evaluation's part of a budget: its share, or what it needs.
func (y *Memory) evalBytes(memory int64) int64 {
	// Of features that the run holds it reads nothing: it has its part of what is left beside these and the model, or tiles of some partitions.
	if model := y.Cfg.ModelConfig(y.Shape); y.Cfg.Sparse != nil && model.StreamsProducts() {
		table, sorted := y.sparseBytes()
		return max(budget.Share(memory, budget.ProgramBytes+table+sorted+y.copyBytes()+y.worst(0), budget.EvalShare), 2*y.eval, 1)
	}
	return max(budget.Share(memory, budget.ProgramBytes, budget.EvalShare), y.eval, 1)
}

// worst is what the largest mini-batch takes with capacity partitions resident (0 = all).
func (y *Memory) worst(capacity int) int64 {
	if y.batch == nil {
		return 0
	}
	n, err := y.batch.Worst(context.Background(), y.M, capacity) // it computes nothing
	if err != nil {
		y.failed = err
	}
	return n
}

// batchBytes is the mini-batches' part of a budget with capacity partitions resident (0 = all): their tensors' share, or what those need. On a
// device of its own memory they take none of the host's, but for page-locked copies of what is on its way there.
func (y *Memory) batchBytes(memory int64, capacity int) int64 {
	if !y.info.OwnMemory() {
		return max(y.worst(capacity), budget.Share(memory, budget.ProgramBytes, budget.BatchShare))
	}
	if y.batch == nil {
		return 0
	}
	_, staged, _ := y.batch.host(LargestStep(y.M, capacity))
	return int64(y.info.InFlight()) * staged
}

// Sampled is what the store's nodes add to mini-batches, nil where it was not counted.
func (y *Memory) Sampled() *bound.Sampled {
	if y.batch == nil {
		return nil
	}
	return y.batch.Sampled
}

// history is what the history takes with capacity partitions resident (0 = all).
func (y *Memory) history(capacity int) int64 {
	if !y.Cfg.History {
		return 0
	}
	resident := len(y.M.Partitions)
	if capacity > 0 {
		resident = min(resident, capacity+len(y.M.Pinned))
	}
	cost, err := history.Forecast(&y.Cfg, y.M, y.trained, resident, 0, y.Sampled())
	if err != nil {
		return 0 // a run ends with it
	}
	return cost.BudgetBytes()
}

// degreeBytes is what the degrees of a step's nodes take, absent neighbours counted, with capacity partitions resident (0 = all).
func (y *Memory) degreeBytes(capacity int) int64 {
	if y.Cfg.HopKind().Sum == "" || capacity == 0 && y.Cfg.Group == 0 {
		return 0
	}
	rows, _ := LargestStep(y.M, capacity)
	return 4 * rows
}

// copyBytes is what copies of the model take on the host: a checkpoint's, that of an epoch's beginning, which the checkpoints of a run with
// a history hold as well, and another where the checkpoint lies in a table.
func (y *Memory) copyBytes() int64 {
	model := y.Cfg.ModelConfig(y.Shape)
	n := model.StateBytes()
	if y.Vectors != nil {
		n *= 2
	}
	if y.Cfg.History {
		n += model.SavedBytes()
	}
	return n
}

// sampledMin bytes of sampled batches are the program's.
const sampledMin = 4 << 20

// sampledBytes is what mini-batches that are sampled ahead, and their samplers, take of the host's above sampledMin, with capacity
// partitions resident (0 = all).
func (y *Memory) sampledBytes(capacity int) int64 {
	if y.batch == nil {
		return 0
	}
	_ = y.worst(capacity) // it says what the host holds of a batch that trains
	rows, edges := LargestStep(y.M, capacity)
	return max(0, y.batch.sampled(rows, edges)-sampledMin)
}

// seedBytes is what seeds that are given take.
func (y *Memory) seedBytes() int64 { return y.Cfg.Nodes.Bytes() }

// labelBytes is what sets of labels take: the store's, and as devices read them.
func (y *Memory) labelBytes() int64 {
	if y.Shape.Sets == nil {
		return 0
	}
	return int64(len(y.M.Labels().Sets)) + 2*y.Shape.Sets.WordsBytes()
}

// BesideBytes is what a run within a budget holds out of [config.Config.MacroOptions]' MemoryBytes beside the partition buffer, with capacity
// partitions resident (0 = all): its history, and what evaluation and mini-batches need above their shares.
func (y *Memory) BesideBytes(memory int64) func(capacity int) int64 {
	copies := y.copyBytes()
	return func(capacity int) int64 {
		table, sorted := y.sparseBytes()
		n := table + sorted + y.history(capacity) + y.degreeBytes(capacity) + y.deviceBooks(capacity) + y.aloneBytes() + y.sampledBytes(capacity) + copies + y.seedBytes() + y.labelBytes()
		if memory > 0 {
			n += y.batchBytes(memory, capacity) - budget.Share(memory, budget.ProgramBytes, budget.BatchShare)
			n += y.evalBytes(memory) - max(1, budget.Share(memory, budget.ProgramBytes, budget.EvalShare))
		}
		return n
	}
}

// Plan is what a run within a budget (0 = none) does and holds.
type Plan struct {
	Choice  macro.Choice
	Options buffer.Options // of its macro-batches
	Account budget.Account
	Nodes   uint64         // that train
	Sampled *bound.Sampled // what they and others add to mini-batches; nil: it was not counted
	Vectors *eval.Vectors  // of the evaluator that was planned with it: who makes the table says how it is read
	// Of [Memory.MixSteps], once it was asked.
	Mixture string
	Labels  [][]store.ClassNodes
	Outlook *Outlook
}

// MixSteps has Mix decide the plan's mixture.
func (y *Memory) MixSteps(ctx context.Context, p *Plan) (err error) {
	p.Labels, p.Outlook, err = y.Mix(ctx, &p.Choice)
	if p.Mixture = config.MixtureRandom; p.Outlook != nil {
		p.Mixture = p.Outlook.Mixture
	}
	return err
}

// plan has macro.Choose fill in what the configuration leaves open. A budget that is too small is [store.ErrBudget].
func (y *Memory) plan(memory int64) (p Plan, err error) {
	c := y.Cfg
	c.MemoryBytes = memory
	p.Options, p.Sampled = c.MacroOptions(y.M), y.Sampled()
	beside := y.BesideBytes(memory)
	rowsTuning, err := y.RowsTuning(memory)
	if err != nil {
		return p, err
	}
	p.Choice, err = macro.Choose(macro.Tuning{
		Config: macro.Config{Policy: c.Plan, Partitions: len(y.M.Partitions), Pinned: y.M.Pinned, Capacity: c.Buffer,
			Undirected: y.M.Schema.Undirected, Group: c.Group, Alone: c.DevicePlan == macro.DevicePBS, Reuse: c.Reuse, Seed: c.Seed},
		MemoryBytes: p.Options.MemoryBytes, LeastBytes: y.forecast.LeastBytes, DoubleBytes: y.forecast.DoubleBytes, BesideBytes: beside, Rows: rowsTuning,
		Hubs: y.M.HubsWhy(), Train: y.trained,
	})
	if y.failed != nil {
		return p, y.failed
	}
	if err != nil {
		return p, fmt.Errorf("train: plan %s of %d partitions: %w", c.Plan, len(y.M.Partitions), err)
	}
	if p.Choice.Policy != macro.Hanoi && p.Choice.Reuse == macro.ReuseAuto {
		p.Choice.Reuse = 0 // one step an epoch: there is nothing to wait for
	}
	p.Nodes = y.nodes()
	capacity := p.Choice.Capacity
	p.Options.Capacity = capacity
	if memory == 0 {
		return p, nil
	}
	p.Options.MemoryBytes -= beside(capacity)
	p.Account.TotalBytes = memory
	p.Account.Hold(budget.Program, budget.ProgramBytes, false)
	p.Account.Hold(HoldsEval, y.evalBytes(memory), true)
	p.Account.Hold(HoldsBatch, y.batchBytes(memory, capacity), !y.info.OwnMemory())
	p.Account.Hold(HoldsHistory, y.history(capacity), false)
	p.Account.HoldHeap(HoldsCopy, y.copyBytes())
	p.Account.HoldHeap(HoldsSampled, y.sampledBytes(capacity))
	p.Account.Hold(HoldsDegrees, y.degreeBytes(capacity), false)
	p.Account.Hold(HoldsDevice, y.deviceBooks(capacity), false)
	p.Account.HoldHeap(HoldsSeeds, y.seedBytes())
	p.Account.HoldHeap(HoldsLabels, y.labelBytes())
	table, sorted := y.sparseBytes()
	p.Account.Hold(HoldsSparse, table, false)
	p.Account.HoldHeap(HoldsSorted, sorted)
	holds := HoldsBuffer
	if p.Choice.Policy == macro.Rows {
		holds = HoldsRows
	}
	p.Account.Hold(holds, p.Account.LeftBytes(), true)
	return p, nil
}

// Account says who holds what within a budget; a budget that is too small is [store.ErrBudget] and names the smallest that works.
func (y *Memory) Account(memory int64) (budget.Account, error) {
	p, err := y.Planned(memory)
	return p.Account, err
}

// Planned is plan that names the smallest budget where this one is too small.
func (y *Memory) Planned(memory int64) (Plan, error) {
	p, err := y.plan(memory)
	return p, budget.Smallest(err, memory, func(memory int64) (budget.Account, error) {
		p, err := y.plan(memory)
		return p.Account, err
	})
}

// PaddedShare of the largest mini-batch's tensors, and of what they come from, is what padding adds at most, see package replay, and some.
const PaddedShare = 8

func MiB(n int64) float64 { return float64(n) / (1 << 20) }

// deviceBooks is what a device's policy and the batches that it looks ahead at take of the host's memory, with capacity
// partitions resident (0 = all): a holder of the run's account.
func (y *Memory) deviceBooks(capacity int) int64 {
	if y.batch == nil || y.info.InPlace || y.Cfg.DeviceCache == cache.NameNone {
		return 0
	}
	rows, edges := LargestStep(y.M, capacity)
	batchBytes, _, inputs := y.batch.host(rows, edges)
	room := int64(0)
	for _, t := range y.batch.tables {
		room += int64(t.Cols * t.Elem.Size())
	}
	room = min(y.info.MemoryBytes/max(1, room), rows)
	o := cache.Options{Policy: y.Cfg.DeviceCache, Rows: int(rows), Places: int(room), Batch: inputs, Window: y.Cfg.DeviceWindow}
	if o.Policy == config.CacheAuto {
		o.Policy = cache.NameLookahead
	}
	n := cache.Need(o) + int64(1+y.info.InFlight())*rowcache.ListBytes(o)
	if o.Policy == cache.NameLookahead {
		if o.Window == 0 {
			o.Window = cache.WindowDefault
		}
		n += int64(o.Window) * batchBytes
	}
	return n
}

// host is what the largest mini-batch takes on the host, once sampled, what of it a device of its own memory is given, as the step is padded,
// and how many input rows it has.
func (b *batchMeter) host(rows, edges int64) (sampled, staged int64, inputs int) {
	graphs, seeds, inputs := b.Graphs(rows, edges)
	_ = b.arena.Reset() // a meter's memory, of which nothing can fail
	both := 4 * int64(seeds+inputs)
	for _, g := range graphs {
		both += 4 * int64(2*g.NumDst+1+g.Edges()+g.Weights.Len())
		if !g.EdgeFeatures.IsZero() { // sampled are their places
			sampled, staged = sampled+8*int64(g.Edges()), staged+4*int64(g.EdgeFeatures.Len())
		}
	}
	sampled, staged = sampled+both, staged+both+4*int64(inputs*len(b.runs))
	if c := b.Model.Config(); b.cfg.Unrecorded(&c) == "" {
		staged += staged / PaddedShare
	}
	return sampled, staged, inputs
}

// HoldsDevice is deviceBooks' name in the account.
const HoldsDevice = "device's rows"

// Counted keeps what countDraws found: all configurations that a run tries have the same, as it depends on sampler, relations and
// split alone, as long as they sample as many hops and read as many relations from precomputed ones. And it keeps samples of features.
type Counted struct {
	draws    map[[2]int]*bound.Sampled // by these two numbers
	samples  map[string]*sparse.Sample // by column
	Readings int                       // of the graph
}

// sample is a column's, read if it was not.
func (c *Counted) sample(ctx context.Context, st *store.Store, column *store.ColumnInfo) (_ *sparse.Sample, err error) {
	if s := c.samples[column.Name]; s != nil {
		return s, nil
	}
	if c.samples == nil {
		c.samples = map[string]*sparse.Sample{}
	}
	c.samples[column.Name], err = sparse.Sampled(ctx, st, column)
	return c.samples[column.Name], err
}

// of is y's, counted if it was not.
func (c *Counted) of(ctx context.Context, y *Memory) (_ *bound.Sampled, err error) {
	key := [2]int{len(y.Cfg.Sampled()), len(y.Cfg.Hops)}
	if d := c.draws[key]; d != nil {
		return d, nil
	}
	if c.draws == nil {
		c.draws = map[[2]int]*bound.Sampled{}
	}
	c.Readings++
	c.draws[key], err = y.countSampled(ctx)
	return c.draws[key], err
}

// sampled is what the largest mini-batches of so many rows and edges take where they are sampled: those that are sampled ahead, in
// memory that grew by an eighth to hold them, and the tables of the threads that sample. Plan rows samples once more what it reads.
func (b *batchMeter) sampled(rows, edges int64) int64 {
	one, _, inputs := b.host(rows, edges)
	grouped := max(0, b.most-one) // of the batch that trains alone
	threads := int64(max(1, b.cfg.Threads-1))
	batches := threads + 2
	if held(b.cfg) && !b.cfg.History {
		feeding := int64(max(1, b.cfg.Threads/2))
		threads, batches = threads+feeding, batches+feeding+2
	}
	table := 8 * mini.TableSlots(inputs)
	if b.cfg.Sampler == mini.Labor {
		table += 2 * mini.LaborBytes(rows) // of both directions, where a model reads both
	}
	return batches*(one+one/8) + threads*table + grouped
}

// countSampled counts what the store's nodes add to mini-batches of a model of relations, within evaluation's part of the budget.
func (y *Memory) countSampled(ctx context.Context) (_ *bound.Sampled, err error) {
	e, err := y.Evaluator(y.store, nil, y.evalBytes(y.Cfg.MemoryBytes))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return bound.Count(ctx, y.store, e, &y.Cfg, y.Shape, y.batch.Model.Config().Relations)
}

// aloneBytes is what the edges of groups of partitions take beside those of the graph, at most: twice, as they grow.
func (y *Memory) aloneBytes() int64 {
	if y.Cfg.DevicePlan != macro.DevicePBS {
		return 0
	}
	rows, edges := LargestStep(y.M, 0)
	return rows*17 + 2*4*edges
}
