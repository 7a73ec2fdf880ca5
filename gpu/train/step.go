package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/replay"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/gpu/sampling"
	"github.com/gstore/gstore/gpu/vectors"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// placeDropout is the place of the random draws (see keyed) that mask states.
const placeDropout = 0x64726f70 // "drop"

// trainer trains a model on macro-batches. It owns the queue, the model, the
// batches and the arenas of their tensors.
type trainer struct {
	cfg     *Config
	queue   *gpu.Queue
	pipe    *gpu.Pipeline
	model   *nn.Model
	batches *batches
	key     keyed.Key
	adam    gpu.AdamOptions
	labels  []int32 // of the batch's seeds
	summed  int     // labels of the mini-batches whose gradients are summed up for a step
	graphs  []gpu.Graph
	// degrees of the batch's input nodes, where the model reads degrees
	degrees []int32
	// degreesOf is [eval.Evaluator.Degrees], nil where the model reads none, and whole what it says of the nodes of a macro-batch, by
	// row, that has not all of the store's partitions within reach: neighbours that are absent count.
	degreesOf  func(ctx context.Context, first uint64, to []int32) error
	partitions int
	whole      []int32
	// weighers give each layer's graph its weights, and sums are those of the input nodes' edges, where the model weighs edges
	weighers []nn.EdgeWeigher
	sums     []float64
	// readers give each layer's graph its edges' features, where the model reads these
	readers []nn.EdgeReader
	// groupers give each layer's graph its groups, where the model has relations
	groupers  []nn.Grouper
	relations int // of the store
	// feed reads the rows of batches, nil where a macro-batch holds all features.
	feed *feeder
	// history is what nodes outside memory contribute.
	history histories
	// vectors are those learned of nodes that lie in a table; nil without.
	vectors *vectors.Resident
	absent  nn.AbsentEdges
	// shift corrects the loss for the step's mixture of classes, nil without.
	shift *labelShift
	// rows are those feature rows that the device keeps, nil where it reads them in place.
	rows *deviceRows
	// draws draws mini-batches on the device, nil where the host does: from the one in hand on, as many as it was asked for.
	draws *sampling.Sampler
	// blockBytes crossed to a device of its own memory for blocks that the host drew.
	blockBytes int64
	// replay has recordings of steps, nil where none are made.
	replay *replay.Steps
	reads  []gpu.Tensor // of the step in hand
	// copied is the device's time for the copies of whole partitions.
	copied time.Duration
	// featureBytes is the most that feature rows of a macro-batch's partitions took.
	featureBytes int64
	// stepping is true while, and after an error in, a mini-batch's step: the parameters may be half of one, or ahead of
	// the epoch's counts.
	stepping bool
	// choices is how layers are computed, once the first mini-batch was measured; chosen, if
	// not nil, is told.
	choices []nn.Choice
	chosen  func([]nn.Choice)
}

// newTrainer makes the trainer of a model whose device is told of batches ahead, or draws them, as plan says.
func newTrainer(ctx context.Context, dev gpu.Device, cfg *Config, s shape, plan *DevicePlan) (_ *trainer, err error) {
	t := &trainer{cfg: cfg, key: keyed.New(cfg.Seed), relations: s.relations,
		adam: gpu.AdamOptions{LR: float32(cfg.LR), Beta1: .9, Beta2: .999, Epsilon: 1e-8, WeightDecay: float32(cfg.WeightDecay)}}
	if t.queue, err = gpu.NewQueue(dev); err != nil {
		return nil, err
	}
	t.pipe = gpu.NewPipeline(t.queue)
	if t.model, err = nn.New(ctx, t.queue, cfg.model(s)); err == nil {
		if c := t.model.Config(); cfg.unrecorded(&c) == "" {
			t.replay = replay.New(t.queue)
		}
		if cfg.Accumulate > 1 {
			err = t.model.Params().OpenSums()
		}
	}
	if err == nil && plan.draw == nil {
		t.batches, err = newBatches(cfg, t.model.Hops(), s.draws, s.degree, max(1, cfg.Threads-1), plan.Cache.Window)
	} else if err == nil {
		if t.draws, err = sampling.New(dev, *plan.draw); err == nil {
			t.batches, err = batchesBy(cfg, mini.Config{}, 1, sampling.Ahead) // of seeds alone
		}
	}
	if err != nil {
		_ = t.close()
		return nil, err
	}
	return t, nil
}

func (t *trainer) close() error {
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if t.batches != nil {
		keep(t.batches.loader.Close())
	}
	if t.model != nil {
		keep(t.model.Close())
	}
	keep(t.draws.Close())
	keep(t.rows.close())
	keep(t.pipe.Close())
	keep(t.queue.Close())
	return first
}

