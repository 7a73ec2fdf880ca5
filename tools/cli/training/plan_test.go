package training_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

func TestPlan(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 20_000, Partitions: 16, Dim: 64}))
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{nil, cli.ExitOK, "plan    memory, 1 steps", ""},
		{[]string{"--mem", "86MiB", "--hidden", "8", "--buffer", "4"}, cli.ExitOK, "plan    hanoi", ""},
		{[]string{"--mem", "86MiB", "--hidden", "8", "--buffer", "4"}, cli.ExitOK, "node task: hanoi", ""},
		{[]string{"--task", "link", "--mem", "84MiB", "--dim", "16", "--eval-every", "-1"}, cli.ExitOK, "of them in memory at a time", ""},
		{[]string{"--plan", "beta", "--buffer", "4", "--steps"}, cli.ExitOK, "no plan with this buffer reads fewer than 42 partitions", ""},
		{[]string{"--mem", "10KiB"}, cli.ExitFailed, "", "the smallest that works is"},
		{[]string{"--task", "link", "--mem", "10KiB"}, cli.ExitFailed, "", "the smallest that works is"},
		{[]string{"--task", "link", "--encoder", "mlp"}, cli.ExitUsage, "", "mlp"},
		{[]string{"--task", "link", "--encoder", "sage", "--x", "keep-batch-edges=.25"}, cli.ExitOK, "hidden from the encoder while they are asked for, but for a share of 0.25", ""},
		{[]string{"--plan", "mst"}, cli.ExitUsage, "", "--plan mst: expected auto or one of"},
		{[]string{"--x", "reuse=5"}, cli.ExitUsage, "", "--x reuse=5: expected 0 to 4, or auto"},
		{[]string{"--plan", "comet", "--buffer", "1"}, cli.ExitUsage, "", "holds no 2 logical ones"},
		{[]string{"--epochs", "0"}, cli.ExitUsage, "", "--epochs 0: expected 1 or more"},
		{[]string{"--epochs", "-1"}, cli.ExitUsage, "", "--epochs -1: expected 1 or more"},
		{[]string{"--task", "link", "--batch-size", "0"}, cli.ExitUsage, "", "--batch-size 0: expected more"},
		{[]string{"--plan", "beta", "--x", "logical=3"}, cli.ExitUsage, "", "--x logical=3 needs plan comet, but found --plan beta"},
		{[]string{"--features", "y"}, cli.ExitUsage, "", "--features y: the store's features are x"},
	} {
		code, stdout, stderr := clitest.Run(t, append([]string{"plan", dir, "--measure", "0"}, c.args...)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("plan %v: exit code %d, want %d; stdout %q, want %q in it; stderr %q, want %q in it", c.args, code, c.code, stdout, c.stdout, stderr, c.stderr)
		}
	}
}

func TestPlanJSON(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 20_000, Partitions: 16, Dim: 64}))
	code, stdout, stderr := clitest.Run(t, "--json", "plan", dir, "--plan", "comet", "--buffer", "4", "--epochs", "3", "--steps", "--measure", "0")
	if code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	e := clitest.ByName(t, stdout)
	if len(e["epoch"]) != 3 || len(e["summary"]) != 1 {
		t.Fatalf("%d epochs, %d summaries", len(e["epoch"]), len(e["summary"]))
	}
	var bytes, examples float64
	for _, s := range e["step"] {
		if s["epoch"] == 2. {
			bytes += s["bytes_read"].(float64)
			examples += s["examples"].(float64)
		}
	}
	epoch := e["epoch"][1]
	if bytes != epoch["bytes_read"] || examples != epoch["examples"] || bytes == 0 {
		t.Errorf("steps read %v bytes and train %v examples, their epoch %v and %v", bytes, examples, epoch["bytes_read"], epoch["examples"])
	}
	if b := epoch["bias"].(float64); b <= 0 || b >= 1 {
		t.Errorf("bias %v", b)
	}
}

