package explain_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/explain"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/ingesttest"
	"github.com/gstore/gstore/store/storetest"
)

func hostDevice(t *testing.T) gpu.Device {
	t.Helper()
	dev := host.New(host.Options{Threads: 2})
	t.Cleanup(func() { _ = dev.Close() })
	return dev
}

// world is a store and a device.
type world struct {
	t   *testing.T
	st  *store.Store
	dev gpu.Device
}

func open(t *testing.T, dir string) *world {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return &world{t: t, st: st, dev: hostDevice(t)}
}

// trained is a model that has learned a little.
func (w *world) trained(c config.Config) *train.Checkpoint {
	w.t.Helper()
	c.Hidden, c.Epochs, c.BatchSize, c.LR, c.Seed, c.Threads, c.Overwrite = 8, 3, 40, .02, 7, 1, true
	cp, err := train.Node(w.t.Context(), w.st, w.dev, c, train.Hooks{})
	if err != nil {
		w.t.Fatal(err)
	}
	return cp
}

// says are what an exact evaluation says of nodes: probabilities of all classes, or numbers.
func (w *world) says(cp *train.Checkpoint) func(v store.NodeID) []float32 {
	w.t.Helper()
	r, err := cp.Evaluate(w.t.Context(), w.st, w.dev, train.EvaluateOptions{Probabilities: true})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = r.Close() })
	return func(v store.NodeID) []float32 {
		p, err := w.st.Manifest().Partition(v)
		if err != nil {
			w.t.Fatal(err)
		}
		row := make([]float32, r.Probabilities().Dim)
		if err := r.Probabilities().Read(w.t.Context(), p, uint64(v-w.st.Manifest().Partitions[p].First), blocks.Bytes(row)); err != nil {
			w.t.Fatal(err)
		}
		return row
	}
}

// check explains some nodes: what is said is what an evaluation says, and the shares of features and edges add up.
func (w *world) check(cp *train.Checkpoint) {
	w.t.Helper()
	says := w.says(cp)
	moved, m := 0, w.st.Manifest()
	for k := range uint64(6) {
		v := store.NodeID((k*37 + 3) % m.Nodes)
		x, err := explain.Explain(w.t.Context(), w.st, w.dev, cp, v, explain.Options{Class: -1})
		if err != nil {
			w.t.Fatal(err)
		}
		row := says(v)
		scale := 1.
		if cp.Model.Numbers != nil {
			scale = float64(cp.Model.Numbers.Deviation)
		}
		for c := range row {
			if row[c] > row[x.Class]+1e-5 {
				w.t.Errorf("node %d: class %d explained, %v said", v, x.Class, row)
			}
		}
		if math.Abs(x.Says-float64(row[x.Class])) > 2e-4*scale {
			w.t.Errorf("node %d: explained %v, an evaluation says %v", v, x.Says, row[x.Class])
		}
		var features, nodes, edges float64
		for _, f := range x.Features {
			features += f.Share()
		}
		for _, s := range x.ByNode {
			nodes += s
		}
		for _, e := range x.Edges {
			edges += e.Share
		}
		if x.Nodes[0] != v || len(x.ByNode) != len(x.Nodes) {
			w.t.Errorf("node %d: explained are %v, shares %v", v, x.Nodes, x.ByNode)
		}
		tolerance := func(change float64) float64 { return .02*math.Abs(change) + 2e-3*scale }
		for what, sum := range map[string][2]float64{"features": {features, x.Says - x.Silent}, "nodes": {nodes, x.Says - x.Silent}, "edges": {edges, x.Says - x.Alone}} {
			if math.Abs(sum[0]-sum[1]) > tolerance(sum[1]) {
				w.t.Errorf("node %d: shares of %s add up to %v, the change is %v (%d steps)", v, what, sum[0], sum[1], x.Steps)
			}
		}
		if math.Abs(x.Says-x.Alone) > 1e-5*scale && len(x.Edges) > 0 {
			moved++
		}
	}
	if moved == 0 && cp.Model.Kind().Name != "mlp" {
		w.t.Error("no edge moved anything: the check sees nothing")
	}
}

