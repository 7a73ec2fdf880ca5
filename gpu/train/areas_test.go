package train

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestAreas: a run on two classes says how well the best epoch's model ranks nodes, as an evaluation of its model does, whatever the plan and
// the budget, and resumed or not; one on more classes, or whose split has nodes of one class alone, says nothing.
func TestAreas(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 700, Edges: 4000, Partitions: 6, Relations: 2})
	g.Classes = 2
	for i, l := range g.Labels {
		g.Labels[i] = min(l, 1)
	}
	dir := storetest.Create(t, g)
	base := config.Config{Hidden: 8, BatchSize: 50, Epochs: 6, Threads: 1, Fanouts: []int{5, 3}, Seed: 4, Plan: "memory"}
	for name, change := range map[string]func(*config.Config){
		"memory": func(*config.Config) {}, "rows": func(c *config.Config) { c.Plan = "rows" },
		"hanoi": func(c *config.Config) { c.Plan, c.Buffer, c.MemoryBytes = "hanoi", 2, 120<<20 }, "relations": func(c *config.Config) { c.Model = "rsage" },
		"table": func(c *config.Config) { c.Model, c.MemoryBytes = "rsage", 200<<20 },
	} {
		t.Run(name, func(t *testing.T) {
			c := base
			change(&c)
			cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
			if err != nil {
				t.Fatal(err)
			}
			st := storetest.Open(t, dir, store.Options{})
			e, err := cp.Evaluate(t.Context(), st, hostDevice(t), EvaluateOptions{Splits: validated, AUC: true})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close() }()
			if want := areasOf(e.Metrics); want == nil || !reflect.DeepEqual(cp.Summary.Areas, want) {
				t.Errorf("%+v, by evaluation %+v", cp.Summary.Areas, want)
			}
			if cp.Summary.TestAccuracy != e.Metrics[1].Accuracy || cp.Summary.ValidAccuracy != e.Metrics[0].Accuracy {
				t.Errorf("accuracies %v and %v, by evaluation %v and %v", cp.Summary.ValidAccuracy, cp.Summary.TestAccuracy, e.Metrics[0].Accuracy, e.Metrics[1].Accuracy)
			}
		})
	}
	t.Run("resumed", func(t *testing.T) {
		whole, err := trainNode(t.Context(), t, dir, base, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		c := base
		c.CheckpointFile, c.CheckpointEvery = dir+"/run", "0"
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := trainNode(ctx, t, dir, c, Hooks{Batch: func(epoch int, _ int64) {
			if epoch == 4 {
				cancel()
			}
		}}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		c.Resume = true
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(cp.Summary.Areas, whole.Summary.Areas) {
			t.Errorf("resumed %+v, expected %+v", cp.Summary.Areas, whole.Summary.Areas)
		}
	})
	for v, s := range g.Split { // no test node of class 1
		if s == store.SplitTest && g.Labels[v] == 1 {
			g.Labels[v] = 0
		}
	}
	cp, err := trainNode(t.Context(), t, storetest.Create(t, g), base, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if a := cp.Summary.Areas; a == nil || a.TestAUC != nil || a.TestPrecision != nil || a.ValidAUC == nil {
		t.Errorf("%+v, expected none of the test nodes", a)
	}
	g = storetest.Random(storetest.Options{Nodes: 300, Partitions: 3})
	if cp, err = trainNode(t.Context(), t, storetest.Create(t, g), base, Hooks{}); err != nil {
		t.Fatal(err)
	}
	if cp.Summary.Areas != nil {
		t.Errorf("four classes: %+v", cp.Summary.Areas)
	}
}

// TestRareClass: where one of two classes is so rare that a model which never finds it is accurate, a run of no given length goes on, and takes an
// epoch that finds some; the same one whatever the plan. A run on classes that are not rare goes by accuracy.
func TestRareClass(t *testing.T) {
	race.SkipArithmetic(t)
	g := storetest.Random(storetest.Options{Nodes: 3000, Edges: 12000, Partitions: 6})
	g.Classes = 2
	for i, l := range g.Labels {
		if g.Labels[i] = min(l, 0); l >= 0 && g.Features[i*g.Dim] > .95 { // some 5 %, of which the features tell
			g.Labels[i] = 1
		}
	}
	dir := storetest.Create(t, g)
	base := config.Config{Hidden: 16, BatchSize: 200, Patience: 10, Threads: 1, Fanouts: []int{4, 3}, Seed: 4, Plan: "memory"}
	var best []int
	for _, plan := range []string{"memory", "rows"} {
		c := base
		c.Plan = plan
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		s := cp.Summary
		if !s.RareClass || s.Areas == nil || *s.ValidAUC < .8 || s.BestEpoch < 3 {
			t.Errorf("%s: rare %v, areas %+v, best epoch %d of %d", plan, s.RareClass, s.Areas, s.BestEpoch, len(s.EpochSeconds))
		}
		best = append(best, s.BestEpoch)
	}
	if best[0] != best[1] {
		t.Errorf("best epochs %v", best)
	}
	c := base
	c.ClassWeights = config.WeightsAuto
	if cp, err := trainNode(t.Context(), t, dir, c, Hooks{}); err != nil || cp.Summary.RareClass || cp.Summary.ValidBalanced == nil {
		t.Errorf("with class weights: %v, %+v", err, cp)
	}
}
