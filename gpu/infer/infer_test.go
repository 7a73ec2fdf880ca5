package infer_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/infer"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/adjacency"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/ingesttest"
	"github.com/gstore/gstore/store/storetest"
)

// models are all kinds of models and what they may read.
var models = map[string]config.Config{
	"sage": {}, "sage, 3 layers": {Layers: 3}, "sage, hop": {PrecomputedHop: true}, "sage max": {Aggregator: "max"}, "gcn": {Model: "gcn"},
	"gcn, hop": {Model: "gcn", PrecomputedHop: true}, "gat": {Model: "gat",
		Heads: 2}, "gin": {Model: "gin"}, "mlp": {Model: "mlp"},
	"sage, weights": {EdgeWeights: true}, "gcn, weights": {Model: "gcn", EdgeWeights: true},
	"gat, edges' features": {Model: "gat", Heads: 2, EdgeFeatures: []string{"rows"}}, "batch norm": {Norm: "batch",
		Residual: true},
	"jumping": {Jumping: "cat"}, "rgcn": {Model: "rgcn"}, "rsage": {Model: "rsage"}, "rgat": {Model: "rgat",
		Heads: 2}, "hgt": {Model: "hgt", Heads: 2},
}

// world is a store and a device.
type world struct {
	t   *testing.T
	st  *store.Store
	dev gpu.Device
}

func open(t *testing.T, dir string) *world {
	t.Helper()
	dev := host.New(host.Options{Threads: 2})
	t.Cleanup(func() { _ = dev.Close() })
	return &world{t: t, st: storetest.Open(t, dir, store.Options{}), dev: dev}
}

// graph is one with all that edges may carry.
func graph(undirected bool) *storetest.Graph {
	g := storetest.Random(storetest.Options{Nodes: 211, Edges: 700, Partitions: 5, Relations: 2, Seed: 3,
		Undirected: undirected, IDs: store.IDsIntegers})
	r := rand.New(rand.NewPCG(8, 9))
	g.EdgeDim = 3
	for range g.Edges {
		g.Weights = append(g.Weights, float32(r.IntN(4)))
		g.EdgeRows = append(g.EdgeRows, float32(r.NormFloat64()), float32(r.NormFloat64()), float32(r.NormFloat64()))
	}
	return g
}

// stored is a store of a graph with the means and sums of its features.
func stored(t *testing.T, g *storetest.Graph) *world {
	w := open(t, storetest.Create(t, g))
	for _, o := range []precompute.Options{{}, {Model: "gcn"}} {
		if _, err := precompute.Hop(t.Context(), w.st.Dir(), w.dev, o); err != nil {
			t.Fatal(err)
		}
	}
	w.st = storetest.Open(t, w.st.Dir(), store.Options{})
	return w
}

// trained is a model that has learned a little.
func (w *world) trained(c config.Config) *train.Checkpoint {
	w.t.Helper()
	c.Hidden, c.Epochs, c.BatchSize, c.LR, c.Seed, c.Threads, c.Overwrite = 8, 3, 40, .02, 7, 1, true
	if c.Absent = config.AbsentIgnore; c.PrecomputedHop {
		c.Absent = ""
	}
	cp, err := train.Node(w.t.Context(), w.st, w.dev, c, train.Hooks{})
	if err != nil {
		w.t.Fatal(err)
	}
	return cp
}

// evaluated is what an exact evaluation says of nodes.
func (w *world) evaluated(cp *train.Checkpoint, nodes []store.NodeID) (all []float32) {
	w.t.Helper()
	r, err := cp.Evaluate(w.t.Context(), w.st, w.dev, train.EvaluateOptions{Probabilities: true})
	if err != nil {
		w.t.Fatal(err)
	}
	row := make([]float32, r.Probabilities().Dim)
	for _, v := range nodes {
		p, err := w.st.Manifest().Partition(v)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := r.Probabilities().Read(w.t.Context(), p, uint64(v-w.st.Manifest().Partitions[p].First),
			blocks.Bytes(row)); err != nil {
			w.t.Fatal(err)
		}
		all = append(all, row...)
	}
	if err := r.Close(); err != nil {
		w.t.Fatal(err)
	}
	return all
}

