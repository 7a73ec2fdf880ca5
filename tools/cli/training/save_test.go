package training_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// coraStore ingests Cora with the given split lists.
func coraStore(t *testing.T, split ...string) string {
	t.Helper()
	files := clitest.ReadCora(t).Numpy()
	for _, name := range []string{"train", "valid", "test"} {
		if len(split) > 0 && !slices.Contains(split, name) {
			delete(files, "split/"+name+".npy")
		}
	}
	dir := filepath.Join(t.TempDir(), "cora.gstore")
	clitest.Events(t, "ingest", clitest.Put(t, t.TempDir(), files), dir, "--undirected", "--partitions", "4")
	return dir
}

// TestSaveRefused: where the model could not be saved nothing is trained, and exit codes say so.
func TestSaveRefused(t *testing.T) {
	dir, work := coraStore(t), t.TempDir()
	file := filepath.Join(work, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	short := []string{"train", dir, "--epochs", "1", "--hidden", "4"}
	for _, c := range []struct {
		save string
		code int
	}{{filepath.Join(work, "no", "such", "m.gsm"), cli.ExitFailed}, {filepath.Join(file, "m.gsm"), cli.ExitFailed}, {work, cli.ExitUsage}} {
		code, stdout, stderr := clitest.Run(t, append(short, "--save", c.save)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, "--save "+c.save) {
			t.Errorf("--save %s: exit code %d, %q, %q", c.save, code, stdout, stderr)
		}
	}
	runs := filepath.Join(dir, "runs")
	if err := errors.Join(os.RemoveAll(runs), os.WriteFile(runs, nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := clitest.Run(t, short...); code != cli.ExitFailed || stdout != "" || !strings.Contains(stderr, "--save") {
		t.Errorf("runs that is no folder: exit code %d, %q, %q", code, stdout, stderr)
	}
	saved := filepath.Join(work, "m.gsm")
	clitest.MustRun(t, append(short, "--save", saved, "--quiet")...)
	if _, err := train.LoadFile(saved); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(work, ".*")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v is left behind", left, err)
	}
}

// TestNoValidation: without validation nodes nothing says that an early epoch is the best: the last one is saved.
func TestNoValidation(t *testing.T) {
	dir := coraStore(t, "train")
	ev := clitest.Events(t, "train", dir, "--epochs", "3", "--hidden", "8", "--threads", "1")
	if s := ev[len(ev)-1]; s["best_epoch"] != 3. || s["valid_accuracy"] != -1. || s["test_accuracy"] != -1. {
		t.Errorf("summary: best epoch %v, accuracies %v and %v, expected the last one and none", s["best_epoch"], s["valid_accuracy"], s["test_accuracy"])
	}
	// The model is the one that a fourth epoch would begin with: the best of a whole run's third one.
	model, err := train.LoadFile(filepath.Join(dir, "runs", "1.gsm"))
	if err != nil {
		t.Fatal(err)
	}
	more := clitest.Events(t, "train", dir, "--resume", "--epochs", "4")
	if l := clitest.Losses(more); len(l) != 1 {
		t.Errorf("losses %v, expected one more", l)
	}
	next, err := train.LoadFile(filepath.Join(dir, "runs", "2.gsm"))
	if err != nil || bytes.Equal(next.Params, model.Params) {
		t.Errorf("the fourth epoch's model is the third one's, %v", err)
	}
	code, stdout, _ := clitest.Run(t, "train", dir, "--epochs", "1", "--hidden", "4")
	if code != cli.ExitOK || !strings.Contains(stdout, "valid none") || !strings.Contains(stdout, "no validation nodes") {
		t.Errorf("exit code %d, %q", code, stdout)
	}
}

// TestMissingModel: verify names the model of a run that is missing; one that was saved elsewhere is none of the store's.
func TestMissingModel(t *testing.T) {
	dir, short := coraStore(t), []string{"--epochs", "1", "--hidden", "4", "--quiet"}
	clitest.MustRun(t, append([]string{"train", dir}, short...)...)
	clitest.MustRun(t, append([]string{"train", dir, "--save", filepath.Join(t.TempDir(), "m.gsm")}, short...)...)
	const missing = "1.gsm, the model of run 1, is missing"
	if code, _, stderr := clitest.Run(t, "verify", dir); code != cli.ExitOK || stderr != "" {
		t.Errorf("whole: exit code %d, %q", code, stderr)
	}
	if err := os.Remove(filepath.Join(dir, "runs", "1.gsm")); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := clitest.Run(t, "verify", dir); code != cli.ExitOK || strings.Count(stderr, "missing") != 1 || !strings.Contains(stderr, missing) {
		t.Errorf("exit code %d, %q, expected %q", code, stderr, missing)
	}
}

// TestDiverged: a run whose loss is no number any more ends, with the best epoch's model if there is one; programs get JSON.
func TestDiverged(t *testing.T) {
	for _, format := range []string{"--json", "--quiet"} {
		code, stdout, stderr := clitest.Run(t, "train", coraStore(t), "--lr", "1e38", "--epochs", "5", "--hidden", "8", "--batch-size", "20", format)
		if code != cli.ExitFailed || !strings.Contains(stderr, "diverged") || !strings.Contains(stderr, "learning rate") {
			t.Errorf("at once, %s: exit code %d, %q, %q", format, code, stdout, stderr)
		}
	}
	// A ring of nodes, and beside it node 40, few of whose 160 neighbours have features that overflow: sooner or later one is drawn.
	const nodes, dim, large = 201, 64, 6 // of the last nodes
	var src, dst, labels []int64
	x := make([]float32, nodes*dim)
	for v := range int64(nodes) {
		labels = append(labels, v%2)
		u := (v + 1) % 40
		if v > 40 {
			u = 40
		}
		if v != 40 {
			src, dst = append(src, v), append(dst, u)
		}
		for j := range dim {
			x[int(v)*dim+j] = float32((int(v)*31+j*17)%11) / 11
			if v >= nodes-large {
				x[int(v)*dim+j] = [...]float32{3e38, -3e38}[(int(v)*7+j*j*13)%5/3]
			}
		}
	}
	ids := func(from, to int64) (list []int64) {
		for v := from; v < to; v++ {
			list = append(list, v)
		}
		return list
	}
	dir := filepath.Join(t.TempDir(), "s.gstore")
	clitest.MustRun(t, "ingest", clitest.Put(t, t.TempDir(), map[string][]byte{
		"edge_index.npy": clitest.NpyFile("<i8", fmt.Sprintf("2, %d", len(src)), blocks.Bytes(slices.Concat(src, dst))),
		"node_feat.npy":  clitest.NpyFile("<f4", fmt.Sprintf("%d, %d", nodes, dim), blocks.Bytes(x)),
		"node_label.npy": clitest.NpyInts(labels), "split/train.npy": clitest.NpyInts(append(ids(0, 10), 40)),
		"split/valid.npy": clitest.NpyInts(ids(10, 25)), "split/test.npy": clitest.NpyInts(ids(25, 40)),
	}), dir, "--undirected", "--quiet")
	code, stdout, stderr := clitest.Run(t, "train", dir, "--layers", "1", "--fanouts", "1", "--epochs", "300", "--seed", "1", "--json")
	if code != cli.ExitFailed || !strings.Contains(stderr, "diverged in epoch") {
		t.Fatalf("later: exit code %d, %q, %q", code, stdout, stderr)
	}
	s := clitest.ByName(t, stdout)["summary"][0]
	best, bad := s["best_epoch"].(float64), s["diverged_epoch"].(float64)
	if best < 1 || best >= bad {
		t.Errorf("best epoch %v, diverged in %v", best, bad)
	}
	ev := clitest.Events(t, "eval", dir, "--checkpoint", s["model_file"].(string))
	if got := ev[len(ev)-1]["valid_accuracy"]; got != s["valid_accuracy"] {
		t.Errorf("the saved model's validation accuracy is %v, the best epoch's %v", got, s["valid_accuracy"])
	}
}

// interrupt starts gstore and sends it SIGINT after so many events of a kind. It returns the events and what was said.
func interrupt(t *testing.T, after string, n int, args ...string) (events []map[string]any, stderr string) {
	t.Helper()
	cmd := clitest.Command(append(args, "--json")...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var e map[string]any
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		if events = append(events, e); e["event"] == after {
			if n--; n == 0 {
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != cli.ExitInterrupted {
		t.Fatalf("%v: %v, expected exit code %d: %s", args, err, cli.ExitInterrupted, errs.String())
	}
	return events, errs.String()
}

// TestInterrupted: Ctrl-C loses nothing that was trained, of nodes or of links, and says where --resume goes on; the whole
// ends with the bits of an undisturbed run. Its metrics are one file.
func TestInterrupted(t *testing.T) {
	node, kg := coraStore(t), smallKG(t)
	for name, c := range map[string]struct {
		dir   string
		flags []string
		again []string // to begin in the same place
	}{
		"node":          {node, []string{"--hidden", "8", "--batch-size", "10", "--epochs", "16"}, nil},
		"node, history": {node, []string{"--hidden", "8", "--batch-size", "10", "--epochs", "12", "--plan", "hanoi", "--buffer", "2", "--history"}, nil},
		"link":          {kg, []string{"--dim", "8", "--negatives", "10", "--batch-size", "50", "--epochs", "10", "--eval-every", "5", "--lr-decay", "0"}, []string{"--overwrite"}},
		"link, comet":   {kg, []string{"--dim", "8", "--negatives", "10", "--batch-size", "50", "--epochs", "8", "--eval-every", "8", "--plan", "comet", "--buffer", "4"}, []string{"--overwrite"}},
	} {
		log := filepath.Join(t.TempDir(), "run.jsonl")
		args := append([]string{"train", c.dir, "--threads", "1", "--seed", "4"}, c.flags...)
		want := clitest.Events(t, slices.Concat(args, c.again)...)
		before, stderr := interrupt(t, "epoch", 3, slices.Concat(args, c.again, []string{"--metrics", log})...)
		if !strings.Contains(stderr, "interrupted in epoch") || !strings.Contains(stderr, "--resume") {
			t.Errorf("%s: %q", name, stderr)
		}
		done := len(clitest.Losses(before))
		after := clitest.Events(t, "train", c.dir, "--resume", "--threads", "1", "--metrics", log)
		isResume := func(e map[string]any) bool { return e["event"] == "resume" }
		i := slices.IndexFunc(after, isResume)
		if i < 0 || slices.ContainsFunc(after[i+1:], isResume) || after[i]["found"] != true || int(after[i]["epochs"].(float64)) < done {
			t.Errorf("%s: %v after %d epochs, expected to go on there", name, after[:min(4, len(after))], done)
		}
		if got, want := append(clitest.Losses(before), clitest.Losses(after)...), clitest.Losses(want); !slices.Equal(got, want) {
			t.Errorf("%s: losses %v, undisturbed %v", name, got, want)
		}
		a, b := after[len(after)-1], want[len(want)-1]
		for _, key := range []string{"test_accuracy", "valid_accuracy", "best_epoch", "test_mrr", "valid_mrr", "batches", "sampled_edges"} {
			if a[key] != b[key] {
				t.Errorf("%s: %s %v, undisturbed %v", name, key, a[key], b[key])
			}
		}
		checkMetrics(t, name, log, len(clitest.Losses(want)))
	}
}

// checkMetrics: a metrics file has every epoch once, one after the other.
func checkMetrics(t *testing.T, name, path string, epochs int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := metrics.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	if m.Begin == nil || m.Begin.Store == "" || !strings.Contains(string(m.Begin.Config), `"seed":4`) {
		t.Errorf("%s: the metrics begin with %+v, expected the run's configuration", name, m.Begin)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.HasPrefix(b, []byte(`{"event":"begin"`)) || bytes.Count(b, []byte(`"event":"begin"`)) != 1 {
		t.Errorf("%s: a line of the beginning is not the first or not the only one: %v", name, err)
	}
	at := 0.
	for i, e := range m.Epochs {
		if e.Epoch != m.Epochs[0].Epoch+i || e.Start < at || e.End < e.Start {
			t.Errorf("%s: line %d of the metrics is epoch %d, from %v to %v s, after %v s", name, i, e.Epoch, e.Start, e.End, at)
		}
		at = e.End
	}
	if len(m.Epochs) != epochs {
		t.Errorf("%s: metrics of %d epochs, trained were %d", name, len(m.Epochs), epochs)
	}
}

// TestResumeNothing: --resume without a checkpoint says that it begins.
func TestResumeNothing(t *testing.T) {
	for name, args := range map[string][]string{
		"node": {"train", coraStore(t), "--hidden", "4", "--epochs", "1"},
		"link": {"train", smallKG(t), "--dim", "8", "--negatives", "10", "--epochs", "1", "--eval-every", "-1"},
	} {
		code, _, stderr := clitest.Run(t, append(args, "--resume")...)
		if code != cli.ExitOK || !strings.Contains(stderr, "no checkpoint") || !strings.Contains(stderr, "begins with epoch 1") {
			t.Errorf("%s: exit code %d, %q", name, code, stderr)
		}
	}
}

// TestUnfinishedKept: another run does not destroy the checkpoint of one that was broken off.
func TestUnfinishedKept(t *testing.T) {
	dir := coraStore(t)
	args := []string{"train", dir, "--hidden", "8", "--batch-size", "10", "--threads", "1"}
	interrupt(t, "epoch", 2, append(args, "--epochs", "60")...)
	code, _, stderr := clitest.Run(t, append(args, "--epochs", "1", "--seed", "9")...)
	kept := filepath.Join(dir, "runs", "previous.gsr")
	if code != cli.ExitOK || !strings.Contains(stderr, kept) {
		t.Fatalf("exit code %d, %q, expected %s in it", code, stderr, kept)
	}
	ev := clitest.Events(t, "train", dir, "--resume", "--checkpoint-file", kept)
	if s := ev[len(ev)-1]; s["resumed"] != true || len(s["epoch_seconds"].([]any)) != 60 {
		t.Errorf("summary %v", s)
	}
}

// TestTableKept: a run does not replace an earlier one's embeddings unless it is told to.
func TestTableKept(t *testing.T) {
	dir := smallKG(t)
	args := []string{"train", dir, "--dim", "8", "--negatives", "10", "--epochs", "2"}
	mrr := func() any {
		ev := clitest.Events(t, "eval", dir, "--lists", "test")
		return ev[len(ev)-1]["test_mrr"]
	}
	clitest.MustRun(t, append(args, "--quiet")...)
	want := mrr()
	code, stdout, stderr := clitest.Run(t, append(args, "--seed", "8")...)
	if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, "2 of 2 epochs") || !strings.Contains(stderr, "--overwrite") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	clitest.MustRun(t, append(args, "--seed", "8", "--table", "other", "--quiet")...)
	if got := mrr(); got != want {
		t.Errorf("test MRR %v, before %v: the table was replaced", got, want)
	}
	clitest.MustRun(t, append(args, "--seed", "8", "--overwrite", "--quiet")...)
	if got := mrr(); got == want {
		t.Error("--overwrite did not replace the table")
	}
}
