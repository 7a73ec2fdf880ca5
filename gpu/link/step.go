package link

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Places of a run's random draws, see [placeShuffle].
const (
	placeEdges = 0x65646765 // "edge"
	placeEmbed = 0x656d6264 // "embd"
	placeKept  = 0x6b657074 // "kept"
)

// embeddingScale is the standard deviation of new embeddings.
const embeddingScale = .001

func floatBytes(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// trainer trains embeddings and a model on macro-batches. It owns the
// queue, the model, the batches and the arenas of its mini-batches; the embeddings are its caller's.
type trainer struct {
	cfg     *Config
	queue   *gpu.Queue
	pipe    *gpu.Pipeline
	model   *nn.LinkModel
	batches *batches
	edges   uint64       // of an epoch
	degrees []int32      // of a batch's sources, where the encoder reads degrees
	tables  []gpu.Tensor // features of the macro-batch
	absent  *absent      // nil: absent neighbours are left out
	// rows are those that the device keeps, nil where it reads and writes them in place.
	rows *rowcache.Rows
	// stepping is true while, and after an error in, a mini-batch's step: parameters and rows may be half of one, or ahead of the
	// epoch's counts.
	stepping bool
}

// newTrainer makes the trainer of a run whose answers are of such types and whose device keeps rows as plan says.
func newTrainer(ctx context.Context, dev gpu.Device, cfg *Config, m *store.Manifest, types *eval.AnswerTypes, plan macro.DevicePlan) (_ *trainer, err error) {
	t := &trainer{cfg: cfg}
	if t.edges, err = cfg.examplesOf(m); err != nil {
		return nil, err
	}
	if t.queue, err = gpu.NewQueue(dev); err != nil {
		return nil, err
	}
	t.pipe = gpu.NewPipeline(t.queue)
	defer func() {
		if err != nil {
			_ = t.close()
		}
	}()
	model, err := cfg.LinkModel(m)
	if err != nil {
		return nil, err
	}
	if t.model, err = nn.NewLink(ctx, t.queue, model); err != nil {
		return nil, err
	}
	if t.rows, err = newDeviceRows(dev, m, cfg, plan); err != nil {
		return nil, err
	}
	t.batches, err = newBatches(cfg, m, types, max(1, cfg.Threads-1), plan.Cache.Window)
	return t, err
}

func (t *trainer) close() error {
	var err error
	if t.batches != nil {
		err = t.batches.close()
	}
	if t.absent != nil {
		err = errors.Join(err, t.absent.close())
	}
	if t.model != nil {
		err = errors.Join(err, t.model.Close())
	}
	return errors.Join(err, t.rows.Close(), t.pipe.Close(), t.queue.Close())
}

// macroBatch trains the edges of the step's buckets, whose ends' embeddings are rows of e, from a
// place in the step on, and adds to sum. totals.seeds counts queries: two an edge. after is called after each
// mini-batch with the place of the next one.
func (t *trainer) macroBatch(ctx context.Context, epoch int, mb *buffer.MacroBatch, e *embeddings, from progress.Place, sum *progress.Counts, after func(progress.Place) error) error {
	b := t.batches
	b.absent = t.absent
	if err := b.enter(ctx, epoch, mb, from); err != nil || b.x.n == 0 {
		return err
	}
	defer b.leave() // after an error too, before mb is gone
	release, err := t.mapFeatures(mb)
	if err != nil {
		return err
	}
	defer release()
	if err := t.rows.Enter(mb); err != nil {
		return err
	}
	err = t.issue(ctx, epoch, e, sum, after)
	// What is in flight reads mb and writes its rows; and a run that ctx ends goes on after the last mini-batch that was issued.
	if failed := t.settle(ctx, e); failed != nil {
		return failed
	}
	if err == nil && t.absent != nil {
		t.absent.leave(mb)
	}
	return err
}

// settle waits for all mini-batches; the rows of e are as they left them then.
func (t *trainer) settle(ctx context.Context, e *embeddings) error {
	if t.rows == nil {
		return t.pipe.Drain(ctx)
	}
	err := t.pipe.Drain(ctx)
	return errors.Join(err, t.rows.Flush(context.WithoutCancel(ctx), t.queue, t.pipe.Arena(), t.all(e)))
}

// all are the tables of a node's rows: what is learned, then its features.
func (t *trainer) all(e *embeddings) (tables []rowcache.Table) {
	var all []gpu.Tensor
	if !t.cfg.NoEmbeddings {
		all = append(append(all, e.value), e.state...)
	}
	for _, x := range append(all, t.tables...) {
		tables = append(tables, rowcache.Table{Tensor: x})
	}
	return tables
}

// issue trains the mini-batches of the macro-batch that was entered. Some may be in flight when it returns.
func (t *trainer) issue(ctx context.Context, epoch int, e *embeddings, sum *progress.Counts, after func(progress.Place) error) error {
	b, queries := t.batches, sum.Examples // issued
	for {
		start := time.Now()
		if !b.next() {
			return b.loader.Err()
		}
		sum.Profile.Sample += time.Since(start)
		batch := b.loader.Batch()
		if err := t.rows.Announce(b.loader, func(b *mini.Batch) []uint32 { return b.Input }); err != nil {
			return err
		}
		if err := t.batch(ctx, b.graph, batch, e, t.rate(epoch, queries), sum); err != nil {
			return err
		}
		queries += int64(2 * batch.Extra.(*batchExtra).edges)
		if err := after(b.place()); err != nil {
			return err
		}
	}
}

// rate returns the learning rate of the mini-batch that comes after so many queries of an epoch. It is a function of
// the place in the run, so that a resumed run needs no state of it.
func (t *trainer) rate(epoch int, queries int64) float32 {
	if t.cfg.LRDecay == noDecay {
		return float32(t.cfg.LR)
	}
	epochs := float64(t.cfg.Epochs)
	left := epochs - float64(epoch) - float64(queries/2)/float64(t.edges)
	return float32(t.cfg.LR * min(1, left/(epochs*t.cfg.LRDecay)))
}

// batch issues one optimiser step; with the next one, or t.pipe.Drain, it is over and its loss is in sum.
func (t *trainer) batch(ctx context.Context, from mini.Graph, b *mini.Batch, e *embeddings, lr float32, sum *progress.Counts) error {
	at := b.Key
	failed := func(err error) error {
		return fmt.Errorf("train: epoch %d, step %d, batch %d: %w", at.Epoch+1, at.Step, at.Batch, err)
	}
	q, a, extra := t.queue, t.pipe.Arena(), b.Extra.(*batchExtra)
	start := time.Now()
	t.stepping = true
	p := &nn.Pass{Queue: q, Arena: a, Train: true}
	rows := b.Input // of e
	if t.absent != nil {
		rows = extra.resident
	}
	tables, input, _ := t.rows.Admit(q, a, t.all(e), rows, nil)
	if tables == nil { // a run has embeddings, or features
		return failed(q.Sync(ctx))
	}
	in := nn.Input{Tables: tables, Index: input}
	if !t.cfg.NoEmbeddings {
		e = &embeddings{value: tables[0], state: tables[1:][:len(e.state)]}
		in.Tables = append([]gpu.Tensor{e.value}, tables[1+len(e.state):]...)
	}
	if t.absent != nil {
		in = t.absent.input(q, a, e.value, input, extra.absent)
	}
	graphs := t.graphs(from, b)
	batch := nn.LinkBatch{Rows: a.Uint32s(q, extra.rows), Relations: a.Uint32s(q, extra.relations), Chunks: extra.chunks, Negatives: t.cfg.Negatives}
	if len(extra.mask) > 0 {
		batch.Mask = a.Uint32s(q, extra.mask)
	}
	d, sums, forward := gradients(p, t.model, graphs, in, batch)
	if d.Rows > len(rows) { // absent ones stay as they are
		d = d.Head(len(rows))
	}
	backward := time.Now()
	t.optimize(e, input, d, lr)
	stat, columns := make([]float64, 2), make([]float32, sums.Cols)
	if !t.cfg.NoEmbeddings {
		// The rows as they are now: one that is no number makes its column's sum none. They may leave memory, unseen by
		// any later loss, before the run is over.
		q.Gather(d, e.value, input)
		q.ColumnSum(d, sums)
		q.Download(floatBytes(columns), sums)
	}
	q.Download(blocks.Bytes(stat), t.model.Stat())
	queries, edges := int64(2*extra.edges), int64(b.SampledEdges())
	err := t.pipe.Issued(ctx, func(err error) error {
		switch {
		case err != nil:
			return failed(progress.BudgetError(err))
		case math.IsNaN(stat[0]) || math.IsInf(stat[0], 0):
			return failed(t.diverged("the loss is not a finite number"))
		case slices.ContainsFunc(columns, func(v float32) bool { return v-v != 0 }): // NaN − NaN and ∞ − ∞ are NaN
			return failed(t.diverged("embeddings are no finite numbers after the step"))
		}
		t.stepping = t.pipe.Flying() > 0
		sum.Loss += stat[0]
		sum.Correct += stat[1]
		sum.Examples += queries
		sum.Batches++
		sum.Edges += edges
		return nil
	})
	sum.Profile.Add(progress.Profile{Forward: forward.Sub(start), Backward: backward.Sub(forward), Optimize: time.Since(backward)})
	return err
}

// diverged is the error of a run whose numbers are none any more.
func (t *trainer) diverged(what string) error {
	return fmt.Errorf("%s: the run diverged, use a smaller learning rate than %v", what, t.cfg.LR)
}

// gradients returns those of a batch's input rows, having set the parameters', room for the sums of their columns, and when the
// forward pass was over. What it takes of the pass's arena depends on the sizes of its arguments and the model alone:
// [batchMeter] runs it for them.
func gradients(p *nn.Pass, model *nn.LinkModel, graphs []gpu.Graph, in nn.Input, batch nn.LinkBatch) (d, sums gpu.Tensor, forward time.Time) {
	states := model.Encode(p, graphs, in)
	forward = time.Now()
	d = model.EncodeBackward(p, model.Loss(p, batch, states))
	return d, p.Arena.Vector(p.Queue, d.Cols, blocks.Float32), forward
}

// mapFeatures makes the macro-batch's features tables, until release.
func (t *trainer) mapFeatures(mb *buffer.MacroBatch) (release func(), err error) {
	var mapped []func()
	t.tables = t.tables[:0]
	release = func() {
		for _, free := range mapped {
			free()
		}
	}
	for i := range t.cfg.Features { // types of nodes may follow
		c := &mb.Features[i]
		table, free, err := nn.MapTable(t.queue.Device(), c.Name, c.Data, mb.Rows, c.Dim, c.Stride, c.Type, c.Scale)
		if err != nil {
			release()
			return nil, err
		}
		t.tables, mapped = append(t.tables, table), append(mapped, free)
	}
	return release, nil
}

// optimize steps the model's parameters and the rows input of the embeddings, if it has any, whose gradient is d.
func (t *trainer) optimize(e *embeddings, input, d gpu.Tensor, lr float32) {
	q, params, s := t.queue, t.model.Params(), RowStep{Optimizer: t.cfg.Optimizer, LR: lr}
	dense := RowStep{LR: float32(t.cfg.DenseRate * float64(lr))}
	if s.Optimizer == adam {
		params.Adam(q, params.Step(dense.adam()))
		s.Step = params.Steps()
	} else {
		params.Adagrad(q, dense.adagrad())
	}
	if t.cfg.NoEmbeddings {
		return
	}
	s.Rows(q, e.value, input, d, e.state...)
}

// graphs are a batch's blocks, sampled from a graph, on the device, input first; none without an encoder. A degree
// counts that graph's edges of both directions, a self loop twice.
func (t *trainer) graphs(from mini.Graph, b *mini.Batch) []gpu.Graph {
	if len(b.Blocks) == 0 {
		return nil
	}
	q, a := t.queue, t.pipe.Arena()
	if t.model.ReadsDegrees() {
		t.degrees = resize(t.degrees, len(b.Input))
		for i, row := range b.Input {
			t.degrees[i] = int32(from.In.Degree(row) + from.Out.Degree(row))
		}
	}
	graphs := make([]gpu.Graph, len(b.Blocks))
	for i := range b.Blocks {
		k := &b.Blocks[i]
		g := gpu.Graph{NumDst: k.NumDst, NumSrc: k.NumSrc, Indptr: a.Int32s(q, k.Indptr), Indices: a.Int32s(q, k.Indices)}
		if t.model.ReadsDegrees() { // a block's sources are the first of the input
			g.SrcDegrees, g.DstDegrees = a.Int32s(q, t.degrees[:k.NumSrc]), a.Int32s(q, k.Degrees)
		}
		graphs[i] = g
	}
	return graphs
}
