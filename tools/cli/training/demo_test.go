package training_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestDemoTrainEval: the demo learns; training its store again with the same seed gives
// the same losses to the bit for any threads, engine and, in memory, budget;
// what a plan reads is what it predicted; eval repeats the test accuracy.
func TestDemoTrainEval(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cora.gstore")
	demo := clitest.Events(t, "demo", "--epochs", "6", "--dir", dir)
	summary := demo[len(demo)-1]
	if acc := summary["test_accuracy"].(float64); acc < .82 {
		t.Errorf("demo's test accuracy is %.3f, expected above .82", acc)
	}
	for _, key := range []string{"test_accuracy", "valid_accuracy", "best_epoch", "epoch_seconds", "cpu_seconds", "peak_rss_bytes", "bytes_read",
		"bytes_written", "batches", "sampled_edges", "seed", "plan", "device", "io_engine"} {
		if _, ok := summary[key]; !ok {
			t.Errorf("the summary lacks %q", key)
		}
	}
	eval := clitest.Events(t, "eval", dir, "--splits", "test")
	if got := eval[len(eval)-1]["test_accuracy"]; got != summary["test_accuracy"] {
		t.Errorf("eval says %v, training said %v", got, summary["test_accuracy"])
	}
	explained := clitest.Events(t, "train", dir, "--epochs", "1", "--model", "gcn", "--explain", "--x", "product-order=multiply", "--save", filepath.Join(t.TempDir(), "m"))
	told := false
	for _, e := range explained {
		layers, _ := e["layers"].([]any)
		if e["event"] == "choices" && len(layers) == 2 && layers[1].(map[string]any)["first"] == "multiply first" {
			told = true
		}
	}
	if !told {
		t.Errorf("--explain told nothing of the layers: %v", explained)
	}
	var memory []float64 // losses of plan memory: those of plan rows too
	for _, plan := range [][]string{{"--plan", "memory"}, {"--plan", "rows"}, {"--plan", "hanoi", "--buffer", "2"}} {
		base := append([]string{"train", dir, "--epochs", "2", "--seed", "5", "--batch-size", "300", "--hidden", "32", "--save", filepath.Join(t.TempDir(), "m")}, plan...)
		var want []float64
		if plan[1] == "rows" {
			want = memory
		}
		for _, variant := range [][]string{{"--threads", "1"}, {"--threads", "4"}, {"--io-engine", "pread"}, {"--io-engine", "mmap"}, {"--mem", "300MiB"}} {
			events := clitest.Events(t, append(slices.Clone(base), variant...)...)
			got := clitest.Losses(events)
			if want == nil {
				want = got
			}
			if plan[1] == "memory" {
				memory = got
			}
			if len(got) != 2 || !slices.Equal(got, want) {
				t.Errorf("%v %v: losses %v, expected %v", plan, variant, got, want)
			}
			for _, e := range events {
				if e["event"] == "epoch" && e["bytes_read"] != e["planned_bytes"] {
					t.Errorf("%v %v: epoch %v read %v bytes, the plan said %v", plan, variant, e["epoch"], e["bytes_read"], e["planned_bytes"])
				}
			}
		}
	}
}

// TestPrecomputedHop: with full fanouts and without dropout the precomputed
// hop changes nothing but rounding; with it a run out of core reads what it
// planned and learns; precompute twice is one column.
func TestPrecomputedHop(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cora.gstore")
	clitest.Events(t, "demo", "--epochs", "0", "--dir", dir)
	for range 2 {
		if e := clitest.Events(t, "precompute", dir, "--mem", "200MiB"); fmt.Sprint(e[len(e)-1]["columns"]) != "[x.hop1]" {
			t.Fatalf("precompute made %v", e)
		}
	}
	base := []string{"train", dir, "--epochs", "3", "--plan", "memory", "--layers", "2", "--fanouts", "-1,-1", "--dropout", "0", "--input-dropout", "0", "--hidden", "32"}
	sampled, read := clitest.Losses(clitest.Events(t, base...)), clitest.Losses(clitest.Events(t, append(base, "--precomputed-hop")...))
	for i := range sampled {
		if math.Abs(sampled[i]-read[i]) > 1e-3*sampled[i] {
			t.Errorf("epoch %d: loss %v with the hop precomputed, %v with all neighbours sampled", i+1, read[i], sampled[i])
		}
	}
	out := clitest.Events(t, "train", dir, "--epochs", "6", "--plan", "hanoi", "--buffer", "3", "--precomputed-hop", "--weight-decay", "5e-4", "--batch-size", "200")
	if acc := out[len(out)-1]["test_accuracy"].(float64); acc < .8 {
		t.Errorf("test accuracy out of core with the hop precomputed is %.3f, expected above .8", acc)
	}
}

