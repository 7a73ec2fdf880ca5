package train

import (
	"context"
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu/train/baseline"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
)

// baselineShare is the part of a run's work that its baselines may take.
const baselineShare = 10

// baselines closes the run's parts and computes in their memory what its result stands beside, if somebody asks; held is what the caller
// keeps of the model. What fails there is told with the result: the run itself is over.
func (o *opening) baselines(ctx context.Context, held int64) error {
	s, cfg := o.s, o.cfg
	if s.hooks.Baselines == nil {
		return nil
	}
	adam := s.t.adam
	adam.LR = float32(cfg.LR) // that of the last epoch may be another
	b := baseline.Options{Split: cfg.Split, Model: o.cfg.ModelConfig(s.shape), Adam: adam, Batch: cfg.BatchSize, Patience: cfg.Patience, Examples: o.work() / baselineShare}
	b.Features, b.Model.In = ownColumns(o.m, cfg.OwnFeatures())
	if cfg.Kind().NodesAlone { // it is that model
		b.Features = nil
	}
	if err := o.close(); err != nil {
		return err
	}
	if cfg.MemoryBytes > 0 {
		a := budget.Account{TotalBytes: cfg.MemoryBytes}
		a.Hold(budget.Program, budget.ProgramBytes, false)
		a.HoldHeap("copy of the model", held)
		b.MemoryBytes = max(min(a.LeftBytes(), baseline.MemoryMost), 1)
		a.Hold("baselines", max(min(a.LeftBytes(), baseline.MemoryMost), 0), true)
		budget.Begin(ctx, &a)
	}
	r, err := baseline.Compute(ctx, o.st, o.dev, b)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: the run itself is over, and --resume ends it with its result", err)
	}
	if err != nil {
		r = &baseline.Result{Skipped: err.Error()}
	}
	s.sum.Baselines = r
	s.hooks.Baselines(r)
	return nil
}

// ownColumns are the columns of numbers among features, and how many elements a row of them has: a perceptron reads no categories.
func ownColumns(m *store.Manifest, features []string) (names []string, width int) {
	for _, name := range features {
		c, err := m.Column(name)
		if _, category := m.Category(name); err != nil || category || slices.Contains(names, name) {
			continue
		}
		names, width = append(names, name), width+c.Dim
	}
	return names, width
}

// work is what the run did, in nodes that a layer of the perceptron would train: the seeds; what their neighbours are to a first layer,
// of which each has as many edges as the fanout says; and a third of each node that was evaluated.
func (o *opening) work() int64 {
	sum, fanout := &o.s.sum, int64(1)
	for _, f := range o.cfg.Fanouts {
		fanout = max(fanout, int64(f))
	}
	epochs := int64(len(sum.EpochSeconds))
	validations := epochs / int64(max(1, o.cfg.EvalEvery))
	return epochs*int64(o.planned.Nodes) + sum.SampledEdges/fanout + validations*int64(o.m.Nodes)/3
}
