package train

import (
	"math/rand/v2"
	"testing"

	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestClassWeights: of a class that a tenth of the nodes have, and that one feature tells with errors, weights find most nodes where a run
// without them finds few. The bits are those of every plan, and of a run that was broken off.
func TestClassWeights(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 1500, Edges: 1500, Partitions: 6})
	g.Classes = 2
	r := rand.New(rand.NewPCG(1, 2))
	for i := range g.Labels {
		if g.Labels[i] = 0; r.IntN(10) == 0 {
			g.Labels[i] = 1
		}
		g.Features[i*g.Dim] = float32(r.NormFloat64()) + 1.5*float32(g.Labels[i])
	}
	dir := storetest.Create(t, g)
	base := config.Config{Model: "mlp", Hidden: 8, BatchSize: 100, Epochs: 25, LR: .01, Threads: 1, Seed: 4, Plan: "memory"}
	run := func(change func(*config.Config)) *Checkpoint {
		t.Helper()
		c := base
		change(&c)
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		return cp
	}
	balanced := func(cp *Checkpoint) float64 {
		t.Helper()
		st := storetest.Open(t, dir, store.Options{})
		e, err := cp.Evaluate(t.Context(), st, hostDevice(t), EvaluateOptions{Splits: validated, Confusion: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		return e.Metrics[1].Confusion.BalancedAccuracy()
	}
	weigh := func(c *config.Config) { c.ClassWeights = config.WeightsAuto }
	plain, weighed := run(func(*config.Config) {}), run(weigh)
	if plain.Summary.TestBalanced != nil || run(func(c *config.Config) { c.ClassWeights = config.WeightsNone }).Summary.TestBalanced != nil {
		t.Error("a balanced accuracy without class weights")
	}
	without, with := balanced(plain), balanced(weighed)
	if b := weighed.Summary.TestBalanced; b == nil || *b != with {
		t.Fatalf("balanced accuracy %v, by evaluation %v", b, with)
	}
	if with < .7 || with < without+.1 {
		t.Errorf("balanced accuracy %.3f with weights, %.3f without: expected .1 more, and .7", with, without)
	}
	for name, change := range map[string]func(*config.Config){
		"rows": func(c *config.Config) { c.Plan = "rows" }, "threads": func(c *config.Config) { c.Threads = 3 }, "budget": func(c *config.Config) { c.MemoryBytes = 150 << 20 },
	} {
		if got := run(func(c *config.Config) { weigh(c); change(c) }); outcome(got) != outcome(weighed) {
			t.Errorf("%s: %s, expected %s", name, outcome(got), outcome(weighed))
		}
	}
	for name, change := range map[string]func(*config.Config){
		"accumulated": func(c *config.Config) { c.BatchSize, c.Accumulate = 50, 2 },
		"out of core": func(c *config.Config) { c.Model, c.Plan, c.Buffer, c.Fanouts = "sage", "hanoi", 3, []int{3, 3} },
	} {
		if got := balanced(run(func(c *config.Config) { weigh(c); change(c) })); got < without+.1 {
			t.Errorf("%s: balanced accuracy %.3f, without weights %.3f", name, got, without)
		}
	}
	c := base
	weigh(&c)
	cp := brokenOff(t, dir, c, Hooks{}, 11, 1)
	if outcome(cp) != outcome(weighed) {
		t.Errorf("resumed %s, expected %s", outcome(cp), outcome(weighed))
	}
}
