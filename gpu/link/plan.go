package link

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
)

// TablePlanes is how many vectors a table has of a node: the embedding and the optimiser's state, Adagrad's sums of squares or
// Adam's two moments.
func (c *Config) TablePlanes() int {
	if c.Optimizer == adam {
		return 3
	}
	return 2
}

// readsSources reports whether edges are looked up by their source as well: encoders gather over them, and
// negatives by degree are drawn from them. Without either, their memory is the partition buffer's.
func (c *Config) readsSources() bool { return c.Encoder != "none" || c.DegreeShare > 0 }

// shares divides what a budget leaves after the program itself.
type shares struct {
	total int64 // may be negative
	eval  int64 // the evaluator's, 0 if the run has none
	batch int64 // a mini-batch's tensors': the rest is the partition buffer's
}

// heapBytes of budget.ProgramBytes are the Go heap's: sampled batches, the manifest, Pebble, garbage. The rest is code and
// constants, 38 MiB where all of it was touched, and stacks.
const heapBytes = 24 << 20

// planBytes are those of the epoch that trains and of the next one.
func planBytes(partitions int) int64 { return 2 * macro.PlanBytes(partitions) }

// HeapBytes is the share of a budget that is meant for the Go heap; a program that does nothing else passes it to
// debug.SetMemoryLimit, so that garbage does not take what the budget gives to others. Evaluation keeps a batch's
// questions there, in proportion to the budget.
func HeapBytes(memory int64, partitions int) int64 {
	return max(heapBytes, memory/32) + planBytes(partitions)
}

// programBytes is what a run's budget counts for the program: all that is neither evaluator, partition buffer nor tensors.
func programBytes(memory int64, partitions int) int64 {
	return budget.ProgramBytes - heapBytes + HeapBytes(memory, partitions)
}

// memory divides c's budget of a store with so many partitions. Without an encoder the tensors of a batch are known, with one they are a share: how
// many nodes a batch reads depends on the graph.
func (c *Config) memory(partitions int) shares {
	m := shares{total: c.MemoryBytes - programBytes(c.MemoryBytes, partitions)}
	if c.EvalEvery > 0 {
		m.eval = max(m.total/budget.EvalShare, 0)
	}
	model := nn.LinkConfig{Decoder: c.Model, Dim: c.Dim}
	m.batch = model.LossBytes(2*c.BatchSize, 2*c.Chunks, c.Negatives)
	if c.Encoder != "none" {
		m.batch = max(m.batch, m.total/budget.BatchShare)
	}
	return m
}

// MacroOptions are those of a run on a store, before its plan is chosen. MemoryBytes is what the run's budget leaves the
// partition buffer. c's defaults must be filled in.
func (c *Config) MacroOptions(m *store.Manifest) buffer.Options {
	o := buffer.Options{EngineName: c.IOEngine, Both: c.readsSources(), Relations: len(m.Schema.Relations) > 1, Threads: c.Threads,
		TableDim: c.Dim, TablePlanes: c.TablePlanes()}
	if memory := c.memory(len(m.Partitions)); c.MemoryBytes > 0 {
		o.MemoryBytes = max(memory.total-memory.eval-memory.batch, 1)
	}
	return o
}

// CheckMemory reports whether the budget of a run as cfg says is too small, as [Train] would: then the error is [store.ErrBudget]
// and names one that does.
func CheckMemory(ctx context.Context, st *store.Store, cfg Config) error {
	if err := cfg.Normalize(); err != nil {
		return err
	}
	return leastMemory(ctx, st, &cfg, tryMemory(ctx, st, cfg))
}

// choosePlan fills in what "auto" and an open buffer mean for the store and the budget (MariusGNN
// section 6: everything in memory if that fits, else the largest buffer; logical partitions so many that four fit
// in it) and returns the policy, its reasons and the options of its macro-batches.
func choosePlan(ctx context.Context, st *store.Store, cfg *Config) (_ macro.Policy, why []string, o buffer.Options, err error) {
	m := st.Manifest()
	o = cfg.MacroOptions(m)
	f, err := buffer.OpenForecaster(ctx, st, o)
	if err != nil {
		return nil, nil, o, fmt.Errorf("train: plan: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	choice, err := macro.Choose(macro.Tuning{
		Config:      macro.Config{Policy: cfg.Plan, Partitions: len(m.Partitions), Capacity: cfg.Buffer, Logical: cfg.Logical, Link: true, Seed: cfg.Seed},
		MemoryBytes: o.MemoryBytes,
		LeastBytes:  f.LeastBytes,
		DoubleBytes: f.DoubleBytes,
	})
	if err != nil {
		return nil, nil, o, fmt.Errorf("train: plan %s of %d partitions: %w", cfg.Plan, len(m.Partitions), err)
	}
	cfg.Plan, cfg.Buffer, cfg.Logical = choice.Policy, choice.Capacity, choice.Logical
	if cfg.RemoveBatchEdges == nil {
		hide := cfg.Encoder != "none" && choice.Policy != macro.Memory
		cfg.RemoveBatchEdges = &hide
	}
	o.Capacity, o.Swap = choice.Capacity, choice.Swap()
	if choice.Policy == macro.Memory {
		cfg.Buffer = len(m.Partitions)
	}
	policy, err := macro.New(choice.Config)
	if err != nil {
		return nil, nil, o, fmt.Errorf("train: plan %s with %d of %d partitions: %w", cfg.Plan, cfg.Buffer, len(m.Partitions), err)
	}
	return policy, choice.Why, o, nil
}

// leastMemory says after err, if it is that the budget is too small, which one would do for the plan, the
// evaluator and what is known of a batch.
func leastMemory(ctx context.Context, st *store.Store, asked *Config, err error) error {
	return budget.Least(err, asked.MemoryBytes, func(memory int64) error {
		cfg := *asked
		cfg.MemoryBytes = memory
		return tryMemory(ctx, st, cfg)
	})
}

// tryMemory plans a run and its evaluator.
func tryMemory(ctx context.Context, st *store.Store, cfg Config) (err error) {
	if _, _, _, err := choosePlan(ctx, st, &cfg); err != nil {
		return err
	}
	s := session{cfg: &cfg, st: st}
	if err := s.openEvaluator(nil); err != nil {
		return err
	}
	return s.closeRun()
}
