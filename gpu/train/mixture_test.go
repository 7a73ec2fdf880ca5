package train

import (
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/storetest"
)

// TestMixture: out of core steps are mixed unless the run says otherwise, and their outlook is told before the first epoch; in
// memory nothing changes and nothing is told.
func TestMixture(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 600, Edges: 3000, Partitions: 8})
	v := 0
	for p, size := range g.Sizes { // each partition a community of one class
		for range size {
			g.Labels[v] = int32(p * g.Classes / len(g.Sizes))
			v++
		}
	}
	dir := storetest.Create(t, g)
	run := func(c config.Config) (cp *Checkpoint, losses []float64, told []planning.Outlook) {
		t.Helper()
		c.Hidden, c.BatchSize, c.Epochs, c.Split, c.Threads = 8, 50, 2, "split", 1
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{Epoch: func(e Epoch) { losses = append(losses, e.Loss) }, Outlook: func(o planning.Outlook) {
			if told = append(told, o); len(losses) > 0 {
				t.Error("told after an epoch")
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		return cp, losses, told
	}
	cp, mixed, told := run(config.Config{Plan: macro.Hanoi, Buffer: 4})
	if cp.Config.Mixture != config.MixtureLabels || len(told) != 1 {
		t.Fatalf("mixture %q by default, told %v", cp.Config.Mixture, told)
	}
	o := told[0]
	if o.Mixture != config.MixtureLabels || o.Divergence >= o.Random || o.Kept < .3 || o.Kept > .7 || o.LossPoints <= 0 {
		t.Errorf("half of random edges are kept, labels mixed: %+v", o)
	}
	for _, c := range []config.Config{{Model: "rsage"}, {Model: "gat"}, {Model: "gcn", PrecomputedHop: true}, {Model: "sage", Aggregator: "max"}, {Model: "sage", PrecomputedHop: true}} {
		if strings.Contains(planning.LossAdvice(&c), "gstore precompute") || !strings.Contains(o.Advice, "gstore precompute") {
			t.Errorf("advice %q for %+v", planning.LossAdvice(&c), c)
		}
	}
	if gcn := planning.LossAdvice((&config.Config{Model: "gcn"})); !strings.Contains(gcn, "precompute --model gcn") {
		t.Errorf("advice %q for gcn", gcn)
	}
	if weighed := planning.LossAdvice((&config.Config{Model: "sage", EdgeWeights: true})); !strings.Contains(weighed, "precompute --edge-weights") {
		t.Errorf("advice %q with edge weights", weighed)
	}
	for _, c := range []config.Config{{Model: "gat", EdgeFeatures: []string{"w"}}, {Model: "sage", Sampler: mini.Labor}} {
		if strings.Contains(planning.LossAdvice(&c), "--plan rows") || !strings.Contains(o.Advice, "--plan rows") {
			t.Errorf("advice %q for %+v, which plan rows refuses", planning.LossAdvice(&c), c)
		}
	}
	if s := o.String(); !strings.Contains(s, "chosen so that its classes are mixed") || strings.Contains(s, "%!") {
		t.Errorf("%q", s)
	}
	cp, random, told := run(config.Config{Plan: macro.Hanoi, Buffer: 4, Mixture: config.MixtureRandom})
	if cp.Config.Mixture != config.MixtureRandom || slices.Equal(mixed, random) {
		t.Errorf("mixture %q as asked, losses %v and %v mixed", cp.Config.Mixture, random, mixed)
	}
	if len(told) != 1 || told[0].Divergence != o.Random || !strings.Contains(told[0].String(), "at random") {
		t.Errorf("at random: %+v, mixed: %+v", told, o)
	}
	cp, _, told = run(config.Config{Plan: macro.Memory})
	if cp.Config.Mixture != config.MixtureRandom || len(told) != 0 {
		t.Errorf("in memory: mixture %q, told %v", cp.Config.Mixture, told)
	}
	if err := (&config.Config{Mixture: "communities"}).Normalize(); err == nil {
		t.Error("mixture \"communities\" is accepted")
	}
}