// plain is a store of one type with all that edges may carry, and the means and sums of its features.
func plain(t *testing.T, change func(g *storetest.Graph)) *world {
	g := storetest.Random(storetest.Options{Nodes: 211, Edges: 700, Partitions: 5, Relations: 2, Seed: 3})
	r := rand.New(rand.NewPCG(8, 9))
	g.EdgeDim = 3
	for range g.Edges {
		g.Weights = append(g.Weights, float32(r.IntN(4)))
		g.EdgeRows = append(g.EdgeRows, float32(r.NormFloat64()), float32(r.NormFloat64()), float32(r.NormFloat64()))
	}
	if change != nil {
		change(g)
	}
	dir := storetest.Create(t, g)
	for _, o := range []precompute.Options{{}, {Model: "gcn"}} {
		if _, err := precompute.Hop(t.Context(), dir, hostDevice(t), o); err != nil {
			t.Fatal(err)
		}
	}
	return open(t, dir)
}

// TestExplains: whatever the model and what it reads, explanations are of what an evaluation says, and add up.
func TestExplains(t *testing.T) {
	race.SkipArithmetic(t)
	w := plain(t, nil)
	for name, c := range map[string]config.Config{
		"sage": {}, "sage, 3 layers": {Layers: 3}, "sage, hop": {PrecomputedHop: true}, "sage max": {Aggregator: "max"}, "gcn": {Model: "gcn"},
		"gcn, hop": {Model: "gcn", PrecomputedHop: true}, "gat": {Model: "gat", Heads: 2}, "gin": {Model: "gin"}, "mlp": {Model: "mlp"},
		"sage, weights": {EdgeWeights: true}, "gcn, weights": {Model: "gcn", EdgeWeights: true},
		"gat, edges' features": {Model: "gat", Heads: 2, EdgeFeatures: []string{"rows"}}, "batch norm": {Norm: "batch", Residual: true},
		"jumping": {Jumping: "cat"}, "rgcn": {Model: "rgcn"}, "rsage": {Model: "rsage"}, "rgat": {Model: "rgat", Heads: 2}, "hgt": {Model: "hgt", Heads: 2},
	} {
		t.Run(name, func(t *testing.T) {
			if c.Absent = config.AbsentIgnore; c.PrecomputedHop {
				c.Absent = ""
			}
			x := *w
			x.t = t
			cp := x.trained(c)
			if cp.Model.PrecomputedHop != c.PrecomputedHop {
				t.Fatalf("the model reads a precomputed hop: %v", cp.Model.PrecomputedHop)
			}
			x.check(cp)
		})
	}
	for _, k := range nn.Models(nil) {
		if k != "sage" && !strings.Contains("gcn gat gin mlp rgcn rsage rgat hgt", k) {
			t.Errorf("model %s is not explained here", k)
		}
	}
}

// TestExplainsTypes: nodes of several types, learned vectors as parameters and in a table, means of relations that were precomputed.
func TestExplainsTypes(t *testing.T) {
	race.SkipArithmetic(t)
	graph, _ := storetest.Typed(t)
	dir := ingesttest.Store(t, graph, ingest.Options{Partitions: 4, Seed: 1})
	if _, err := precompute.Hop(t.Context(), dir, hostDevice(t), precompute.Options{EachRelation: true}); err != nil {
		t.Fatal(err)
	}
	w := open(t, dir)
	for name, c := range map[string]config.Config{"rsage": {Model: "rsage"}, "rsage, hops": {Model: "rsage", PrecomputedHop: true}, "hgt": {Model: "hgt", Heads: 2},
		"rsage, table": {Model: "rsage", Vectors: config.VectorsTable}} {
		t.Run(name, func(t *testing.T) {
			if c.Absent = config.AbsentIgnore; c.PrecomputedHop {
				c.Absent = ""
			}
			x := *w
			x.t = t
			cp := x.trained(c)
			if (cp.VectorTable != nil) != (c.Vectors != "") || (len(cp.Model.RelationHops) > 0) != c.PrecomputedHop {
				t.Fatalf("table %v, hops %v", cp.VectorTable, cp.Model.RelationHops)
			}
			x.check(cp)
		})
	}
}

