package link_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// patientRun is a run whose validation stops improving at the full learning rate.
func patientRun(plan string) link.Config {
	c := smallRun(plan, "none")
	c.Epochs, c.Patience, c.EvalEvery, c.Dim, c.LR = 0, 2, 1, 16, .1
	if plan != "memory" {
		c.LR = .3
	}
	return c
}

// A run without a number of epochs goes back to the best one at the full learning rate, and ends as a run of the epochs that it says then
// does, to the bit, in memory and out of core, also where it is broken off after any mini-batch, and begun again where it went back.
func TestPatience(t *testing.T) {
	for _, x := range []struct {
		plan  string
		never bool
		epoch int // the best from the 7th on, the first behind 200 mini-batches: the 5th and the 3rd were better than those before
	}{{"memory", false, 8}, {"memory", true, 8}, {"comet", false, 10}} {
		if race.Enabled && x.plan == "memory" { // out of core is what runs beside other goroutines
			continue
		}
		dir, c := tripleStore(t, 8), patientRun(x.plan)
		if x.never {
			c.LRDecay = -1
		}
		c.Table = "patient"
		var best, epochs, last int
		h := link.Hooks{Epoch: func(e link.Epoch) { last = e.Epoch }, Back: func(b, n int) {
			if best, epochs = b, n; last != best+c.Patience {
				t.Errorf("%+v: back after epoch %d, expected %d after %d", x, last, c.Patience, best)
			}
		}}
		r, err := trainLink(t.Context(), dir, store.Options{}, c, h)
		if err != nil {
			t.Fatal(err)
		}
		if best != x.epoch || epochs < best || (epochs == best) != x.never || r.Config.Epochs != epochs || len(r.Summary.EpochSeconds) != epochs {
			t.Errorf("%+v: back to epoch %d and on to %d of %d, %d counted", x, best, epochs, r.Config.Epochs, len(r.Summary.EpochSeconds))
		}
		if s := &r.Summary; s.DiscardedEpochs != c.Patience || s.DiscardedSeconds <= 0 || s.TestMRR == 0 || s.ValidMRR == 0 {
			t.Errorf("%+v: summary %+v", x, s)
		}
		given := c
		given.Table, given.Epochs, given.Patience = "given", epochs, 0
		if _, err := trainLink(t.Context(), dir, store.Options{}, given, link.Hooks{}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(finalModel(t, dir, "patient", store.Options{}), finalModel(t, dir, "given", store.Options{})) {
			t.Errorf("%+v: not what %d epochs make", x, epochs)
		}
		want := finalState(t, dir, "patient", store.Options{})
		rng := rand.New(rand.NewPCG(8, 1))
		c.Table, c.CheckpointEvery, c.Threads = "broken", "7steps", 2
		broken := 0
		for {
			ctx, cancel := context.WithCancel(t.Context())
			left := 20 + rng.IntN(60)
			if broken > 0 {
				c.Resume, c.Patience = true, 0
			}
			_, err := trainLink(ctx, dir, store.Options{}, c, link.Hooks{
				Batch: func(int, int64) {
					if left--; left <= 0 {
						cancel()
					}
				},
				Back: func(int, int) {
					if broken%2 == 0 {
						cancel()
					}
				},
			})
			cancel()
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if broken++; broken > 100 {
				t.Fatal("no end")
			}
		}
		if broken < 3 || !bytes.Equal(finalState(t, dir, "broken", store.Options{}), want) {
			t.Errorf("%+v: broken off %d times the run ends with other bits", x, broken)
		}
	}
}

// A run that ends before its validation stops improving is that of its default number of epochs; what is kept then is as many checkpoints
// as were asked for, and one more at most.
func TestPatienceIsNotTried(t *testing.T) {
	race.SkipArithmetic(t)
	dir, c := tripleStore(t, 8), patientRun("memory")
	c.Patience, c.LRDecay, c.KeepCheckpoints = 0, .9, 2 // 50 epochs, 5 of them at the full rate
	back := 0
	r, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{Back: func(int, int) { back++ }})
	if err != nil {
		t.Fatal(err)
	}
	if r.Config.Patience != 5 || r.Config.Epochs != 50 || back > 0 || len(r.Summary.EpochSeconds) != 50 || r.Summary.DiscardedEpochs > 0 {
		t.Errorf("%d times back; patience %d, epochs %d of %d", back, r.Config.Patience, len(r.Summary.EpochSeconds), r.Config.Epochs)
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	tab, err := table.Open(t.Context(), st, table.Options{Name: r.Config.Table})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	if n := len(tab.Checkpoints()); n != 3 {
		t.Errorf("%d checkpoints kept, expected 3", n)
	}
	for _, bad := range []struct {
		change func(c *link.Config)
		want   string
	}{
		{func(c *link.Config) { c.Epochs, c.Given = 4, []string{"epochs", "patience"} }, "does not go with epochs"},
		{func(c *link.Config) { c.EvalEvery, c.Given = -1, []string{"eval_every", "patience"} }, "validation"},
		{func(c *link.Config) { c.LRDecay, c.Given = 1, []string{"lr_decay", "patience"} }, "needs lr_decay below 1"},
	} {
		c := patientRun("memory")
		bad.change(&c)
		if err := c.Normalize(); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%v: %v, expected a refusal that names %s", c.Given, err, bad.want)
		}
	}
}
