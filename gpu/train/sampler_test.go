package train

import (
	"errors"
	"math"
	"testing"

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
	for _, plan := range []Config{{Plan: "memory"}, {Plan: "hanoi", Buffer: 2, Absent: AbsentIgnore}} {
		losses := map[float64]string{}
		for _, sampler := range []string{"", "weighted", "labor"} {
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
	c := Config{Sampler: "weighted", Epochs: 1}
	if _, err := trainNode(t.Context(), t, bare, c, Hooks{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("weighted draws without weights: %v", err)
	}
}
