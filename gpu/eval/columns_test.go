package eval

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/eval/evaltest"
	"github.com/gstore/gstore/gpu/nn"
)

// TestColumns: layers that are computed some columns at a time have the same bits as in one tile, whatever the columns: of the features
// below the first layer, and of states; of all nodes, and of few.
func TestColumns(t *testing.T) {
	for name, model := range map[string]nn.Config{
		"sage": {Model: "sage"}, "sage, edge weights": {Model: "sage", EdgeWeights: true},
		"gcn, layer norm, residual": {Model: "gcn", Norm: "layer", Residual: true}, "gin, cat": {Model: "gin", Jumping: "cat"},
	} {
		for _, undirected := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/undirected=%v", name, undirected), func(t *testing.T) {
				g := evaltest.Random(t, 1500, 7, undirected)
				model := model
				model.Layers, model.In, model.Hidden, model.Out, model.Seed = 3, g.Dim, 11, g.M.Schema.Classes, 2
				dev, q, m := untrained(t, 2, model)
				run := func(width int) string {
					e, err := New(g, dev, Options{Features: []string{"x"}, Model: model, Embeddings: true}, model.Hidden)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = e.Close() }()
					if width > 0 {
						e.tiles, e.memory, e.pieceNodes, e.smallPiece = tilesOf(g.M.Partitions, 7), false, 300, 300
						widths(t, e, m, width)
					}
					metrics, err := e.Run(t.Context(), q, m, "train", "valid", "test")
					if err != nil {
						t.Fatal(err)
					}
					var out bytes.Buffer
					for _, r := range metrics {
						fmt.Fprintf(&out, "%x %d\n", r.Loss, r.Correct)
					}
					b := make([]byte, g.M.Nodes*uint64(e.Embeddings().Dim)*4)
					if err := e.embeddings.Read(b, 0); err != nil {
						t.Fatal(err)
					}
					if width > 0 && !model.Jumps() { // the bound: a layer reads its sources and sums once, its own nodes once, and edges once a slice
						slices := int64((g.Dim-1)/width + 1)
						states, edges := 4*int64(g.M.Nodes)*int64(g.Dim), 4*int64(g.M.Nodes+2*g.M.Edges)
						if e.edges.weight != nil {
							edges *= 2
						}
						if read, most := e.Spilled().Read, 3*(4*states+slices*edges); read > most {
							t.Errorf("%d columns at a time: %d bytes of files are read, expected at most %d", width, read, most)
						}
					}
					out.Write(b)
					return out.String()
				}
				want := run(0)
				for _, width := range []int{1, 4, 5, 11} {
					if got := run(width); got != want {
						t.Errorf("%d columns at a time: other bits than in one tile", width)
					}
				}
			})
		}
	}
}

// widths bounds e so that the layers of m are computed by about so many columns at a time.
func widths(t *testing.T, e *Evaluator, m *nn.Model, width int) {
	t.Helper()
	e.columnsAnyhow = true
	for e.bound = e.chunkBytes; ; e.bound += 512 {
		r := e.begin(nil)
		least := 1 << 30
		for l := range m.Layers() {
			s, err := r.stageOf(t.Context(), nil, m.Layers(), l, nil)
			if err != nil {
				t.Fatal(err)
			}
			least = min(least, s.width)
		}
		if least >= width {
			return
		}
		if e.bound > 64<<20 {
			t.Fatalf("no bound makes layers read %d columns at a time", width)
		}
	}
}

// A table by columns has the rows that were written, whatever the widths.
func TestColumnTable(t *testing.T) {
	g := evaltest.Random(t, 20, 2, false)
	e := &Evaluator{src: g}
	for _, c := range []struct{ nodes, dim, width int }{{1, 1, 1}, {5, 7, 7}, {5, 7, 3}, {9, 8, 4}, {3, 9, 1}} {
		x, err := e.newColumns(uint64(c.nodes), c.dim, c.width)
		if err != nil {
			t.Fatal(err)
		}
		var rows, strip []float32
		for i := range c.nodes * c.dim {
			rows = append(rows, float32(i))
		}
		for v := range c.nodes {
			if err := x.write(rows[v*c.dim:(v+1)*c.dim], uint64(v), &strip); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]float32, len(rows))
		if err := x.rows(got, 0, &strip); err != nil || !bytes.Equal(blocks.Bytes(got), blocks.Bytes(rows)) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
		x.Close()
	}
}