// TestReuseReplay: --x reuse=auto records the passes it took, at most 5 a step, and replay:FILE repeats the
// run to the bit; a record of another plan is refused.
func TestReuseReplay(t *testing.T) {
	dir := t.TempDir()
	cora, record := filepath.Join(dir, "cora.gstore"), filepath.Join(dir, "run.jsonl")
	clitest.Events(t, "demo", "--epochs", "0", "--dir", cora)
	base := []string{"train", cora, "--epochs", "3", "--plan", "hanoi", "--buffer", "2", "--hidden", "16", "--threads", "1", "--x"}
	first := clitest.Events(t, append(base, "reuse=auto")...)
	var lines []byte
	for _, e := range first {
		if e["event"] == "epoch" {
			passes := e["passes"].([]any)
			if len(passes) != int(e["steps"].(float64)) {
				t.Errorf("epoch %v: passes %v of %v steps", e["epoch"], passes, e["steps"])
			}
			for _, n := range passes {
				if n := n.(float64); n < 1 || n > 5 {
					t.Errorf("epoch %v: %v passes", e["epoch"], n)
				}
			}
		}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, b...), '\n')
	}
	if err := os.WriteFile(record, lines, 0o600); err != nil {
		t.Fatal(err)
	}
	if want, got := clitest.Losses(first), clitest.Losses(clitest.Events(t, append(base, "reuse=replay:"+record)...)); !slices.Equal(want, got) {
		t.Errorf("losses %v, replayed %v", want, got)
	}
	for _, args := range [][]string{append(base, "reuse=replay:"+record, "--buffer", "1"), append(base, "reuse=replay:"+filepath.Join(dir, "none")), append(base, "reuse=5")} {
		var out, errs bytes.Buffer
		if code := cli.Run(t.Context(), args, strings.NewReader(""), &out, &errs); code == cli.ExitOK {
			t.Errorf("%v: not refused", args)
		}
	}
}

// TestDemoLink: the knowledge graph's demo learns out of core, and its store evaluates to the same ranks.
func TestDemoLink(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kg.gstore")
	ev := clitest.Events(t, "demo", "--task", "link", "--epochs", "5", "--dir", dir)
	sum := ev[len(ev)-1]
	mrr := sum["test_mrr"].(float64)
	if l := clitest.Losses(ev); len(l) != 5 || mrr < .2 { // at random .004
		t.Errorf("losses %v, test MRR %.3f, expected five losses and an MRR above .2", l, mrr)
	}
	if sum["plan"] != "comet" || sum["bytes_written"].(float64) == 0 {
		t.Errorf("plan %v wrote %v bytes, expected comet to write embeddings back", sum["plan"], sum["bytes_written"])
	}
	eval := clitest.Events(t, "eval", dir, "--lists", "test", "--mem", "100MiB")
	if got := eval[len(eval)-1]["test_mrr"].(float64); math.Abs(got-mrr) > 1e-12 {
		t.Errorf("eval says MRR %v, training said %v", got, mrr)
	}
	eval = clitest.Events(t, "eval", dir, "--lists", "test", "--by-relation")
	detail := eval[len(eval)-1]["test_detail"].(map[string]any)
	side := func(of any, name string) float64 { return of.(map[string]any)[name].(map[string]any)["mrr"].(float64) }
	if got := (side(detail, "head") + side(detail, "tail")) / 2; math.Abs(got-mrr) > 1e-12 {
		t.Errorf("heads and tails have a mean MRR of %v, all %v", got, mrr)
	}
	_, text, _ := clitest.Run(t, "eval", dir, "--lists", "test", "--by-relation")
	relations := detail["relations"].([]any)
	for _, r := range relations {
		of := r.(map[string]any)
		line := regexp.MustCompile(fmt.Sprintf(`(?m)^%s +\d+ +%.4f .* %.4f .* %s$`, of["kind"], side(r, "head"), side(r, "tail"), of["relation"]))
		if !line.MatchString(text) {
			t.Errorf("no line for relation %v, %v, in %s", of["relation"], r, text)
		}
	}
	if len(relations) < 2 {
		t.Errorf("%d relations, expected some", len(relations))
	}
}

// TestDemoRelational: the shop's demo learns more than a customer's last answer tells, by hops enough to see what came back, and its model
// answers as of a day.
func TestDemoRelational(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shop.gstore")
	ev := clitest.Events(t, "demo", "--task", "relational", "--epochs", "2", "--dir", dir)
	sum := ev[len(ev)-1]
	auc := func(name string) float64 { return sum[name].(map[string]any)["roc_auc"].(float64) }
	if auc("test") < .72 || auc("test") < auc("test_last")+.1 {
		t.Errorf("ROC AUC %.4f, of the last answer %.4f", auc("test"), auc("test_last"))
	}
	for _, e := range ev {
		if config, ok := e["config"].(map[string]any); ok && fmt.Sprint(config["fanouts"]) != "[24 8 4]" {
			t.Errorf("fanouts %v, expected three", config["fanouts"])
		}
	}
	if _, out, _ := clitest.Run(t, "predict", dir, "1", "2", "--at", "2025-12-31"); strings.Count(out, "2025-12-31 00:00:00") != 2 {
		t.Errorf("predictions\n%s", out)
	}
	code, _, stderr := clitest.Run(t, "demo", "--task", "relational", "--dir", filepath.Join(filepath.Dir(dir), "shop"))
	if code == cli.ExitOK || !strings.Contains(stderr, "shop.sqlite exists") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
