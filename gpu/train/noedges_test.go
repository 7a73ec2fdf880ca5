package train

import (
	"fmt"
	"testing"

	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store/storetest"
)

// TestNoEdges: a store without edges, whose columns of edges are there and empty, trains, completes and is evaluated by every model and
// plan: whether edges have relations, weights or features is said by the store, not by what a partition holds.
func TestNoEdges(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 241, Partitions: 6, Relations: 3})
	g.Edges, g.Relations, g.Weights, g.EdgeRows, g.EdgeDim = nil, []uint16{}, []float32{}, []float32{}, 2
	dir := storetest.Create(t, g)
	for name, c := range map[string]config.Config{
		"rgcn": {Model: "rgcn"}, "rsage": {Model: "rsage"}, "rgat": {Model: "rgat"}, "hgt": {Model: "hgt"},
		"sage": {Model: "sage", EdgeWeights: true}, "gcn": {Model: "gcn", EdgeWeights: true}, "gat": {Model: "gat", EdgeFeatures: []string{"rows"}},
	} {
		var want string
		for _, plan := range []config.Config{{Plan: "memory"}, {Plan: "rows"}, {Plan: "hanoi", Buffer: 2}, {Plan: "hanoi", Buffer: 2, History: true}} {
			if plan.Plan == "rows" && len(c.EdgeFeatures) > 0 || plan.History && (c.EdgeWeights || len(c.EdgeFeatures) > 0 || c.Model == "rgat" || c.Model == "hgt") {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s,history=%v", name, plan.Plan, plan.History), func(t *testing.T) {
				c := c
				c.Plan, c.Buffer, c.History = plan.Plan, plan.Buffer, plan.History
				c.Hidden, c.BatchSize, c.Epochs, c.Fanouts, c.Seed, c.Threads = 8, 20, 2, []int{3, 2}, 1, 1
				cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
				if err != nil {
					t.Fatal(err)
				}
				if got := outcome(cp); want == "" {
					want = got
				} else if c.Plan == "rows" && got != want {
					t.Errorf("plan rows: %s, plan memory %s", got, want)
				}
			})
		}
	}
}