// TestPlanDeviceRows: with a device's memory plan says what each policy moves, and which one a run takes.
func TestPlanDeviceRows(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 2000, Edges: 9000, Partitions: 8, Dim: 16}))
	plan := func(args ...string) (rows map[string]any, why string) {
		t.Helper()
		args = append([]string{"--json", "plan", dir, "--hidden", "8", "--fanouts", "3,2", "--batch-size", "50", "--epochs", "1", "--measure", "0"}, args...)
		code, stdout, stderr := clitest.Run(t, args...)
		if code != cli.ExitOK {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		summary := clitest.ByName(t, stdout)["summary"][0]
		rows, _ = summary["device_rows"].(map[string]any)
		return rows, fmt.Sprint(summary["why"])
	}
	if rows, why := plan(); rows != nil || strings.Contains(why, "device") {
		t.Errorf("without a device: %v, %s", rows, why)
	}
	all, why := plan("--device-mem", "16MiB")
	none, _ := plan("--device-mem", "16MiB", "--device-cache", "none")
	if all["feature_bytes"].(float64) >= none["feature_bytes"].(float64) || all["hit_rate"].(float64) <= 0 || none["hit_rate"] != 0. || none["policy"] != "none" {
		t.Errorf("with room for all rows %v, none kept %v", all, none)
	}
	for _, s := range []string{"device plan mirror", "device plan direct, tracker", "device plan direct, lookahead", "the least"} {
		if !strings.Contains(why, s) {
			t.Errorf("why lacks %q: %s", s, why)
		}
	}
	if rows, why := plan("--device-mem", "1MiB"); rows["policy"] != "" || !strings.Contains(why, "read where they are") {
		t.Errorf("without room: %v, %s", rows, why)
	}
	if code, _, stderr := clitest.Run(t, "plan", dir, "--device-cache", "lru", "--measure", "0"); code != cli.ExitUsage || !strings.Contains(stderr, "tracker") {
		t.Errorf("an unknown cache: exit code %d: %s", code, stderr)
	}
}

// TestPlanSchedule: a learning-rate schedule, which reads nothing, is taken as train takes it, and changes nothing that is planned.
func TestPlanSchedule(t *testing.T) {
	dir := coraStore(t)
	plan := func(flags ...string) string {
		t.Helper()
		code, stdout, stderr := clitest.Run(t, append([]string{"plan", dir, "--measure", "0", "--plan", "hanoi", "--buffer", "2", "--batch-size", "200"}, flags...)...)
		if code != cli.ExitOK || !strings.Contains(stdout, "hanoi") {
			t.Fatalf("%v: exit code %d: %s%s", flags, code, stdout, stderr)
		}
		return stdout
	}
	for _, schedule := range []string{"cosine", "linear", "plateau"} {
		if got, want := plan("--lr-schedule", schedule, "--epochs", "3"), plan("--epochs", "3"); got != want {
			t.Errorf("%s: %s, without %s", schedule, got, want)
		}
	}
	plan("--lr-schedule", "cosine")
	if code, _, stderr := clitest.Run(t, "plan", dir, "--lr-schedule", "stairs"); code != cli.ExitUsage || !strings.Contains(stderr, "constant, cosine, linear or plateau") {
		t.Errorf("no schedule: exit code %d: %s", code, stderr)
	}
}

