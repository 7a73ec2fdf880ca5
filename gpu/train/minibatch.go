package train

import (
	"context"
	"time"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/replay"
	"github.com/gstore/gstore/gpu/sampling"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// minibatch is a mini-batch on its way through the stages of a step, each of which fills in what those behind it read:
//
//	draw      its graphs                drawer     by the host, or by the device
//	rows      its input                 rowStage   of the macro-batch, kept on the device, read by plan rows; vectors of a table
//	complete  what it has not in memory completer  nothing (a precomputed hop is input), or histories
//	issue     the model's passes        issuer     operation by operation, or recorded
//	update    the parameters            updater    with each mini-batch, or with several; vectors of a table with them
//
// Which implementation each stage has is chosen once, when a run is planned ([trainer.choose]).
type minibatch struct {
	*mini.Batch // its key and its seeds; its blocks, where the host drew it
	mb          *buffer.MacroBatch
	first, last bool // of the mini-batches that make one optimiser step

	drawn  *sampling.Batch // the device's; nil where the host drew it
	shape  *replay.Shape   // that it is padded to; nil: it is issued as it is
	graphs []gpu.Graph     // one a layer, input first
	input  []uint32        // rows that feed the first layer: of the macro-batch, or of the slots of plan rows
	in     nn.Input
	labels []int32 // of the seeds

	pass   *nn.Pass
	adam   gpu.AdamOptions
	weight float64 // of the seeds with a label, of which the gradients are the mean

	issued []func()       // called once it is issued
	over   []func()       // called once it is over
	checks []func() error // called then, of what it downloaded

	sum                      *progress.Counts
	began, forward, backward time.Time // when its own work began, and when these passes were issued
}

// drawer makes a mini-batch's graphs.
type drawer interface {
	// enter begins a macro-batch.
	enter(ctx context.Context, mb *buffer.MacroBatch) error
	// take waits for the mini-batch.
	take(ctx context.Context, x *minibatch) error
	// sizes are the mini-batch's.
	sizes(x *minibatch) replay.Sizes
	// place sets x.graphs, padded to x.shape if there is one, and x.input.
	place(x *minibatch)
	// leave ends the macro-batch, whose mini-batches are over.
	leave(ctx context.Context) error
}

// rowStage finds the rows that feed a mini-batch's first layer.
type rowStage interface {
	// enter begins a macro-batch at a mini-batch of it.
	enter(mb *buffer.MacroBatch, epoch, batch int) error
	// announce looks at the mini-batches that come, the loader's current one first.
	announce(l *mini.Loader) error
	// take waits until the rows of x.input are in memory.
	take(ctx context.Context, x *minibatch) error
	// admit issues what of them the device lacks, and sets x.in.
	admit(x *minibatch)
	// leave ends the macro-batch, whose mini-batches are over, also after an error.
	leave(ctx context.Context, err error) error
}

// completer completes a mini-batch by what is known of neighbours that are not in memory.
type completer interface {
	enter(mb *buffer.MacroBatch) error
	// find looks the mini-batch's nodes up.
	find(x *minibatch) error
	// complete adds to x.pass.
	complete(x *minibatch)
}

// issuer issues the operations of a mini-batch.
type issuer interface {
	// pad sets x.shape, by the mini-batch's sizes.
	pad(x *minibatch)
	// issue stages what the mini-batch brings and issues its passes and its step.
	issue(x *minibatch)
	// settle frees what is not used any more. Nothing is in flight.
	settle() error
}

// updater takes the optimiser's steps.
type updater interface {
	// begin sets x.adam. Nothing of x is issued.
	begin(x *minibatch)
	// step updates the parameters once their gradients are set.
	step(x *minibatch)
}
