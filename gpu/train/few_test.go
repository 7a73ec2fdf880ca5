package train

import (
	"math"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// What a run leaves open goes by the number of mini-batches and of training nodes, and by what the features are; what is given stays.
func TestFewTrainingNodes(t *testing.T) {
	few, zero := storetest.Options{Nodes: 900, Edges: 3000, Partitions: 4, Dim: 82}, 0.
	words := wordsStore(t, few)
	small := storetest.Random(few)
	for i := range small.Features {
		if small.Features[i] /= 100; i%41 != 7 {
			small.Features[i] = 0
		}
	}
	smallWords, dense := storetest.Create(t, small), storetest.Create(t, storetest.Random(few))
	many := wordsStore(t, storetest.Options{Nodes: 6000, Edges: 18000, Partitions: 4, Dim: 82})
	for name, c := range map[string]struct {
		dir             string
		config          config.Config
		patience, every int
		decays          bool
	}{
		"words":              {words, config.Config{}, 100, 5, true},
		"gat":                {words, config.Config{Model: "gat"}, 100, 5, true},
		"relations":          {words, config.Config{Model: "rgcn"}, 100, 5, false},
		"dense":              {dense, config.Config{}, 100, 5, false},
		"two mini-batches":   {words, config.Config{BatchSize: 120}, 40, 2, true},
		"five":               {words, config.Config{BatchSize: 45}, 20, 1, true},
		"accumulated":        {words, config.Config{BatchSize: 60, Accumulate: 2}, 40, 2, true},
		"partitions":         {words, config.Config{Plan: "hanoi", Buffer: 1}, 20, 1, true},
		"many":               {many, config.Config{}, 40, 2, false},
		"a decay":            {words, config.Config{WeightDecay: &zero}, 100, 5, false},
		"a patience":         {words, config.Config{Patience: 7}, 7, 1, true},
		"a stride":           {words, config.Config{EvalEvery: 3}, 20, 3, true},
		"a number of epochs": {words, config.Config{Epochs: 9}, 20, 1, true},
		"plateaus":           {words, config.Config{LRSchedule: config.SchedulePlateau}, 20, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := decided(t, c.dir, c.config)
			if got := d.Config; got.Patience != c.patience || got.EvalEvery != c.every {
				t.Errorf("patience %d, a validation every %d epochs, expected %d and %d", got.Patience, got.EvalEvery, c.patience, c.every)
			}
			if got := *d.Config.WeightDecay; (got > 0) != c.decays || got > 1/float64(d.Nodes) {
				t.Errorf("weight decay %g of %d training nodes, expected one: %v", got, d.Nodes, c.decays)
			}
			why := strings.Join(d.Why, "\n")
			if strings.Contains(why, "weight decay") != c.decays || strings.Contains(why, "few mini-batches") != (c.every > 1 && c.config.EvalEvery == 0) {
				t.Errorf("why: %s", why)
			}
		})
	}
	of, as := *decided(t, words, config.Config{}).Config.WeightDecay, *decided(t, smallWords, config.Config{}).Config.WeightDecay
	if math.Abs(of/as-1e4) > 1 {
		t.Errorf("weight decay %g, of features a hundredth as large %g", of, as)
	}
}

// decided is what a run of c on a store does.
func decided(t *testing.T, dir string, c config.Config) *planning.Decision {
	t.Helper()
	if err := c.Normalize(); err != nil {
		t.Fatal(err)
	}
	d, err := planning.Decide(t.Context(), storetest.Open(t, dir, store.Options{}), gpu.Info{Sparse: true}, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// A run that began with what was chosen for it goes on with that.
func TestFewTrainingNodesResumed(t *testing.T) {
	dir := wordsStore(t, storetest.Options{Nodes: 600, Edges: 2000, Partitions: 4, Dim: 82})
	c := config.Config{Hidden: 8, Threads: 1, CheckpointFile: t.TempDir() + "/run"}
	whole, err := trainNode(t.Context(), t, dir, c, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	c.Resume = true
	again, err := trainNode(t.Context(), t, dir, c, Hooks{})
	if err != nil || again.Config.Patience != 100 || again.Config.EvalEvery != 5 || *again.Config.WeightDecay != *whole.Config.WeightDecay {
		t.Fatalf("%+v, %v", again, err)
	}
	if outcome(again) != outcome(whole) {
		t.Errorf("%s, expected %s", outcome(again), outcome(whole))
	}
}
