package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
)

// Holders of a run's memory, beside the program.
const (
	holdsEval    = "evaluation"
	holdsBatch   = "mini-batches"
	holdsHistory = "history"
	holdsCopy    = "copy of the model"
	holdsDegrees = "degrees" // where absent neighbours count
	holdsBuffer  = "partition buffer"
	holdsRows    = "graph and rows" // instead of it in plan rows
)

// Memory says who holds what of a run on a store, for any budget: plan, refusal and the smallest budget follow from it. Opening
// it reads every topology directory once; what follows reads nothing.
type Memory struct {
	m        *store.Manifest
	store    *store.Store
	bare     bool                // features are not read: no plan rows
	device   blockio.Calibration // if it was measured
	cfg      Config              // without its budget
	info     gpu.Info
	shape    shape
	trained  []uint64 // training nodes by partition
	forecast *buffer.Forecaster
	batch    *batchMeter   // nil where the store does not fit the task
	eval     int64         // the least that evaluation takes
	failed   error         // of what a mini-batch takes
	once     *counted      // where what a mini-batch's relations draw comes from
	vectors  *eval.Vectors // what evaluation reads of a table of learned vectors; nil without one
}

// OpenMemory looks at a store for runs of c, whose defaults and Features must be filled in, on a device that info describes.
// Where the store does not fit the task, tensors and evaluation count for nothing.
func OpenMemory(ctx context.Context, st *store.Store, info gpu.Info, c Config) (_ *Memory, err error) {
	return openMemory(ctx, st, info, c, new(counted))
}

// OpenCompleted completes c, as [Config.Complete] does, and looks at the store for its run, as OpenMemory: what both count of the graph is
// counted once.
func OpenCompleted(ctx context.Context, st *store.Store, info gpu.Info, c *Config) (y *Memory, why []string, err error) {
	once := new(counted)
	if why, err = c.complete(ctx, st, info, once); err != nil {
		return nil, nil, err
	}
	y, err = openMemory(ctx, st, info, *c, once)
	return y, why, err
}

// openMemory is OpenMemory of a run whose draws are counted once.
func openMemory(ctx context.Context, st *store.Store, info gpu.Info, c Config, once *counted) (_ *Memory, err error) {
	y := &Memory{m: st.Manifest(), store: st, cfg: c, info: info, once: once}
	if y.shape.draws, err = c.relationDraws(y.m); err != nil {
		return nil, err
	}
	if err := y.cfg.countVectors(ctx, st); err != nil {
		return nil, err
	}
	y.vectors = y.cfg.evalVectors()
	o := y.cfg.MacroOptions(y.m)
	if y.forecast, err = buffer.OpenForecaster(ctx, st, o); err != nil {
		return nil, fmt.Errorf("train: plan: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, y.Close())
		}
	}()
	if y.trained, err = st.TrainingNodes(ctx, c.Split); err != nil && (c.Split != "" || !errors.Is(err, store.ErrNotFound)) {
		return nil, fmt.Errorf("train: plan: %w", err)
	}
	y.device = knownDevice(ctx, st, c.IOEngine)
	if c.MemoryBytes == 0 {
		return y, nil
	}
	// A run on a store that does not fit the task ends with the error; its plan can be looked at.
	shape, err := nodeShape(y.m, &y.cfg)
	if err != nil {
		return y, nil
	}
	y.shape = shape
	e, err := y.evaluator(st, nil, 0)
	if err != nil {
		return y, nil
	}
	y.eval = e.LeastBytes()
	if y.batch, err = newBatchMeter(ctx, info, y.m, &y.cfg, y.shape); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if err = e.Close(); err == nil && y.cfg.relational() {
		y.batch.draws, err = once.of(ctx, y)
	}
	if err != nil {
		return nil, err
	}
	return y, nil
}

// Forecaster is the partition buffer's; it is closed with y.
func (y *Memory) Forecaster() *buffer.Forecaster { return y.forecast }

// Close releases the store's files.
func (y *Memory) Close() error {
	var err error
	if y.batch != nil {
		err = y.batch.close()
	}
	return errors.Join(err, y.forecast.Close())
}

// evaluator makes the run's evaluator within bytes, 0 for no bound.
func (y *Memory) evaluator(st *store.Store, dev gpu.Device, bytes int64) (*eval.Evaluator, error) {
	o := eval.Options{Features: y.cfg.Features, EdgeFeatures: y.cfg.EdgeFeatures, Split: y.cfg.Split, MemoryBytes: bytes, Model: y.cfg.model(y.shape), Vectors: y.vectors}
	return eval.New(st, dev, o, max(y.cfg.Hidden, y.shape.classes))
}

// evalBytes is evaluation's part of a budget: its share, or what it needs.
func (y *Memory) evalBytes(memory int64) int64 {
	return max(budget.Share(memory, budget.ProgramBytes, budget.EvalShare), y.eval, 1)
}

// worst is what the largest mini-batch takes with capacity partitions resident (0 = all).
func (y *Memory) worst(capacity int) int64 {
	if y.batch == nil {
		return 0
	}
	n, err := y.batch.worst(context.Background(), y.m, capacity) // it computes nothing
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
	_, staged, _ := y.batch.host(largestStep(y.m, capacity))
	return int64(y.info.InFlight()) * staged
}

// draws is what the store's nodes add to mini-batches, nil where it was not counted.
func (y *Memory) draws() *draws {
	if y.batch == nil {
		return nil
	}
	return y.batch.draws
}

