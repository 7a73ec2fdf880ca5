package train

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
)

// What a run needs besides the partition buffer, as shares of MemoryBytes.
// Half of the rest of the program's memory is the Go runtime and Pebble.
const (
	programBytes = 64 << 20 // code, Go runtime, model, sampler
	evalShare    = 4        // 1/4 of what is left is the evaluator's
	batchShare   = 6        // 1/6 the tensors of mini-batches'
)

// Node trains a node classifier on a store and returns its checkpoint: the
// best epoch's parameters with the configuration in full and the summary. ctx
// ends the run early, with its error. The store must stay open.
func Node(ctx context.Context, st *store.Store, cfg Config, hooks Hooks) (_ *Checkpoint, err error) {
	m := st.Manifest()
	from, state, err := resumeNode(&cfg, m.Version)
	if err != nil {
		return nil, err
	}
	every, err := ParseInterval(cfg.CheckpointEvery)
	if err != nil {
		return nil, err
	}
	in, err := nodeInput(m, &cfg)
	if err != nil {
		return nil, err
	}
	shape := shape{in: in, classes: m.Schema.Classes, relations: len(m.Schema.Relations), inverse: !m.Schema.Undirected}
	usage := startUsage()
	dev := host.New(host.Options{Threads: cfg.Threads})
	defer func() { err = errors.Join(err, dev.Close()) }()
	memory := cfg.MemoryBytes
	var h *history
	if cfg.History {
		o := historyOptions{split: cfg.Split, dim: cfg.Hidden, memoryBytes: memory, resident: residentPartitions(m, &cfg)}
		if o.elem, err = cfg.historyElem(m); err != nil {
			return nil, err
		}
		if h, err = newHistory(ctx, st, dev, o); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, h.close()) }()
		if memory > 0 {
			memory -= h.bytes()
		}
	}
	eval, err := NewEvaluator(st, dev, EvaluatorOptions{Features: cfg.Features, Split: cfg.Split, MemoryBytes: share(memory, evalShare), Model: cfg.model(shape)}, max(cfg.Hidden, m.Schema.Classes))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, eval.Close()) }()
	it, policy, why, err := openMacroBatches(ctx, st, &cfg, memory)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	t, err := newTrainer(ctx, dev, &cfg, shape)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if memory > 0 { // what neither the program nor the evaluator nor the partition buffer takes
		t.arena.Bound(max(memory-programBytes-share(memory, evalShare)-it.MemoryBytes(), 1))
	}
	if hooks.Start != nil {
		hooks.Start(cfg)
	}
	if hooks.Plan != nil {
		if h != nil {
			why = append(why, h.cost(len(policy.Epoch(0).Steps)).String())
		}
		hooks.Plan(why)
	}
	t.history = h
	s := &session{cfg: &cfg, hooks: hooks, version: m.Version, plan: policy.Epoch, it: it, eval: eval, t: t, passes: passes{replay: cfg.ReusePasses, ready: it.NextReady},
		from: from, clock: newClock(every), usage: usage}
	if err := s.run(ctx, state); err != nil {
		return nil, err
	}
	s.sum.Seed, s.sum.Device, s.sum.IOEngine = cfg.Seed, deviceOf(dev), it.Stats().Engine
	params, err := t.model.Params().Save(ctx, t.queue)
	if err != nil {
		return nil, err
	}
	return &Checkpoint{Version: m.Version, Config: cfg, Model: t.model.Config(), Summary: s.sum, Params: params}, nil
}

// historyElem is what the history's rows are stored as.
func (c *Config) historyElem(m *store.Manifest) (blocks.ElemType, error) {
	if c.HistoryDtype != "" {
		return blocks.ParseElemType(c.HistoryDtype)
	}
	column, err := m.Column(c.Features[0])
	if err != nil {
		return blocks.Invalid, err
	}
	return HistoryElem(column.Elem), nil
}

// HistoryElem is what a history's rows are stored as by default beside features of a type.
func HistoryElem(features blocks.ElemType) blocks.ElemType {
	if features.Size() <= 2 {
		return blocks.Float16
	}
	return blocks.Float32
}

// residentPartitions is how many partitions a step holds as far as the
// configuration says; 0: the budget will tell.
func residentPartitions(m *store.Manifest, c *Config) int {
	switch {
	case c.Plan == "memory":
		return len(m.Partitions)
	case c.Buffer > 0:
		return c.Buffer + len(m.Pinned)
	}
	return 0
}

// share returns the n-th part of what a budget leaves after the program itself; 0 stays no bound.
func share(memory int64, n int64) int64 {
	if memory == 0 {
		return 0
	}
	return max((memory-programBytes)/n, 1)
}

