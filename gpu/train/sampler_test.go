package train

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestSamplers: each trains in memory and out of core, its losses do not depend on threads, and it draws other neighbours than
// the others. Weighted draws are refused where there are no weights.
func TestSamplers(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 400, Edges: 6000, Partitions: 5})
	bare := storetest.Create(t, g)
	for i := range g.Edges {
		g.Weights = append(g.Weights, float32(math.Exp(float64(i%7)-3)))
	}
	dir := storetest.Create(t, g)
	for _, plan := range []config.Config{{Plan: "memory"}, {Plan: "hanoi", Buffer: 2, Absent: config.AbsentIgnore}} {
		losses := map[float64]string{}
		for _, sampler := range []string{"", "weighted", "labor", "dense", "pinsage"} {
			var loss [2]float64
			for i, threads := range []int{1, 3} {
				c := plan
				c.Sampler, c.Threads, c.Hidden, c.BatchSize, c.Epochs, c.Fanouts = sampler, threads, 8, 40, 1, []int{3, 2}
				cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
				if err != nil {
					t.Fatal(err)
				}
				loss[i] = cp.Summary.TrainLoss
			}
			if other, ok := losses[loss[0]]; ok || loss[0] != loss[1] {
				t.Errorf("plan %s, sampler %q: losses %v with 1 and 3 threads, %q has %v", plan.Plan, sampler, loss, other, loss[0])
			}
			losses[loss[0]] = sampler
		}
	}
	loss := func(plan, sampler string) float64 {
		cp, err := trainNode(t.Context(), t, dir, config.Config{Plan: plan, Sampler: sampler, Hidden: 8, BatchSize: 40, Epochs: 1, Fanouts: []int{3, 2}}, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		return cp.Summary.TrainLoss
	}
	zero := 0.
	never := config.Config{Plan: "memory", Sampler: "pinsage", WalkRestart: &zero, Hidden: 8, BatchSize: 40, Epochs: 1, Fanouts: []int{3, 2}}
	if cp, err := trainNode(t.Context(), t, dir, never, Hooks{}); err != nil || cp.Summary.TrainLoss == loss("memory", "pinsage") {
		t.Errorf("walks without a restart train as those with one, %v", err)
	}
	for _, sampler := range []string{"dense", "pinsage"} {
		if a, b := loss("memory", sampler), loss("rows", sampler); a != b {
			t.Errorf("%s: losses %v with plan memory and %v with plan rows", sampler, a, b)
		}
	}
	half, one := .5, 1.
	for want, c := range map[string]config.Config{"sampler uniform": {Walks: 3}, "sampler labor": {Sampler: "labor", WalkRestart: &half}, "model gcn": {Model: "gcn", Sampler: "pinsage"}, "model rsage": {Model: "rsage", Sampler: "pinsage"},
		"adjacent": {Sampler: "pinsage", History: true}, "Use one of them": {Sampler: "pinsage", EdgeWeights: true}, "and less than 1": {Sampler: "pinsage", WalkRestart: &one}} {
		if err := c.Normalize(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, expected one of %q", c, err, want)
		}
	}
	c := config.Config{Sampler: "weighted", Epochs: 1}
	if _, err := trainNode(t.Context(), t, bare, c, Hooks{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("weighted draws without weights: %v", err)
	}
}

// TestPrune: a run with threshold pruning trains on other neighbours than one without, the same with any number of threads and plan
// that has the same lists, and says what it left out.
func TestPrune(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 400, Edges: 12000, Partitions: 5}))
	var why []string
	run := func(c config.Config) *Summary {
		c.Hidden, c.BatchSize, c.Epochs, c.Fanouts = 8, 40, 1, []int{3, 2}
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{Plan: func(w []string) { why = w }})
		if err != nil {
			t.Fatal(err)
		}
		return &cp.Summary
	}
	for _, sampler := range []string{"uniform", "dense"} {
		all := run(config.Config{Plan: "memory", Sampler: sampler})
		if all.ListedEdges != 0 {
			t.Errorf("%s: %d edges are counted without pruning", sampler, all.ListedEdges)
		}
		one, three, rows := run(config.Config{Plan: "memory", Sampler: sampler, Prune: ".1,1", Threads: 1}), run(config.Config{Plan: "memory", Sampler: sampler, Prune: ".1,1", Threads: 3}), run(config.Config{Plan: "rows", Sampler: sampler, Prune: ".1,1"})
		if one.TrainLoss == all.TrainLoss || one.TrainLoss != three.TrainLoss || one.TrainLoss != rows.TrainLoss {
			t.Errorf("%s: losses %v, with 3 threads %v, with plan rows %v; without pruning %v", sampler, one.TrainLoss, three.TrainLoss, rows.TrainLoss, all.TrainLoss)
		}
		if one.PrunedEdges*2 < one.ListedEdges || one.PrunedEdges >= one.ListedEdges || one.PrunedEdges != three.PrunedEdges {
			t.Errorf("%s: %d of %d edges left out, with 3 threads %d; expected most", sampler, one.PrunedEdges, one.ListedEdges, three.PrunedEdges)
		}
		if all := strings.Join(why, "\n"); !strings.Contains(all, "at most 6 for 3, at most 5 for 2") { // a tenth of a mean degree of 30 beside the fanout
			t.Errorf("%s: the plan says %q", sampler, all)
		}
	}
	for want, c := range map[string]config.Config{"expected two numbers": {Prune: "1"}, "not both 0": {Prune: "0,0"}, "needs sampler uniform or dense": {Prune: "1,1", Sampler: "labor"}} {
		if err := c.Normalize(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, expected one of %q", c.Prune, err, want)
		}
	}
}

