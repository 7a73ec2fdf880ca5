package link_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
)

// A run without a learning rate and epochs tries some, and ends as the run of the one that validates best, to the bit: of the first and of
// the last one tried, in memory and out of core, also where it is broken off after any mini-batch and where it begins again. A rate that
// diverges is none.
func TestRates(t *testing.T) {
	race.SkipArithmetic(t)
	for k, x := range []struct {
		plan     string
		rates    []float64
		best     float64
		patience int
		again    int // epochs of those tried that are trained again
	}{
		{"memory", []float64{.003, .03}, .03, 9, 7},
		{"memory", []float64{.1, .003}, .1, 4, 14},
		{"memory", []float64{.1, 1e30}, .1, 4, -1},
		{"comet", []float64{.003, .3}, .3, 2, 7},
	} {
		if k%race.Sample(3, 3) != 0 { // one in memory, one out of core
			continue
		}
		dir, c := tripleStore(t, 8), patientRun(x.plan)
		c.LR, c.Rates, c.Patience, c.Table = 0, x.rates, x.patience, "tried"
		var rates []link.TriedRate
		var rewound []int
		r, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{
			Rate:   func(_ link.Config, _ int, tried []link.TriedRate) { rates = tried },
			Rewind: func(_ link.Config, epochs int) { rewound = append(rewound, epochs) },
		})
		if err != nil {
			t.Fatal(err)
		}
		s := &r.Summary
		if r.Config.LR != x.best || r.Config.Rates != nil || len(rates) != 2 || !slices.Equal(rates, s.Rates) || rates[0].LR != x.rates[0] || rewound[0] != 0 {
			t.Errorf("%+v: %v by %+v, back to %v", x, r.Config.LR, rates, rewound)
		}
		c.LR, c.Rates, c.Table = x.best, nil, "given"
		given, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		if g := &given.Summary; g.Rates != nil || g.TestMRR != s.TestMRR || len(g.EpochSeconds) != len(s.EpochSeconds) ||
			x.again >= 0 && g.DiscardedEpochs+x.again != s.DiscardedEpochs || s.Checkpoints < len(s.EpochSeconds)+s.DiscardedEpochs {
			t.Errorf("%+v: MRR %v after %d epochs, %d discarded; with that rate given %v after %d, %d discarded", x,
				s.TestMRR, len(s.EpochSeconds), s.DiscardedEpochs, g.TestMRR, len(g.EpochSeconds), g.DiscardedEpochs)
		}
		want := finalModel(t, dir, "given", store.Options{})
		if !bytes.Equal(finalModel(t, dir, "tried", store.Options{}), want) {
			t.Errorf("%+v: not what the rate %v makes", x, x.best)
		}
		if x.plan == "memory" && x.again != 7 { // the other two are broken off
			continue
		}
		c.LR, c.Rates, c.Table, c.CheckpointEvery = 0, x.rates, "broken", "20steps"
		rng, broken := rand.New(rand.NewPCG(8, 1)), 0
		for {
			ctx, cancel := context.WithCancel(t.Context())
			left := 60 + rng.IntN(200)
			h := link.Hooks{Batch: func(int, int64) {
				if left--; left <= 0 {
					cancel()
				}
			}}
			if broken == 1 {
				h.Rewind = func(link.Config, int) { cancel() }
			}
			_, err := trainLink(ctx, dir, store.Options{}, c, h)
			cancel()
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			c.Resume, c.LR, c.Rates, c.Patience = true, 0, nil, 0
			if broken++; broken > 100 {
				t.Fatal("no end")
			}
		}
		if got := finalModel(t, dir, "broken", store.Options{}); broken < 3 || !bytes.Equal(got, want) {
			t.Errorf("%+v: broken off %d times the run ends with other bits", x, broken)
		}
	}
}
