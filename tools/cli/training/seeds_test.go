package training_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestSeeds: several seeds are as many runs, each the one of its seed alone, with the mean and the deviation of what they come to.
func TestSeeds(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Edges: 1500}))
	args := func(more ...string) []string {
		return append([]string{"train", dir, "--epochs", "2", "--hidden", "8", "--baselines=false"}, more...)
	}
	events := clitest.Events(t, args("--seeds", "3", "--seed", "5")...)
	var tests []float64
	for _, e := range events {
		if e["event"] == "summary" {
			tests = append(tests, e["test_accuracy"].(float64))
			if seed := e["seed"].(float64); seed != float64(4+len(tests)) {
				t.Errorf("run %d has seed %v", len(tests), seed)
			}
		}
	}
	last := events[len(events)-1]
	if len(tests) != 3 || last["event"] != "seeds" {
		t.Fatalf("%d runs, the last event is %v", len(tests), last)
	}
	mean := (tests[0] + tests[1] + tests[2]) / 3
	deviation := math.Sqrt(((tests[0]-mean)*(tests[0]-mean) + (tests[1]-mean)*(tests[1]-mean) + (tests[2]-mean)*(tests[2]-mean)) / 2)
	if math.Abs(last["test_accuracy"].(float64)-mean) > 1e-12 || math.Abs(last["test_accuracy_deviation"].(float64)-deviation) > 1e-12 {
		t.Errorf("%v, expected a mean of %v and a deviation of %v", last, mean, deviation)
	}
	alone := clitest.Events(t, args("--seed", "6")...)
	if got := alone[len(alone)-1]["test_accuracy"]; got != tests[1] {
		t.Errorf("seed 6 alone has %v, among three %v", got, tests[1])
	}
	h, err := store.ReadHistory(t.Context(), dir, store.Options{})
	if err != nil || len(h.Runs) != 4 {
		t.Errorf("%d runs are recorded, expected 4 (%v)", len(h.Runs), err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--seeds", "0"}, "expected 1 or more"}, {[]string{"--seeds", "2", "--save", "m.gsm"}, "with --save, which is of one run"},
		{[]string{"--seeds", "2", "--resume"}, "with --resume"},
	} {
		if code, _, errs := clitest.Run(t, args(c.args...)...); code != cli.ExitUsage || !strings.Contains(errs, c.says) {
			t.Errorf("%q: exit %d: %s", c.args, code, errs)
		}
	}
	if _, out, _ := clitest.Run(t, args("--seeds", "2")...); !strings.Contains(out, "± sd") {
		t.Errorf("for people: %s", out)
	}
}
