package eval

import (
	"fmt"
	"math"
	"testing"

	"github.com/gstore/gstore/gpu/eval/evaltest"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// fewAsked is a graph of which every 100th node is of split valid, every 100th of test, and no other of any.
func fewAsked(t *testing.T, undirected bool) *evaltest.Graph {
	t.Helper()
	g := evaltest.Random(t, 1500, 7, undirected)
	for v := range g.Split {
		switch g.Split[v] = store.SplitValue("none"); v % 100 {
		case 10:
			g.Split[v] = store.SplitValue("valid")
		case 60, 61:
			g.Split[v] = store.SplitValue("test")
		}
	}
	return g
}

// TestFewAreAsked: where few nodes are asked, nodes that their outputs do not depend on are not computed; their own are the same, within
// every budget to the bit.
func TestFewAreAsked(t *testing.T) {
	for name, model := range map[string]nn.Config{
		"sage": {Model: "sage"}, "sage max": {Model: "sage", Aggregator: "max"}, "sage, edge weights": {Model: "sage", EdgeWeights: true},
		"gcn, layer norm, residual": {Model: "gcn", Norm: "layer", Residual: true}, "gin": {Model: "gin"}, "gat": {Model: "gat", Heads: 4}, "mlp": {Model: "mlp"},
	} {
		for _, undirected := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/undirected=%v", name, undirected), func(t *testing.T) {
				g := fewAsked(t, undirected)
				model := model
				model.Layers, model.In, model.Hidden, model.Out, model.Seed = 2, g.Dim, 12, g.M.Schema.Classes, 2
				dev, q, m := untrained(t, 2, model)
				open := func(o Options) *Evaluator {
					o.Features, o.Model, o.Confusion = []string{"x"}, model, true
					e, err := New(g, dev, o, model.Hidden)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = e.Close() })
					return e
				}
				all := open(Options{Predictions: true}) // of every node
				want, err := all.Run(t.Context(), q, m, "valid", "test")
				if err != nil {
					t.Fatal(err)
				}
				if all.Computed() != 2*int64(g.M.Nodes) || want[0].Nodes == 0 || want[1].Nodes == 0 {
					t.Fatalf("%d rows of %d nodes, %v", all.Computed(), g.M.Nodes, want)
				}
				least := open(Options{MemoryBytes: 1 << 24}).LeastBytes()
				var first []Metrics
				for _, memory := range []int64{0, least + 3000, least + 200<<10, 1 << 24} {
					e := open(Options{MemoryBytes: memory})
					for pass := range 2 { // the second keeps what the first found
						before := e.Computed()
						got, err := e.Run(t.Context(), q, m, "valid", "test")
						if err != nil {
							t.Fatal(err)
						}
						if rows := e.Computed() - before; rows > int64(g.M.Nodes) {
							t.Errorf("within %d bytes, pass %d: %d rows are computed for %d nodes of %d", memory, pass, rows, got[0].Nodes+got[1].Nodes, g.M.Nodes)
						}
						if first == nil {
							first = got
						}
						for i := range got {
							if got[i].Nodes != want[i].Nodes || got[i].Correct != want[i].Correct || math.Abs(got[i].Loss-want[i].Loss) > 1e-12*want[i].Loss {
								t.Errorf("within %d bytes, pass %d: %+v, expected %+v", memory, pass, got[i], want[i])
							}
							if got[i].Loss != first[i].Loss {
								t.Errorf("within %d bytes, pass %d: loss %x, %x within another budget", memory, pass, got[i].Loss, first[i].Loss)
							}
							if fmt.Sprint(got[i].Confusion.Counts) != fmt.Sprint(want[i].Confusion.Counts) {
								t.Errorf("within %d bytes, pass %d: other nodes are confused", memory, pass)
							}
						}
					}
				}
			})
		}
	}
}

// Who asks for many nodes, or for what all nodes have, gets all computed; the same evaluator may be asked for few before and after.
func TestManyAreAsked(t *testing.T) {
	g := fewAsked(t, false)
	for v := range g.Split {
		if v%3 == 0 {
			g.Split[v] = store.SplitTrain
		}
	}
	model := nn.Config{Model: "sage", Layers: 2, In: g.Dim, Hidden: 12, Out: g.M.Schema.Classes, Seed: 2}
	dev, q, m := untrained(t, 2, model)
	e, err := New(g, dev, Options{Features: []string{"x"}, Model: model}, model.Hidden)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	nodes, few := int64(g.M.Nodes), int64(0)
	for i, c := range []struct {
		split string
		all   bool
	}{{"valid", false}, {"train", true}, {"train", true}, {"valid", false}, {"test", false}} {
		before := e.Computed()
		if _, err := e.Run(t.Context(), q, m, c.split); err != nil {
			t.Fatal(err)
		}
		switch rows := e.Computed() - before; {
		case c.all && rows != 2*nodes, !c.all && rows >= nodes:
			t.Errorf("run %d, of %s: %d rows for %d nodes, all expected: %v", i, c.split, rows, nodes, c.all)
		case i == 0:
			few = rows
		case i == 3 && rows != few:
			t.Errorf("run %d, of %s: %d rows, %d before", i, c.split, rows, few)
		}
	}
}
