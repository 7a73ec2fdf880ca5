package train

import (
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/ondevice"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestDrawnPlan: the device draws mini-batches where it can, there is room, and less crosses; the plan says so, and what stands in the way.
func TestDrawnPlan(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 600, Edges: 5000, Partitions: 8})
	for i := range g.Edges {
		g.Weights = append(g.Weights, float32(i%5))
	}
	dir := storetest.Create(t, g)
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	base := config.Config{Hidden: 8, BatchSize: 10, Fanouts: []int{9, 9, 9}, Layers: 3, Plan: "memory", Split: "split", Threads: 1, Absent: config.AbsentIgnore}
	beside := besideRows(t, dir, base)
	mirror, all := beside+rowcache.Share*32*700, int64(1<<30) // room for the rows of all nodes, and for lists too
	for _, c := range []struct {
		name   string
		change func(c *config.Config)
		memory int64
		host   bool   // the device draws none
		drawn  bool   // it is to draw
		why    string // of the plan, or the error
	}{
		{"auto", func(c *config.Config) {}, all, false, true, "mini-batches are drawn there, the host's entry for entry"},
		{"the host is asked", func(c *config.Config) { c.SampleOn = "host" }, all, false, false, "device plan mirror: "},
		{"a device that cannot", func(c *config.Config) {}, all, true, false, "device plan mirror: "},
		{"a device that cannot, asked", func(c *config.Config) { c.SampleOn = "device" }, all, true, false, "it draws none"},
		{"hanoi", func(c *config.Config) { c.Plan, c.Buffer, c.SampleOn = "hanoi", 3, "device" }, all, false, true, "device plan mirror, sampling there"},
		{"few batches", func(c *config.Config) { c.BatchSize, c.Fanouts, c.Layers = 100, []int{1}, 1 }, all, false, false, "less crosses than neighbour lists"},
		{"no room", func(c *config.Config) {}, mirror, false, false, "beside neighbour lists and mini-batches there is room for"},
		{"no room, asked", func(c *config.Config) { c.SampleOn = "device" }, mirror, false, false, "sampling on the device takes device plan mirror: beside"},
		{"rows by the mini-batch", func(c *config.Config) { c.DevicePlan = "direct" }, all, false, false, "plan direct has to know their rows"},
		{"rows by the mini-batch, asked", func(c *config.Config) { c.SampleOn, c.DevicePlan = "device", "direct" }, all, false, false, "device plan direct and cache auto are asked for"},
		{"lbs, asked", func(c *config.Config) { c.SampleOn, c.DevicePlan = "device", "lbs" }, all, false, false, "lbs is a sampler"},
		{"gcn out of core", func(c *config.Config) { c.Model, c.Plan, c.Buffer = "gcn", "hanoi", 3 }, all, false, false, "out of core the host has the degrees"},
		{"gin out of core", func(c *config.Config) { c.Model, c.Plan, c.Buffer = "gin", "hanoi", 3 }, all, false, false, "out of core the host has the degrees"},
		{"labor", func(c *config.Config) { c.Sampler = "labor" }, all, false, false, "sampler labor is the host's"},
		{"weights", func(c *config.Config) { c.EdgeWeights = true }, all, false, false, "weights and features of edges"},
		{"history, asked", func(c *config.Config) { c.Plan, c.Buffer, c.History, c.SampleOn = "hanoi", 3, true, "device" }, all, false, false, "a history reads which nodes"},
		{"a large fanout", func(c *config.Config) { c.Fanouts = []int{200, 2, 2} }, all, false, false, "a device draws up to 128"},
		{"mlp, asked", func(c *config.Config) { c.Model, c.Fanouts, c.SampleOn = "mlp", nil, "device" }, all, false, false, "reads no neighbours"},
	} {
		cfg := base
		cfg.DevicePlan = macro.DeviceMirror
		c.change(&cfg)
		if err := cfg.Normalize(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		p, err := ondevice.Choose(&cfg, t.Context(), st, gpu.Info{Name: "test", MemoryBytes: c.memory, Samples: !c.host}, 1000)
		why := strings.Join(p.Why, "\n")
		if err != nil {
			why = err.Error()
		}
		if asked := cfg.SampleOn == config.SampleDevice; (err != nil) != (asked && !c.drawn) || (p.Draw != nil) != c.drawn || p.Cost.Drawn != c.drawn || !strings.Contains(why, c.why) {
			t.Errorf("%s: drawn %v, %v, expected %v and %q: %s", c.name, p.Draw != nil, err, c.drawn, c.why, why)
		}
		if !c.drawn {
			continue
		}
		held, err := p.Draw.Bytes()
		if err != nil || held+int64(p.Slots)*32*rowcache.Share > c.memory-beside || p.Draw.Rows != p.Slots {
			t.Errorf("%s: %d bytes beside %d rows, of %d rows, %v", c.name, held, p.Slots, p.Draw.Rows, err)
		}
	}
	c := config.Config{SampleOn: "gpu"}
	if err := c.Normalize(); err == nil || !strings.Contains(err.Error(), "sample_on gpu: expected") {
		t.Errorf("sample on gpu: %v", err)
	}
}
