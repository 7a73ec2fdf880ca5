package train

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// denseDevice is a device that multiplies by all of a matrix.
type denseDevice struct{ gpu.Device }

func (d denseDevice) Info() gpu.Info {
	info := d.Device.Info()
	info.Sparse = false
	return info
}

// wordsStore is a store of nodes with a few words each.
func wordsStore(t *testing.T, o storetest.Options) string {
	g := storetest.Random(o)
	for i := range g.Features {
		if i%41 != 7 {
			g.Features[i] = 0
		}
	}
	return storetest.Create(t, g)
}

// A feature that is mostly 0 is read by what is not, unasked, with the bits of the run that reads it with its zeros: in memory, and by
// plan rows.
func TestSparseFeature(t *testing.T) {
	race.SkipArithmetic(t)
	dir := wordsStore(t, storetest.Options{Nodes: 3001, Edges: 12000, Partitions: 5, Dim: 700})
	for name, c := range map[string]config.Config{
		"sage": {}, "gcn": {Model: "gcn"}, "gat": {Model: "gat", Heads: 2}, "norm": {Norm: "layer", Layers: 3, Fanouts: []int{3, 2, 2}}, "accumulate": {Accumulate: 3},
	} {
		t.Run(name, func(t *testing.T) {
			c.Hidden, c.BatchSize, c.Epochs, c.Seed, c.Threads = 16, 300, 3, 1, 2
			if c.Fanouts == nil {
				c.Fanouts = []int{4, 3}
			}
			run := func(dense bool, c config.Config) (*Checkpoint, string) {
				dev := gpu.Device(host.New(host.Options{Threads: 2}))
				defer func() { _ = dev.Close() }()
				if dense {
					dev = denseDevice{dev}
				}
				if err := c.Normalize(); err != nil {
					t.Fatal(err)
				}
				st := storetest.Open(t, dir, store.Options{})
				d, err := planning.Decide(t.Context(), st, dev.Info(), c)
				if err != nil {
					t.Fatal(err)
				}
				why := strings.Join(d.Why, "\n")
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				cp, err := Node(t.Context(), st, dev, c, Hooks{})
				if err != nil {
					t.Fatal(err)
				}
				return cp, why
			}
			held, why := run(false, c)
			if !strings.Contains(why, "of feature x are not 0") || held.Summary.FeatureResidentBytes > 700*3001*4/10 {
				t.Errorf("%d bytes of features are in memory: %s", held.Summary.FeatureResidentBytes, why)
			}
			want, why := run(true, c)
			if strings.Contains(why, "not 0") || want.Summary.FeatureResidentBytes < 700*3001*4 {
				t.Errorf("%d bytes of features are in memory: %s", want.Summary.FeatureResidentBytes, why)
			}
			if outcome(held) != outcome(want) {
				t.Errorf("loss %v and %v: other bits", held.Summary.TrainLoss, want.Summary.TrainLoss)
			}
			c.Plan = "rows"
			if rows, _ := run(false, c); rows.Summary.Plan != "rows" || outcome(rows) != outcome(want) {
				t.Errorf("plan %s: loss %v and %v: other bits", rows.Summary.Plan, rows.Summary.TrainLoss, want.Summary.TrainLoss)
			}
		})
	}
}

// Budgets in which the feature does not fit with its zeros train in memory, with the bits of any.
func TestSparseFeatureBudget(t *testing.T) {
	race.SkipArithmetic(t)
	dir := wordsStore(t, storetest.Options{Nodes: 6001, Edges: 24000, Partitions: 30, Dim: 3000})
	c := config.Config{Hidden: 16, BatchSize: 300, Epochs: 1, Fanouts: []int{4, 3}, Threads: 2, Plan: "memory", MemoryBytes: 1 << 20}
	least := leastRows(t, dir, c)
	if least > 110<<20 { // 69 MiB of features alone
		t.Errorf("the smallest budget is %d MiB", least>>20)
	}
	want := ""
	for _, memory := range []int64{least, least + 5<<20, least + 40<<20, 0} {
		c.Plan, c.MemoryBytes = "", memory
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		if cp.Summary.Plan != "memory" || cp.Config.Sparse == nil {
			t.Errorf("within %d MiB plan %s", memory>>20, cp.Summary.Plan)
		}
		if got := outcome(cp); want == "" {
			want = got
		} else if got != want {
			t.Errorf("within %d MiB loss %v, valid %v: other bits than within %d", memory>>20, cp.Summary.TrainLoss, cp.Summary.ValidAccuracy, least>>20)
		}
	}
}

// A run that is broken off goes on within its budget, to the same end; one that began by adding up features, as earlier versions did, goes on so.
func TestSparseFeatureResumes(t *testing.T) {
	race.SkipArithmetic(t)
	dir := wordsStore(t, storetest.Options{Nodes: 3001, Edges: 12000, Partitions: 8, Dim: 700})
	for _, order := range []string{"auto", "aggregate"} {
		c := config.Config{Hidden: 16, BatchSize: 300, Epochs: 3, Fanouts: []int{4, 3}, Seed: 2, Threads: 2, Order: order, Plan: "memory", MemoryBytes: 1 << 20}
		c.MemoryBytes, c.Plan = leastRows(t, dir, c), ""
		want, err := trainNode(t.Context(), t, dir, c, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		c.CheckpointFile, c.CheckpointEvery = filepath.Join(t.TempDir(), "last.gsr"), "1"
		if _, err := trainNode(ctx, t, dir, c, Hooks{Epoch: func(Epoch) { stop() }}); !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, expected that the run is broken off", err)
		}
		stop()
		c.Resume = true
		got, err := trainNode(t.Context(), t, dir, c, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		if outcome(got) != outcome(want) || !got.Summary.Resumed || (got.Config.Sparse != nil) != (order == "auto") {
			t.Errorf("order %s: resumed %v to loss %v, expected %v; sparse %v", order, got.Summary.Resumed, got.Summary.TrainLoss, want.Summary.TrainLoss, got.Config.Sparse)
		}
	}
}
