package training_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// sweepLines are the results that a sweep wrote.
func sweepLines(t *testing.T, path string) (lines []map[string]any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		lines = append(lines, m)
	}
	return lines
}

// TestSweep: every combination, or drawn ones, is trained once as gstore train does, the best of them on validation is named, and a sweep
// that was broken off, or has more to try, goes on.
func TestSweep(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.MustRun(t, "generate", "sbm", "g", "--nodes", "600", "--edges", "4k", "--classes", "4", "--features", "8", "--seed", "1")
	clitest.MustRun(t, "ingest", "g", "s", "--undirected", "--partitions", "3")
	clitest.Put(t, ".", map[string][]byte{"grid.yaml": []byte("flags:\n  lr: [0.01, 0.001]\n  hidden: [8, 16]\n  fanouts: [[5, 5]]\n  epochs: 4\n"),
		"drawn.yaml": []byte("trials: 5\nseed: 3\nflags:\n  lr: {min: 1e-3, max: 1e-1, log: true}\n  hidden: {min: 4, max: 12}\n  epochs: 2\n"),
		"stop.yaml":  []byte("flags:\n  lr: [0.02, 0.021, 0.022, 1e-7]\n  hidden: 8\n  epochs: 12\n")})
	_, told, _ := clitest.Run(t, "sweep", "s", "grid.yaml")
	lines := sweepLines(t, "grid.results.jsonl")
	if len(lines) != 4 || lines[3]["trial"] != "--lr=0.001 --hidden=16 --fanouts=5,5 --epochs=4" {
		t.Fatalf("results %v", lines)
	}
	// A trial is the run that its flags say, to the bit, and the best of all is named.
	best := slices.MaxFunc(lines, func(a, b map[string]any) int {
		return int(1e9 * (a["valid"].(float64) - b["valid"].(float64)))
	})
	args := append([]string{"train", "s", "--save", "again.gsm"}, strings.Fields(best["trial"].(string))...)
	events := clitest.Events(t, args...)
	if sum := events[len(events)-1]; sum["valid_accuracy"] != best["valid"] || sum["test_accuracy"] != best["test"] {
		t.Errorf("the best trial had valid %v, test %v, and now %v, %v", best["valid"], best["test"], sum["valid_accuracy"], sum["test_accuracy"])
	}
	if !strings.Contains(told, "the same again: gstore train s "+best["trial"].(string)) {
		t.Errorf("%v is best, and told is %s", best, told)
	}
	// Broken off behind the second and in the third's line, it goes on there.
	b, err := os.ReadFile("grid.results.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	cut := strings.Join(strings.SplitAfter(string(b), "\n")[:2], "") + string(b[:9])
	clitest.Put(t, ".", map[string][]byte{"grid.results.jsonl": []byte(cut)})
	events = clitest.Events(t, "sweep", "s", "grid.yaml")
	again := sweepLines(t, "grid.results.jsonl")
	for k := range lines {
		if len(again) != 4 || again[k]["trial"] != lines[k]["trial"] || again[k]["valid"] != lines[k]["valid"] {
			t.Fatalf("gone on: %v, expected %v", again, lines)
		}
	}
	if sum := events[4]; sum["best"] != best["trial"] || sum["trials"] != 4. || events[1]["before"] != true || events[2]["before"] != false {
		t.Errorf("%v", events)
	}
	clitest.MustRun(t, "sweep", "s", "drawn.yaml")
	drawn := sweepLines(t, "drawn.results.jsonl")
	clitest.MustRun(t, "sweep", "s", "drawn.yaml", "--results", "twice.jsonl")
	for k, line := range sweepLines(t, "twice.jsonl") {
		if len(drawn) != 5 || line["trial"] != drawn[k]["trial"] || line["valid"] != drawn[k]["valid"] {
			t.Errorf("trial %d: %v, expected %v", k, line, drawn[k])
		}
	}
	clitest.MustRun(t, "sweep", "s", "stop.yaml")
	for k, line := range sweepLines(t, "stop.results.jsonl") {
		if given := line["stopped"] == true; given != (k == 3) || given != (line["epochs"].(float64) < 12) {
			t.Errorf("trial %d: %v, expected the last one to be given up", k, line)
		}
	}
}

// TestSweepMistakes: what a file says wrong is told before anything is trained; a trial that fails is a result.
func TestSweepMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.MustRun(t, "generate", "kg", "g", "--nodes", "500", "--edges", "2k", "--relations", "8", "--seed", "1")
	clitest.MustRun(t, "ingest", "g", "s")
	for text, says := range map[string]string{
		"flags: {lrr: [1]}":                                   "lrr is no flag of gstore train",
		"flags: {lr: [a]}":                                    "expected a number",
		"flags: {lr: {min: 2, max: 1}}":                       "with min below max",
		"flags: {lr: {min: 0, max: 1, log: true}}\ntrials: 2": "above 0 for log",
		"flags: {lr: {min: 1e-3, max: 1}}":                    "trials: 20",
		"flags: {lr: []}":                                     "an empty list",
		"flags: {}":                                           "expected flags",
		"flag: {lr: 1}":                                       "expected the keys",
		"flags: {seeds: [3]}":                                 "--seeds is for one run",
		"flags: {lr: 1}\nstop: soon":                          "expected median or none",
		"flags: {lr: 1}\ntrials: -1":                          "expected 1 or more",
		"flags: {lr: [1,2,3,4,5,6,7,8,9,10], dim: [1,2,3,4,5,6,7,8,9,10], epochs: [1,2,3,4,5,6,7,8,9,10], seed: [1,2,3,4,5,6,7,8,9,10], negatives: [1,2]}": "more than 10000 combinations",
	} {
		clitest.Put(t, ".", map[string][]byte{"f.yaml": []byte(text)})
		if code, _, errs := clitest.Run(t, "sweep", "s", "f.yaml"); code != cli.ExitUsage || !strings.Contains(errs, says) {
			t.Errorf("%s: exit %d: %s", text, code, errs)
		}
		if _, err := os.Stat("f.results.jsonl"); err == nil {
			t.Fatalf("%s: there are results", text)
		}
	}
	// Each trial's table takes the place of the one before.
	clitest.Put(t, ".", map[string][]byte{"f.yaml": []byte("flags: {model: [distmult, complex], dim: [7, 8], epochs: 2}")})
	code, told, errs := clitest.Run(t, "sweep", "s", "f.yaml")
	lines := sweepLines(t, "f.results.jsonl")
	if code != cli.ExitOK || len(lines) != 4 || lines[2]["failed"] == nil || lines[0]["metric"] != "mrr" || !strings.Contains(told, "3 of 4: --model=complex --dim=7 --epochs=2  failed: ") {
		t.Errorf("exit %d: %v: %s%s", code, lines, told, errs)
	}
}
