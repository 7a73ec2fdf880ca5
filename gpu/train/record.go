package train

import (
	"slices"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/replay"
	"github.com/gstore/gstore/gpu/sampling"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
)

// Values of [Config].RecordSteps.
const (
	recordAuto = "auto"
	recordOff  = "off"
)

// unrecorded says why a run of c on a device that records does not pad and record a model's steps, "" if it does.
func (c *Config) unrecorded(model *nn.Config) string {
	switch {
	case c.RecordSteps == recordOff:
		return "nobody asks for recordings"
	case model.Relations > 0:
		return "groups of relations have sizes of their own"
	case model.EdgeWeights || model.EdgeDim > 0:
		return "weights and features of edges have sizes of their own"
	case model.Norm == nn.BatchNorm:
		return "batch norm counts rows"
	case model.Jumping == nn.JumpMax:
		return "the maximum of layers' states brings indices in the middle of a step"
	case c.Accumulate > 1:
		return "several mini-batches make a step"
	case c.History:
		return "a history has rows of its own"
	case c.Plan == macro.Rows:
		return "plan rows waits for each mini-batch anyway"
	}
	return ""
}

// recordWhy says whether steps are recorded, of a device that can.
func (c *Config) recordWhy(model *nn.Config) string {
	if why := c.unrecorded(model); why != "" {
		return "device: steps are issued operation by operation: " + why
	}
	return "device: steps are recorded, and run again by one call, of mini-batches that are padded to a few shapes"
}

// sizes are those of a mini-batch, which the device drew if drawn is not nil.
func (t *trainer) sizes(b *mini.Batch, drawn *sampling.Batch) replay.Sizes {
	if drawn != nil {
		return replay.Sizes{Nodes: drawn.Nodes, Edges: drawn.Edges}
	}
	z := replay.Sizes{Nodes: []int{len(t.cfg.inputs(b))}}
	if t.model.Hops() > 0 {
		for i := range b.Blocks {
			z.Nodes, z.Edges = append(z.Nodes, b.Blocks[i].NumDst), append(z.Edges, len(b.Blocks[i].Indices))
		}
	}
	return z
}

// shapeOf is what a mini-batch is padded to, nil where it is issued as it is: without recordings, and before layers have their orders,
// which depend on sizes.
func (t *trainer) shapeOf(b *mini.Batch, drawn *sampling.Batch) *replay.Shape {
	if t.replay == nil || t.choices == nil {
		return nil
	}
	return t.replay.Shape(t.sizes(b, drawn))
}

// padded issues a mini-batch whose graphs were padded to shape. What differs from one to the next is staged before the step, in an
// order in which all but rows on their way to the device have one place.
func (t *trainer) padded(p *nn.Pass, shape *replay.Shape, adam *gpu.AdamOptions, admit func() nn.Input, issue func(in nn.Input, labels, shift gpu.Tensor)) {
	q, a := p.Queue, p.Arena
	p.Scalars = a.Scalars(q, p.DropoutSeed, *adam)
	adam.Rates = p.Scalars.Rates
	labels, shift := a.Int32s(q, t.replay.Labels(shape, t.labels)), t.shift.tensor(q, a)
	in := admit()
	t.reads = append(append(t.reads[:0], p.Scalars.Seed, labels, shift, in.Index), in.Tables...)
	t.reads = append(t.reads, in.Own...)
	for _, g := range t.graphs {
		t.reads = append(t.reads, g.Indptr, g.Indices, g.SrcDegrees, g.DstDegrees)
	}
	graphs := slices.Clone(t.graphs)
	t.replay.Run(shape, a, t.reads, func() {
		copy(t.graphs, graphs) // a pass completes them, also one whose recording failed
		issue(in, labels, shift)
	})
}
