package train

import (
	"cmp"
	"fmt"
	"math"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/eval/evaltest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/feed"
	"github.com/gstore/gstore/gpu/train/history"
	"github.com/gstore/gstore/gpu/train/ondevice"
	"github.com/gstore/gstore/store/storetest"
)

// hostDevice is a device for the duration of a test.
func hostDevice(t testing.TB) gpu.Device {
	dev := host.New(host.Options{Threads: 2})
	t.Cleanup(func() { _ = dev.Close() })
	return dev
}

// shapeOf is what a graph in memory decides of a model.
func shapeOf(g *evaltest.Graph) config.Shape {
	return config.Shape{In: g.Dim, Classes: g.M.Schema.Classes, Relations: evaltest.Relations, Inverse: !g.M.Schema.Undirected}
}

// runMemory trains on a graph in memory.
func runMemory(t testing.TB, g *evaltest.Graph, cfg config.Config, evalBytes int64) (Summary, []Epoch) {
	t.Helper()
	if err := cfg.Normalize(); err != nil {
		t.Fatal(err)
	}
	cfg.EvalEvery, cfg.Patience = max(1, cfg.EvalEvery), cmp.Or(cfg.Patience, 20) // planning would say
	dev := host.New(host.Options{Threads: cfg.Threads})
	defer func() { _ = dev.Close() }()
	tr, err := newTrainer(t.Context(), dev, &cfg, shapeOf(g), &ondevice.Plan{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tr.close() }()
	ev, err := eval.New(g, dev, eval.Options{Features: []string{"x"}, MemoryBytes: evalBytes, Model: cfg.ModelConfig(shapeOf(g))}, max(cfg.Hidden, g.M.Schema.Classes))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ev.Close() }()
	if cfg.History {
		named := cfg
		named.Features = []string{"x"}
		of, err := history.OptionsOf(&named, &g.M, shapeOf(g))
		if err != nil {
			t.Fatal(err)
		}
		if tr.history, err = history.NewSet(t.Context(), g, dev, ev, of); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tr.history.Close() }()
		tr.choose()
	}
	var epochs []Epoch
	s := &session{cfg: &cfg, plan: feed.Plans{Make: g.Plan}, it: g, eval: ev, t: tr, from: &nodeProgress{Best: -1}, passes: feed.Passes{Replay: cfg.ReusePasses, Ready: g.NextReady}, hooks: Hooks{Epoch: func(e Epoch) {
		epochs = append(epochs, e)
		if testing.Verbose() {
			t.Logf("%+v", e)
		}
	}}}
	if err := s.train(t.Context(), nil, progress.Interval{}); err != nil {
		t.Fatal(err)
	}
	return s.sum, epochs
}

// TestNodeLearnsAndRepeats: training beats chance by far, and the same seed gives
// the same losses for any number of threads, another seed others.
func TestNodeLearnsAndRepeats(t *testing.T) {
	g := evaltest.Random(t, 2000, 5, true)
	run := func(threads int, seed uint64) ([]Epoch, Summary) {
		s, epochs := runMemory(t, g, config.Config{Hidden: 32, Epochs: 8, BatchSize: 100, LR: .01, Seed: seed, Threads: threads}, 0)
		return epochs, s
	}
	want, sum := run(1, 7)
	if sum.TestAccuracy < .7 || sum.BestEpoch == 0 {
		t.Errorf("test accuracy %.3f in epoch %d, expected above .7 on labels that features and neighbours tell", sum.TestAccuracy, sum.BestEpoch)
	}
	for _, threads := range []int{2, 4} {
		got, _ := run(threads, 7)
		for e := range want {
			if got[e].Loss != want[e].Loss || got[e].ValidAccuracy != want[e].ValidAccuracy || got[e].SampledEdges != want[e].SampledEdges {
				t.Errorf("epoch %d with %d threads: %+v, with one %+v", e+1, threads, got[e], want[e])
			}
		}
	}
	if other, _ := run(1, 8); other[0].Loss == want[0].Loss {
		t.Error("another seed gives the same loss")
	}
}

// TestModelsLearn: every option trains end to end, in mini-batches and with exact validation, and
// the same for any number of threads; relations of a directed graph are read in both directions.
func TestModelsLearn(t *testing.T) {
	n := 0
	for name, c := range map[string]config.Config{
		"rgcn":                       {Model: "rgcn"},
		"rsage":                      {Model: "rsage"},
		"rgat, layer norm":           {Model: "rgat", Norm: "layer"},
		"hgt":                        {Model: "hgt", Epochs: 12},
		"rgcn, layer norm, residual": {Model: "rgcn", Bases: 2, Norm: "layer", Residual: true},
		"sage max, batch norm, cat":  {Aggregator: "max", Norm: "batch", Jumping: "cat"},
		"gat, residual, jumping max": {Model: "gat", Norm: "layer", Residual: true, Jumping: "max"},
	} {
		for _, undirected := range []bool{true, false} {
			if n++; n%race.Every(3) != 0 { // threads share what they do in all models
				continue
			}
			t.Run(fmt.Sprintf("%s/undirected=%v", name, undirected), func(t *testing.T) {
				g := evaltest.Random(t, 1200, 5, undirected)
				c.Hidden, c.Epochs, c.BatchSize, c.LR, c.Seed, c.Fanouts = 16, max(c.Epochs, 6), 60, .01, 7, []int{10, 5}
				var want []Epoch
				for _, threads := range []int{1, 3} {
					c.Threads = threads
					s, epochs := runMemory(t, g, c, 0)
					if s.TestAccuracy < .55 {
						t.Errorf("test accuracy %.3f, expected above .55 on labels that features and neighbours tell", s.TestAccuracy)
					}
					for e := range want {
						if epochs[e].Loss != want[e].Loss || epochs[e].ValidAccuracy != want[e].ValidAccuracy {
							t.Errorf("epoch %d: %+v with %d threads, %+v with one", e+1, epochs[e], threads, want[e])
						}
					}
					want = epochs
				}
			})
		}
	}
}

// TestAccumulate: four mini-batches to a step train as one of four times the seeds, where all neighbours are drawn and nothing is
// dropped, the last step's rest among them; steps of one do not.
func TestAccumulate(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 700, Edges: 5000, Partitions: 6}))
	none := 0.
	run := func(plan string, size, accumulate int) (losses []float64, batches int64) {
		t.Helper()
		c := config.Config{Plan: plan, BatchSize: size, Accumulate: accumulate, Hidden: 8, Epochs: 4, Split: "split", Threads: 2, Dropout: &none, Fanouts: []int{-1, -1}, LR: .02}
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{Epoch: func(e Epoch) { losses = append(losses, e.Loss) }})
		if err != nil {
			t.Fatal(err)
		}
		return losses, cp.Summary.Batches
	}
	for _, plan := range []string{"memory", "rows"} {
		want, _ := run(plan, 68, 0)
		got, batches := run(plan, 17, 4)
		other, same := run(plan, 17, 0)
		if batches != same || batches/4%4 == 0 {
			t.Errorf("plan %s: %d mini-batches, %d without accumulation; expected the same, and a last step of fewer than four", plan, batches, same)
		}
		for e := range want {
			if math.Abs(got[e]-want[e]) > 1e-4*want[e] {
				t.Errorf("plan %s, epoch %d: loss %v of four mini-batches a step, %v of one as large", plan, e+1, got[e], want[e])
			}
		}
		if last := len(want) - 1; math.Abs(other[last]-want[last]) < 1e-3*want[last] {
			t.Errorf("plan %s: loss %v of small steps, %v of large ones: the test sees nothing", plan, other[last], want[last])
		}
	}
}