// TestExplainsNumbers: a linear model's shares are what its terms are: the features of a neighbour move what is said by as much as what
// comes along its edges.
func TestExplainsNumbers(t *testing.T) {
	race.SkipArithmetic(t)
	w := plain(t, func(g *storetest.Graph) {
		g.Numbers, g.Classes = true, 0
		for v := range g.Labels {
			g.Labels[v] = blocks.NumberCode(1000 + 50*g.Features[v*g.Dim])
		}
	})
	w.check(w.trained(config.Config{Absent: config.AbsentIgnore}))
	cp := w.trained(config.Config{Layers: 1, Absent: config.AbsentIgnore})
	w.check(cp)
	x, err := explain.Explain(w.t.Context(), w.st, w.dev, cp, 5, explain.Options{})
	if err != nil {
		t.Fatal(err)
	}
	along := make([]float64, len(x.Nodes))
	for _, e := range x.Edges {
		along[e.Src] += e.Share
	}
	for i := 1; i < len(x.Nodes); i++ {
		if math.Abs(along[i]-x.ByNode[i]) > 1e-3*(1+math.Abs(along[i])) {
			t.Errorf("what comes from node %d moves it by %v, its features by %v", x.Nodes[i], along[i], x.ByNode[i])
		}
	}
	if len(x.Nodes) < 3 {
		t.Errorf("node 5 has %d nodes around it: the check sees too little", len(x.Nodes)-1)
	}
}

// TestClass: any class is explained, one that there is not is refused, and probabilities of all classes fall and rise by as much.
func TestClass(t *testing.T) {
	race.SkipArithmetic(t)
	w := plain(t, nil)
	cp := w.trained(config.Config{Absent: config.AbsentIgnore})
	sum := map[string]float64{}
	for c := range cp.Model.Out {
		x, err := explain.Explain(t.Context(), w.st, w.dev, cp, 8, explain.Options{Class: c})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range x.Features {
			sum[fmt.Sprint(f.Column, f.Element)] += f.Share()
		}
	}
	for f, s := range sum {
		if math.Abs(s) > 5e-3 {
			t.Errorf("feature %s moves the probabilities of all classes by %v together, expected 0", f, s)
		}
	}
	if _, err := explain.Explain(t.Context(), w.st, w.dev, cp, 8, explain.Options{Class: cp.Model.Out}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("class %d of %d: %v", cp.Model.Out, cp.Model.Out, err)
	}
	if _, err := explain.Explain(t.Context(), w.st, w.dev, cp, store.NodeID(w.st.Manifest().Nodes), explain.Options{Class: -1}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a node that there is not: %v", err)
	}
}

// TestMemory: a neighbourhood that does not fit is refused with the smallest budget, which works and changes nothing.
func TestMemory(t *testing.T) {
	race.SkipArithmetic(t)
	w := plain(t, nil)
	cp := w.trained(config.Config{Absent: config.AbsentIgnore, Layers: 3})
	want, err := explain.Explain(t.Context(), w.st, w.dev, cp, 8, explain.Options{Class: -1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = explain.Explain(t.Context(), w.st, w.dev, cp, 8, explain.Options{Class: -1, MemoryBytes: 1 << 20})
	var least int64
	_, rest, _ := strings.Cut(fmt.Sprint(err), "the smallest that works is ")
	if _, scan := fmt.Sscanf(rest, "%dMiB", &least); scan != nil || !errors.Is(err, store.ErrBudget) {
		t.Fatalf("within 1 MiB: %v", err)
	}
	x, err := explain.Explain(t.Context(), w.st, w.dev, cp, 8, explain.Options{Class: -1, MemoryBytes: least << 20})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(x) != fmt.Sprint(want) {
		t.Errorf("within %d MiB %v, expected %v", least, x, want)
	}
}
