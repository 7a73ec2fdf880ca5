package planning

import (
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestStagedBytes: a budget of a run on a device of its own memory has what is page-locked on its way there: features of edges with the
// mini-batches that read them, and what pads steps that are recorded.
func TestStagedBytes(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 600, Edges: 5000, Partitions: 4})
	g.EdgeDim = 4
	g.EdgeRows = make([]float32, g.EdgeDim*len(g.Edges))
	st := storetest.Open(t, storetest.Create(t, g), store.Options{})
	info := gpu.Info{Name: "test", Async: true, MemoryBytes: 1 << 30}
	staged := func(c config.Config) (bytes, features int64) {
		t.Helper()
		c.Model, c.MemoryBytes, c.BatchSize, c.Fanouts = "gat", 1<<30, 100, []int{5, 5}
		if err := c.Normalize(); err != nil {
			t.Fatal(err)
		}
		c.FillFeatures(st.Manifest())
		y, err := OpenMemory(t.Context(), st, info, c)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = y.Close() }()
		graphs, _, _ := y.batch.Graphs(LargestStep(y.M, 0))
		for _, g := range graphs {
			features += 4 * int64(g.EdgeFeatures.Len())
		}
		return y.batchBytes(c.MemoryBytes, 0), features
	}
	plain, _ := staged(config.Config{RecordSteps: config.RecordOff})
	if padded, _ := staged(config.Config{}); padded < plain+plain/17 || padded > plain+plain/4 {
		t.Errorf("%d bytes of mini-batches that are padded, %d of plain ones", padded, plain)
	}
	if with, features := staged(config.Config{EdgeFeatures: []string{"rows"}}); features == 0 || with-plain != int64(info.InFlight())*features {
		t.Errorf("%d bytes with features of edges, which take %d a mini-batch, %d without", with, features, plain)
	}
}