// macroBatch trains the examples of one macro-batch, as many passes as p says, from a place in the step on, and adds
// to sum. after is called after each mini-batch with the place of the next one.
func (t *trainer) macroBatch(ctx context.Context, epoch int, mb *buffer.MacroBatch, p *passes, from progress.Place, sum *progress.Counts, after func(progress.Place) error) error {
	tables, release, err := t.tables(mb)
	if err != nil {
		return err
	}
	defer release()
	if t.feed != nil {
		if err := t.feed.start(mb, epoch, from.Batch); err != nil {
			return err
		}
	}
	if err := t.history.enter(mb); err != nil {
		return fmt.Errorf("train: epoch %d, step %d: %w", epoch+1, mb.StepIndex, err)
	}
	if err := t.countNeighbours(ctx, mb); err != nil {
		return err
	}
	if t.shift != nil {
		t.shift.enter(mb)
	}
	if t.vectors != nil {
		if err := t.vectors.Enter(t.queue.Device(), mb); err != nil {
			return fmt.Errorf("train: epoch %d, step %d: %w", epoch+1, mb.StepIndex, err)
		}
	}
	if err := t.rows.enter(t.queue, mb); err != nil {
		return err
	}
	if t.draws != nil && len(mb.Seeds) > 0 {
		if err := t.draws.Enter(mb, t.rows.mirror.shifts); err != nil {
			return err
		}
	}
	t.featureBytes = max(t.featureBytes, featureBytes(mb))
	if t.feed != nil {
		t.featureBytes = t.feed.reader.Sizes().SlotBytes()
	}
	waits := ctx
	if t.cfg.Accumulate > 1 { // a step that is begun is finished: after says where ctx ends it
		ctx = context.WithoutCancel(ctx)
	}
	t.batches.enter(ctx, epoch, mb, t.neighbours(mb), p, from)
	defer t.batches.leave() // after an error too, before mb is gone
	err = t.steps(ctx, mb, tables, sum, after)
	// What is in flight reads mb; and a run that ctx ends goes on after the last mini-batch that was issued.
	if failed := t.pipe.Drain(waits); failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	if err := t.replay.Settle(); err != nil {
		return err
	}
	if err := t.draws.Leave(ctx); err != nil {
		return err
	}
	took, err := t.rows.leave(waits)
	t.copied += took
	return err
}

// countNeighbours fills t.whole for a macro-batch. What a node was trained with must be what evaluation has, which reads all edges.
func (t *trainer) countNeighbours(ctx context.Context, mb *buffer.MacroBatch) error {
	t.whole = t.whole[:0]
	if t.degreesOf == nil || len(mb.Step.Reached()) == t.partitions {
		return nil
	}
	t.whole = slices.Grow(t.whole, mb.Rows)[:mb.Rows]
	for _, p := range mb.Partitions {
		if err := t.degreesOf(ctx, uint64(p.First), t.whole[p.Base:][:p.Nodes]); err != nil {
			return err
		}
	}
	return nil
}

// steps trains the mini-batches of a macro-batch. Some may be in flight when it returns.
func (t *trainer) steps(ctx context.Context, mb *buffer.MacroBatch, tables []rowcache.Table, sum *progress.Counts, after func(progress.Place) error) error {
	for {
		start := time.Now()
		if !t.batches.next() {
			return t.batches.loader.Err()
		}
		sum.Profile.Sample += time.Since(start)
		b := t.batches.loader.Batch()
		if err := errors.Join(t.rows.announce(t.batches.loader), t.draw()); err != nil {
			return err
		}
		if err := t.batch(ctx, mb, tables, b, sum); err != nil {
			return err
		}
		t.rows.sendAhead(mb)
		if _, last := t.batches.within(t.cfg.Accumulate); !last {
			continue
		}
		if err := after(t.batches.place()); err != nil {
			return err
		}
	}
}

// featureBytes is what the features of a macro-batch's nodes take.
func featureBytes(mb *buffer.MacroBatch) (n int64) {
	for i := range mb.Features {
		c := &mb.Features[i]
		for _, p := range mb.Partitions {
			rows := p.Nodes
			if c.Runs != nil {
				_, rows, _ = c.Runs.Of(p)
			}
			n += int64(rows) * int64(c.Dim*c.Type.Size())
		}
	}
	return n
}

// neighbours is what the model's mini-batches are sampled from.
func (t *trainer) neighbours(mb *buffer.MacroBatch) mini.Graph {
	return neighbours(mb, t.relations, t.model.Config().Relations > t.relations)
}

