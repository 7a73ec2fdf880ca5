package train

import (
	"context"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/replay"
	"github.com/gstore/gstore/gpu/train/ondevice"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// hostDraw places graphs that the host drew: a mini-batch's blocks, one for each layer that reads neighbours.
type hostDraw struct {
	t       *trainer
	layout  func(x *minibatch, i int, k *mini.Block, g *gpu.Graph) // where block i's edges are
	dresses []dress
}

// dress adds to graphs what a model reads of edges and nodes beside them.
type dress interface {
	begin(x *minibatch) // whose input is known
	add(x *minibatch, i int, k *mini.Block, g *gpu.Graph)
}

// newHostDraw chooses what the model's graphs have. groupers are of models of relations, else nil.
func newHostDraw(t *trainer, groupers []nn.Grouper) *hostDraw {
	c, hops := t.model.Config(), t.model.Hops()
	d := &hostDraw{t: t, layout: t.lists}
	if groupers != nil {
		d.layout = func(x *minibatch, i int, k *mini.Block, g *gpu.Graph) {
			groupers[i].Group(t.queue, t.pipe.Arena(), g, k.Indptr, k.Indices, k.Relations)
		}
	}
	if t.model.ReadsDegrees() {
		d.dresses = append(d.dresses, &degreeDress{t: t})
	}
	if c.EdgeWeights {
		d.dresses = append(d.dresses, &weightDress{t: t, weighers: c.EdgeWeighers(hops), symmetric: c.SymmetricWeights()})
	}
	if c.EdgeDim > 0 {
		d.dresses = append(d.dresses, &featureDress{t: t, readers: make([]nn.EdgeReader, hops), dim: c.EdgeDim})
	}
	return d
}

func (d *hostDraw) enter(ctx context.Context, mb *buffer.MacroBatch) error {
	return d.t.degrees.enter(ctx, mb)
}

func (d *hostDraw) take(context.Context, *minibatch) error { return nil }

func (d *hostDraw) leave(context.Context) error { return nil }

// blocks are those that the model's layers read.
func (d *hostDraw) blocks(x *minibatch) []mini.Block {
	if d.t.model.Hops() == 0 { // the sampler draws at least one hop
		return nil
	}
	return x.Blocks
}

func (d *hostDraw) sizes(x *minibatch) replay.Sizes {
	z := replay.Sizes{Nodes: []int{len(d.t.cfg.Inputs(x.Batch))}}
	for _, k := range d.blocks(x) {
		z.Nodes, z.Edges = append(z.Nodes, k.NumDst), append(z.Edges, len(k.Indices))
	}
	return z
}

// place implements drawer. Layers that read a node alone have a graph without edges.
func (d *hostDraw) place(x *minibatch) {
	x.input = d.t.cfg.Inputs(x.Batch)
	list, nodes := d.blocks(x), len(x.input)
	if x.shape != nil {
		nodes = x.shape.Nodes[0]
	}
	for range len(d.t.model.Layers()) - len(list) {
		x.graphs = append(x.graphs, gpu.Graph{NumDst: nodes, NumSrc: nodes})
	}
	for _, s := range d.dresses {
		s.begin(x)
	}
	for i := range list {
		k := &list[i]
		g := gpu.Graph{NumDst: k.NumDst, NumSrc: k.NumSrc}
		d.layout(x, i, k, &g)
		for _, s := range d.dresses {
			s.add(x, i, k, &g)
		}
		x.graphs = append(x.graphs, g)
	}
	if d.t.queue.Device().Info().OwnMemory() {
		d.t.blockBytes += ondevice.BlockBytes(x.Batch)
	}
}

// lists are a block's edges as the host drew them, padded, or the first of those that the block before has on the device already.
func (t *trainer) lists(x *minibatch, i int, k *mini.Block, g *gpu.Graph) {
	q, a := t.queue, t.pipe.Arena()
	switch {
	case x.shape != nil:
		indptr, indices := t.replay.Block(x.shape, i, k.NumSrc, k.Indptr, k.Indices)
		g.NumDst, g.NumSrc = x.shape.Nodes[i+1], x.shape.Nodes[i]
		g.Indptr, g.Indices = a.Int32s(q, indptr), a.Int32s(q, indices)
	case x.Nested && i > 0:
		last := &x.graphs[len(x.graphs)-1]
		g.Indptr, g.Indices = head(last.Indptr, len(k.Indptr)), head(last.Indices, len(k.Indices))
	default:
		g.Indptr, g.Indices = a.Int32s(q, k.Indptr), a.Int32s(q, k.Indices)
	}
}

// head is the first n elements of a vector.
func head(t gpu.Tensor, n int) gpu.Tensor {
	if n == 0 {
		return gpu.Tensor{}
	}
	return t.View(0, 0, 1, n)
}

// degreeDress adds the degrees of a graph's nodes.
type degreeDress struct {
	t     *trainer
	input []int32    // of the input nodes
	below gpu.Tensor // the sources' degrees: those of the destinations of the block below
}

func (d *degreeDress) begin(x *minibatch) {
	d.input = d.input[:0]
	whole := d.t.degrees.whole
	for _, row := range x.input {
		if len(whole) > 0 {
			d.input = append(d.input, whole[row])
			continue
		}
		s := x.mb.In.Span(row)
		d.input = append(d.input, int32(s.End-s.Begin))
	}
	d.below = d.of(x, 0, d.input)
}

func (d *degreeDress) of(x *minibatch, level int, degrees []int32) gpu.Tensor {
	if x.shape != nil {
		degrees = d.t.replay.Degrees(x.shape, level, degrees)
	}
	return d.t.pipe.Arena().Int32s(d.t.queue, degrees)
}

func (d *degreeDress) add(x *minibatch, i int, k *mini.Block, g *gpu.Graph) {
	of := k.Degrees
	if len(d.t.degrees.whole) > 0 {
		of = d.input[:k.NumDst] // which are the first inputs
	}
	g.SrcDegrees, g.DstDegrees = d.below, d.of(x, i+1, of)
	d.below = g.DstDegrees
}

// weightDress weighs edges.
type weightDress struct {
	t         *trainer
	weighers  []nn.EdgeWeigher // by block
	symmetric bool
	sums      []float64 // of the input nodes' edges, where symmetric
}

func (d *weightDress) begin(x *minibatch) {
	d.sums = d.sums[:0]
	if d.symmetric {
		for _, row := range x.input {
			d.sums = append(d.sums, x.mb.In.RowWeight(row))
		}
	}
}

func (d *weightDress) add(_ *minibatch, i int, k *mini.Block, g *gpu.Graph) {
	d.weighers[i].Weigh(d.t.queue, d.t.pipe.Arena(), g, nn.WeighedEdges{Indptr: k.Indptr, Indices: k.Indices, Weights: k.Weights, Degrees: k.Degrees, Sums: d.sums})
}

// featureDress adds the features of edges.
type featureDress struct {
	t       *trainer
	readers []nn.EdgeReader // by block
	dim     int
}

func (d *featureDress) begin(*minibatch) {}

func (d *featureDress) add(x *minibatch, i int, k *mini.Block, g *gpu.Graph) {
	if x.Nested && i > 0 {
		g.EdgeFeatures = x.graphs[len(x.graphs)-1].EdgeFeatures.Head(k.NumDst + len(k.Indices))
		return
	}
	d.readers[i].Read(d.t.queue, d.t.pipe.Arena(), g, nn.FeaturedEdges{Indptr: k.Indptr, Places: k.Places, Rows: x.mb.In.Features, Dim: d.dim})
}
