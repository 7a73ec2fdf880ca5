package train

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// AggregateErrors measures what a run's mini-batches know of neighbours: for each layer, input first, the mean over training nodes of
//
//	‖a[v] − A[v]‖ / ‖A[v]‖
//
// where a[v] is what the layer makes of v's neighbours in an epoch of the run's plan (sampled, in memory alone, completed by hop and
// history: sage's mean, gcn's and gin's sum, gat's attention), and A[v] the same of all neighbours in all layers. Both are of the
// checkpoint's parameters and without dropout, so that a history is as fresh as at its epoch's start: how old it becomes is not in
// it. Nodes of which A[v] is 0 do not count. It is for models of one relation that aggregate so; others are [store.ErrInvalid]. The
// aggregates of all training nodes are in memory, beside the run's budget.
func (c *Checkpoint) AggregateErrors(ctx context.Context, st *store.Store, dev gpu.Device) ([]float64, error) {
	if !c.Model.Kind().Aggregates || c.Model.Aggregator == "max" {
		return nil, fmt.Errorf("train: errors of aggregates of model %s: %w: expected sage's mean, gcn, gin or gat", c.Model.Model, store.ErrInvalid)
	}
	whole := c.Config
	whole.Features = slices.Clone(c.Config.OwnFeatures())
	whole.PrecomputedHop, whole.History, whole.HistoryDtype = false, false, ""
	whole.Plan, whole.Buffer, whole.Group, whole.DevicePlan, whole.MemoryBytes, whole.Prune, whole.Sampler = macro.Memory, 0, 0, "", 0, "", ""
	whole.Fanouts = slices.Repeat([]int{mini.All}, c.Config.Layers)
	exact := make([]map[uint64][]float32, c.Config.Layers)
	for l := range exact {
		exact[l] = map[uint64][]float32{}
	}
	err := c.look(ctx, st, dev, whole, func(layer int, node uint64, row []float32) { exact[layer][node] = slices.Clone(row) })
	if err != nil {
		return nil, err
	}
	sums, counts := make([]float64, c.Config.Layers), make([]float64, c.Config.Layers)
	err = c.look(ctx, st, dev, c.Config, func(layer int, node uint64, row []float32) {
		off, norm := 0., 0.
		for i, want := range exact[layer][node] {
			d := float64(row[i]) - float64(want)
			off, norm = off+d*d, norm+float64(want)*float64(want)
		}
		if norm > 0 {
			sums[layer] += math.Sqrt(off / norm)
			counts[layer]++
		}
	})
	for l := range sums {
		sums[l] /= max(counts[l], 1)
	}
	return sums, err
}

// look runs an epoch of cfg with the checkpoint's parameters, which stay, and calls take with each layer's aggregate of each node that
// it trains.
func (c *Checkpoint) look(ctx context.Context, st *store.Store, dev gpu.Device, cfg config.Config, take func(layer int, node uint64, row []float32)) error {
	none := 0.
	cfg.Dropout, cfg.InputDropout, cfg.WeightDecay = &none, &none, &none
	cfg.LR, cfg.Epochs, cfg.EvalEvery = 1e-30, 1, 1 // less than a parameter can move by
	cfg.Absent, cfg.Reuse, cfg.Order, cfg.RecordSteps, cfg.SampleOn = config.AbsentIgnore, 0, nn.OrderAggregate, config.RecordOff, config.SampleHost
	cfg.CheckpointFile, cfg.Resume = "", false
	_, err := node(ctx, st, dev, cfg, Hooks{}, &probe{params: c.Params, take: take})
	return err
}

// probe takes what a run's layers aggregate.
type probe struct {
	params []byte // that the run begins with
	take   func(layer int, node uint64, row []float32)
}

// load sets the run's first parameters.
func (x *probe) load(ctx context.Context, t *trainer) error {
	if x == nil {
		return nil
	}
	return t.model.Params().Load(ctx, t.queue, x.params)
}

// look has a pass download the aggregates of a mini-batch's seeds, which are the first destinations of every layer. What it returns
// takes them, once they are there.
func (x *probe) look(p *nn.Pass, mb *buffer.MacroBatch, b *mini.Batch) (looked func()) {
	if x == nil {
		return func() {}
	}
	nodes := make([]uint64, len(b.Seeds))
	for i, row := range b.Seeds {
		for _, part := range mb.Partitions {
			if at := row - part.Base; row >= part.Base && at < part.Nodes {
				nodes[i] = uint64(part.First) + uint64(at)
			}
		}
	}
	rows := map[int][]float32{}
	p.Aggregated = func(layer int, of gpu.Tensor) {
		t := p.Arena.Matrix(p.Queue, len(nodes), of.Cols)
		p.Queue.Copy(t, of.Head(len(nodes)))
		rows[layer] = make([]float32, len(nodes)*of.Cols)
		p.Queue.Download(blocks.Bytes(rows[layer]), t)
	}
	return func() {
		for layer, all := range rows {
			cols := len(all) / len(nodes)
			for i, node := range nodes {
				x.take(layer, node, all[i*cols:(i+1)*cols])
			}
		}
	}
}