// TestPlanHistory: what a plan says of a history is what a run with one holds and reads.
func TestPlanHistory(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 2000, Edges: 9000, Partitions: 8}))
	for _, dtype := range []string{"float32", "float16"} {
		if dtype == "float16" {
			in := filepath.Join(t.TempDir(), "in")
			dir = in + ".gstore"
			clitest.MustRun(t, "generate", "sbm", in, "--nodes", "2000", "--edges", "9000", "--classes", "4", "--features", "4", "--quiet")
			clitest.MustRun(t, "ingest", in, dir, "--partitions", "8", "--feature-dtype", dtype, "--quiet")
		}
		code, stdout, stderr := clitest.Run(t, "--json", "plan", dir, "--buffer", "3", "--history", "--hidden", "8", "--epochs", "1", "--measure", "0")
		if code != cli.ExitOK {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		plan := clitest.ByName(t, stdout)["summary"][0]["history"].(map[string]any)
		run := clitest.Events(t, "train", dir, "--buffer", "3", "--history", "--hidden", "8", "--epochs", "2", "--explain")
		s := run[len(run)-1]
		if plan["memory_bytes"] != s["history_resident_bytes"] || 2*plan["epoch_bytes"].(float64) != s["history_row_bytes"] || plan["epoch_bytes"].(float64) <= 0 {
			t.Errorf("%s: planned %v, the run held %v bytes and read %v in two epochs", dtype, plan, s["history_resident_bytes"], s["history_row_bytes"])
		}
		// What a run is expected to cost is what its plan said.
		outlook := clitest.ByName(t, stdout)["summary"][0]["outlook"].(map[string]any)
		for _, e := range run {
			if e["event"] == "outlook" && !reflect.DeepEqual(e["outlook"], outlook) {
				t.Errorf("%s: planned %v, the run was told %v", dtype, outlook, e["outlook"])
			}
		}
		if kept := outlook["neighbours_kept"].(float64); kept <= .2 || kept >= .6 || outlook["expected_loss_points"].(float64) <= 0 {
			t.Errorf("%s: 3 of 8 random partitions: %v", dtype, outlook)
		}
		if want := map[string]float64{"float32": 36, "float16": 20}[dtype]; plan["row_bytes"] != want {
			t.Errorf("%s: rows of %v bytes, expected %v", dtype, plan["row_bytes"], want)
		}
		explained := false
		for _, e := range run {
			why, _ := e["why"].([]any)
			for _, w := range why {
				explained = explained || strings.Contains(w.(string), fmt.Sprintf("rows of %v bytes", plan["row_bytes"]))
			}
		}
		if !explained {
			t.Errorf("%s: train --explain does not say what the history takes", dtype)
		}
	}
	if code, _, stderr := clitest.Run(t, "plan", dir, "--task", "link", "--history", "--measure", "0"); code != cli.ExitUsage {
		t.Errorf("a history of link prediction: exit code %d: %s", code, stderr)
	}
}

