package infer

import (
	"context"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
)

// Input puts a neighbourhood's rows into an arena, where the model reads them.
func (m *Model) Input(ctx context.Context, arena *gpu.Arena, a *eval.Around) (in nn.Input, err error) {
	q, n := m.Queue, len(a.Nodes)
	for k, c := range m.Columns {
		if m.dry {
			in.Tables = append(in.Tables, arena.Matrix(q, n, c.Dim))
			continue
		}
		wide := make([]float32, n*c.Dim)
		if elem := nn.TableElem(c.Elem); elem != c.Elem { // a category: its bits
			copy(blocks.Bytes(wide), a.Rows[k])
		} else {
			for i := range n {
				c.Elem.Widen(wide[i*c.Dim:(i+1)*c.Dim], a.Rows[k][i*c.RowBytes():], c.Scale)
			}
		}
		t := arena.Matrix(q, n, c.Dim)
		if q.Err() == nil {
			q.Upload(t, blocks.Bytes(wide))
		}
		if err := q.Sync(ctx); err != nil { // wide may go
			return in, err
		}
		in.Tables = append(in.Tables, t)
	}
	if v := &a.Vectors; len(v.At) > 0 {
		t := arena.Matrix(q, len(v.At), m.Config.Hidden)
		if q.Err() == nil {
			q.Upload(t, v.Rows)
		}
		in.Vectors = nn.Vectors{Table: t, At: v.At}
		for i := range v.At {
			in.Vectors.Rows = append(in.Vectors.Rows, uint32(i))
		}
	}
	in.Types = a.Types
	return in, q.Sync(ctx)
}

// Graphs are those of all layers over a neighbourhood, in an arena: of each, the nodes that lie near enough for the layers above, and their
// messages. With unshared, every message has a source of its own, behind the destinations ([nn.Unshared]): source s of layer i is node
// of[i][s].
func (m *Model) Graphs(arena *gpu.Arena, a *eval.Around, unshared bool) (graphs []gpu.Graph, of [][]uint32) {
	q, cfg, layers := m.Queue, &m.Config, m.Net.Layers()
	above := 0
	for _, l := range layers {
		above += l.Hops()
	}
	groupers, weighers := cfg.Groupers(len(layers)), cfg.EdgeWeighers(len(layers))
	readers := make([]nn.EdgeReader, len(layers))
	for i, l := range layers {
		above -= l.Hops()
		n := a.Reach[above]
		if l.Hops() == 0 {
			graphs, of = append(graphs, gpu.Graph{NumDst: n, NumSrc: n}), append(of, nil)
			continue
		}
		edges, _ := slices.BinarySearch(a.Dst, uint32(n)) // those into the first n nodes
		indptr, indices, places := make([]int32, n+1), make([]int32, edges), make([]int64, edges)
		for e := range edges {
			indptr[a.Dst[e]+1]++
			indices[e], places[e] = int32(a.Src[e]), int64(e)
		}
		for v := range n {
			indptr[v+1] += indptr[v]
		}
		sources := a.Reach[above+1]
		var from []uint32
		if unshared {
			sources = n + edges
			from = make([]uint32, sources)
			for v := range n {
				from[v] = uint32(v)
			}
			copy(from[n:], a.Src)
			for e := range indices {
				indices[e] = int32(n + e)
			}
		}
		node := func(s int) int { // that a source is
			if unshared {
				return int(from[s])
			}
			return s
		}
		g := gpu.Graph{NumDst: n, NumSrc: sources}
		if cfg.Relations > 0 {
			groupers[i].Group(q, arena, &g, indptr, indices, a.Relations)
		} else {
			g.Indptr, g.Indices = arena.Int32s(q, indptr), arena.Int32s(q, indices)
		}
		if m.Net.ReadsDegrees() {
			src := make([]int32, sources)
			for s := range src {
				src[s] = a.Degrees[node(s)]
			}
			g.DstDegrees, g.SrcDegrees = arena.Int32s(q, a.Degrees[:n]), arena.Int32s(q, src)
		}
		if cfg.EdgeWeights {
			sums := make([]float64, sources)
			for s := range sums {
				sums[s] = a.Sums[node(s)]
			}
			weighers[i].Weigh(q, arena, &g, nn.WeighedEdges{Indptr: indptr, Indices: indices, Weights: a.Weights,
				Degrees: a.Degrees, Sums: sums})
		}
		if cfg.EdgeDim > 0 {
			readers[i].Read(q, arena, &g, nn.FeaturedEdges{Indptr: indptr, Places: places, Rows: a.Features,
				Dim: cfg.EdgeDim})
		}
		graphs, of = append(graphs, g), append(of, from)
	}
	return graphs, of
}
