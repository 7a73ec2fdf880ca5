package training_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestTrainTemporal: a table of edges with times is trained on as it stands; each node goes back to where it was last, which
// the recency rule knows, and its flags are checked.
func TestTrainTemporal(t *testing.T) {
	var b strings.Builder
	for i := range 1500 {
		user := i * 7 % 20
		fmt.Fprintf(&b, "u%d\ti%d\t%d\n", user, (user*13+i/400*3)%60, 1000+i/3)
	}
	dir := clitest.Put(t, t.TempDir(), map[string][]byte{"edges.tsv": []byte(b.String())})
	store := filepath.Join(dir, "s.gstore")
	run := func(args ...string) (int, string, string) { return clitest.Run(t, args...) }
	if code, _, stderr := run("ingest", filepath.Join(dir, "edges.tsv"), store, "--columns", "src,dst,timestamp", "--quiet"); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	type summary struct {
		Event        string             `json:"event"`
		Test         map[string]float64 `json:"test"`
		TestRule     map[string]float64 `json:"test_rule"`
		CheckedEdges int                `json:"checked_edges"`
		ModelFile    string             `json:"model_file"`
		EpochSeconds []float64          `json:"epoch_seconds"`
	}
	last := func(args ...string) (s summary) {
		code, out, stderr := run(append(args, "--json")...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); code != cli.ExitOK || err != nil {
			t.Fatalf("%q: exit code %d, %v: %s", args, code, err, stderr)
		}
		return s
	}
	for i, sampler := range []string{"latest", "temporal"} {
		s := last("train", store, "--task", "temporal", "--sampler", sampler, "--dim", "8", "--batch-size", "100", "--negatives", "20", "--epochs", "2", "--tensorboard", filepath.Join(dir, "board-"+sampler))
		if e := last("eval", store, "--checkpoint", fmt.Sprint(i+1)); !maps.Equal(e.Test, s.Test) || e.ModelFile != s.ModelFile {
			t.Errorf("eval says %+v, training said %+v", e, s)
		}
		if s.Event != "summary" || s.Test["edges"] < 200 || s.TestRule["mrr"] < .9 || s.Test["mrr"] < .1 || s.CheckedEdges == 0 {
			t.Errorf("%s: %+v", sampler, s)
		}
	}
	if s := last("train", store, "--task", "temporal", "--resume", "--epochs", "3"); len(s.EpochSeconds) != 3 {
		t.Errorf("resumed for a third epoch: %+v", s)
	}
	if code, _, stderr := run("train", store, "--dim", "8", "--epochs", "1"); code != cli.ExitOK || !strings.Contains(stderr, "(--task temporal)") {
		t.Errorf("without a task, of what has nothing else to learn: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := clitest.Run(t, "plan", store); code != cli.ExitOK || !strings.Contains(stderr, "where a node's next edge leads (--task temporal)") {
		t.Errorf("plan of what learns moments: exit code %d, %s", code, stderr)
	}
	code, out, stderr := run("predict", store, "u3", "u4", "--top", "2", "--format", "csv", "--checkpoint", "1")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); code != cli.ExitOK || len(lines) != 5 || lines[0] != "node,rank,next,score" || !strings.HasPrefix(lines[1], "u3,1,i") || !strings.HasPrefix(lines[4], "u4,2,i") {
		t.Errorf("predict: exit code %d, %s: %q", code, stderr, lines)
	}
	out = filepath.Join(dir, "exported")
	if code, _, stderr := run("export", store, out, "--what", "model"); code != cli.ExitFailed || !strings.Contains(stderr, "is of edges at moments") {
		t.Errorf("export --what model: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := run("export", store, out, "--what", "all"); code != cli.ExitOK {
		t.Errorf("export --what all: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := run("verify", store); code != cli.ExitOK {
		t.Errorf("verify: %s", stderr)
	}
	if code, _, stderr := run("eval", store, "--splits", "test"); code != cli.ExitUsage || !strings.Contains(stderr, "--splits is not for temporal") {
		t.Errorf("eval --splits: exit code %d, %s", code, stderr)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "board-*", "events.out.tfevents.*")); err != nil || len(files) != 2 {
		t.Errorf("event files %v, %v", files, err)
	}
	for args, want := range map[string]string{
		"--sampler weighted": "is for node classification", "--dropout .5": "is for node classification", "--explain": "--explain is not for", "--fanouts 3,2": "needs one number, but found 2 numbers",
	} {
		if code, _, stderr := run(append([]string{"train", store, "--task", "temporal"}, strings.Fields(args)...)...); code != cli.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s; expected %q", args, code, stderr, want)
		}
	}
}

// TestTrainTemporalTypes: nodes of several types are known by the store's own account of them, whatever their ids: an item is bought, and no
// user is among the answers.
func TestTrainTemporalTypes(t *testing.T) {
	var b strings.Builder
	b.WriteString("user_id,item_id,ts\n")
	for i := range 300 {
		fmt.Fprintf(&b, "u%d,%d,%d\n", i%12, i*7%9, i)
	}
	dir := clitest.Put(t, t.TempDir(), map[string][]byte{"shop/edges/user-bought-item.csv": []byte(b.String())})
	store := filepath.Join(dir, "s.gstore")
	for _, args := range [][]string{
		{"ingest", filepath.Join(dir, "shop"), store, "--partitions", "3", "--quiet"},
		{"train", store, "--task", "temporal", "--dim", "8", "--negatives", "5", "--epochs", "1", "--quiet"},
	} {
		if code, _, stderr := clitest.Run(t, args...); code != cli.ExitOK {
			t.Fatalf("%q: %s", args, stderr)
		}
	}
	if m := readMetrics(t, filepath.Join(store, "runs", "1.jsonl")); len(m.Results) != 1 || m.Results[0].ValidMRR == nil || m.End == nil || m.End.TestMRR == nil {
		t.Errorf("measurements of the run: %+v", m)
	}
	code, out, stderr := clitest.Run(t, "predict", store, "user:u3", "--top", "20", "--format", "csv")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != cli.ExitOK || len(lines) != 10 { // all items, and nothing else
		t.Fatalf("predict: exit code %d, %s: %q", code, stderr, lines)
	}
	for _, line := range lines[1:] {
		if !strings.HasPrefix(line, "user:u3,") || !strings.Contains(line, ",item:") {
			t.Errorf("predict says %q", line)
		}
	}
}
