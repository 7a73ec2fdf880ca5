package train

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu/train/baseline"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/stats"
	"github.com/gstore/gstore/store/storetest"
)

// labelsGraph has nodes with any number of 11 labels, which mostly follow from the neighbours' features, and some without known ones.
func labelsGraph(nodes int) *storetest.Graph {
	const k = 11
	g := storetest.Random(storetest.Options{Nodes: nodes, Edges: 4 * nodes, Partitions: 6, Relations: 2, Seed: 3})
	r := rand.New(rand.NewPCG(3, 5))
	sum, degree := make([][]float64, nodes), make([]float64, nodes)
	for v := range sum {
		sum[v] = make([]float64, g.Dim)
	}
	for _, e := range g.Edges {
		degree[e[1]]++
		for d := range g.Dim {
			sum[e[1]][d] += float64(g.Features[int(e[0])*g.Dim+d])
		}
	}
	for d := range g.Dim { // to mean 0 and deviation 1 over nodes
		var s stats.Spread
		for v := range sum {
			sum[v][d] = sum[v][d]/max(1, degree[v]) + .3*float64(g.Features[v*g.Dim+d])
			s.Add(sum[v][d])
		}
		for v := range sum {
			sum[v][d] = (sum[v][d] - s.Mean) / math.Sqrt(s.Squares/s.N)
		}
	}
	g.Classes = k
	known := map[[2]byte]int32{}
	for v := range g.Labels {
		if g.Labels[v] = -1; r.IntN(9) == 0 {
			continue
		}
		var set [2]byte
		for j := range k {
			if (sum[v][j%g.Dim] > float64(j%3)/2) != (r.IntN(20) == 0) && j != 7 { // nobody has label 7
				set[j/8] |= 1 << (j % 8)
			}
		}
		id, ok := known[set]
		if !ok {
			id = int32(len(known))
			known[set] = id
			g.Sets = append(g.Sets, set[:]...)
		}
		g.Labels[v] = id
	}
	return g
}

// TestSeveralLabels: nodes with any number of labels are learned by every model, to the same bits by plans and budgets with the same batches
// and after a run was broken off; the metrics are those of what predictions say; the best constant answer and the model without edges
// stand beside them.
func TestSeveralLabels(t *testing.T) {
	race.SkipArithmetic(t)
	g, little := labelsGraph(900), .1
	dir := storetest.Create(t, g)
	base := config.Config{Model: "sage", Hidden: 32, BatchSize: 50, Epochs: 40, LR: .02, Threads: 1, Layers: 2, Fanouts: []int{8, 8}, Dropout: &little, Seed: 4, Plan: "memory"}
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
	x, b := whole.Summary.F1, whole.Summary.Baselines
	if x == nil || x.TestMicro == nil || *x.TestMicro < .7 || x.ValidMacro == nil || whole.Summary.TestAccuracy != -1 || last.F1 == nil || last.ValidMicro == nil {
		t.Fatalf("micro F1 %v and accuracy %v, expected .7 or more, and none", *x.TestMicro, whole.Summary.TestAccuracy)
	}
	if b == nil || b.ConstantF1 == nil || b.FeaturesF1 == nil || !(*x.TestMicro > max(*b.FeaturesF1, *b.ConstantF1)+.1 && min(*b.FeaturesF1, *b.ConstantF1) > .2) {
		t.Errorf("micro F1 %v, baselines %+v: expected more than without edges and than a constant answer", *x.TestMicro, b)
	}
	if whole.Summary.Areas == nil || *whole.Summary.TestAUC < .7 {
		t.Errorf("areas %+v", whole.Summary.Areas)
	}
	for name, change := range map[string]func(*config.Config){
		"rows": func(c *config.Config) { c.Plan = "rows" }, "threads": func(c *config.Config) { c.Threads = 3 }, "budget": func(c *config.Config) { c.MemoryBytes = 150 << 20 },
	} {
		if got := run(Hooks{}, change); outcome(got) != outcome(whole) || *got.Summary.TestMicro != *x.TestMicro {
			t.Errorf("%s: %s, expected %s", name, outcome(got), outcome(whole))
		}
	}
	for name, change := range map[string]func(*config.Config){
		"accumulated": func(c *config.Config) { c.BatchSize, c.Accumulate = 25, 2 },
		"hanoi":       func(c *config.Config) { c.Plan, c.Buffer = "hanoi", 3 },
		"history":     func(c *config.Config) { c.Plan, c.Buffer, c.History = "hanoi", 3, true },
		"rsage":       func(c *config.Config) { c.Model = "rsage" },
		"jumping":     func(c *config.Config) { c.Jumping = "cat" },
		"gat":         func(c *config.Config) { c.Model = "gat" },
	} {
		if got := run(Hooks{}, change).Summary.F1; *got.TestMicro < .5 {
			t.Errorf("%s: micro F1 %.3f", name, *got.TestMicro)
		}
	}
	checkSaid(t, g, dir, whole)
	if cp := brokenOff(t, dir, base, Hooks{}, 4, 2); outcome(cp) != outcome(whole) {
		t.Errorf("resumed %s, expected %s", outcome(cp), outcome(whole))
	}
	c := base
	c.ClassWeights = config.WeightsAuto
	if _, err := trainNode(t.Context(), t, dir, c, Hooks{}); err == nil || !strings.Contains(err.Error(), "class weights are for classes") {
		t.Errorf("class weights of several labels: %v", err)
	}
	classes := storetest.Create(t, storetest.Random(storetest.Options{}))
	if _, err := whole.Evaluate(t.Context(), storetest.Open(t, classes, store.Options{}), hostDevice(t), EvaluateOptions{Splits: validated}); err == nil || !strings.Contains(err.Error(), "the store's nodes have one each") {
		t.Errorf("a model of several labels on a store of classes: %v", err)
	}
}

