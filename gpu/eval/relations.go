package eval

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
)

// Evaluation of models whose messages depend on the edge's relation. They are
// divided by how many edges of its relation a destination has in the whole graph, which is
// counted for a destination tile before anything is added up: one more pass over the rows for
// each tile and layer, none where one tile holds everything.

// readRelations makes the evaluator read edges' relations, and edges of a directed store against
// their direction as inverse relations.
func (e *Evaluator) readRelations(m *store.Manifest) error {
	if err := e.edges.readRelations(m); err != nil {
		return err
	}
	if n := e.edges.relations + int(e.edges.inverse); n != e.o.Model.Relations {
		return fmt.Errorf("evaluation: the model has %d relations, the store %d, inverse ones counted", e.o.Model.Relations, n)
	}
	return nil
}

// readRelations makes b read relations, those of a directed store both ways.
func (b *edgeBuilder) readRelations(m *store.Manifest) error {
	c, err := m.RelationColumn()
	if err != nil {
		return fmt.Errorf("evaluation: %w", err)
	}
	if c != nil && (c.Dim != 1 || c.Elem != blocks.Uint8 && c.Elem != blocks.Uint16) {
		return fmt.Errorf("evaluation: column %s holds %d %v an edge, expected one uint8 or uint16", c.Name, c.Dim, c.Elem)
	}
	b.relation, b.relations = c, len(m.Schema.Relations)
	if !m.Schema.Undirected {
		b.inverse = uint16(b.relations)
	}
	return nil
}

// relationSizes returns how many edges of each relation each node of the stage's tile i has, [nodes × relations].
func (r *evaluation) relationSizes(ctx context.Context, i int) ([]int32, error) {
	t, n := r.work.tiles[i], r.o.Model.Relations
	if r.sized != t || r.sizedOf != r.work.into {
		r.sized, r.sizedOf = Tile{}, nil
		if err := spill.Grow(&r.sizes, int64(t.Nodes)*int64(n)*4); err != nil {
			return nil, err
		}
		sizes := asInt32(r.sizes.Bytes())[:t.Nodes*n]
		clear(sizes)
		m := r.src.Manifest()
		everything := Tile{Hi: len(m.Partitions), Nodes: int(m.Nodes)}
		x := between{from: everything, to: t, of: r.all, into: r.work.into}
		into, _ := x.places()
		count := func(d, _ uint32, e about) { sizes[int(into(d))*n+int(e.relation)]++ }
		if err := r.edges.some(ctx, everything, t, selection{to: r.work.into}, count); err != nil {
			return nil, err
		}
		r.sized, r.sizedOf = t, r.work.into
	}
	return asInt32(r.sizes.Bytes())[:t.Nodes*n], nil
}

// RelationSizes calls fn for every tile, in ascending order, with how many edges of each relation its nodes have, [nodes × relations], valid
// during the call. The model must read relations.
func (e *Evaluator) RelationSizes(ctx context.Context, fn func(t Tile, sizes []int32)) error {
	r := e.begin(nil)
	for i, t := range e.tiles {
		sizes, err := r.relationSizes(ctx, i)
		if err != nil {
			return fmt.Errorf("evaluation: sizes of relations: %w", err)
		}
		fn(t, sizes)
	}
	return nil
}

// accumulateRelations adds the messages of c's edges to acc, relation by relation: a layer multiplies the sources' states for one at a time.
func (r *evaluation) accumulateRelations(ctx context.Context, layer nn.Streamer, c csr, sources int, input nn.Input, acc gpu.Tensor) error {
	q, n := r.queue, acc.Rows
	counts := make([]int, r.o.Model.Relations)
	for _, relation := range c.relations {
		counts[relation]++
	}
	if err := spill.Grow(&r.ofRelation, 4*int64(n+1+slices.Max(counts))); err != nil {
		return err
	}
	for relation, edges := range counts {
		if edges == 0 {
			continue
		}
		all := asInt32(r.ofRelation.Bytes())
		indptr, indices := all[:n+1], all[n+1:n+1]
		indptr[0] = 0
		for d := range n {
			for e := c.indptr[d]; e < c.indptr[d+1]; e++ {
				if int(c.relations[e]) == relation {
					indices = append(indices, c.indices[e])
				}
			}
			indptr[d+1] = int32(len(indices))
		}
		g := gpu.Graph{NumDst: n, NumSrc: sources, Relation: relation, Indptr: r.arena.Int32s(q, indptr), Indices: r.arena.Int32s(q, indices)}
		layer.Accumulate(&nn.Pass{Queue: q, Arena: r.arena}, &g, input, acc)
		if err := q.Sync(ctx); err != nil {
			return err
		}
		if err := r.arena.Reset(); err != nil {
			return err
		}
	}
	return nil
}

// accumulateGroups adds the messages of c's edges, from a tile of sources to Tile to, to acc,
// pieceEdges at a time, which bounds the memory of the messages. These are added up one by one in the order of their sources, whatever
// their relation, so that sums have the same bits wherever a destination's edges are cut: by a tile, a piece, or here.
func (r *evaluation) accumulateGroups(ctx context.Context, layer nn.Streamer, c csr, sources, to int, input nn.Input, acc gpu.Tensor) error {
	var sizes []int32 // of layers that divide by them
	if !r.o.Model.Kind().EachEdge {
		var err error
		if sizes, err = r.relationSizes(ctx, to); err != nil {
			return err
		}
	}
	q, n := r.queue, r.work.tiles[to].Nodes
	var indptr []int32
	for d, at := 0, c.indptr[0]; d < n; {
		first, stop := d, int32(min(int64(at)+r.pieceEdges, math.MaxInt32))
		indptr = append(indptr[:0], at)
		for d < n && at < stop {
			at = min(c.indptr[d+1], stop)
			indptr = append(indptr, at)
			if at == c.indptr[d+1] { // otherwise the next piece goes on with d
				d++
			}
		}
		g := gpu.Graph{NumDst: len(indptr) - 1, NumSrc: sources}
		r.grouper.Group(q, r.arena, &g, indptr, c.indices, c.relations)
		relations, dst := r.grouper.Groups()
		r.perGroup = r.perGroup[:0]
		for k, relation := range relations {
			if sizes == nil {
				break
			}
			r.perGroup = append(r.perGroup, float32(sizes[(first+int(dst[k]))*r.o.Model.Relations+int(relation)]))
		}
		if len(r.perGroup) > 0 {
			g.Groups.Sizes = r.arena.Vector(q, len(r.perGroup), blocks.Float32)
			q.Upload(g.Groups.Sizes, blocks.Bytes(r.perGroup))
		}
		if len(relations) > 0 {
			layer.Accumulate(&nn.Pass{Queue: q, Arena: r.arena}, &g, input, acc.View(first, 0, g.NumDst, acc.Cols))
		}
		if err := q.Sync(ctx); err != nil {
			return err
		}
		if err := r.arena.Reset(); err != nil {
			return err
		}
	}
	return nil
}
