package baseline

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
)

// trained is the model without edges.
type trained struct {
	ctx    context.Context
	q      *gpu.Queue
	arena  *gpu.Arena
	model  *nn.Model
	data   *data
	o      *Options
	known  *store.LabelSets // where a node has several labels; else nil
	sets   *nn.LabelSets    // likewise, on the device
	epochs int              // that were trained
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
		found, err := t.score(t.data.valid)
		if err != nil {
			return err
		}
		if since++; found.best > best {
			best, since = found.best, 0
			params.Keep(t.q)
		}
		if since >= t.o.Patience {
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
	t.model.Gradients(p, t.graphs(len(rows)), t.input(rows), nn.Targets{Labels: t.arena.Int32s(t.q, labels), Sets: t.sets.Tensor()})
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

// found is how good the model is on some rows.
type found struct {
	best float64 // what the better of two has more of: accuracy, of numbers [nn.NumberScale.Score], of several labels [eval.LabelMetrics.Score]
	mae  float64 // of numbers
	f1   float64 // of several labels, micro-averaged
}

// score says how good the model is on some rows.
func (t *trained) score(rows places) (found, error) {
	correct, far, loss := 0, 0., 0.
	scale, said := t.o.Model.Numbers, eval.NewLabelCounts(t.o.Model.Out)
	var logits []float32
	for _, batch := range rows.batches(t.o.Batch) {
		p := &nn.Pass{Queue: t.q, Arena: t.arena}
		out := t.model.Forward(p, t.graphs(len(batch)), t.input(batch))
		if err := t.q.Err(); err != nil {
			return found{}, err
		}
		logits = append(logits[:0], make([]float32, out.Len())...)
		t.q.Download(blocks.Bytes(logits), out)
		if err := t.q.Sync(t.ctx); err != nil {
			return found{}, err
		}
		for i, r := range batch {
			label, row := t.data.labels[r], logits[i*out.Cols:(i+1)*out.Cols]
			switch {
			case scale != nil:
				far += math.Abs(float64(scale.Of(row[0])) - float64(blocks.CodedNumber(label)))
			case t.known != nil:
				loss += said.Add(t.known, label, row)
			case int32(slices.Index(row, slices.Max(row))) == label:
				correct++
			}
		}
		if err := t.arena.Reset(); err != nil {
			return found{}, err
		}
	}
	n := float64(max(1, len(rows)))
	switch m := said.Metrics(); {
	case scale != nil:
		return found{best: scale.Score(far / n), mae: far / n}, nil
	case m != nil:
		return found{best: m.Score(loss / n), f1: m.MicroF1}, nil
	}
	return found{best: float64(correct) / n}, nil
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