// checkSaid compares metrics with those of predictions, by their definitions.
func checkSaid(t *testing.T, g *storetest.Graph, dir string, cp *Checkpoint) {
	t.Helper()
	st := storetest.Open(t, dir, store.Options{})
	e, err := cp.Evaluate(t.Context(), st, hostDevice(t), EvaluateOptions{Splits: validated, AUC: true, Probabilities: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	k, sets := g.Classes, st.Manifest().LabelSets()
	var values []float32
	for p, part := range st.Manifest().Partitions {
		rows := make([]float32, uint64(k)*part.Nodes)
		if err := e.Probabilities().Read(t.Context(), store.PartitionID(p), 0, blocks.Bytes(rows)); err != nil {
			t.Fatal(err)
		}
		values = append(values, rows...)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6 || math.IsNaN(got) {
			t.Errorf("%s %v, expected %v", what, got, want)
		}
	}
	for i, split := range []uint8{store.SplitValid, store.SplitTest} {
		var nodes []int
		for v, set := range g.Labels {
			if set >= 0 && g.Split[v] == split {
				nodes = append(nodes, v)
			}
		}
		var hits, misses, macro, loss, auc, measured float64
		exact := 0.
		for j := range k {
			var tp, off float64
			var yes, no []float32
			for _, v := range nodes {
				p, has := values[v*k+j], sets.Has(g.Labels[v], j)
				if has == (p > .5) {
					tp += float64(b2i(has))
				} else {
					off++
				}
				if has {
					yes, loss = append(yes, p), loss-math.Log(float64(p))
				} else {
					no, loss = append(no, p), loss-math.Log1p(-float64(p))
				}
			}
			if hits, misses = hits+tp, misses+off; tp > 0 {
				macro += 2 * tp / (2*tp + off) / float64(k)
			}
			if len(yes) == 0 || len(no) == 0 {
				continue
			}
			right := 0.
			for _, a := range yes {
				for _, b := range no {
					right += float64(b2i(a > b)) + float64(b2i(a == b))/2
				}
			}
			auc, measured = auc+right/float64(len(yes)*len(no)), measured+1
		}
		for _, v := range nodes {
			exact += float64(b2i(!slices.ContainsFunc(labelsUpTo(k), func(j int) bool { return sets.Has(g.Labels[v], j) != (values[v*k+j] > .5) })))
		}
		n, m := float64(len(nodes)), e.Metrics[i]
		near("micro F1", m.Labels.MicroF1, 2*hits/(2*hits+misses))
		near("macro F1", m.Labels.MacroF1, macro)
		near("all right", m.Labels.Exact, exact/n)
		near("AUC", m.AUC, auc/measured)
		if want := loss / n / float64(k); math.Abs(m.Loss-want) > 1e-5 {
			t.Errorf("loss %v, expected %v", m.Loss, want)
		}
	}
}

func labelsUpTo(k int) (all []int) {
	for j := range k {
		all = append(all, j)
	}
	return all
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
