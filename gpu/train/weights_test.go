package train

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// weighedGraph has edges of very different weights.
func weighedGraph(o storetest.Options) *storetest.Graph {
	o.Nodes, o.Edges, o.Partitions = 400, 6000, 5
	g := storetest.Random(o)
	for i := range g.Edges {
		g.Weights = append(g.Weights, float32(math.Exp(float64(i*i%7)-3)))
	}
	return g
}

// TestEdgeWeights: with all neighbours, training computes what exact evaluation does, by weights and to other losses than without; a
// weighted hop does the same. Sampled runs do not depend on threads, in memory and out of core.
func TestEdgeWeights(t *testing.T) {
	for _, undirected := range []bool{true, false} {
		dir := storetest.Create(t, weighedGraph(storetest.Options{Undirected: undirected}))
		if _, err := precompute.Hop(t.Context(), dir, hostDevice(t), precompute.Options{EdgeWeights: true}); err != nil {
			t.Fatal(err)
		}
		losses := map[float64]string{}
		for _, c := range []config.Config{{Model: "sage", EdgeWeights: true}, {Model: "gcn", EdgeWeights: true}, {Model: "sage"}, {Model: "gcn"}, {Model: "sage", EdgeWeights: true, PrecomputedHop: true}} {
			name := strings.Join([]string{c.Model, map[bool]string{true: "weighted", false: "plain"}[c.EdgeWeights]}, " ")
			hop := c.PrecomputedHop
			got := exactLoss(t, dir, c)
			same := ""
			for loss, other := range losses {
				if math.Abs(loss-got) < 1e-6 {
					same = other
				}
			}
			if want := map[bool]string{true: name}[hop]; same != want {
				t.Errorf("%s, hop %v, undirected %v: the loss is that of %q, expected %q", name, hop, undirected, same, want)
			}
			losses[got] = name
		}
		for _, plan := range []config.Config{{Plan: "memory"}, {Plan: "memory", Absent: config.AbsentIgnore}, {Plan: "memory", Sampler: "dense", Absent: config.AbsentIgnore}, {Plan: "hanoi", Buffer: 2, Absent: config.AbsentIgnore}, {Plan: "hanoi", Buffer: 2}} {
			var loss [2]float64
			for i, threads := range []int{1, 3} {
				c := plan
				c.EdgeWeights, c.Threads, c.Hidden, c.BatchSize, c.Epochs, c.Fanouts = true, threads, 8, 40, 1, []int{3, 2}
				cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
				if err != nil {
					t.Fatal(err)
				}
				if auto := plan.Absent == ""; cp.Config.PrecomputedHop != auto || cp.Config.History {
					t.Errorf("plan %s, absent %q: hop %v, history %v", plan.Plan, plan.Absent, cp.Config.PrecomputedHop, cp.Config.History)
				}
				loss[i] = cp.Summary.TrainLoss
			}
			if loss[0] != loss[1] {
				t.Errorf("plan %s: losses %v with 1 and 3 threads", plan.Plan, loss)
			}
		}
		// A hop by weights is not an unweighted model's: such a run does without, or says so.
		c := config.Config{Plan: "hanoi", Buffer: 2, Epochs: 1, Hidden: 8}
		var why []string
		if cp, err := trainNode(t.Context(), t, dir, c, Hooks{Plan: func(w []string) { why = w }}); err != nil || cp.Config.PrecomputedHop || !strings.Contains(strings.Join(why, "\n"), "weights are not used") {
			t.Errorf("a run without weights reads a weighted hop, or does not tell of weights: %v, %q", err, why)
		}
		if c.PrecomputedHop = true; !refused(t, dir, c, "needs gstore precompute") {
			t.Error("a weighted hop was read by a run without weights")
		}
	}
}

// exactLoss is the loss of one mini-batch of all training nodes with all their neighbours, which exact evaluation gives too.
func exactLoss(t *testing.T, dir string, c config.Config) float64 {
	t.Helper()
	none := 0.
	c.Dropout, c.InputDropout, c.LR, c.Hidden, c.Epochs, c.Fanouts, c.BatchSize = &none, &none, 1e-12, 8, 1, []int{-1, -1}, 1000
	cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	st := storetest.Open(t, dir, store.Options{})
	e, err := cp.Evaluate(t.Context(), st, hostDevice(t), EvaluateOptions{Splits: []string{"train"}})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := st.SplitNodes(t.Context(), "", "train")
	if err != nil {
		t.Fatal(err)
	}
	seeds := uint64(0) // of which those without a label have no loss
	for _, n := range nodes {
		seeds += n
	}
	if got, want := cp.Summary.TrainLoss*float64(seeds)/float64(e.Metrics[0].Nodes), e.Metrics[0].Loss; math.Abs(got-want) > 1e-6 {
		t.Errorf("%s, weights %v, features of edges %q: a batch of all neighbours has loss %v, exact evaluation %v", c.Model, c.EdgeWeights, c.EdgeFeatures, got, want)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return cp.Summary.TrainLoss
}

// refused reports whether a run ends with an error that has want in it.
func refused(t *testing.T, dir string, c config.Config, want string) bool {
	t.Helper()
	_, err := trainNode(t.Context(), t, dir, c, Hooks{})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, expected one of %q", err, want)
		return false
	}
	return true
}

