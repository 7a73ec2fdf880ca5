package train

import (
	"context"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/replay"
	"github.com/gstore/gstore/gpu/sampling"
	"github.com/gstore/gstore/store/buffer"
)

// deviceDraw has the device draw mini-batches, from the one in hand on, as many as it was asked for.
type deviceDraw struct {
	t       *trainer
	sampler *sampling.Sampler
}

func (d *deviceDraw) enter(_ context.Context, mb *buffer.MacroBatch) error {
	if len(mb.Seeds) == 0 {
		return nil
	}
	return d.sampler.Enter(mb, d.t.rows.Mirror.Shifts)
}

// take has the device draw the mini-batch in hand and those that come, as far as it has room, and waits for the former.
func (d *deviceDraw) take(ctx context.Context, x *minibatch) (err error) {
	l := d.t.batches.Loader
	for d.sampler.Room() > 0 {
		b := l.Batch()
		if n := d.sampler.Waiting(); n > 0 {
			b = l.Ahead(n)
		}
		if b == nil { // the pass ends
			break
		}
		if err := d.sampler.Draw(b.Key, d.t.rows.Mirror.Places(b.Seeds)); err != nil {
			return err
		}
	}
	x.drawn, err = d.sampler.Next(context.WithoutCancel(ctx))
	return err
}

func (d *deviceDraw) sizes(x *minibatch) replay.Sizes {
	return replay.Sizes{Nodes: x.drawn.Nodes, Edges: x.drawn.Edges}
}

// place copies the graphs to the arena, so that their room is free soon and recorded steps find them at one address.
func (d *deviceDraw) place(x *minibatch) {
	t, b, z := d.t, x.drawn, d.sizes(x)
	q, a := t.queue, t.pipe.Arena()
	if x.shape != nil {
		z = x.shape.Sizes
	}
	for range len(t.model.Layers()) - len(b.Edges) {
		x.graphs = append(x.graphs, gpu.Graph{NumDst: z.Nodes[0], NumSrc: z.Nodes[0]})
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
		x.graphs = append(x.graphs, g)
	}
}

func (d *deviceDraw) leave(ctx context.Context) error { return d.sampler.Leave(ctx) }

// drawnRows are the rows of mini-batches that the device drew, whose input lies in the slots of plan mirror.
type drawnRows struct{ memoryRows }

// admit gives up the mini-batch's room on the device.
func (r *drawnRows) admit(x *minibatch) {
	t, n := r.t, x.drawn.Nodes[0]
	t.rows.Mirror.Stats.Hits += uint64(n)
	if x.shape != nil {
		n = x.shape.Nodes[0]
	}
	x.in.Tables, x.in.Index = t.rows.Kept.Scaled(r.tables), t.pipe.Arena().Vector(t.queue, n, blocks.Uint32)
	t.queue.PadNumbers(x.drawn.Input(), x.in.Index, 0, true)
	t.draws.Free(t.queue)
}

// degreeCounter counts the neighbours of a macro-batch's nodes by row, of one that has not all of the store's partitions within reach: neighbours
// that are absent count. What a node was trained with must be what evaluation has, which reads all edges.
type degreeCounter struct {
	of         func(ctx context.Context, first uint64, to []int32) error // [eval.Evaluator.Degrees]; nil: the macro-batch says all
	partitions int                                                       // of the store
	whole      []int32                                                   // empty: the macro-batch says all
}

func (c *degreeCounter) enter(ctx context.Context, mb *buffer.MacroBatch) error {
	c.whole = c.whole[:0]
	if c.of == nil || len(mb.Step.Reached()) == c.partitions {
		return nil
	}
	c.whole = slices.Grow(c.whole, mb.Rows)[:mb.Rows]
	for _, p := range mb.Partitions {
		if err := c.of(ctx, uint64(p.First), c.whole[p.Base:][:p.Nodes]); err != nil {
			return err
		}
	}
	return nil
}