func TestGenerate(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
		file   string
	}{
		{[]string{"sbm", "--nodes", "2k", "--edges", "20k", "--classes", "4", "--features", "8"}, cli.ExitOK, "2000 nodes, 20000 edges, 8 features, 4 classes", "", "split/train.npy"},
		{[]string{"rmat", "--nodes", "1k", "--format", "tsv"}, cli.ExitOK, "15000 edges, 0 features", "", "edges.tsv"},
		{[]string{"kg", "--nodes", "1k", "--relations", "3", "--edges", "2k"}, cli.ExitOK, "1000 nodes, 2000 edges", "", "test.npy"},
		{[]string{"sbm", "--nodes", "2k", "--format", "store", "--partitions", "4"}, cli.ExitOK, "2000 nodes", "", "LOCK"},
		{[]string{"kg", "--nodes", "1k", "--edges", "2k", "--format", "store", "--partitions", "4"}, cli.ExitOK, "2000 edges", "", "LOCK"},
		{[]string{"kg", "--nodes", "1k", "--format", "binary"}, cli.ExitUsage, "", "want numpy or tsv", ""},
		{[]string{"ring"}, cli.ExitUsage, "", `unknown kind "ring"`, ""},
		{[]string{"rmat", "--nodes", "many"}, cli.ExitUsage, "", "want a count such as 2000000", ""},
		{[]string{"rmat", "--nodes", "0.0001k"}, cli.ExitUsage, "", "want a count", ""},
		{[]string{"sbm", "--nodes", "100", "--homophily", "2"}, cli.ExitUsage, "", "homophily 2", ""},
		{[]string{"sbm", "--nodes", "100", "--format", "csv"}, cli.ExitUsage, "", `format "csv"`, ""},
	} {
		out := filepath.Join(dir, fmt.Sprint(i))
		code, stdout, stderr := clitest.Run(t, append([]string{"generate", c.args[0], out}, c.args[1:]...)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("generate %v: exit code %d, want %d; stdout %q, want %q in it; stderr %q, want %q in it", c.args, code, c.code, stdout, c.stdout, stderr, c.stderr)
		}
		if c.file != "" {
			if _, err := os.Stat(filepath.Join(out, c.file)); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestPlanIsTrains: with the same flags plan shows what train does, to the byte, within any budget, and refuses what train refuses.
func TestPlanIsTrains(t *testing.T) {
	kg := filepath.Join(t.TempDir(), "kg.gstore")
	clitest.MustRun(t, "generate", "kg", kg, "--nodes", "20k", "--edges", "60k", "--relations", "5", "--format", "store", "--partitions", "16", "--quiet")
	sbm := filepath.Join(t.TempDir(), "sbm.gstore")
	clitest.MustRun(t, "generate", "sbm", sbm, "--nodes", "20001", "--edges", "100k", "--features", "64", "--classes", "4", "--format", "store", "--partitions", "16", "--quiet")
	for _, c := range []struct {
		dir    string
		shared []string // flags of both
		train  []string
		policy string
	}{
		{kg, []string{"--dim", "64", "--negatives", "10", "--eval-every", "-1"}, nil, "memory"},
		{kg, []string{"--dim", "64", "--negatives", "10", "--eval-every", "-1", "--mem", "84MiB"}, nil, "comet"},
		{kg, []string{"--dim", "64", "--negatives", "10", "--mem", "94MiB"}, nil, "comet"},
		{kg, []string{"--dim", "64", "--negatives", "10", "--mem", "94MiB", "--encoder", "sage", "--plan", "beta", "--batch-size", "200", "--fanouts", "2"}, nil, "beta"},
		{kg, []string{"--dim", "64", "--negatives", "10", "--mem", "94MiB", "--degree-share", ".5"}, nil, "comet"},
		{kg, []string{"--dim", "64", "--mem", "78MiB"}, nil, ""},
		{sbm, []string{"--hidden", "8", "--mem", "79MiB", "--batch-size", "50", "--fanouts", "3,2"}, nil, "rows"},
		{sbm, []string{"--hidden", "8", "--mem", "79MiB", "--batch-size", "50", "--fanouts", "3,2", "--absent", "ignore"}, nil, "hanoi"},
		{sbm, []string{"--hidden", "8", "--mem", "400MiB"}, nil, "memory"},
		{sbm, []string{"--hidden", "8", "--buffer", "3"}, nil, "hanoi"},
		{sbm, []string{"--hidden", "8", "--plan", "rows", "--mem", "99MiB", "--batch-size", "50", "--fanouts", "3,2"}, nil, "rows"},
		{sbm, []string{"--hidden", "8", "--mem", "87MiB", "--history", "--batch-size", "50", "--fanouts", "3,2"}, nil, "hanoi"},
		{sbm, []string{"--hidden", "8", "--mem", "74MiB"}, nil, ""}, // the partition buffer fits, the evaluator does not
		{sbm, []string{"--hidden", "256", "--mem", "78MiB", "--history"}, nil, ""},
	} {
		args := append([]string{c.dir, "--epochs", "2", "--seed", "3", "--json"}, c.shared...)
		code, stdout, stderr := clitest.Run(t, append([]string{"plan", "--measure", "0"}, args...)...)
		if c.dir == kg { // rows before left a table
			args = append(args, "--overwrite")
		}
		if c.policy == "" {
			trainCode, _, said := clitest.Run(t, append([]string{"train"}, args...)...)
			if code != cli.ExitFailed || trainCode != cli.ExitFailed || said != stderr {
				t.Errorf("%v: plan: exit code %d, %q; train: %d, %q", c.shared, code, stderr, trainCode, said)
			}
			continue
		}
		if code != cli.ExitOK {
			t.Fatalf("plan %v: exit code %d: %s", c.shared, code, stderr)
		}
		plan := clitest.ByName(t, stdout)
		code, stdout, stderr = clitest.Run(t, append(append([]string{"train", "--threads", "2"}, args...), c.train...)...)
		if code != cli.ExitOK {
			t.Fatalf("train %v: exit code %d: %s", c.shared, code, stderr)
		}
		run := clitest.ByName(t, stdout)
		config, sum := run["start"][0]["config"].(map[string]any), plan["summary"][0]
		buffer := sum["capacity"]
		if c.policy == "memory" || c.policy == "rows" {
			buffer = 16.
		}
		logical := config["logical"]
		if logical == nil {
			logical = 0.
		}
		if sum["plan"] != c.policy || config["plan"] != c.policy || config["buffer"] != buffer || logical != sum["logical"] {
			t.Errorf("%v: planned %v with %v, %v logical; trained %v with %v, %v", c.shared, sum["plan"], buffer, sum["logical"], config["plan"], config["buffer"], logical)
		}
		for k, e := range run["epoch"] {
			if e["bytes_read"] != plan["epoch"][k]["bytes_read"] || e["steps"] != plan["epoch"][k]["steps"] {
				t.Errorf("%v: epoch %d reads %v bytes in %v steps, planned were %v in %v", c.shared, k, e["bytes_read"], e["steps"], plan["epoch"][k]["bytes_read"], plan["epoch"][k]["steps"])
			}
		}
	}
}