// TestEdgeWeightsRefused: what weights do not go with is said before anything is read.
func TestEdgeWeightsRefused(t *testing.T) {
	for want, c := range map[string]config.Config{
		"draws by the weights already": {Sampler: "weighted"}, "give all neighbours the same weight": {History: true},
		"a maximum has no weights": {Aggregator: "max"}, "found model gat": {Model: "gat"},
	} {
		c.EdgeWeights = true
		if err := c.Normalize(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected one of %q", err, want)
		}
	}
	bare := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 400, Edges: 6000, Partitions: 5}))
	if _, err := trainNode(t.Context(), t, bare, config.Config{EdgeWeights: true, Epochs: 1}, Hooks{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("edge weights without weights: %v", err)
	}
}

// TestEdgeFeatures: with all neighbours, training computes what exact evaluation does, by features of edges, to other losses than
// without and than by other features. Sampled runs do not depend on threads, in memory and out of core; what was trained is saved with
// what it reads.
func TestEdgeFeatures(t *testing.T) {
	for _, undirected := range []bool{true, false} {
		g := weighedGraph(storetest.Options{Undirected: undirected})
		g.EdgeDim = 3
		for i := range 3 * len(g.Edges) {
			g.EdgeRows = append(g.EdgeRows, float32(i*i%11)/5-1)
		}
		dir := storetest.Create(t, g)
		var losses []float64
		for _, names := range [][]string{nil, {"weight"}, {"rows"}, {"rows", "weight"}} {
			got := exactLoss(t, dir, config.Config{Model: "gat", Heads: 2, EdgeFeatures: names})
			for _, loss := range losses {
				if math.Abs(loss-got) < 1e-6 {
					t.Errorf("%q, undirected %v: loss %v is that of other features", names, undirected, loss)
				}
			}
			losses = append(losses, got)
		}
		for _, plan := range []config.Config{{Plan: "memory"}, {Plan: "memory", Sampler: "dense"}, {Plan: "memory", Sampler: "weighted"}, {Plan: "hanoi", Buffer: 2}, {Plan: "hanoi", Buffer: 2, MemoryBytes: 256 << 20}} {
			var loss [2]float64
			for i, threads := range []int{1, 3} {
				c := plan
				c.Model, c.EdgeFeatures, c.Threads, c.Heads, c.Hidden, c.BatchSize, c.Epochs, c.Fanouts = "gat", []string{"rows", "weight"}, threads, 2, 8, 40, 1, []int{3, 2}
				cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
				if err != nil {
					t.Fatal(err)
				}
				if cp.Config.PrecomputedHop || cp.Config.History || cp.Model.EdgeDim != 4 || !slices.Equal(cp.Config.EdgeFeatures, c.EdgeFeatures) {
					t.Errorf("plan %s: trained %+v with %q", plan.Plan, cp.Model, cp.Config.EdgeFeatures)
				}
				loss[i] = cp.Summary.TrainLoss
			}
			if loss[0] != loss[1] {
				t.Errorf("plan %s, sampler %q: losses %v with 1 and 3 threads", plan.Plan, plan.Sampler, loss)
			}
		}
		for want, names := range map[string][]string{"named twice": {"rows", "rows"}, "role feature": {"x"}, `["weight" "rows"]`: {"other"}} {
			refused(t, dir, config.Config{Model: "gat", EdgeFeatures: names, Epochs: 1}, want)
		}
	}
	for want, c := range map[string]config.Config{"needs a model whose attention reads edges (gat)": {}, "does not go with plan rows": {Model: "gat", Plan: "rows"}, "no edge need lead": {Model: "gat", Sampler: "pinsage"}} {
		c.EdgeFeatures = []string{"weight"}
		if err := c.Normalize(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected one of %q", err, want)
		}
	}
}
