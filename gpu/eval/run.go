package eval

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
)

// Run computes the model's outputs for all nodes and returns the metrics of
// the splits asked for ("train", "valid", "test"), in their order.
func (e *Evaluator) Run(ctx context.Context, q *gpu.Queue, model *nn.Model, splits ...string) ([]Metrics, error) {
	return e.RunInto(ctx, q, model, nil, splits...)
}

// RunInto is Run that also fills sink, unless it is nil, from the states below the
// layers that it takes. Without splits the last layer itself is left out.
func (e *Evaluator) RunInto(ctx context.Context, q *gpu.Queue, model *nn.Model, sink Sink, splits ...string) ([]Metrics, error) {
	metrics, err := e.runInto(ctx, q, model, sink, splits)
	if e.on == nil || !errors.Is(err, gpu.ErrMemory) {
		return metrics, err
	}
	if err := e.leaveDevice(); err != nil { // whose room others need
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	return e.runInto(ctx, q, model, sink, splits)
}

func (e *Evaluator) runInto(ctx context.Context, q *gpu.Queue, model *nn.Model, sink Sink, splits []string) ([]Metrics, error) {
	r := e.begin(q)
	r.metrics = make([]Metrics, len(splits))
	if r.scale = model.Config().Numbers; r.scale != nil {
		r.numbers = make([]numberSums, len(splits))
	}
	if model.Config().MultiLabel && len(splits) > 0 {
		if r.sets = e.src.Manifest().LabelSets(); r.sets == nil || r.sets.Labels() != model.Config().Out {
			return nil, fmt.Errorf("evaluation: %w: a model of %d labels of which a node has any number, and the store's labels are others", store.ErrInvalid, model.Config().Out)
		}
		for range splits {
			r.saidOf = append(r.saidOf, NewLabelCounts(r.sets.Labels()))
		}
	}
	e.vectorsOf = Tile{} // they may have been trained since
	for _, s := range splits {
		r.splits = append(r.splits, store.SplitValue(s))
	}
	defer r.close()
	if err := r.reside(); err != nil {
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	few, done, err := r.few(ctx, model, sink)
	if err != nil {
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	defer done()
	if few != nil {
		r.memory = few.memory
	}
	if err := r.prepareOutputs(ctx, model, few != nil && r.o.Nodes != nil); err != nil {
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	if model.ReadsDegrees() || e.o.Model.SymmetricWeights() {
		if err := r.countEdges(ctx); err != nil {
			return nil, fmt.Errorf("evaluation: degrees: %w", err)
		}
	}
	r.jumps = model.Jumps()
	for l := range model.Layers() {
		if err := r.run(ctx, few, model, l, sink); err != nil {
			return nil, fmt.Errorf("evaluate layer %d: %w", l, err)
		}
	}
	if err := r.freeSums(); err != nil {
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	if r.jumps {
		if err := r.jump(ctx, model); err != nil {
			return nil, fmt.Errorf("evaluate all layers' states: %w", err)
		}
	}
	if err := r.finishMetrics(ctx); err != nil {
		return nil, err
	}
	return r.metrics, nil
}

// finishMetrics makes means of sums.
func (r *evaluation) finishMetrics(ctx context.Context) (err error) {
	for i := range r.metrics {
		m := &r.metrics[i]
		if m.Nodes > 0 {
			m.Accuracy = float64(m.Correct) / float64(m.Nodes)
			m.Loss /= float64(m.Nodes)
		}
		m.AUC, m.AveragePrecision = math.NaN(), math.NaN()
		if r.numbers != nil {
			m.Numbers = r.numbers[i].metrics()
		}
		if r.saidOf != nil {
			m.Labels = r.saidOf[i].Metrics()
		}
		if r.scores != nil {
			if m.AUC, m.AveragePrecision, err = r.scores[i].areas(ctx); err != nil {
				return fmt.Errorf("evaluation: area under the ROC curve: %w", err)
			}
		}
	}
	return nil
}

// run computes layer l of a model, and fills the sink from the states below it if it takes them.
func (r *evaluation) run(ctx context.Context, few *closure, model *nn.Model, l int, sink Sink) (err error) {
	layers := model.Layers()
	layer, ok := layers[l].(nn.Streamer)
	if !ok {
		return fmt.Errorf("%T cannot be evaluated from edge buckets", layers[l])
	}
	last := l == len(layers)-1 && !r.jumps
	r.inDim = layer.InDim()
	if r.layer, r.sink = l, nil; sink != nil && sink.Takes(l) {
		r.sink = sink
	}
	if few != nil {
		if err := r.fillChosen(ctx, few.chosen[l]); err != nil {
			return err
		}
		if r.sink = nil; last && len(r.splits) == 0 && r.o.Nodes == nil {
			return nil
		}
	}
	if r.work, err = r.stageOf(ctx, few, layers, l, sink); err != nil {
		return err
	}
	if !last {
		if err := r.openOut(ctx, few, layers, l, sink); err != nil {
			return err
		}
	} else if r.o.Embeddings && l > 0 {
		r.embeddings = r.in
	}
	if r.work.width > 0 {
		err = r.sliced(ctx, layer, model, last)
	} else {
		err = r.tiled(ctx, layer, model, last, few != nil)
	}
	if err == nil && few != nil && !last { // layers of a closure have room for their own alone
		err = errors.Join(r.freeSums(), r.dropRows(l > 0 || !few.rows), r.dropCounts())
	}
	if err != nil {
		return err
	}
	switch {
	case r.jumps:
		r.below = append(r.below, r.out)
	case r.in != r.embeddings:
		r.drop(r.in)
	}
	if r.inColumns != nil {
		r.drop(r.inColumns.Table)
	}
	r.in, r.out, r.inColumns, r.outColumns = r.out, nil, r.outColumns, nil
	return nil
}

// dropCounts gives up what a tile's destinations take beside their sums.
func (r *evaluation) dropCounts() (err error) {
	for _, s := range []**blockio.Slab{&r.degrees, &r.begins, &r.part, &r.sizes, &r.ofRelation} {
		err = errors.Join(err, (*s).Free())
		*s = nil
	}
	r.sized, r.sizedOf = Tile{}, nil
	return err
}

// tiled computes a layer a tile of destinations at a time.
func (r *evaluation) tiled(ctx context.Context, layer nn.Streamer, model *nn.Model, last, few bool) error {
	for i, t := range r.work.tiles {
		if t.Nodes == 0 && few {
			continue
		}
		if !last || len(r.splits) > 0 || r.sink == nil {
			r.computed += int64(t.Nodes)
		}
		if err := r.tile(ctx, layer, i, model, last); err != nil {
			return err
		}
	}
	return nil
}

// openOut makes the table of the states that layer l computes; by columns too, if the layer above reads them so.
func (r *evaluation) openOut(ctx context.Context, few *closure, layers []nn.Layer, l int, sink Sink) (err error) {
	if r.on != nil {
		return nil
	}
	nodes, dim := r.work.into.len(), layers[l].OutDim()
	if r.out, err = spill.New(nodes, 4*int64(dim), r.memory, r.src.ScratchDir()); err != nil || l+1 == len(layers) {
		return err
	}
	above, err := r.stageOf(ctx, few, layers, l+1, sink)
	if err == nil && above.width > 0 {
		r.outColumns, err = r.newColumns(nodes, dim, above.width)
	}
	return err
}

// stageOf is how layer l is computed: of a closure as it says, else of all nodes, by columns where that moves fewer bytes.
func (r *evaluation) stageOf(ctx context.Context, few *closure, layers []nn.Layer, l int, sink Sink) (*stage, error) {
	if few != nil {
		return few.stages[l], nil
	}
	if r.on != nil {
		return r.work, nil
	}
	s := r.whole()
	layer, ok := layers[l].(nn.Streamer)
	if !ok || len(s.tiles) == 1 || r.memory || sink != nil && sink.Takes(l) || !nn.SumsColumns(layer) {
		return s, nil
	}
	if r.inEdges == nil {
		r.inEdges = make([]int64, len(r.all.parts))
		everything := r.all.tile(0, len(r.all.parts))
		if err := r.edges.some(ctx, everything, everything, selection{edges: r.inEdges}, func(_, _ uint32, _ about) {}); err != nil {
			r.inEdges = nil
			return nil, err
		}
	}
	r.byColumns(s, layer, r.costOf(layer, l == 0, r.inEdges), r.bound, l == 0)
	return s, nil
}

// drop closes a table of states, which may be nil, and counts what moved of it.
func (r *evaluation) drop(t *spill.Table) {
	read, written := t.Moved()
	r.spilled.Read, r.spilled.Written = r.spilled.Read+read, r.spilled.Written+written
	t.Close()
}

// fillChosen fills the sink from the states that it chose; x may be nil.
func (r *evaluation) fillChosen(ctx context.Context, x *chosen) error {
	if x == nil {
		return nil
	}
	r.work = x.at
	for i, t := range r.work.tiles {
		if t.Nodes == 0 {
			continue
		}
		for from := range r.work.runs {
			if err := r.accumulate(ctx, nil, from, i, gpu.Tensor{}, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// Stream fills sink from states of all nodes that the caller has, a row of float32 a node, as RunInto does from those below a model's last
// layer.
func (e *Evaluator) Stream(ctx context.Context, q *gpu.Queue, states *spill.Table, sink Sink) error {
	r := e.begin(q)
	r.sink, r.in = sink, states
	defer func() { _, _ = r.wait(Tile{}); _ = r.dropAhead() }() // a run that failed may have left some; states are the caller's
	for i := range r.work.tiles {
		if err := r.tile(ctx, nil, i, nil, true); err != nil {
			return fmt.Errorf("evaluation: %w", err)
		}
	}
	return nil
}
