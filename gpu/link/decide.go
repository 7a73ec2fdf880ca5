package link

import (
	"context"
	"errors"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
)

// plan is what a run within a budget (0 = none) does and holds.
type plan struct {
	choice  macro.Choice
	options buffer.Options // of its macro-batches
	account budget.Account
}

// Decision is what a run does and holds, and why, before anything of it is made. Training, loaders, the command plan and
// everybody else who asks is told the same.
type Decision struct {
	Config  Config // in full, its plan too
	Choice  macro.Choice
	Options buffer.Options // of its macro-batches
	Account budget.Account // empty without a budget
	Policy  macro.Policy
	Why     []string // in sentences

	memory   *Memory
	examples uint64 // edges of an epoch
}

// Decide decides how c, whose defaults must be filled in, runs on a store, on a device that info describes. A budget that is
// too small is [store.ErrBudget] and names the smallest that works. The caller closes the decision.
func Decide(ctx context.Context, st *store.Store, info gpu.Info, c Config) (_ *Decision, err error) {
	y, err := OpenMemory(ctx, st, info, c)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, y.Close())
		}
	}()
	p, err := y.planned(c.MemoryBytes)
	if err != nil {
		return nil, err
	}
	d := &Decision{Config: c, Choice: p.choice, Options: p.options, Account: p.account, memory: y}
	if d.Policy, err = p.apply(&d.Config, y.m); err != nil {
		return nil, err
	}
	if d.examples, err = d.Config.examplesOf(y.m); err != nil {
		return nil, err
	}
	d.Why = p.choice.Why
	for _, why := range []string{d.Config.AbsentWhy(y.m), d.Config.HiddenWhy(y.m, &p.choice), d.Config.ratesWhy(d.examples)} {
		if why != "" {
			d.Why = append(d.Why, why)
		}
	}
	if c.MemoryBytes > 0 {
		d.Why = append(d.Why, "memory: "+p.account.String())
	}
	return d, nil
}

// Forecaster forecasts what the partition buffer reads; it is closed with d.
func (d *Decision) Forecaster() *buffer.Forecaster { return d.memory.Forecaster() }

// Close releases the store's files.
func (d *Decision) Close() error { return d.memory.Close() }
