package train

import (
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/eval/evaltest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/feed"
	"github.com/gstore/gstore/gpu/train/ondevice"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// A hop belongs to its feature: another number of columns is told before anything is read.
func TestHopOfAnotherWidth(t *testing.T) {
	m := store.Manifest{Schema: store.Schema{Task: store.TaskNode, Classes: 2}, Columns: []store.ColumnInfo{
		{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: 4}, {Name: "x.hop1", Role: store.RoleFeature, Elem: blocks.Float32, Dim: 4}}}
	cfg := func() *config.Config { return &config.Config{Features: []string{"x", "x.hop1"}, PrecomputedHop: true} }
	if s, err := config.ShapeOf(&m, cfg()); err != nil || s.In != 4 {
		t.Errorf("of the same width: %+v, %v", s, err)
	}
	m.Columns[1].Dim = 5
	if _, err := config.ShapeOf(&m, cfg()); err == nil || !strings.Contains(err.Error(), "5 columns") {
		t.Errorf("x has 4 columns, its hop 5: %v", err)
	}
}

// The confusion of a split without nodes is not told, and a run in memory says that all partitions were there.
func TestNoConfusionWithoutNodes(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 200, Partitions: 3})
	for v, s := range g.Split {
		if s == store.SplitTest {
			g.Split[v] = store.SplitTrain
		}
	}
	told := map[string]bool{}
	cp, err := trainNode(t.Context(), t, storetest.Create(t, g), config.Config{Hidden: 8, BatchSize: 50, Epochs: 1, Threads: 1},
		Hooks{Confusion: func(split string, _ *eval.Confusion) { told[split] = true }})
	if err != nil {
		t.Fatal(err)
	}
	if !told["valid"] || told["test"] {
		t.Errorf("confusion matrices of %v, expected valid's alone", told)
	}
	if cp.Config.Plan != "memory" || cp.Config.Buffer != 3 {
		t.Errorf("plan %s of %d partitions, expected memory of 3", cp.Config.Plan, cp.Config.Buffer)
	}
}

// A policy that cannot keep rows ends the run.
func TestRowsPolicyRefused(t *testing.T) {
	g := evaltest.Random(t, 100, 2, true)
	cfg := config.Config{Hidden: 8, BatchSize: 50, Epochs: 1, Threads: 1}
	if err := cfg.Normalize(); err != nil {
		t.Fatal(err)
	}
	dev := host.New(host.Options{Threads: 1})
	defer func() { _ = dev.Close() }()
	tr, err := newTrainer(t.Context(), dev, &cfg, shapeOf(g), &ondevice.Plan{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tr.close() }()
	rows, err := rowcache.New(dev, rowcache.Options{Cache: cache.Options{Policy: "oldest", Places: 4}})
	if err != nil {
		t.Fatal(err)
	}
	tr.rows = &ondevice.Rows{Kept: rows}
	tr.choose()
	s := &session{cfg: &cfg, plan: feed.Plans{Make: g.Plan}, it: g, t: tr, from: &nodeProgress{Best: -1}}
	if err := s.train(t.Context(), nil, progress.Interval{}); err == nil || !strings.Contains(err.Error(), "oldest") {
		t.Errorf("a policy that is none: %v", err)
	}
}
