package train

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store/storetest"
)

// TestRates: every epoch has the learning rate that the schedule's formula says, written here another way, and trains by it; one that
// falls to 0 needs to know when.
func TestRates(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Edges: 2000, Partitions: 4}))
	train := func(c config.Config) (rates, losses []float64, best []int) {
		t.Helper()
		c.Hidden, c.BatchSize, c.Split, c.Threads, c.LR = 8, 50, "split", 1, .02
		_, err := trainNode(t.Context(), t, dir, c, Hooks{Epoch: func(e Epoch) {
			rates, losses = append(rates, e.LR), append(losses, e.Loss)
			if e.Best {
				best = append(best, e.Epoch)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		return rates, losses, best
	}
	_, constant, _ := train(config.Config{Plan: "memory", Epochs: 4})
	for schedule, want := range map[string][]float64{
		config.ScheduleCosine: {.02, .01 + .01*math.Sqrt2/2, .01, .01 - .01*math.Sqrt2/2},
		config.ScheduleLinear: {.02, .015, .01, .005},
	} {
		for _, plan := range []string{"memory", "hanoi"} {
			c := config.Config{Plan: plan, Epochs: 4, LRSchedule: schedule}
			if plan == "hanoi" {
				c.Buffer = 2
			}
			rates, losses, _ := train(c)
			if !slices.EqualFunc(rates, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
				t.Errorf("%s, %s: rates %v, expected %v", schedule, plan, rates, want)
			}
			if plan == "memory" && (losses[0] != constant[0] || losses[2] == constant[2]) {
				t.Errorf("%s: losses %v, of a constant rate %v: expected the first epoch's alike and the third one's not", schedule, losses, constant)
			}
		}
	}
	rates, _, best := train(config.Config{Plan: "memory", Epochs: 40, LRSchedule: config.SchedulePlateau})
	rate, since := .02, 0
	for i, got := range rates {
		if got != rate {
			t.Fatalf("plateau: epoch %d has rate %v, expected %v; better ones were %v", i+1, got, rate, best)
		}
		if slices.Contains(best, i+1) {
			since = i + 1
		} else if i+1-since == config.PlateauEpochs {
			rate, since = rate/2, i+1
		}
	}
	if rate > .01 {
		t.Errorf("plateau: the rate is still %v after 40 epochs of labels at random", rate)
	}
	c := config.Config{LRSchedule: config.ScheduleCosine}
	if err := c.Normalize(); err == nil || !strings.Contains(err.Error(), "needs a number of epochs") {
		t.Errorf("cosine without a number of epochs: %v", err)
	}
}
