package planning

import (
	"context"
	"errors"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/history"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
)

// Decision is what a run does and holds, and why, before anything of it is made. Training, the command plan and everybody
// else who asks is told the same.
type Decision struct {
	Plan
	Config  config.Config // in full, but for the plan, which Choice says
	Trained []uint64      // training nodes by partition; nil: the store does not say who would train
	History *history.Cost // nil: none is kept
	Why     []string      // in sentences

	memory *Memory
}

// Decide completes c and decides how it runs on a store, on a device that info describes: which plan, within which account
// of memory, with what done about absent neighbours. A budget that is too small is [store.ErrBudget] and names the smallest
// that works. Of a store that does not fit the task the plan alone is decided. The caller closes the decision.
func Decide(ctx context.Context, st *store.Store, info gpu.Info, c config.Config) (*Decision, error) {
	return DecideOnce(ctx, st, info, c, new(Counted))
}

// DecideOnce is Decide whose readings of the graph are kept in once.
func DecideOnce(ctx context.Context, st *store.Store, info gpu.Info, c config.Config, once *Counted) (d *Decision, err error) {
	m := st.Manifest()
	c.FillFeatures(m)
	completed, refused, err := holdSparse(&c, ctx, st, info, once)
	if err != nil {
		return nil, err
	}
	if c.Sparse == nil {
		if completed, err = CompleteOnce(&c, ctx, st, info, once); err != nil {
			return nil, err
		}
	}
	dropped := c.InputDropoutUsed()
	c.InputDropout = &dropped // the configuration is kept in full
	y, err := OpenMemoryOnce(ctx, st, info, c, once)
	if err != nil {
		return nil, err
	}
	d = &Decision{Config: c, Trained: y.trained, memory: y}
	defer func() {
		if err != nil {
			err = errors.Join(err, y.Close())
		}
	}()
	if d.Plan, err = y.Planned(c.MemoryBytes); err != nil {
		return nil, budget.Smaller(err, refused)
	}
	if y.Shape, err = config.ShapeOf(m, &y.Cfg); err != nil {
		y.Shape = config.Shape{} // a run ends with the error; its plan can be looked at
	}
	if d.Mixture = config.MixtureRandom; y.trained != nil {
		if err = y.MixSteps(ctx, &d.Plan); err != nil {
			return nil, err
		}
	}
	if c.History {
		if err = d.costHistory(m); err != nil {
			return nil, err
		}
	}
	settled, err := d.settle(ctx, st, once)
	if err != nil {
		return nil, err
	}
	d.explain(m, append(completed, settled...))
	return d, nil
}

// costHistory works out what the history takes.
func (d *Decision) costHistory(m *store.Manifest) error {
	c := d.Config
	fill(&c, m, &d.Choice)
	plan, err := firstEpoch(d.Choice.Config)
	if err != nil {
		return err
	}
	cost, err := history.Forecast(&c, m, d.Trained, c.Resident(m), len(plan.Steps), d.Sampled)
	d.History = &cost
	return err
}

// explain collects the reasons.
func (d *Decision) explain(m *store.Manifest, completed []string) {
	c := &d.Config
	d.Why = append(d.Choice.Why, completed...)
	add := func(why string) {
		if why != "" {
			d.Why = append(d.Why, why)
		}
	}
	add(c.UnusedWeights(m))
	if d.History != nil {
		add(d.History.String())
	}
	add(c.PruneWhy(c.MeanDegree(m)))
	if c.MemoryBytes > 0 {
		add("memory: " + d.Account.String())
	}
}

// Forecaster forecasts what the partition buffer reads; it is closed with d.
func (d *Decision) Forecaster() *buffer.Forecaster { return d.memory.Forecaster() }

// Evaluator makes the run's evaluator on dev, within its part of the account.
func (d *Decision) Evaluator(st *store.Store, dev gpu.Device) (*eval.Evaluator, error) {
	d.Vectors = d.memory.Vectors
	return d.memory.Evaluator(st, dev, d.Account.Of(HoldsEval))
}

// Close releases the store's files.
func (d *Decision) Close() error { return d.memory.Close() }
