package train

import (
	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/replay"
	"github.com/gstore/gstore/gpu/sampling"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// blocks sets t.graphs to a batch's graphs, one a layer, and returns the rows
// that feed the first. Layers that read a node alone have a graph without edges. Graphs are padded to shape, if there is one.
func (t *trainer) blocks(mb *buffer.MacroBatch, b *mini.Batch, shape *replay.Shape) (input []uint32) {
	q, a := t.queue, t.pipe.Arena()
	blocks, input := b.Blocks, t.cfg.inputs(b)
	if t.model.Hops() == 0 {
		blocks = nil
	}
	t.graphs = t.graphs[:0]
	nodes := len(input)
	if shape != nil {
		nodes = shape.Nodes[0]
	}
	for range len(t.model.Layers()) - len(blocks) {
		t.graphs = append(t.graphs, gpu.Graph{NumDst: nodes, NumSrc: nodes})
	}
	degreesOf := func(level int, degrees []int32) gpu.Tensor {
		if shape != nil {
			degrees = t.replay.Degrees(shape, level, degrees)
		}
		return a.Int32s(q, degrees)
	}
	degrees, relations := t.model.ReadsDegrees(), t.model.Config().Relations > 0
	if relations && t.groupers == nil {
		c := t.model.Config()
		t.groupers = c.Groupers(len(blocks))
	}
	if t.model.Config().EdgeWeights && t.weighers == nil {
		c := t.model.Config()
		t.weighers = c.EdgeWeighers(len(blocks))
	}
	edgeDim := t.model.Config().EdgeDim
	if edgeDim > 0 && t.readers == nil {
		t.readers = make([]nn.EdgeReader, len(blocks))
	}
	t.sums = t.sums[:0]
	if c := t.model.Config(); c.SymmetricWeights() {
		for _, row := range input {
			t.sums = append(t.sums, mb.In.RowWeight(row))
		}
	}
	var below gpu.Tensor // the sources' degrees: those of the destinations of the block below
	if degrees {
		t.degrees = t.degrees[:0]
		for _, row := range input {
			if len(t.whole) > 0 {
				t.degrees = append(t.degrees, t.whole[row])
				continue
			}
			s := mb.In.Span(row)
			t.degrees = append(t.degrees, int32(s.End-s.Begin))
		}
		below = degreesOf(0, t.degrees)
	}
	for i := range blocks {
		k := &blocks[i]
		g := gpu.Graph{NumDst: k.NumDst, NumSrc: k.NumSrc}
		if relations {
			if len(t.history) > 0 {
				t.groupers[i].More = t.history[i].more
			}
			t.groupers[i].Group(q, a, &g, k.Indptr, k.Indices, k.Relations)
		} else if shape != nil {
			indptr, indices := t.replay.Block(shape, i, k.NumSrc, k.Indptr, k.Indices)
			g.NumDst, g.NumSrc = shape.Nodes[i+1], shape.Nodes[i]
			g.Indptr, g.Indices = a.Int32s(q, indptr), a.Int32s(q, indices)
		} else if b.Nested && i > 0 { // on the device already
			last := &t.graphs[len(t.graphs)-1]
			g.Indptr, g.Indices = head(last.Indptr, len(k.Indptr)), head(last.Indices, len(k.Indices))
		} else {
			g.Indptr, g.Indices = a.Int32s(q, k.Indptr), a.Int32s(q, k.Indices)
		}
		if degrees {
			of := k.Degrees
			if len(t.whole) > 0 {
				of = t.degrees[:k.NumDst] // which are the first inputs
			}
			g.SrcDegrees, g.DstDegrees = below, degreesOf(i+1, of)
			below = g.DstDegrees
		}
		if t.weighers != nil {
			t.weighers[i].Weigh(q, a, &g, nn.WeighedEdges{Indptr: k.Indptr, Indices: k.Indices, Weights: k.Weights, Degrees: k.Degrees, Sums: t.sums})
		}
		if nested := b.Nested && i > 0; edgeDim > 0 && nested {
			g.EdgeFeatures = t.graphs[len(t.graphs)-1].EdgeFeatures.Head(k.NumDst + len(k.Indices))
		} else if edgeDim > 0 {
			t.readers[i].Read(q, a, &g, nn.FeaturedEdges{Indptr: k.Indptr, Places: k.Places, Rows: mb.In.Features, Dim: edgeDim})
		}
		t.graphs = append(t.graphs, g)
	}
	return input
}

// head is the first n elements of a vector.
func head(t gpu.Tensor, n int) gpu.Tensor {
	if n == 0 {
		return gpu.Tensor{}
	}
	return t.View(0, 0, 1, n)
}

// drawnBlocks sets t.graphs to those of a mini-batch that the device drew, padded to shape if there is one, as blocks does: they are copied to
// the arena, so that its room is free soon and recorded steps find them at one address.
func (t *trainer) drawnBlocks(b *sampling.Batch, shape *replay.Shape) {
	q, a := t.queue, t.pipe.Arena()
	z := replay.Sizes{Nodes: b.Nodes, Edges: b.Edges}
	if shape != nil {
		z = shape.Sizes
	}
	t.graphs = t.graphs[:0]
	for range len(t.model.Layers()) - len(b.Edges) {
		t.graphs = append(t.graphs, gpu.Graph{NumDst: z.Nodes[0], NumSrc: z.Nodes[0]})
	}
	degreesOf := func(level int) gpu.Tensor {
		d := a.Vector(q, z.Nodes[level], blocks.Int32)
		q.PadNumbers(b.Degrees(level), d, 1, false)
		return d
	}
	var below gpu.Tensor
	if t.model.ReadsDegrees() {
		below = degreesOf(0)
	}
	for i, edges := range z.Edges {
		g := gpu.Graph{NumDst: z.Nodes[i+1], NumSrc: z.Nodes[i], Indptr: a.Vector(q, z.Nodes[i+1]+1, blocks.Int32)}
		if edges > 0 { // as arrays from the host are laid out
			g.Indices = a.Vector(q, edges, blocks.Int32)
		}
		q.PadBlock(b.Block(i), g)
		if t.model.ReadsDegrees() {
			g.SrcDegrees, g.DstDegrees = below, degreesOf(i+1)
			below = g.DstDegrees
		}
		t.graphs = append(t.graphs, g)
	}
}
