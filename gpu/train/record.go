package train

import (
	"slices"
	"time"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/replay"
)

// direct issues mini-batches operation by operation.
type direct struct{ t *trainer }

func (direct) pad(*minibatch) {}

func (i direct) issue(x *minibatch) {
	t := i.t
	targets := t.targets(x.labels)
	t.rowStage.admit(x)
	t.passes(x, targets)
}

func (direct) settle() error { return nil }

// targets brings what a mini-batch is fitted to to the device.
func (t *trainer) targets(labels []int32) nn.Targets {
	q, a := t.queue, t.pipe.Arena()
	return nn.Targets{Labels: a.Int32s(q, labels), Sets: t.sets.Tensor(), Shift: t.shift.Tensor(q, a), Divisors: t.weights.Tensor(q, a, labels)}
}

// recorded pads mini-batches to a few shapes, whose operations are recorded once and run again by one call.
type recorded struct {
	direct
	steps *replay.Steps
	reads []gpu.Tensor // of the mini-batch in hand
}

func (i *recorded) pad(x *minibatch) { x.shape = i.steps.Shape(i.t.drawer.sizes(x)) }

// issue stages what differs from one mini-batch to the next before its operations, in an order in which all but rows on their way to the
// device have one place.
func (i *recorded) issue(x *minibatch) {
	if x.shape == nil {
		i.direct.issue(x)
		return
	}
	t, p := i.t, x.pass
	x.forward, x.backward = time.Now(), time.Now() // of one that is replayed all is one
	p.Scalars = p.Arena.Scalars(p.Queue, p.DropoutSeed, x.adam)
	x.adam.Rates = p.Scalars.Rates
	targets := t.targets(i.steps.Labels(x.shape, x.labels))
	t.rowStage.admit(x)
	i.reads = append(append(i.reads[:0], p.Scalars.Seed, targets.Labels, targets.Shift, targets.Divisors, x.in.Index), x.in.Tables...)
	i.reads = append(i.reads, x.in.Own...)
	for _, g := range x.graphs {
		i.reads = append(i.reads, g.Indptr, g.Indices, g.SrcDegrees, g.DstDegrees)
	}
	graphs := slices.Clone(x.graphs)
	i.steps.Run(x.shape, p.Arena, i.reads, func() {
		copy(x.graphs, graphs) // a pass completes them, also one whose recording failed
		t.passes(x, targets)
	})
}

func (i *recorded) settle() error { return i.steps.Settle() }

// ordering issues the first mini-batch of a run, by whose sizes it decides how layers are computed. The run's issuer follows it.
type ordering struct{ direct }

func (i *ordering) issue(x *minibatch) {
	t := i.t
	t.ordered(t.model.ChooseOrders(x.graphs, elemBytes(t.memory.tables)))
	i.direct.issue(x)
}