// history is what the history takes with capacity partitions resident (0 = all).
func (y *Memory) history(capacity int) int64 {
	if !y.cfg.History {
		return 0
	}
	resident := len(y.m.Partitions)
	if capacity > 0 {
		resident = min(resident, capacity+len(y.m.Pinned))
	}
	cost, err := y.cfg.historyCost(y.m, y.trained, resident, 0, y.draws())
	if err != nil {
		return 0 // a run ends with it
	}
	return cost.budgetBytes()
}

// degreeBytes is what the degrees of a step's nodes take, absent neighbours counted, with capacity partitions resident (0 = all).
func (y *Memory) degreeBytes(capacity int) int64 {
	if y.cfg.hopKind().Sum == "" || capacity == 0 && y.cfg.Group == 0 {
		return 0
	}
	rows, _ := largestStep(y.m, capacity)
	return 4 * rows
}

// copyBytes is what a checkpoint's copy of the model takes on the host above what every model may.
func (y *Memory) copyBytes() int64 {
	model := y.cfg.model(y.shape)
	return max(0, model.StateBytes()-rowcache.ModelBytes)
}

// BesideBytes is what a run within a budget holds out of [Config.MacroOptions]' MemoryBytes beside the partition buffer, with capacity
// partitions resident (0 = all): its history, and what evaluation and mini-batches need above their shares.
func (y *Memory) BesideBytes(memory int64) func(capacity int) int64 {
	copies := y.copyBytes()
	return func(capacity int) int64 {
		n := y.history(capacity) + y.degreeBytes(capacity) + y.deviceBooks(capacity) + y.aloneBytes() + copies
		if memory > 0 {
			n += y.batchBytes(memory, capacity) - budget.Share(memory, budget.ProgramBytes, budget.BatchShare)
			n += max(0, y.eval-budget.Share(memory, budget.ProgramBytes, budget.EvalShare))
		}
		return n
	}
}

// plan is what a run within a budget (0 = none) does and holds.
type plan struct {
	choice  macro.Choice
	options buffer.Options // of its macro-batches
	account budget.Account
	nodes   uint64        // that train
	draws   *draws        // what they and others add to mini-batches; nil: it was not counted
	vectors *eval.Vectors // of the evaluator that was planned with it: who makes the table says how it is read
	// Of [Memory.Mix], once it was asked.
	mixture string
	labels  [][]store.ClassNodes
	outlook *Outlook
}

// mix has Mix decide the plan's mixture.
func (y *Memory) mix(ctx context.Context, p *plan) (err error) {
	p.labels, p.outlook, err = y.Mix(ctx, &p.choice)
	if p.mixture = MixtureRandom; p.outlook != nil {
		p.mixture = p.outlook.Mixture
	}
	return err
}

// plan has macro.Choose fill in what the configuration leaves open. A budget that is too small is [store.ErrBudget].
func (y *Memory) plan(memory int64) (p plan, err error) {
	c := y.cfg
	c.MemoryBytes = memory
	p.options, p.draws = c.MacroOptions(y.m), y.draws()
	beside := y.BesideBytes(memory)
	rowsTuning, err := y.RowsTuning(memory)
	if err != nil {
		return p, err
	}
	p.choice, err = macro.Choose(macro.Tuning{
		Config: macro.Config{Policy: c.Plan, Partitions: len(y.m.Partitions), Pinned: y.m.Pinned, Capacity: c.Buffer,
			Undirected: y.m.Schema.Undirected, Group: c.Group, Alone: c.DevicePlan == macro.DevicePBS, Reuse: c.Reuse, Seed: c.Seed},
		MemoryBytes: p.options.MemoryBytes, LeastBytes: y.forecast.LeastBytes, DoubleBytes: y.forecast.DoubleBytes, BesideBytes: beside, Rows: rowsTuning,
		Hubs: y.m.HubsWhy(), Train: y.trained,
	})
	if y.failed != nil {
		return p, y.failed
	}
	if err != nil {
		return p, fmt.Errorf("train: plan %s of %d partitions: %w", c.Plan, len(y.m.Partitions), err)
	}
	if p.choice.Policy != macro.Hanoi && p.choice.Reuse == macro.ReuseAuto {
		p.choice.Reuse = 0 // one step an epoch: there is nothing to wait for
	}
	for _, n := range y.trained {
		p.nodes += n
	}
	capacity := p.choice.Capacity
	p.options.Capacity = capacity
	if memory == 0 {
		return p, nil
	}
	p.options.MemoryBytes -= beside(capacity)
	p.account.TotalBytes = memory
	p.account.Hold("program", budget.ProgramBytes, false)
	p.account.Hold(holdsEval, y.evalBytes(memory), true)
	p.account.Hold(holdsBatch, y.batchBytes(memory, capacity), !y.info.OwnMemory())
	p.account.Hold(holdsHistory, y.history(capacity), false)
	p.account.Hold(holdsCopy, y.copyBytes(), false)
	p.account.Hold(holdsDegrees, y.degreeBytes(capacity), false)
	p.account.Hold(holdsDevice, y.deviceBooks(capacity), false)
	holds := holdsBuffer
	if p.choice.Policy == macro.Rows {
		holds = holdsRows
	}
	p.account.Hold(holds, p.account.LeftBytes(), true)
	return p, nil
}

// Account says who holds what within a budget; a budget that is too small is [store.ErrBudget] and names the smallest that works.
func (y *Memory) Account(memory int64) (budget.Account, error) {
	p, err := y.planned(memory)
	return p.account, err
}

// planned is plan that names the smallest budget where this one is too small.
func (y *Memory) planned(memory int64) (plan, error) {
	p, err := y.plan(memory)
	return p, budget.Smallest(err, memory, func(memory int64) (budget.Account, error) {
		p, err := y.plan(memory)
		return p.account, err
	})
}