// nodeInput checks that the store fits the task, fills in cfg.Features and returns the
// model's input columns.
func nodeInput(m *store.Manifest, cfg *Config) (dim int, err error) {
	if m.Schema.Task != store.TaskNode || m.Schema.Classes < 1 {
		return 0, fmt.Errorf("train: the store's task is %q with %d classes, expected %q: ingest labels and a split", m.Schema.Task, m.Schema.Classes, store.TaskNode)
	}
	if cfg.Model == "rgcn" && len(m.ColumnsOf(store.RoleRelation)) == 0 {
		return 0, fmt.Errorf("train: %w: model rgcn needs a column of role %s: ingest edges with types", store.ErrNotFound, store.RoleRelation)
	}
	if len(cfg.Features) == 0 {
		for _, c := range m.ColumnsOf(store.RoleFeature) {
			if !strings.HasSuffix(c.Name, HopSuffix) {
				cfg.Features = append(cfg.Features, c.Name)
			}
		}
		if cfg.PrecomputedHop && len(cfg.Features) == 1 {
			cfg.Features = append(cfg.Features, cfg.Features[0]+HopSuffix)
		}
	}
	want := 1
	if cfg.PrecomputedHop {
		want = 2
	}
	if len(cfg.Features) != want {
		return 0, fmt.Errorf("train: feature columns %v, expected %d: name them with --features", cfg.Features, want)
	}
	for _, name := range cfg.Features {
		c, err := m.Column(name)
		if err != nil && strings.HasSuffix(name, HopSuffix) {
			return 0, fmt.Errorf("train: %w: make it with gstore precompute", err)
		}
		if err != nil {
			return 0, err
		}
		if err := CheckFeature(c.Name, c.Elem); err != nil {
			return 0, err
		}
		if dim != 0 && c.Dim != dim {
			return 0, fmt.Errorf("train: feature %s has %d columns, %s has %d", c.Name, c.Dim, cfg.Features[0], dim)
		}
		dim = c.Dim
	}
	return dim, nil
}

// MacroOptions are those of a run on a store, before its plan is chosen. MemoryBytes is what memory, the run's budget less its
// history's, leaves the partition buffer; 0: no bound. c.Features must be filled in.
func (c *Config) MacroOptions(m *store.Manifest, memory int64) store.MacroOptions {
	o := store.MacroOptions{EngineName: c.IOEngine, Pinned: m.Pinned, Features: c.Features, Labels: true, Split: "train", SplitColumn: c.Split, Threads: c.Threads}
	if c.Model == "rgcn" {
		o.Relations, o.Both = true, !m.Schema.Undirected
	}
	if memory > 0 {
		left := memory - programBytes
		o.MemoryBytes = max(left-left/evalShare-left/batchShare, 1)
	}
	return o
}

// openMacroBatches opens the partition buffer and the plan that cfg asks for
// and fills in what "auto" chose, for the reasons it returns. memory bounds the run; 0: none.
func openMacroBatches(ctx context.Context, st *store.Store, cfg *Config, memory int64) (*store.MacroBatches, macro.Policy, []string, error) {
	m := st.Manifest()
	o := cfg.MacroOptions(m, memory)
	choice, err := choosePlan(ctx, st, cfg, o)
	if err != nil {
		return nil, nil, nil, err
	}
	loose := len(m.Partitions) - len(m.Pinned)
	cfg.Plan, cfg.Buffer = choice.Policy, choice.Capacity
	if o.Capacity = choice.Capacity; choice.Policy == macro.Memory {
		cfg.Buffer = loose
	}
	policy, err := macro.New(choice.Config)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("train: plan %s with %d of %d partitions: %w", cfg.Plan, cfg.Buffer, loose, err)
	}
	it, err := st.MacroBatches(ctx, o)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("train: plan %s with %d of %d partitions in memory: %w", cfg.Plan, cfg.Buffer, loose, err)
	}
	return it, policy, choice.Why, nil
}

// choosePlan has macro.Choose fill in what cfg leaves open, for a partition buffer of o.MemoryBytes.
func choosePlan(ctx context.Context, st *store.Store, cfg *Config, o store.MacroOptions) (_ macro.Choice, err error) {
	m := st.Manifest()
	f, err := st.Forecaster(ctx, o)
	if err != nil {
		return macro.Choice{}, fmt.Errorf("train: plan: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	t := macro.Tuning{
		Config: macro.Config{Policy: cfg.Plan, Partitions: len(m.Partitions), Pinned: m.Pinned, Capacity: cfg.Buffer,
			Undirected: m.Schema.Undirected, Reuse: cfg.Reuse, Seed: cfg.Seed},
		MemoryBytes: o.MemoryBytes, LeastBytes: f.LeastBytes, DoubleBytes: f.DoubleBytes, Hubs: m.HubsWhy(),
	}
	if t.Train, err = st.TrainingNodes(ctx, cfg.Split); err != nil {
		return macro.Choice{}, fmt.Errorf("train: plan: %w", err)
	}
	choice, err := macro.Choose(t)
	if err != nil {
		return choice, fmt.Errorf("train: plan %s of %d partitions: %w", cfg.Plan, len(m.Partitions), err)
	}
	if choice.Policy != macro.Hanoi && choice.Reuse == macro.ReuseAuto {
		choice.Reuse = 0 // one step an epoch: there is nothing to wait for
	}
	return choice, nil
}
