package train

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/storetest"
)

// TestTypesTrainAsBefore: a store whose columns have rows of one node type alone has the losses of one of format 1 to the bit, by every
// plan, in several partitions, and reads what is planned; the frozen one has those that the build had which made it, and keeps them in memory when it
// is moved to the format of today.
func TestTypesTrainAsBefore(t *testing.T) {
	graph, old := storetest.Typed(t)
	src, err := formats.Open(graph, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close() //nolint:errcheck // test
	fresh := filepath.Join(t.TempDir(), "fresh")
	if _, err := ingest.Run(t.Context(), fresh, src, ingest.Options{Partitions: 4, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	var runs []string
	for _, c := range manifestOf(t, fresh).Columns {
		if c.Runs {
			runs = append(runs, c.Name)
		}
	}
	if want := []string{"paper.feat", "label", "venue.feat", "node_type", "author.node", "split"}; !slices.Equal(runs, want) {
		t.Errorf("columns of one type are %q, expected %q", runs, want)
	}
	losses := func(dir string, c Config) (out []float64, read int64) {
		t.Helper()
		c.Model, c.Hidden, c.Fanouts, c.BatchSize, c.Epochs, c.Seed, c.Threads = "rsage", 8, []int{4, 4}, 40, 3, 7, 1
		_, err := trainNode(t.Context(), t, dir, c, Hooks{Epoch: func(e Epoch) {
			out, read = append(out, e.Loss, e.ValidAccuracy), read+e.BytesRead
			if e.BytesRead != e.PlannedBytes {
				t.Errorf("%s, plan %s: %d bytes read, %d planned", dir, c.Plan, e.BytesRead, e.PlannedBytes)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		return out, read
	}
	recorded := map[string][]float64{ // by the build that made the store
		macro.Memory: {1.3971676281346874, 1.2278860378894336, 1.1317916185925547},
		macro.Hanoi:  {1.458990576062677, 1.221720361948918, 1.144749244013987},
	}
	var inMemory []float64
	for _, c := range []Config{{Plan: macro.Memory}, {Plan: macro.Hanoi, Buffer: 2, Absent: "ignore"}, {Plan: macro.Rows, RowReads: RowsCached}, {Plan: macro.Rows, RowReads: RowsPacked}} {
		want, readOld := losses(old, c)
		got, readNew := losses(fresh, c)
		if !slices.Equal(got, want) {
			t.Errorf("plan %s %s: losses and accuracies %v, of format 1 %v", c.Plan, c.RowReads, got, want)
		}
		if readNew >= readOld {
			t.Errorf("plan %s %s reads %d bytes, of format 1 %d", c.Plan, c.RowReads, readNew, readOld)
		}
		for e, x := range recorded[c.Plan] {
			if math.Abs(want[2*e]-x) > 1e-4 { // another machine's products differ in their last bits
				t.Errorf("plan %s, epoch %d: loss %v, expected %v", c.Plan, e+1, want[2*e], x)
			}
		}
		if c.Plan == macro.Memory {
			inMemory = want
		}
	}
	before, err := store.Open(old, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := partitioner.NewRandom(before.Manifest().Nodes, 3, 5)
	if err == nil {
		_, err = ingest.Repartition(t.Context(), before, a, ingest.Options{})
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := losses(old, Config{Plan: macro.Memory}); !slices.Equal(got, inMemory) {
		t.Errorf("moved: losses and accuracies %v, before %v", got, inMemory)
	}
}

func manifestOf(t *testing.T, dir string) *store.Manifest {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // test
	return s.Manifest()
}
