package link

import (
	"context"
	"errors"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/table"
)

// Evaluate ranks the edges of lists by the model of t's checkpoint, of the run c. o's Model is c's; its
// MemoryBytes bound the whole process.
func Evaluate(ctx context.Context, st *store.Store, dev gpu.Device, t *table.Table, c *Checkpointed, o eval.RankerOptions, lists ...string) (_ []eval.RankMetrics, read int64, err error) {
	model, err := c.Config.LinkModel(len(st.Manifest().Schema.Relations))
	if err != nil {
		return nil, 0, err
	}
	q, err := gpu.NewQueue(dev)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	m, err := nn.NewLink(ctx, q, model)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := m.Params().LoadState(ctx, q, c.Model); err != nil {
		return nil, 0, err
	}
	rows := newTableRows(t)
	defer func() { err = errors.Join(err, rows.Close()) }()
	o.Model = model
	open := func(memory int64) (*eval.Ranker, error) {
		o := o
		if memory > 0 {
			o.MemoryBytes = max(memory-programBytes(memory, len(st.Manifest().Partitions))-rows.Bytes(), 1)
		}
		return eval.NewRanker(st, dev, o)
	}
	v, err := open(o.MemoryBytes)
	if err != nil {
		return nil, 0, budget.Smallest(err, o.MemoryBytes, func(memory int64) (budget.Account, error) {
			a := budget.Account{TotalBytes: memory}
			a.Hold("program", programBytes(memory, len(st.Manifest().Partitions)), true)
			a.Hold("a partition's embeddings", rows.Bytes(), false)
			v, err := open(memory)
			if err == nil {
				err = v.Close()
			}
			a.Hold("evaluation", max(a.LeftBytes(), 0), true)
			return a, err
		})
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	metrics, err := v.Run(ctx, q, m, rows.Read, lists...)
	return metrics, v.BytesRead(), err
}
