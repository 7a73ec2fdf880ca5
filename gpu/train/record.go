package train

import (
	"slices"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/replay"
	"github.com/gstore/gstore/sampler/mini"
)

// Values of [Config].RecordSteps.
const (
	recordAuto = "auto"
	recordOff  = "off"
)

// recordable reports whether a model's steps can be padded and recorded: groups of relations, weights and features of edges have sizes of
// their own, batch norm counts rows, and the maximum of layers' states brings indices in the middle of a step.
func recordable(c *nn.Config) bool {
	return c.Relations == 0 && !c.EdgeWeights && c.EdgeDim == 0 && c.Norm != nn.BatchNorm && c.Jumping != nn.JumpMax
}

// records reports whether a run of c on a device that records does so with a model's steps.
func (c *Config) records(model *nn.Config) bool {
	return c.RecordSteps != recordOff && recordable(model)
}

// shapeOf is what a mini-batch is padded to, nil where it is issued as it is: before layers have their orders, which depend on
// sizes, with a history, and of plan rows, which waits for each mini-batch anyway.
func (t *trainer) shapeOf(b *mini.Batch) *replay.Shape {
	if t.replay == nil || t.choices == nil || t.feed != nil || len(t.history) > 0 {
		return nil
	}
	z := replay.Sizes{Nodes: []int{len(t.cfg.inputs(b))}}
	if t.model.Hops() > 0 {
		for i := range b.Blocks {
			z.Nodes, z.Edges = append(z.Nodes, b.Blocks[i].NumDst), append(z.Edges, len(b.Blocks[i].Indices))
		}
	}
	return t.replay.Shape(z)
}

// padded issues a mini-batch whose graphs were padded to shape. What differs from one to the next is staged before the step, in an
// order in which all but rows on their way to the device have one place.
func (t *trainer) padded(p *nn.Pass, shape *replay.Shape, tables []gpu.Tensor, input []uint32, adam *gpu.AdamOptions, issue func(in nn.Input, labels, shift gpu.Tensor)) {
	q, a := p.Queue, p.Arena
	p.Scalars = a.Scalars(q, p.DropoutSeed, *adam)
	adam.Rates = p.Scalars.Rates
	labels, shift := a.Int32s(q, t.replay.Labels(shape, t.labels)), t.shift.tensor(q, a)
	in := t.rows.admit(q, a, tables, input, func(rows []uint32) []uint32 { return t.replay.Rows(shape, rows) })
	t.reads = append(append(t.reads[:0], p.Scalars.Seed, labels, shift, in.Index), in.Tables...)
	for _, g := range t.graphs {
		t.reads = append(t.reads, g.Indptr, g.Indices, g.SrcDegrees, g.DstDegrees)
	}
	graphs := slices.Clone(t.graphs)
	t.replay.Run(shape, a, t.reads, func() {
		copy(t.graphs, graphs) // a pass completes them, also one whose recording failed
		issue(in, labels, shift)
	})
}
