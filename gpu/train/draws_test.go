package train

import (
	"testing"

	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestDrawsAreCountedOnce: a run within a budget reads the graph once for them, though it tries several configurations.
func TestDrawsAreCountedOnce(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Edges: 2000, Partitions: 6, Relations: 2}))
	st, dev := storetest.Open(t, dir, store.Options{}), hostDevice(t)
	c := config.Config{Model: "rsage", Plan: "hanoi", Buffer: 2, BatchSize: 50, MemoryBytes: 1 << 30, Threads: 1}
	if err := c.Normalize(); err != nil {
		t.Fatal(err)
	}
	c.FillFeatures(st.Manifest())
	var once planning.Counted
	d, err := planning.DecideOnce(t.Context(), st, dev.Info(), c, &once)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil || d.Sampled == nil || once.Readings != 1 {
		t.Errorf("%v; the graph was read %d times for draws %v", err, once.Readings, d.Sampled)
	}
	if c.Layers, c.Fanouts = 1, []int{5}; len(d.Sampled.Edges) != 2 {
		t.Fatalf("draws of %d hops, expected 2", len(d.Sampled.Edges))
	}
	y, err := planning.OpenMemoryOnce(t.Context(), st, dev.Info(), c, &once)
	if err != nil {
		t.Fatal(err)
	}
	if err := y.Close(); err != nil || len(y.Sampled().Edges) != 1 {
		t.Errorf("%v; draws of %d hops for a model of 1", err, len(y.Sampled().Edges))
	}
}