// tables maps a macro-batch's feature columns into the device.
func (t *trainer) tables(mb *buffer.MacroBatch) (tables []rowcache.Table, release func(), err error) {
	var mapped []func()
	release = func() {
		for _, free := range mapped {
			free()
		}
	}
	columns := mb.Features
	if t.feed != nil {
		columns = t.feed.reader.Features()
	}
	for _, c := range columns {
		table, free, err := nn.MapTable(t.queue.Device(), c.Name, c.Data, c.Rows(), c.Dim, c.Stride, c.Type, c.Scale)
		if err != nil {
			release()
			return nil, nil, err
		}
		tables, mapped = append(tables, rowcache.Table{Tensor: table, Runs: c.Runs}), append(mapped, free)
	}
	return tables, release, nil
}

// elemBytes is the mean size of an element of some tables.
func elemBytes(tables []rowcache.Table) float64 {
	bytes, cols := 0, 0
	for _, t := range tables {
		bytes, cols = bytes+t.Cols*t.Elem.Size(), cols+t.Cols
	}
	return float64(bytes) / float64(cols)
}

// batch issues one optimiser step; with the next one, or t.pipe.Drain, it is over and its loss is in sum.
func (t *trainer) batch(ctx context.Context, mb *buffer.MacroBatch, tables []rowcache.Table, b *mini.Batch, sum *progress.Counts) error {
	at := b.Key
	failed := func(err error) error {
		return fmt.Errorf("train: epoch %d, step %d, batch %d: %w", at.Epoch+1, mb.StepIndex, at.Batch, err)
	}
	q, a := t.queue, t.pipe.Arena()
	start := time.Now()
	t.labels = t.labels[:0]
	for _, row := range b.Seeds {
		t.labels = append(t.labels, mb.Labels[row])
	}
	for _, h := range t.history { // a block a layer that reads neighbours, the last one's destinations are the seeds
		last := len(b.Blocks) - len(t.model.Layers()) + h.input + h.layer
		if err := h.find(b.Input[:b.Blocks[last].NumDst]); err != nil {
			return failed(err)
		}
	}
	waited := time.Now()
	drawn, err := t.takeDrawn(ctx)
	if err != nil {
		return failed(err)
	}
	sum.Profile.Sample, start = sum.Profile.Sample+time.Since(waited), start.Add(time.Since(waited))
	shape := t.shapeOf(b, drawn)
	var input []uint32
	if drawn != nil {
		t.drawnBlocks(drawn, shape)
	} else {
		input = t.blocks(mb, b, shape)
	}
	if t.feed != nil {
		if err := t.pipe.Drain(ctx); err != nil { // slots are a batch's until it is done
			return err
		}
		slots, err := t.feed.take(input, sum)
		if err != nil {
			return failed(err)
		}
		input, start = slots, time.Now()
	}
	t.stepping = true
	if t.choices == nil {
		if t.choices = t.model.ChooseOrders(t.graphs, elemBytes(tables)); t.chosen != nil {
			t.chosen(t.choices)
		}
	}
	p := &nn.Pass{Queue: q, Arena: a, Train: true, DropoutSeed: t.dropoutSeed(b.Key)}
	for _, h := range t.history {
		if h.attention {
			p.Histories = append(p.Histories, t.attend(h, b))
			continue
		}
		var relations, dst []int32
		if h.relations > 0 { // a block a layer
			relations, dst = t.groupers[h.layer].Groups()
		}
		p.Histories = append(p.Histories, h.of(q, a, relations, dst))
	}
	looked := t.cfg.probe.look(p, mb, b)
	first, last := t.batches.within(t.cfg.Accumulate)
	params, adam := t.model.Params(), t.adam
	if last {
		adam = params.Step(t.adam)
	}
	if first {
		t.summed = 0
	}
	labelled := 0 // of which the gradients are the mean
	for _, l := range t.labels {
		if l >= 0 {
			labelled++
		}
	}
	t.summed += labelled
	var forward, backward time.Time
	var columns []float32 // sums of the vectors' as the step left them
	issue := func(in nn.Input, labels, shift gpu.Tensor) {
		if t.vectors != nil {
			in.Vectors = t.vectors.Of(input)
		}
		forward = gradients(p, t.model, t.graphs, in, labels, shift)
		backward = time.Now()
		if several := !first || !last; several {
			params.AddGrads(q, float32(labelled), first)
			if !last {
				return
			}
			params.MeanGrads(q, float32(max(1, t.summed)))
		}
		params.Adam(q, adam)
		if t.vectors != nil {
			sums := a.Vector(q, t.cfg.Hidden, blocks.Float32)
			t.vectors.Step(q, a, adam, in.Vectors, t.model.VectorGradient(), sums)
			columns = make([]float32, t.cfg.Hidden)
			q.Download(blocks.Bytes(columns), sums)
		}
	}
	admit := func() nn.Input {
		switch {
		case drawn != nil:
			return t.admitDrawn(tables, drawn, shape)
		case shape != nil:
			return t.rows.admit(q, a, tables, input, func(rows []uint32) []uint32 { return t.replay.Rows(shape, rows) })
		}
		return t.rows.admit(q, a, tables, input, nil)
	}
	if shape == nil {
		labels, shift := a.Int32s(q, t.labels), t.shift.tensor(q, a)
		issue(admit(), labels, shift)
	} else {
		forward, backward = time.Now(), time.Now() // of a step that is replayed all is one
		t.padded(p, shape, &adam, admit, issue)
	}
	stat := make([]float64, 2)
	q.Download(blocks.Bytes(stat), t.model.Stat())
	seeds, edges, pruned, listed := len(b.Seeds), b.SampledEdges(), b.Pruned, b.Listed
	if drawn != nil {
		edges = drawn.SampledEdges()
	} else if q.Device().Info().OwnMemory() {
		t.blockBytes += blockBytes(b)
	}
	err = t.pipe.Issued(ctx, func(err error) error {
		if err != nil {
			return failed(progress.BudgetError(err))
		}
		if t.feed != nil {
			t.feed.reader.Done()
		}
		if !isFinite(stat[0]) {
			return failed(t.diverged("the loss is not a finite number"))
		}
		if slices.ContainsFunc(columns, func(v float32) bool { return v-v != 0 }) { // NaN − NaN and ∞ − ∞ are NaN
			return failed(t.diverged("learned vectors are no finite numbers after the step"))
		}
		looked()
		t.stepping = t.pipe.Flying() > 0
		sum.Loss += stat[0]
		sum.Correct += stat[1]
		sum.Examples += int64(seeds)
		sum.Batches++
		sum.Edges += int64(edges)
		sum.Pruned += pruned
		sum.Listed += listed
		return nil
	})
	sum.Profile.Add(progress.Profile{Forward: forward.Sub(start), Backward: backward.Sub(forward), Optimize: time.Since(backward)})
	return err
}

