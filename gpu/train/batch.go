package train

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// placeDropout is the place of the random draws (see keyed) that mask states.
const placeDropout = 0x64726f70 // "drop"

// batch takes a mini-batch of mb through the stages. With the next one, or t.pipe.Drain, it is over and its loss is in sum.
func (t *trainer) batch(ctx context.Context, mb *buffer.MacroBatch, b *mini.Batch, sum *progress.Counts) error {
	x := t.minibatch(mb, b, sum)
	for _, stage := range []func(context.Context, *minibatch) error{t.find, t.drawn, t.read} {
		if err := stage(ctx, x); err != nil {
			return x.failed(err)
		}
	}
	t.stepping = true
	x.pass = &nn.Pass{Queue: t.queue, Arena: t.pipe.Arena(), Train: true, DropoutSeed: t.dropoutSeed(b.Key)}
	t.completer.complete(x)
	t.updater.begin(x)
	t.issuer.issue(x)
	stat := make([]float64, 2)
	t.queue.Download(blocks.Bytes(stat), t.model.Stat())
	err := t.pipe.Issued(ctx, t.over(x, stat))
	sum.Profile.Add(progress.Profile{Forward: x.forward.Sub(x.began), Backward: x.backward.Sub(x.forward), Optimize: time.Since(x.backward)})
	for _, f := range x.issued {
		f()
	}
	return err
}

// minibatch begins a mini-batch. Only one is on its way through the stages, so that its lists are the trainer's.
func (t *trainer) minibatch(mb *buffer.MacroBatch, b *mini.Batch, sum *progress.Counts) *minibatch {
	x := &minibatch{Batch: b, mb: mb, sum: sum, began: time.Now(), labels: t.labels[:0], graphs: t.graphs[:0]}
	x.first, x.last = t.batches.Within(t.cfg.Accumulate)
	for _, row := range b.Seeds {
		x.labels = append(x.labels, mb.Labels[row])
	}
	t.labels, x.weight = x.labels, t.weights.Total(x.labels)
	return x
}

// find looks up what completes the mini-batch.
func (t *trainer) find(_ context.Context, x *minibatch) error { return t.completer.find(x) }

// drawn waits for the mini-batch and places its graphs on the device.
func (t *trainer) drawn(ctx context.Context, x *minibatch) error {
	start := time.Now()
	if err := t.drawer.take(ctx, x); err != nil {
		return err
	}
	waited := time.Since(start)
	x.sum.Profile.Sample, x.began = x.sum.Profile.Sample+waited, x.began.Add(waited)
	t.issuer.pad(x)
	t.drawer.place(x)
	t.graphs = x.graphs
	return nil
}

// read waits for the rows of the mini-batch's input.
func (t *trainer) read(ctx context.Context, x *minibatch) error { return t.rowStage.take(ctx, x) }

// passes issues the passes of a mini-batch whose input is admitted, and its step: what is recorded.
func (t *trainer) passes(x *minibatch, targets nn.Targets) {
	x.forward = t.model.Gradients(x.pass, x.graphs, x.in, targets)
	x.backward = time.Now()
	t.updater.step(x)
}

// over counts a mini-batch once it is, with what it downloaded.
func (t *trainer) over(x *minibatch, stat []float64) func(error) error {
	seeds, edges, pruned, listed := int64(len(x.Seeds)), int64(x.SampledEdges()), x.Pruned, x.Listed
	if x.drawn != nil {
		edges = int64(x.drawn.SampledEdges())
	}
	key, step, sum := x.Key, x.mb.StepIndex, x.sum // x.Batch is the next one's by then
	return func(err error) error {
		if err != nil {
			return failedAt(key, step, progress.BudgetError(err))
		}
		for _, f := range x.over {
			f()
		}
		if !isFinite(stat[0]) {
			return failedAt(key, step, t.diverged("the loss is not a finite number"))
		}
		for _, check := range x.checks {
			if err := check(); err != nil {
				return failedAt(key, step, err)
			}
		}
		t.stepping = t.pipe.Flying() > 0
		sum.Loss += stat[0]
		sum.Correct += stat[1]
		sum.Examples += seeds
		sum.Batches++
		sum.Edges += edges
		sum.Pruned += pruned
		sum.Listed += listed
		return nil
	}
}

func (x *minibatch) failed(err error) error { return failedAt(x.Key, x.mb.StepIndex, err) }

func failedAt(key mini.Key, step int, err error) error {
	return fmt.Errorf("train: epoch %d, step %d, batch %d: %w", key.Epoch+1, step, key.Batch, err)
}

func (t *trainer) diverged(format string, args ...any) error {
	return fmt.Errorf("%s: %w: use a smaller learning rate than %v", fmt.Sprintf(format, args...), run.ErrDiverged, t.cfg.LR)
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func (t *trainer) dropoutSeed(k mini.Key) uint64 {
	return k.Number(t.key.With(placeDropout))
}
