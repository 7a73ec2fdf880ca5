package train

import (
	"reflect"
	"testing"

	"github.com/gstore/gstore/gpu/train/baseline"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store/storetest"
)

// TestBaselines: what a result stands beside changes no bit of it, is the same for every plan, budget and number of threads with the same
// batches, also of a run that was broken off and resumed, and is not computed where nobody asks.
func TestBaselines(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 900, Edges: 5000, Partitions: 6, Relations: 2})
	dir := storetest.Create(t, g)
	ask := Hooks{Baselines: func(*baseline.Result) {}}
	base := config.Config{Hidden: 8, BatchSize: 50, Epochs: 6, Threads: 1, Fanouts: []int{5, 3}, Seed: 4, Plan: "memory"}
	want, err := trainNode(t.Context(), t, dir, base, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if want.Summary.Baselines != nil {
		t.Error("baselines that nobody asked for")
	}
	var first *baseline.Result
	for name, change := range map[string]func(*config.Config){
		"memory": func(*config.Config) {}, "threads": func(c *config.Config) { c.Threads = 3 },
		"rows": func(c *config.Config) { c.Plan = "rows" }, "budget": func(c *config.Config) { c.MemoryBytes = 150 << 20 },
	} {
		t.Run(name, func(t *testing.T) {
			c := base
			change(&c)
			cp, err := trainNode(t.Context(), t, dir, c, ask)
			if err != nil {
				t.Fatal(err)
			}
			b := cp.Summary.Baselines
			if outcome(cp) != outcome(want) {
				t.Errorf("with baselines %s, without %s", outcome(cp), outcome(want))
			}
			if b == nil || b.FeaturesAccuracy == nil || b.Split != "test" {
				t.Fatalf("%+v, expected both baselines on the test nodes", b)
			}
			if first == nil {
				first = b
			} else if !reflect.DeepEqual(b, first) {
				t.Errorf("%+v, expected %+v", b, first)
			}
		})
	}
	t.Run("resumed", func(t *testing.T) {
		cp := brokenOff(t, dir, base, ask, 3, 2)
		if !reflect.DeepEqual(cp.Summary.Baselines, first) {
			t.Errorf("resumed %+v, expected %+v", cp.Summary.Baselines, first)
		}
	})
	for _, model := range []string{"mlp", "rsage"} {
		c := base
		c.Model = model
		cp, err := trainNode(t.Context(), t, dir, c, ask)
		if err != nil {
			t.Fatal(err)
		}
		if b := cp.Summary.Baselines; b == nil || (b.FeaturesAccuracy != nil) != (model == "rsage") {
			t.Errorf("%s: %+v", model, b)
		}
	}
}
