package train

import (
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store/storetest"
)

// TestBitsWhateverTheBudget: models of relations, whose history is filled by evaluations in tiles of the graph, end with the same bits
// whatever the budget, as long as the plan is the same.
func TestBitsWhateverTheBudget(t *testing.T) {
	race.SkipArithmetic(t)
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 9001, Edges: 60000, Partitions: 24, Dim: 96, Relations: 3}))
	for name, c := range map[string]config.Config{
		"rgcn": {Model: "rgcn", History: true}, "rsage": {Model: "rsage", History: true}, "rgat": {Model: "rgat"}, "hgt": {Model: "hgt"},
	} {
		t.Run(name, func(t *testing.T) {
			c.Plan, c.Buffer, c.Hidden, c.BatchSize, c.Epochs, c.Fanouts, c.Seed, c.Threads = "hanoi", 4, 16, 500, 2, []int{3, 2}, 1, 2
			least := leastRows(t, dir, c)
			var want string
			for _, memory := range []int64{least, least + 3<<20, least + 20<<20, 0} {
				c.MemoryBytes = memory
				cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
				if err != nil {
					t.Fatal(err)
				}
				if got := outcome(cp); want == "" {
					want = got
				} else if got != want {
					t.Errorf("%d bytes: valid %v, loss %v, other bits than within %d", memory, cp.Summary.ValidAccuracy, cp.Summary.TrainLoss, least)
				}
			}
		})
	}
}
