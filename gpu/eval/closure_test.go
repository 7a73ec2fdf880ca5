package eval

import (
	"errors"
	"fmt"
	"maps"
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

// TestFewNodesAreRead: where some nodes' outputs are read, theirs are those of an evaluation of all, to the bit, within every budget, and few
// other nodes are computed; after Trim too. Where many are read, or there is no room to find some, all are computed.
func TestFewNodesAreRead(t *testing.T) {
	for name, model := range map[string]nn.Config{
		"sage": {Model: "sage"}, "gcn": {Model: "gcn"}, "gin, one layer": {Model: "gin", Layers: 1}, "gat": {Model: "gat", Heads: 4}, "mlp": {Model: "mlp"},
		"jumping": {Model: "sage", Jumping: "cat"}, "rsage": {Model: "rsage"}, "rgcn": {Model: "rgcn", Bases: 2}, "rgat": {Model: "rgat", Heads: 2}, "hgt": {Model: "hgt", Heads: 2},
	} {
		for _, undirected := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/undirected=%v", name, undirected), func(t *testing.T) {
				g, model := fewAsked(t, undirected), model
				if model.Layers == 0 {
					model.Layers = 2
				}
				model.In, model.Hidden, model.Out, model.Seed = g.Dim, 12, g.M.Schema.Classes, 2
				if model.Kind().Relations {
					if model.Relations = evaltest.Relations; !undirected {
						model.Relations *= 2
					}
				}
				dev, q, m := untrained(t, 2, model)
				var asked []store.NodeID
				for v := store.NodeID(3); v < 1500; v += 97 {
					asked = append(asked, v)
				}
				run := func(memory int64, nodes []store.NodeID) (e *Evaluator, bytes map[store.NodeID]string) {
					t.Helper()
					e, err := New(g, dev, Options{Unlabelled: true, Features: []string{"x"}, Model: model, Predictions: true, Probabilities: true, Nodes: nodes, MemoryBytes: memory}, model.Hidden)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = e.Close() })
					if _, err := e.Run(t.Context(), q, m); err != nil {
						t.Fatal(err)
					}
					if _, err := e.Trim(); err != nil {
						t.Fatal(err)
					}
					bytes = map[store.NodeID]string{}
					classes, probability := e.Predictions()
					for _, v := range asked {
						p, err := g.M.Partition(v)
						if err != nil {
							t.Fatal(err)
						}
						for _, x := range []*NodeValues{classes, probability, e.Probabilities()} {
							b := make([]byte, 4*x.Dim)
							if err := x.Read(t.Context(), p, uint64(v-g.M.Partitions[p].First), b); err != nil {
								t.Fatal(err)
							}
							bytes[v] += string(b)
						}
					}
					return e, bytes
				}
				every, want := run(0, nil)
				all := every.Computed()
				some := name != "jumping"
				least := func() int64 {
					e, _ := run(1<<24, asked)
					return e.LeastBytes()
				}()
				for _, memory := range []int64{0, least, least + 200<<10, 1 << 24} {
					e, got := run(memory, asked)
					if rows := e.Computed(); rows != all && (rows >= all/2 || !some) || rows == all && some && (memory == 0 || memory > least+100<<10) {
						t.Errorf("within %d bytes %d rows are computed of %d", memory, rows, all)
					}
					if !maps.Equal(got, want) {
						t.Errorf("within %d bytes other outputs", memory)
					}
					if e.Computed() < all {
						if err := e.Probabilities().Read(t.Context(), 0, 0, make([]byte, 4*model.Out)); !errors.Is(err, store.ErrNotFound) {
							t.Errorf("a node that was not asked for: %v", err)
						}
					}
				}
				many := make([]store.NodeID, g.M.Nodes)
				for v := range many {
					many[v] = store.NodeID(v)
				}
				e, got := run(0, many)
				if e.Computed() != all || !maps.Equal(got, want) {
					t.Errorf("of all nodes %d rows are computed, expected %d", e.Computed(), all)
				}
			})
		}
	}
}
