package eval

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval/evaltest"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// TestBitsWhateverTheTiles: metrics, embeddings and means have the same bits however a budget cuts the graph.
func TestBitsWhateverTheTiles(t *testing.T) {
	for name, model := range map[string]nn.Config{
		"sage": {Model: "sage"}, "sage max, cat": {Model: "sage", Aggregator: "max", Jumping: "cat"},
		"gcn, layer norm, residual": {Model: "gcn", Norm: "layer", Residual: true}, "gin": {Model: "gin"},
		"sage, edge weights": {Model: "sage", EdgeWeights: true}, "gcn, edge weights": {Model: "gcn", EdgeWeights: true},
		"gat": {Model: "gat", Heads: 4}, "gat, residual": {Model: "gat", Residual: true},
		"rgcn": {Model: "rgcn", Bases: 3}, "rsage": {Model: "rsage"}, "rgat": {Model: "rgat", Heads: 2}, "hgt": {Model: "hgt", Heads: 2},
	} {
		for _, undirected := range []bool{true, false} {
			if undirected && race.Enabled { // threads do the same in both
				continue
			}
			t.Run(fmt.Sprintf("%s/undirected=%v", name, undirected), func(t *testing.T) {
				g := evaltest.Random(t, 1500, 7, undirected)
				model := model
				model.Layers, model.In, model.Hidden, model.Out, model.Seed = 2, g.Dim, 12, g.M.Schema.Classes, 2
				if model.Kind().Relations {
					model.Relations = evaltest.Relations
					if !undirected {
						model.Relations *= 2
					}
				}
				var want string
				for _, c := range []struct {
					tiles  int
					pieces uint64 // nodes
					aheads bool
				}{{1, 0, false}, {2, 0, false}, {4, 0, false}, {7, 0, false}, {1, 1, false}, {2, 500, false}, {1, 1, true}, {2, 500, true}, {4, 1, true}} {
					got := fingerprint(t, g, model, c.tiles, c.pieces, c.aheads)
					if want == "" {
						want = got
					}
					if got != want {
						t.Errorf("%d tiles, pieces of %d nodes, read ahead %v: other bits than with one", c.tiles, c.pieces, c.aheads)
					}
				}
			})
		}
	}
}

// fingerprint has every bit of what an evaluation in so many tiles, read in pieces of so many nodes, computes.
func fingerprint(t *testing.T, g *evaltest.Graph, cfg nn.Config, tiles int, pieces uint64, aheads bool) string {
	t.Helper()
	dev, q, m := untrained(t, 2, cfg)
	e, err := New(g, dev, Options{Features: []string{"x"}, Model: cfg, Embeddings: true}, cfg.Hidden)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	if e.pieceEdges = int64(300 / tiles); tiles == 1 { // of messages by relation, which a piece's end cuts anywhere
		e.pieceEdges = 1 << 20
	}
	if e.tiles, e.memory, e.pieceNodes, e.aheads = tilesOf(g.M.Partitions, tiles), tiles < 4, pieces, aheads; len(e.tiles) < tiles {
		t.Fatalf("%d tiles, expected %d", len(e.tiles), tiles)
	}
	metrics, err := e.Run(t.Context(), q, m, "train", "valid", "test")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, r := range metrics {
		fmt.Fprintf(&out, "%x %d\n", r.Loss, r.Correct)
	}
	rows := e.Embeddings()
	b := make([]byte, g.M.Nodes*uint64(rows.Dim)*4)
	if err := e.embeddings.Read(b, 0); err != nil {
		t.Fatal(err)
	}
	out.Write(b)
	if cfg.Kind().Relations {
		return out.String()
	}
	if err := e.Hop(t.Context(), q, func(p store.PartitionID, rows gpu.Tensor, _ []float32) error {
		own := make([]byte, rows.Len()*4)
		q.Download(own, rows)
		out.Write(own)
		return q.Sync(t.Context())
	}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestEdgesInOrder: a destination's edges are all there, in the order of their sources; those of one source carry the
// same message but for the relation, by which they are grouped later.
func TestEdgesInOrder(t *testing.T) {
	for _, undirected := range []bool{true, false} {
		for _, relations := range []bool{true, false} {
			g := evaltest.Random(t, 1500, 7, undirected)
			b := edgeBuilder{src: g, undirected: undirected, parts: g.M.Partitions}
			if relations {
				if err := b.readRelations(&g.M); err != nil {
					t.Fatal(err)
				}
			}
			tiles, all := tilesOf(g.M.Partitions, 3), allNodes(g.M.Partitions)
			for _, to := range tiles {
				var got [][]uint64 // of each node: source, relation
				for range to.Nodes {
					got = append(got, nil)
				}
				for _, from := range tiles {
					c, err := b.build(t.Context(), between{from: from, to: to, of: all, into: all})
					if err != nil {
						t.Fatal(err)
					}
					for d := range to.Nodes {
						for e := c.indptr[d]; e < c.indptr[d+1]; e++ {
							x := (from.Base + uint64(c.indices[e])) << 16
							if relations {
								x |= uint64(c.relations[e])
							}
							got[d] = append(got[d], x)
						}
					}
					c.free()
				}
				for d, edges := range got {
					v := to.Base + uint64(d)
					want := edgesInto(g, uint32(v), relations)
					if !slices.IsSortedFunc(edges, func(a, b uint64) int { return cmp.Compare(a>>16, b>>16) }) {
						t.Fatalf("undirected %v, relations %v: node %d has edges %x, expected them by source", undirected, relations, v, edges)
					}
					slices.Sort(edges)
					if !slices.Equal(edges, want) {
						t.Fatalf("undirected %v, relations %v: node %d has edges %x, expected %x", undirected, relations, v, edges, want)
					}
				}
			}
		}
	}
}

// edgesInto lists the sources of v's edges, with their relations in the low bits, in order.
func edgesInto(g *evaltest.Graph, v uint32, relations bool) (out []uint64) {
	span := g.In.Spans[v]
	for i, u := range g.In.Indices[span.Begin:span.End] {
		x := uint64(u) << 16
		if relations {
			x |= uint64(g.In.Relations[span.Begin+int64(i)])
		}
		out = append(out, x)
	}
	if relations && len(g.Out.Spans) > 0 { // and against their direction, as other relations
		span := g.Out.Spans[v]
		for i, u := range g.Out.Indices[span.Begin:span.End] {
			out = append(out, uint64(u)<<16|uint64(g.Out.Relations[span.Begin+int64(i)]+evaltest.Relations))
		}
		slices.Sort(out)
	}
	return out
}