// attend returns what completes a last layer's attention for the destinations that h found last. A batch has of those neighbours that are
// in memory a sample, so that the absent ones count as many times as they are to these.
func (t *trainer) attend(h *history, b *mini.Batch) *nn.History {
	q, a, k := t.queue, t.pipe.Arena(), &b.Blocks[len(b.Blocks)-1]
	of := h.of(q, a, nil, nil)
	counts := slices.Clone(h.divisors)
	for d := range counts {
		if drawn := k.Indptr[d+1] - k.Indptr[d]; drawn > 0 {
			counts[d] *= float32(drawn) / float32(k.Degrees[d])
		}
	}
	c := t.model.Config()
	t.absent.Complete(q, a, of, k.NumSrc, k.Indptr, k.Indices, counts, c.AttentionHeads())
	return of
}

// gradients sets those of the mean loss over a batch's labels, and returns when the forward pass was over. What
// it takes of the pass's arena depends on the sizes of graphs, input and model alone: [batchMeter] runs it for them.
func gradients(p *nn.Pass, model *nn.Model, graphs []gpu.Graph, in nn.Input, labels, shift gpu.Tensor) (forward time.Time) {
	logits := model.Forward(p, graphs, in)
	forward = time.Now()
	if !shift.IsZero() {
		p.Queue.AddBias(false, shift, logits)
	}
	grad := p.Arena.Matrix(p.Queue, logits.Rows, logits.Cols)
	p.Queue.SoftmaxCrossEntropy(logits, labels, grad, model.Stat())
	model.Backward(p, grad)
	return forward
}

// errDiverged marks the end of a run whose loss or parameters are no numbers any more.
var errDiverged = errors.New("the run diverged")

func (t *trainer) diverged(format string, args ...any) error {
	return fmt.Errorf("%s: %w: use a smaller learning rate than %v", fmt.Sprintf(format, args...), errDiverged, t.cfg.LR)
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func (t *trainer) dropoutSeed(k mini.Key) uint64 {
	return t.key.With(placeDropout).With(uint64(k.Epoch)).With(uint64(k.Step)).With(uint64(k.Pass)).At(uint64(k.Batch))
}