// says is what a model says of nodes, read near them.
func (w *world) says(m *infer.Model, nodes []store.NodeID, near eval.Near) []float32 {
	w.t.Helper()
	a, err := m.Around(w.t.Context(), nodes, eval.Room{}, near)
	if err != nil {
		w.t.Fatal(err)
	}
	got, err := m.Says(w.t.Context(), a)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// model opens a checkpoint's.
func (w *world) model(cp *train.Checkpoint) *infer.Model {
	w.t.Helper()
	m, err := infer.Open(w.t.Context(), w.st, w.dev, cp)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return m
}

// lists opens those of the store, in a file or not.
func (w *world) lists(inFile bool) *adjacency.Lists {
	w.t.Helper()
	o := adjacency.Options{Dir: w.st.ScratchDir()}
	if inFile {
		least, _ := adjacency.Bytes(w.st.Manifest())
		o.MemoryBytes = least + 12<<20
	}
	l, err := adjacency.Open(w.t.Context(), w.st, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = l.Close() })
	return l
}

// same compares what was said, numbers by the scale of their deviation.
func (w *world) same(what string, cp *train.Checkpoint, got, want []float32) {
	w.t.Helper()
	scale := 1.
	if cp.Model.Numbers != nil {
		scale = float64(cp.Model.Numbers.Deviation)
	}
	if len(got) != len(want) {
		w.t.Fatalf("%s: %d numbers, expected %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 2e-5*scale {
			w.t.Errorf("%s: number %d is %v, expected %v", what, i, got[i], want[i])
		}
	}
}

// check asks a model of some nodes, one at a time and together, read in every way.
func (w *world) check(cp *train.Checkpoint) {
	w.t.Helper()
	n := w.st.Manifest().Nodes
	nodes := []store.NodeID{3, store.NodeID(n - 1), 0, store.NodeID(n / 2), 40 % store.NodeID(n), 77 % store.NodeID(n)}
	want, m := w.evaluated(cp, nodes), w.model(cp)
	lists := w.lists(false)
	w.same("by passes", cp, w.says(m, nodes, m.Evaluator.ByPasses(w.st)), want)
	w.same("by lists", cp, w.says(m, nodes, m.Evaluator.ByLists(w.st, lists)), want)
	for i, v := range nodes {
		w.same(fmt.Sprintf("node %d alone", v), cp, w.says(m, []store.NodeID{v}, m.Evaluator.ByLists(w.st, lists)),
			want[i*cp.Model.Out:(i+1)*cp.Model.Out])
	}
	a, err := m.Around(w.t.Context(), nodes, eval.Room{}, m.Evaluator.ByLists(w.st, lists))
	if err != nil {
		w.t.Fatal(err)
	}
	if n, err := m.PassBytes(w.t.Context(), a); err != nil || n <= 0 {
		w.t.Errorf("a pass takes %d bytes, error %v", n, err)
	}
}

// TestSays: whatever the model and what it reads, few nodes are told what an evaluation of all says.
func TestSays(t *testing.T) {
	race.SkipArithmetic(t)
	for _, undirected := range []bool{false, true} {
		base := stored(t, graph(undirected))
		for name, c := range models {
			t.Run(fmt.Sprintf("%s, undirected %v", name, undirected), func(t *testing.T) {
				w := *base
				w.t = t
				w.check(w.trained(c))
			})
		}
	}
}

// TestSaysTypes: nodes of several types, learned vectors as parameters and in a table, means of relations that were precomputed.
func TestSaysTypes(t *testing.T) {
	race.SkipArithmetic(t)
	typed, _ := storetest.Typed(t)
	dir := ingesttest.Store(t, typed, ingest.Options{Partitions: 4, Seed: 1})
	base := open(t, dir)
	if _, err := precompute.Hop(t.Context(), dir, base.dev, precompute.Options{EachRelation: true}); err != nil {
		t.Fatal(err)
	}
	base.st = storetest.Open(t, dir, store.Options{})
	for name, c := range map[string]config.Config{"rsage": {Model: "rsage"},
		"rsage, hops": {Model: "rsage", PrecomputedHop: true}, "hgt": {Model: "hgt", Heads: 2},
		"rsage, table": {Model: "rsage", Vectors: config.VectorsTable}} {
		t.Run(name, func(t *testing.T) {
			w := *base
			w.t = t
			w.check(w.trained(c))
		})
	}
}

