package train

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/gputest"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/history"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/storetest"
)

// storeOfTypes is a store of several node types, with the means of each relation if hops.
func storeOfTypes(t *testing.T, hops bool) string {
	t.Helper()
	dir := typedStore(t, ingest.Options{Partitions: 4, Seed: 1})
	if hops {
		if _, err := precompute.Hop(t.Context(), dir, hostDevice(t), precompute.Options{EachRelation: true}); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestRelationHops: rsage whose first layer reads the means of relations has the losses of one that samples all neighbours, but for
// rounding, and fewer edges; only relations from nodes with learned vectors are sampled. Its losses are the same to the bit whatever the
// threads, the budget, the plan that has all in memory, and the device; out of core what is read is what was planned, and a history holds no
// more than was counted.
func TestRelationHops(t *testing.T) {
	dir := storeOfTypes(t, true)
	base := config.Config{Model: "rsage", Hidden: 8, BatchSize: 40, Epochs: 3, Seed: 7, Threads: 1, PrecomputedHop: true}
	all := base
	all.Fanouts, all.Dropout, all.BatchSize = []int{mini.All, mini.All}, new(float64), 1000
	edges := func(c config.Config) (losses []float64, edges int64) {
		t.Helper()
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{Epoch: func(e Epoch) { losses = append(losses, e.Loss, e.ValidAccuracy) }})
		if err != nil {
			t.Fatal(err)
		}
		if c.PrecomputedHop != (len(cp.Config.Hops) > 0) || len(cp.Model.RelationHops) != len(cp.Config.Hops) {
			t.Errorf("hops %q, in the model %+v", cp.Config.Hops, cp.Model.RelationHops)
		}
		return losses, cp.Summary.SampledEdges
	}
	sampled := all
	sampled.PrecomputedHop, sampled.Absent = false, config.AbsentIgnore
	want, most := edges(sampled)
	got, few := edges(all)
	if few >= most {
		t.Errorf("%d edges sampled with hops, %d without", few, most)
	}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-4 {
			t.Fatalf("losses and accuracies %v, with all neighbours sampled %v", got, want)
		}
	}

	st := storetest.Open(t, dir, store.Options{})
	m := st.Manifest()
	c := all
	if err := c.Normalize(); err != nil {
		t.Fatal(err)
	}
	c.FillFeatures(m)
	for r, hop := range c.HopRelations(m) {
		src, dst, _ := m.Schema.Ends(store.RelationID(r % len(m.Schema.Relations)))
		if r >= len(m.Schema.Relations) {
			src = dst
		}
		if learned := m.Schema.NodeTypes[src].Name == "author"; hop == learned {
			t.Errorf("relation %d of %v from %s: read from a hop %v", r, m.Schema.Relations, m.Schema.NodeTypes[src].Name, hop)
		}
	}

	base.Fanouts = []int{3, 2}
	memory, _, _ := lossesRead(t, dir, base)
	for _, change := range []func(*config.Config){func(c *config.Config) { c.Threads = 3 }, func(c *config.Config) { c.MemoryBytes = 1 << 30 }, func(c *config.Config) { c.Plan, c.RowReads = macro.Rows, config.RowsCached },
		func(c *config.Config) { c.Plan, c.RowReads = macro.Rows, config.RowsPacked }} {
		c := base
		change(&c)
		if got, _, _ := lossesRead(t, dir, c); !slices.Equal(got, memory) {
			t.Errorf("plan %q, %d threads, %d bytes: losses and accuracies %v, expected %v", c.Plan, c.Threads, c.MemoryBytes, got, memory)
		}
	}
	outside := base
	outside.Plan, outside.Buffer, outside.History, outside.RelationFanouts = macro.Hanoi, 2, true, "cites=2,2"
	var runs [][]float64
	for _, dev := range []gpu.Device{hostDevice(t), gputest.NewCounting(hostDevice(t), 64<<20)} {
		outside.Threads++
		var losses []float64
		cp, err := trainNodeOn(t.Context(), t, dev, dir, outside, Hooks{Epoch: func(e Epoch) {
			if losses = append(losses, e.Loss); e.BytesRead != e.PlannedBytes {
				t.Errorf("%d bytes read, %d planned", e.BytesRead, e.PlannedBytes)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, losses)
		steps := (len(m.Partitions) + 1) / 2
		if cost, err := history.Forecast(&cp.Config, m, nil, 2, steps, nil); err != nil || cp.Summary.HistoryResidentBytes > cost.MemoryBytes {
			t.Errorf("history holds %d bytes, counted were %d (%v)", cp.Summary.HistoryResidentBytes, cost.MemoryBytes, err)
		}
	}
	if !slices.Equal(runs[0], runs[1]) || slices.Equal(runs[0], memory) {
		t.Errorf("out of core: losses %v, and %v on a device; in memory %v", runs[0], runs[1], memory)
	}
	unasked := outside
	unasked.PrecomputedHop, unasked.History, unasked.MemoryBytes = false, false, 0
	for _, absent := range []string{config.AbsentAuto, config.AbsentIgnore} {
		unasked.Absent = absent
		var why []string
		cp, err := trainNode(t.Context(), t, dir, unasked, Hooks{Plan: func(w []string) { why = w }})
		if err != nil {
			t.Fatal(err)
		}
		if auto := absent == config.AbsentAuto; cp.Config.PrecomputedHop != auto || cp.Config.History != auto || len(cp.Model.RelationHops) > 0 != auto || strings.Contains(strings.Join(why, " "), "paper.feat.hop1.cites") != auto {
			t.Errorf("absent %s: hops %q, history %v: %q", absent, cp.Config.Hops, cp.Config.History, why)
		}
	}
	table := outside // learned vectors come with partitions, and are sampled
	table.Vectors = config.VectorsTable
	if cp, err := trainNode(t.Context(), t, dir, table, Hooks{}); err != nil || !cp.Model.Vectors || len(cp.Model.RelationHops) != len(cp.Config.Hops) {
		t.Errorf("with a table of learned vectors: %v", err)
	}
	for _, c := range []config.Config{base, outside} { // the smallest budget works
		c.MemoryBytes, c.BatchSize = 1<<20, 400
		_, err := trainNode(t.Context(), t, dir, c, Hooks{})
		c.MemoryBytes = named(t, err)
		if _, err := trainNode(t.Context(), t, dir, c, Hooks{}); err != nil {
			t.Errorf("plan %q with %d bytes, as was asked for: %v", c.Plan, c.MemoryBytes, err)
		}
	}
}

// TestRelationHopsRefuse: what has no hops of relations, or not with these, is refused with what to do.
func TestRelationHopsRefuse(t *testing.T) {
	with, without := storeOfTypes(t, true), storeOfTypes(t, false)
	for want, c := range map[string]config.Config{
		"gstore precompute --each-relation":    {Model: "rsage"},
		"a model that reads a precomputed hop": {Model: "rgcn"},
		"needs sampler uniform":                {Model: "rsage", Sampler: mini.Dense},
		"are projected":                        {Model: "rsage", Features: []string{"paper.feat", "venue.feat"}},
	} {
		dir := with
		if strings.HasPrefix(want, "gstore") {
			dir = without
		}
		c.PrecomputedHop = true
		_, err := trainNode(t.Context(), t, dir, c, Hooks{})
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, store.ErrInvalid) && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%+v: error %v, expected one of %q", c, err, want)
		}
	}
}
