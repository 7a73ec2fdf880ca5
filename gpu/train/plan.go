package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
)

// historyElem is what the history's rows are stored as: by default float16 where features take 16 bits or fewer, else float32.
func (c *Config) historyElem(m *store.Manifest) (blocks.ElemType, error) {
	if c.HistoryDtype != "" {
		return blocks.ParseElemType(c.HistoryDtype)
	}
	if len(c.Features) == 0 {
		return blocks.Invalid, fmt.Errorf("%w: no feature columns", store.ErrNotFound)
	}
	column, err := m.Column(c.Features[0])
	if err != nil {
		return blocks.Invalid, err
	}
	if column.Elem.Size() <= 2 {
		return blocks.Float16, nil
	}
	return blocks.Float32, nil
}

// MacroOptions are those of a run on a store, before its plan is chosen. MemoryBytes is what the run's budget leaves the
// partition buffer and the history; 0: no bound. c.Features must be filled in.
func (c *Config) MacroOptions(m *store.Manifest) buffer.Options {
	o := buffer.Options{EngineName: c.IOEngine, Pinned: m.Pinned, Features: c.Features, Labels: true, Split: "train", SplitColumn: c.Split, Threads: c.Threads}
	if c.Model == "rgcn" {
		o.Relations, o.Both = true, !m.Schema.Undirected
	}
	if c.MemoryBytes > 0 {
		left := c.MemoryBytes - budget.ProgramBytes
		o.MemoryBytes = max(left-left/budget.EvalShare-left/budget.BatchShare, 1)
	}
	return o
}

// resident is how many partitions are in memory at once, pinned ones included, once the plan is chosen.
func (c *Config) resident(m *store.Manifest) int {
	return min(len(m.Partitions), c.Buffer+len(m.Pinned))
}

// HistoryCost forecasts the history of a run on a store whose partitions have so many training nodes (nil: as the manifest says),
// at most resident of them in memory at once, pinned ones included, in so many steps an epoch. c's defaults and c.Features must be filled in.
func (c *Config) HistoryCost(m *store.Manifest, trained []uint64, resident, steps int) (HistoryCost, error) {
	elem, err := c.historyElem(m)
	if err != nil {
		return HistoryCost{}, fmt.Errorf("train: history: %w", err)
	}
	parts := slices.Clone(m.Partitions)
	for p := range trained {
		parts[p].Train = trained[p]
	}
	return costHistory(parts, c.Hidden, elem, resident, steps), nil
}

// HistoryBytes returns what the history of a run takes of the partition buffer's share with capacity partitions resident, pinned
// ones not counted (0 = all); 0 for a run without one.
func (c *Config) HistoryBytes(m *store.Manifest, trained []uint64) func(capacity int) int64 {
	return func(capacity int) int64 {
		if !c.History {
			return 0
		}
		resident := len(m.Partitions)
		if capacity > 0 {
			resident = min(resident, capacity+len(m.Pinned))
		}
		cost, err := c.HistoryCost(m, trained, resident, 0)
		if err != nil {
			return 0 // a run ends with it
		}
		return cost.budgetBytes()
	}
}

// openMacroBatches opens the partition buffer and the plan of a choice, which it fills in in cfg.
func openMacroBatches(ctx context.Context, st *store.Store, cfg *Config, choice *macro.Choice, o buffer.Options) (*buffer.Buffer, macro.Policy, error) {
	m := st.Manifest()
	loose := len(m.Partitions) - len(m.Pinned)
	cfg.Plan, cfg.Buffer = choice.Policy, choice.Capacity
	if choice.Policy == macro.Memory {
		cfg.Buffer = loose
	}
	policy, err := macro.New(choice.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("train: plan %s with %d of %d partitions: %w", cfg.Plan, cfg.Buffer, loose, err)
	}
	it, err := buffer.Open(ctx, st, o)
	if err != nil {
		return nil, nil, fmt.Errorf("train: plan %s with %d of %d partitions in memory: %w", cfg.Plan, cfg.Buffer, loose, err)
	}
	return it, policy, nil
}

// choosePlan has macro.Choose fill in what cfg leaves open, and returns the options of its macro-batches: their MemoryBytes is
// without the history's.
func choosePlan(ctx context.Context, st *store.Store, cfg *Config) (_ macro.Choice, o buffer.Options, err error) {
	m := st.Manifest()
	o = cfg.MacroOptions(m)
	f, err := buffer.OpenForecaster(ctx, st, o)
	if err != nil {
		return macro.Choice{}, o, fmt.Errorf("train: plan: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	trained, err := st.TrainingNodes(ctx, cfg.Split)
	if err != nil {
		return macro.Choice{}, o, fmt.Errorf("train: plan: %w", err)
	}
	history := cfg.HistoryBytes(m, trained)
	choice, err := macro.Choose(macro.Tuning{
		Config: macro.Config{Policy: cfg.Plan, Partitions: len(m.Partitions), Pinned: m.Pinned, Capacity: cfg.Buffer,
			Undirected: m.Schema.Undirected, Group: cfg.Group, Reuse: cfg.Reuse, Seed: cfg.Seed},
		MemoryBytes: o.MemoryBytes, LeastBytes: f.LeastBytes, DoubleBytes: f.DoubleBytes, HistoryBytes: history, Hubs: m.HubsWhy(), Train: trained,
	})
	if err != nil {
		return choice, o, fmt.Errorf("train: plan %s of %d partitions: %w", cfg.Plan, len(m.Partitions), err)
	}
	if choice.Policy != macro.Hanoi && choice.Reuse == macro.ReuseAuto {
		choice.Reuse = 0 // one step an epoch: there is nothing to wait for
	}
	if o.Capacity = choice.Capacity; o.MemoryBytes > 0 {
		o.MemoryBytes -= history(choice.Capacity)
	}
	return choice, o, nil
}

// CheckMemory reports whether the budget of a run as cfg says is too small, as [Node] would: then the error is [store.ErrBudget]
// and names one that does.
func CheckMemory(ctx context.Context, st *store.Store, cfg Config) (err error) {
	if err := cfg.Normalize(); err != nil {
		return err
	}
	shape, err := nodeShape(st.Manifest(), &cfg)
	if err != nil {
		return err
	}
	return leastMemory(ctx, st, cfg, shape, tryMemory(ctx, st, cfg, shape))
}

// leastMemory says after err, if it is that the budget is too small, which one would do for the plan, the history and the evaluator.
func leastMemory(ctx context.Context, st *store.Store, cfg Config, in shape, err error) error {
	return budget.Least(err, cfg.MemoryBytes, func(memory int64) error {
		cfg.MemoryBytes = memory
		return tryMemory(ctx, st, cfg, in)
	})
}

// tryMemory plans a run and its evaluator, which a plan needs no device for.
func tryMemory(ctx context.Context, st *store.Store, cfg Config, in shape) error {
	if _, _, err := choosePlan(ctx, st, &cfg); err != nil {
		return err
	}
	eval, err := newNodeEvaluator(st, nil, &cfg, in)
	if err != nil {
		return err
	}
	return eval.Close()
}

func newNodeEvaluator(st *store.Store, dev gpu.Device, cfg *Config, in shape) (*eval.Evaluator, error) {
	o := eval.Options{Features: cfg.Features, Split: cfg.Split, MemoryBytes: budget.Share(cfg.MemoryBytes, budget.EvalShare), Model: cfg.model(in)}
	return eval.New(st, dev, o, max(cfg.Hidden, in.classes))
}
