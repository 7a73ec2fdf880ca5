package train

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/train/baseline"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// numbersGraph has as label what a node's neighbours' first feature comes to, far from 0 and widely spread.
func numbersGraph(nodes int) *storetest.Graph {
	g := storetest.Random(storetest.Options{Nodes: nodes, Edges: 4 * nodes, Partitions: 6, Relations: 2})
	r := rand.New(rand.NewPCG(3, 4))
	sum, n := make([]float64, nodes), make([]float64, nodes)
	for _, e := range g.Edges {
		sum[e[1]] += float64(g.Features[int(e[0])*g.Dim])
		n[e[1]]++
	}
	g.Numbers, g.Classes = true, 0
	for v := range g.Labels {
		x := -5000 + 300*sum[v]/max(1, n[v]) + 100*float64(g.Features[v*g.Dim]) + 5*r.NormFloat64()
		if g.Labels[v] = blocks.NumberCode(float32(x)); r.IntN(9) == 0 {
			g.Labels[v] = -1
		}
	}
	return g
}

// TestNumbers: labels that are numbers are learned by every model, to the same bits by plans and budgets with the same batches and after a
// run was broken off; the metrics are those of what predictions say; and the mean and the model without edges stand beside them.
func TestNumbers(t *testing.T) {
	g := numbersGraph(900)
	dir := storetest.Create(t, g)
	base := config.Config{Model: "sage", Hidden: 16, BatchSize: 50, Epochs: 20, LR: .01, Threads: 1, Fanouts: []int{8, 8}, Seed: 4, Plan: "memory"}
	run := func(h Hooks, change func(*config.Config)) *Checkpoint {
		t.Helper()
		c := base
		change(&c)
		cp, err := trainNode(t.Context(), t, dir, c, h)
		if err != nil {
			t.Fatal(err)
		}
		return cp
	}
	var last Epoch
	whole := run(Hooks{Epoch: func(e Epoch) { last = e }, Baselines: func(*baseline.Result) {}}, func(*config.Config) {})
	x, b := whole.Summary.Errors, whole.Summary.Baselines
	if x == nil || x.TestR2 == nil || *x.TestR2 < .5 || x.ValidMAE == nil || whole.Summary.TestAccuracy != -1 || last.Errors == nil || last.TrainMAE == nil {
		t.Fatalf("R² %v and accuracy %v, expected .5 or more, and none", *x.TestR2, whole.Summary.TestAccuracy)
	}
	if b == nil || b.MeanMAE == nil || b.FeaturesMAE == nil || !(*x.TestMAE < *b.FeaturesMAE && *b.FeaturesMAE < *b.MeanMAE) {
		t.Errorf("MAE %v, baselines %+v: expected less than without edges, and that less than the mean's", *x.TestMAE, b)
	}
	for name, change := range map[string]func(*config.Config){
		"rows": func(c *config.Config) { c.Plan = "rows" }, "threads": func(c *config.Config) { c.Threads = 3 }, "budget": func(c *config.Config) { c.MemoryBytes = 150 << 20 },
	} {
		if got := run(Hooks{}, change); outcome(got) != outcome(whole) || *got.Summary.TestMAE != *x.TestMAE {
			t.Errorf("%s: %s, expected %s", name, outcome(got), outcome(whole))
		}
	}
	for name, change := range map[string]func(*config.Config){
		"accumulated": func(c *config.Config) { c.BatchSize, c.Accumulate = 25, 2 },
		"hanoi":       func(c *config.Config) { c.Plan, c.Buffer = "hanoi", 3 },
		"rsage":       func(c *config.Config) { c.Model = "rsage" },
		"jumping":     func(c *config.Config) { c.Jumping = "cat" },
		"gat":         func(c *config.Config) { c.Model = "gat" },
	} {
		if got := run(Hooks{}, change).Summary.Errors; *got.TestR2 < .1 {
			t.Errorf("%s: R² %.3f", name, *got.TestR2)
		}
	}
	checkPredictions(t, g, dir, whole)
	if cp := brokenOff(t, dir, base, Hooks{}, 4, 2); outcome(cp) != outcome(whole) {
		t.Errorf("resumed %s, expected %s", outcome(cp), outcome(whole))
	}
	c := base
	c.ClassWeights = config.WeightsAuto
	if _, err := trainNode(t.Context(), t, dir, c, Hooks{}); err == nil || !strings.Contains(err.Error(), "class weights are for classes") {
		t.Errorf("class weights of numbers: %v", err)
	}
	classes := storetest.Create(t, storetest.Random(storetest.Options{}))
	if _, err := whole.Evaluate(t.Context(), storetest.Open(t, classes, store.Options{}), hostDevice(t), EvaluateOptions{Splits: validated}); err == nil || !strings.Contains(err.Error(), "says numbers") {
		t.Errorf("a model of numbers on a store of classes: %v", err)
	}
}

// checkPredictions compares metrics with those of predictions, by their definitions.
func checkPredictions(t *testing.T, g *storetest.Graph, dir string, cp *Checkpoint) {
	t.Helper()
	st := storetest.Open(t, dir, store.Options{})
	e, err := cp.Evaluate(t.Context(), st, hostDevice(t), EvaluateOptions{Splits: validated, Confusion: true, AUC: true, Predictions: true, Probabilities: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	values := make([]float32, 0, g.Nodes())
	for p, part := range st.Manifest().Partitions {
		rows := make([]byte, 4*part.Nodes)
		if err := e.Probabilities().Read(t.Context(), store.PartitionID(p), 0, rows); err != nil {
			t.Fatal(err)
		}
		v, err := blocks.View[float32](rows)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, v...)
	}
	for k, split := range []uint8{store.SplitValid, store.SplitTest} {
		var labels, errs []float64
		for v, code := range g.Labels {
			if code >= 0 && g.Split[v] == split {
				y := float64(blocks.CodedNumber(code))
				labels, errs = append(labels, y), append(errs, float64(values[v])-y)
			}
		}
		n := float64(len(labels))
		var mean, mae, squared, around float64
		for i, y := range labels {
			mean, mae, squared = mean+y/n, mae+math.Abs(errs[i])/n, squared+errs[i]*errs[i]
		}
		for _, y := range labels {
			around += (y - mean) * (y - mean)
		}
		m := e.Metrics[k]
		near := func(what string, got, want float64) {
			if math.Abs(got-want) > 1e-9*math.Abs(want) {
				t.Errorf("%s of split %d is %v, of the predictions %v", what, split, got, want)
			}
		}
		if m.Numbers == nil || m.Nodes != int64(len(labels)) || m.Confusion != nil {
			t.Fatalf("metrics %+v", m)
		}
		near("MAE", m.Numbers.MAE, mae)
		near("RMSE", m.Numbers.RMSE, math.Sqrt(squared/n))
		near("R²", m.Numbers.R2, 1-squared/around)
	}
}