// TestRelationFanouts: runs with fanouts of relations do not depend on threads, in memory and out of core, and train on other edges than
// those without, in the numbers that were asked for; a loader draws the same.
func TestRelationFanouts(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 400, Edges: 12000, Partitions: 5, Relations: 3})
	dir := storetest.Create(t, g)
	for _, plan := range []config.Config{{Plan: "memory"}, {Plan: "hanoi", Buffer: 2}} {
		run := func(fanouts string, threads int) (e Epoch) {
			c := plan
			c.Model, c.Threads, c.Hidden, c.BatchSize, c.Epochs, c.Fanouts, c.RelationFanouts = "rsage", threads, 8, 40, 1, []int{3, 2}, fanouts
			if _, err := trainNode(t.Context(), t, dir, c, Hooks{Epoch: func(of Epoch) { e = of }}); err != nil {
				t.Fatal(err)
			}
			return e
		}
		without, few, one, three := run("", 1), run("r0=1,1;r1=1,1;r2=1,1", 1), run("r0=1,1; r2=5,-1", 1), run("r0=1,1; r2=5,-1", 3)
		if one.Loss != three.Loss || one.SampledEdges != three.SampledEdges || one.Loss == few.Loss || few.Loss == without.Loss {
			t.Errorf("plan %s: losses %v and, with 3 threads, %v; %v with fanouts of 1, %v without", plan.Plan, one.Loss, three.Loss, few.Loss, without.Loss)
		}
		if few.SampledEdges >= one.SampledEdges {
			t.Errorf("plan %s: %d edges with fanouts of 1, %d with more", plan.Plan, few.SampledEdges, one.SampledEdges)
		}
	}
	for fanouts, want := range map[string]string{"r0": "no relation=fanouts", "r9=1,1": "no relation \"r9\"", "r0=1": "1 of r0 for 2 layers", "r0=1,0": "\"0\" of r0",
		"r0=1,1;r0=1,1": "each relation once", "r1=a,1": "\"a\" of r1"} {
		c := config.Config{Model: "rsage", Fanouts: []int{3, 2}, RelationFanouts: fanouts, Epochs: 1}
		if _, err := trainNode(t.Context(), t, dir, c, Hooks{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, expected one of %q", fanouts, err, want)
		}
	}
	for want, c := range map[string]config.Config{"Use model rgcn, rsage, rgat or hgt": {RelationFanouts: "r0=1,1"}, "needs sampler uniform": {Model: "rgcn", RelationFanouts: "r0=1,1", Sampler: "labor"}} {
		if err := c.Normalize(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected one of %q", err, want)
		}
	}
}
