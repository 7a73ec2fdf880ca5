package baseline

import (
	"context"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/keyed"
)

// trained is the model without edges.
type trained struct {
	ctx    context.Context
	q      *gpu.Queue
	arena  *gpu.Arena
	model  *nn.Model
	data   *data
	o      *Options
	epochs int // that were trained
}

// fit trains epochs, and goes back to the one that was best on the validation nodes; the last one without any.
func (t *trained) fit(epochs int) error {
	params, best, since := t.model.Params(), -1., 0
	key := keyed.New(t.o.Model.Seed).With(placeSample)
	order := append(places{}, t.data.train...)
	for e := range epochs {
		r := key.Rand(uint64(e))
		keyed.Shuffle(&r, order)
		for i, batch := range order.batches(t.o.Batch) {
			if err := t.step(batch, key.With(uint64(e)).At(uint64(i))); err != nil {
				return err
			}
		}
		t.epochs++
		if len(t.data.valid) == 0 {
			continue
		}
		score, _, err := t.score(t.data.valid)
		if err != nil {
			return err
		}
		if since++; score > best {
			best, since = score, 0
			params.Keep(t.q)
		}
		if since >= patience {
			break
		}
	}
	if best >= 0 {
		params.Restore(t.q)
	}
	return t.q.Sync(t.ctx)
}

// step takes a step of the optimiser.
func (t *trained) step(rows []uint32, seed uint64) error {
	labels := make([]int32, len(rows))
	for i, r := range rows {
		labels[i] = t.data.labels[r]
	}
	p := &nn.Pass{Queue: t.q, Arena: t.arena, Train: true, DropoutSeed: seed}
	params := t.model.Params()
	o := params.Step(t.o.Adam)
	t.model.Gradients(p, t.graphs(len(rows)), t.input(rows), nn.Targets{Labels: t.arena.Int32s(t.q, labels)})
	params.Adam(t.q, o)
	var stat [2]float64
	t.q.Download(blocks.Bytes(stat[:]), t.model.Stat())
	if err := t.q.Sync(t.ctx); err != nil {
		return err
	}
	if math.IsNaN(stat[0]) || math.IsInf(stat[0], 0) {
		return fmt.Errorf("its loss is %v", stat[0])
	}
	return t.arena.Reset()
}

// score is the accuracy of the model on some rows, or, of numbers, that of their mean absolute error mae ([nn.NumberScale.Score]).
func (t *trained) score(rows places) (score, mae float64, err error) {
	correct, far := 0, 0.
	scale := t.o.Model.Numbers
	var logits []float32
	for _, batch := range rows.batches(t.o.Batch) {
		p := &nn.Pass{Queue: t.q, Arena: t.arena}
		out := t.model.Forward(p, t.graphs(len(batch)), t.input(batch))
		if err := t.q.Err(); err != nil {
			return 0, 0, err
		}
		logits = append(logits[:0], make([]float32, out.Len())...)
		t.q.Download(blocks.Bytes(logits), out)
		if err := t.q.Sync(t.ctx); err != nil {
			return 0, 0, err
		}
		for i, r := range batch {
			if scale != nil {
				far += math.Abs(float64(scale.Of(logits[i])) - float64(blocks.CodedNumber(t.data.labels[r])))
				continue
			}
			row, best := logits[i*out.Cols:(i+1)*out.Cols], 0
			for c, v := range row {
				if v > row[best] {
					best = c
				}
			}
			if int32(best) == t.data.labels[r] {
				correct++
			}
		}
		if err := t.arena.Reset(); err != nil {
			return 0, 0, err
		}
	}
	n := float64(max(1, len(rows)))
	if scale != nil {
		return scale.Score(far / n), far / n, nil
	}
	return float64(correct) / n, 0, nil
}

// graphs have no edges: a node is its own destination.
func (t *trained) graphs(n int) []gpu.Graph {
	g := make([]gpu.Graph, len(t.model.Layers()))
	for i := range g {
		g[i] = gpu.Graph{NumDst: n, NumSrc: n}
	}
	return g
}

func (t *trained) input(rows []uint32) nn.Input {
	return nn.Input{Tables: t.data.tables, Index: t.arena.Uint32s(t.q, rows)}
}