// without is a graph without its last nodes, and what has to be added to it.
func without(g *storetest.Graph, n int) (*storetest.Graph, *eval.Added) {
	small := *g
	small.Sizes = append([]uint32(nil), g.Sizes...)
	for left, p := uint32(n), len(small.Sizes)-1; left > 0; p-- {
		part := min(left, small.Sizes[p])
		small.Sizes[p], left = small.Sizes[p]-part, left-part
	}
	all := len(g.Labels)
	first := uint64(all - n)
	small.Features, small.Labels, small.Split, small.External = g.Features[:int(first)*g.Dim], g.Labels[:first], g.Split[:first], g.External[:first]
	small.Valid, small.Edges, small.Relations, small.Weights, small.EdgeRows = nil, nil, nil, nil, nil
	x := &eval.Added{Nodes: n, Rows: map[string][]byte{"x": blocks.Bytes(g.Features[int(first)*g.Dim:])}}
	for i, e := range g.Edges {
		row := g.EdgeRows[i*g.EdgeDim : (i+1)*g.EdgeDim]
		if e[0] < first && e[1] < first {
			small.Edges, small.Relations = append(small.Edges, e), append(small.Relations, g.Relations[i])
			small.Weights, small.EdgeRows = append(small.Weights, g.Weights[i]), append(small.EdgeRows, row...)
			continue
		}
		x.Edges = append(x.Edges, eval.AddedEdge{Src: store.NodeID(e[0]), Dst: store.NodeID(e[1]),
			Relation: store.RelationID(g.Relations[i]), Weight: g.Weights[i], Features: row})
	}
	return &small, x
}

// TestAdded: nodes that the store does not have are told what they would be if it had them, and so are their neighbours.
func TestAdded(t *testing.T) {
	race.SkipArithmetic(t)
	for _, undirected := range []bool{false, true} {
		g := graph(undirected)
		small, added := without(g, 3)
		whole, base := stored(t, g), stored(t, small)
		if len(added.Edges) < 5 {
			t.Fatalf("%d edges are added: the check sees too little", len(added.Edges))
		}
		n := store.NodeID(base.st.Manifest().Nodes)
		nodes := []store.NodeID{n, n + 2, n + 1, added.Edges[0].Src % n, added.Edges[0].Dst % n, added.Edges[1].Src % n}
		seen := map[store.NodeID]bool{}
		distinct := nodes[:0]
		for _, v := range nodes {
			if !seen[v] {
				distinct = append(distinct, v)
			}
			seen[v] = true
		}
		for name, c := range models {
			t.Run(fmt.Sprintf("%s, undirected %v", name, undirected), func(t *testing.T) {
				all, w := *whole, *base
				all.t, w.t = t, t
				cp := all.trained(c)
				want, m := all.evaluated(cp, distinct), w.model(cp)
				lists := w.lists(true)
				w.same("by lists", cp, w.says(m, distinct, m.Evaluator.With(m.Evaluator.ByLists(w.st, lists), added)),
					want)
				w.same("by passes", cp, w.says(m, distinct, m.Evaluator.With(m.Evaluator.ByPasses(w.st), added)), want)
			})
		}
	}
}

// TestMessagesEnd: who wants no more messages gets none, of a short list of neighbours and of one that is read in several parts.
func TestMessagesEnd(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 6, Edges: 40_000, Partitions: 1, Dim: 3})
	w := open(t, storetest.Create(t, g))
	m := w.model(w.trained(config.Config{}))
	near := m.Evaluator.ByLists(w.st, w.lists(false))
	all := 0
	if err := near.Into(t.Context(), []store.NodeID{3}, func(eval.Message) bool { all++; return true }); err != nil || all < 3<<11 {
		t.Fatalf("%d messages, %v", all, err)
	}
	for _, most := range []int{1, 100, 1<<12 - 1, 1 << 12, 1<<12 + 1, all} {
		n := 0
		err := near.Into(t.Context(), []store.NodeID{3, 4}, func(eval.Message) bool { n++; return n < most })
		if err != nil || n != most {
			t.Errorf("%d messages were wanted, %d came, %v", most, n, err)
		}
	}
}

// TestLimit: a neighbourhood with more edges than may be read is refused.
func TestLimit(t *testing.T) {
	w := stored(t, graph(true))
	m := w.model(w.trained(config.Config{}))
	near := m.Evaluator.ByLists(w.st, w.lists(false))
	if _, err := m.Around(t.Context(), []store.NodeID{3}, eval.Room{Bytes: 2, PerEdge: 1}, near); !errors.Is(err, store.ErrBudget) {
		t.Errorf("2 edges: %v", err)
	}
	if _, err := m.Around(t.Context(), []store.NodeID{3}, eval.Room{Bytes: 2, PerNode: 1}, near); !errors.Is(err, store.ErrBudget) {
		t.Errorf("2 nodes: %v", err)
	}
	if _, err := m.Around(t.Context(), []store.NodeID{store.NodeID(w.st.Manifest().Nodes)},
		eval.Room{Bytes: 1000, PerEdge: 1}, near); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a node that there is not: %v", err)
	}
}
