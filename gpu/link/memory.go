package link

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
)

// Holders of a run's memory, beside the program.
const (
	holdsEval   = "evaluation"
	holdsBatch  = "mini-batches"
	holdsBuffer = "partition buffer"
)

// Memory says who holds what of a run on a store, for any budget: plan, refusal and the smallest budget follow from it. Opening
// it reads every topology directory once; what follows reads nothing.
type Memory struct {
	m        *store.Manifest
	cfg      Config // without its budget
	info     gpu.Info
	forecast *buffer.Forecaster
	batch    *batchMeter // nil without a budget
	eval     int64       // the least that evaluation takes
	failed   error       // of what a mini-batch takes
	types    *eval.AnswerTypes
	typed    bool // types are known
}

// answerTypes is [Config.answerTypes], which reads the store once.
func (y *Memory) answerTypes(ctx context.Context, st *store.Store) (_ *eval.AnswerTypes, err error) {
	if !y.typed {
		y.types, err = y.cfg.answerTypes(ctx, st)
		y.typed = err == nil
	}
	return y.types, err
}

// OpenMemory looks at a store for runs of c, whose defaults must be filled in, on a device that info describes.
func OpenMemory(ctx context.Context, st *store.Store, info gpu.Info, c Config) (_ *Memory, err error) {
	y := &Memory{m: st.Manifest(), cfg: c, info: info}
	if y.forecast, err = buffer.OpenForecaster(ctx, st, c.MacroOptions(y.m)); err != nil {
		return nil, fmt.Errorf("train: plan: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, y.Close())
		}
	}()
	if c.MemoryBytes == 0 {
		return y, nil
	}
	if y.batch, err = newBatchMeter(ctx, info, y.m, &y.cfg); err != nil {
		return nil, err
	}
	if c.EvalEvery <= 0 {
		return y, nil
	}
	v, err := y.ranker(ctx, st, nil, 0)
	if err != nil {
		return nil, err
	}
	y.eval = v.LeastBytes() + y.cfg.rowsBytes(y.m)
	return y, v.Close()
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

// ranker makes the run's evaluator within bytes, 0 for no bound.
func (y *Memory) ranker(ctx context.Context, st *store.Store, dev gpu.Device, bytes int64) (_ *eval.Ranker, err error) {
	e := eval.RankerOptions{Threads: y.cfg.Threads, Against: y.cfg.Against}
	if e.Model, err = y.cfg.LinkModel(y.m); err != nil {
		return nil, err
	}
	if e.Relation, err = y.cfg.predicted(y.m); err != nil {
		return nil, err
	}
	if e.Types, err = y.answerTypes(ctx, st); err != nil {
		return nil, err
	}
	if bytes > 0 {
		e.MemoryBytes = max(1, bytes-y.cfg.rowsBytes(y.m))
	}
	return eval.NewRanker(st, dev, e)
}

// worst is what the largest mini-batch takes with capacity partitions resident (0 = all).
func (y *Memory) worst(capacity int) need {
	n, err := y.batch.worst(context.Background(), capacity) // it computes nothing
	if err != nil {
		y.failed = err
	}
	return n
}

// batchBytes is the mini-batches' part of a budget with capacity partitions resident (0 = all): their tensors' share, or what those need. On a
// device of its own memory they take none of the host's, but for page-locked copies of what is on its way there.
func (y *Memory) batchBytes(memory int64, capacity int) int64 {
	if !y.info.OwnMemory() {
		return max(y.worst(capacity).tensors, y.cfg.batchShare(memory, len(y.m.Partitions)))
	}
	return int64(y.info.InFlight()) * y.worst(capacity).staged
}

// BesideBytes is what a run within a budget holds out of [Config.MacroOptions]' MemoryBytes beside the partition buffer, with capacity
// partitions resident (0 = all): what evaluation and mini-batches need above their shares, and the shadow of absent neighbours.
func (y *Memory) BesideBytes(memory int64) func(capacity int) int64 {
	parts := len(y.m.Partitions)
	return func(capacity int) int64 {
		if memory == 0 {
			return 0
		}
		return y.batchBytes(memory, capacity) - y.cfg.batchShare(memory, parts) + max(0, y.eval-y.cfg.evalShare(memory, parts)) + y.absentBytes(capacity) + y.cfg.typesBytes(y.m, capacity) + y.deviceBooks(capacity)
	}
}

// absentBytes is what the shadow and its graph take with capacity partitions resident (0 = all).
func (y *Memory) absentBytes(capacity int) int64 {
	if y.cfg.Absent != AbsentShadow || capacity == 0 {
		return 0
	}
	return y.cfg.absentBytes(y.m)
}

// plan has macro.Choose fill in what the configuration leaves open. A budget that is too small is [store.ErrBudget].
func (y *Memory) plan(memory int64) (p plan, err error) {
	c, parts := y.cfg, len(y.m.Partitions)
	c.MemoryBytes = memory
	p.options = c.MacroOptions(y.m)
	beside := y.BesideBytes(memory)
	p.choice, err = macro.Choose(macro.Tuning{
		Config:      macro.Config{Policy: c.Plan, Partitions: parts, Capacity: c.Buffer, Logical: c.Logical, Link: true, Group: c.Group, Seed: c.Seed},
		MemoryBytes: p.options.MemoryBytes, LeastBytes: y.forecast.LeastBytes, DoubleBytes: y.forecast.DoubleBytes, BesideBytes: beside,
	})
	if y.failed != nil {
		return p, y.failed
	}
	if err != nil {
		return p, fmt.Errorf("train: plan %s of %d partitions: %w", c.Plan, parts, err)
	}
	capacity := p.choice.Capacity
	p.options.Capacity, p.options.Swap = capacity, p.choice.Swap()
	if memory == 0 {
		return p, nil
	}
	p.options.MemoryBytes -= beside(capacity)
	p.account.TotalBytes = memory
	p.account.Hold(budget.Program, programBytes(memory, parts), true)
	p.account.Hold(holdsEval, max(y.eval, c.evalShare(memory, parts)), true)
	p.account.Hold(holdsBatch, y.batchBytes(memory, capacity), !y.info.OwnMemory())
	p.account.Hold(holdsAbsent, y.absentBytes(capacity), false)
	p.account.Hold("nodes of the answers' types", y.cfg.typesBytes(y.m, capacity), false)
	p.account.Hold("device's rows", y.deviceBooks(capacity), false)
	p.account.Hold(holdsBuffer, p.account.LeftBytes(), true)
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
