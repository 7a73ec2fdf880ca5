package link

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/sampler/mini"
)

// minibatch is a mini-batch on its way through the stages of a step, each of which fills in what those behind it read:
//
//	draw    its edges, negatives and blocks  batches  by the host
//	rows    its input                        input    learned vectors, features, or both; of absent neighbours from the shadow
//	model   its blocks, then the passes      encoded  with degrees, where the encoder reads these
//	update  parameters and learned vectors   updater  by Adagrad or Adam
//
// Which implementation each stage has is chosen once, when a run is planned ([trainer.choose]).
type minibatch struct {
	*mini.Batch
	extra *batchExtra
	lr    float32
	rows  []uint32    // of e, that are trained: the first of the input
	e     *embeddings // of the macro-batch, or of what the device keeps of it
	index gpu.Tensor  // of rows in e
	in    nn.Input
	d     gpu.Tensor // gradient of rows
	sums  gpu.Tensor // of e's columns over rows, as the step left them

	columns []float32 // sums on the host, once the mini-batch is over; none without learned vectors
}

// input finds what feeds the encoder: it sets rows, e, index and in.
type input interface {
	admit(x *minibatch) error
}

// updater takes an optimiser's step once gradients are set.
type updater interface {
	step(q *gpu.Queue, x *minibatch)
}

// batch takes a mini-batch, whose rows are e's, through the stages. With the next one, or t.pipe.Drain, it is over and its loss is in sum.
func (t *trainer) batch(ctx context.Context, b *mini.Batch, e *embeddings, lr float32, sum *progress.Counts) error {
	q, a, start := t.queue, t.pipe.Arena(), time.Now()
	x := &minibatch{Batch: b, extra: b.Extra.(*batchExtra), lr: lr, rows: b.Input, e: e}
	t.stepping = true
	if err := t.input.admit(x); err != nil {
		return failedAt(b.Key, err)
	}
	graphs := t.graphs.place(x)
	p := &nn.Pass{Queue: q, Arena: a, Train: true, DropoutSeed: t.dropoutSeed(b.Key)}
	d, sums, forward := gradients(p, t.model, graphs, x.in, t.questions(x.extra))
	if d.Rows > len(x.rows) { // absent ones stay as they are
		d = d.Head(len(x.rows))
	}
	x.d, x.sums = d, sums
	backward := time.Now()
	t.updater.step(q, x)
	t.model.Constrain(p)
	stat := make([]float64, 2)
	q.Download(blocks.Bytes(stat), t.model.Stat())
	err := t.pipe.Issued(ctx, t.over(x, stat, sum))
	sum.Profile.Add(progress.Profile{Forward: forward.Sub(start), Backward: backward.Sub(forward), Optimize: time.Since(backward)})
	return err
}

// questions are a mini-batch's, with the answers that are none.
func (t *trainer) questions(extra *batchExtra) nn.LinkBatch {
	q, a := t.queue, t.pipe.Arena()
	b := nn.LinkBatch{Rows: a.Uint32s(q, extra.rows), Relations: a.Uint32s(q, extra.relations), Chunks: extra.chunks, Negatives: t.cfg.Negatives, Corrections: t.corrections}
	if len(extra.mask) > 0 {
		b.Mask = a.Uint32s(q, extra.mask)
	}
	return b
}

// over counts a mini-batch once it is, with what it downloaded.
func (t *trainer) over(x *minibatch, stat []float64, sum *progress.Counts) func(error) error {
	key, queries, edges, columns := x.Key, int64(2*x.extra.edges), int64(x.SampledEdges()), x.columns // x.Batch is the next one's by then
	return func(err error) error {
		switch {
		case err != nil:
			return failedAt(key, progress.BudgetError(err))
		case math.IsNaN(stat[0]) || math.IsInf(stat[0], 0):
			return failedAt(key, t.diverged("the loss is not a finite number"))
		case slices.ContainsFunc(columns, func(v float32) bool { return v-v != 0 }): // NaN − NaN and ∞ − ∞ are NaN
			return failedAt(key, t.diverged("embeddings are no finite numbers after the step"))
		}
		t.stepping = t.pipe.Flying() > 0
		sum.Loss += stat[0]
		sum.Correct += stat[1]
		sum.Examples += queries
		sum.Batches++
		sum.Edges += edges
		return nil
	}
}

func failedAt(at mini.Key, err error) error {
	return fmt.Errorf("train: epoch %d, step %d, batch %d: %w", at.Epoch+1, at.Step, at.Batch, err)
}

// diverged is the error of a run whose numbers are none any more.
func (t *trainer) diverged(what string) error {
	return fmt.Errorf("%s: %w: use a smaller learning rate than %v", what, run.ErrDiverged, t.cfg.LR)
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
