package training_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// smallKG generates a store of a knowledge graph in 8 partitions.
func smallKG(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kg.gstore")
	clitest.MustRun(t, "generate", "kg", dir, "--nodes", "400", "--edges", "3000", "--relations", "3", "--format", "store", "--partitions", "8", "--quiet")
	return dir
}

// TestTrainLinkFlags: what a flag says is what a run does or refuses, whichever flags show the task.
func TestTrainLinkFlags(t *testing.T) {
	dir := smallKG(t)
	for _, c := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"--model foo", cli.ExitUsage, "--model foo: expected distmult, complex, rotate, transe or dot"},
		{"--encoder foo", cli.ExitUsage, "--encoder foo: expected none, sage, gcn or gat"},
		{"--model gat --encoder none", cli.ExitUsage, "both name the encoder"},
		{"--model sage --encoder gcn", cli.ExitUsage, "both name the encoder"},
		{"--loss foo", cli.ExitUsage, "--loss foo: expected softmax, logistic or margin"},
		{"--plan hanoi", cli.ExitUsage, "use auto, memory, comet, beta"},
		{"--model complex --dim 7", cli.ExitUsage, "expected an even number"},
		{"--dim 0", cli.ExitUsage, "--dim 0: expected more"},
		{"--negatives 0", cli.ExitUsage, "--negatives 0: expected more"},
		{"--x chunks=0", cli.ExitUsage, "--x chunks=0: expected more"},
		{"--epochs 0", cli.ExitUsage, "--epochs 0: expected more"},
		{"--lr 0", cli.ExitUsage, "--lr 0: expected more"},
		{"--keep-checkpoints 0", cli.ExitUsage, "--keep-checkpoints 0: expected more"},
		{"--dim -1", cli.ExitUsage, "--dim -1: expected 1 or more"},
		{"--margin -1 --loss margin", cli.ExitUsage, "margin -1"},
		{"--margin 2", cli.ExitUsage, "--margin 2 needs --loss margin, but found --loss softmax"},
		{"--hidden 5", cli.ExitUsage, "--hidden is for node classification"},
		{"--task foo", cli.ExitUsage, "--task foo: expected auto, node, link, temporal or targets"},
		{"--heads 3", cli.ExitUsage, "--heads 3 needs an encoder with attention heads (gat), but found --encoder none"},
		{"--fanouts 5", cli.ExitUsage, "--fanouts 5 needs an encoder"},
		{"--buffer 1", cli.ExitUsage, "give room for 2 or more"},
		{"--buffer 1 --plan beta", cli.ExitUsage, "needs two partitions"},
		{"--buffer 3 --plan memory", cli.ExitUsage, "needs room for all 8 partitions, there is room for 3"},
		{"--buffer 4 --x logical=3", cli.ExitUsage, "use at least 4 logical ones"},
		{"--buffer 4 --x logical=9", cli.ExitUsage, "9 logical partitions of 8"},
		{"--buffer 4 --x logical=5 --plan beta", cli.ExitUsage, "--x logical=5 needs plan comet, but found --plan beta"},
		{"--save x.gsm", cli.ExitUsage, "gstore export --what embeddings"},
		{"--from-checkpoint 3", cli.ExitUsage, "--from-checkpoint 3 needs --resume"},
		{"--checkpoint-every often", cli.ExitUsage, "--checkpoint-every often: expected epochs such as 1"},
		{"--table a.b", cli.ExitUsage, "letters, digits, '-' and '_'"},
		{"--keep-checkpoints 64", cli.ExitUsage, "expected 1 to 63"},
		{"--io-engine aio", cli.ExitUsage, "expected auto, io_uring, pread or mmap"},
		{"--order multiply", cli.ExitUsage, "say --x product-order=multiply"},
		{"--x product-order=multiply", cli.ExitUsage, "--x product-order is for node classification"},
		{"--eval-every -1", cli.ExitOK, ""},
		{"--buffer 4 --x logical=5", cli.ExitOK, ""},
		{"--x chunks=7", cli.ExitOK, ""},
		{"--x chunks=900 --negatives 500", cli.ExitOK, ""},
		{"--x chunks=7 --batch-size 5", cli.ExitOK, ""},
		{"--x chunks=1000000", cli.ExitUsage, "--x chunks=1000000 with --batch-size 1000: expected at most one an edge"},
		{"--x chunks=1000 --negatives 1100000 --batch-size 1000", cli.ExitUsage, "more than 2^31"},
		{"--batch-size 9000000000000000000", cli.ExitUsage, "more than 2^31"},
		{"--negatives 9000000000000000000", cli.ExitUsage, "more than 2^31"},
		{"--x chunks=9000000000000000000", cli.ExitUsage, "expected at most one an edge"},
		{"--dim 1000000000", cli.ExitUsage, "expected at most"},
		{"--encoder gat --heads 1000000000", cli.ExitUsage, "do not divide"},
		{"--model gcn", cli.ExitOK, ""},
	} {
		// Small numbers first: of a flag given twice, the last counts.
		args := append([]string{"train", dir, "--overwrite", "--dim", "8", "--negatives", "10", "--epochs", "1"}, strings.Fields(c.args)...)
		if code, _, stderr := clitest.Run(t, args...); code != c.code || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: exit code %d, want %d; stderr %q, want %q in it", c.args, code, c.code, stderr, c.stderr)
		}
	}
	for _, every := range []string{"1", "-1"} { // what was not ranked has no ranks
		ev := clitest.Events(t, "train", dir, "--overwrite", "--dim", "8", "--negatives", "10", "--epochs", "1", "--eval-every", every)
		_, test := ev[len(ev)-1]["test_mrr"]
		_, valid := ev[len(ev)-1]["valid_mrr"]
		if ranked := every == "1"; test != ranked || valid != ranked {
			t.Errorf("--eval-every %s: the summary is %v", every, ev[len(ev)-1])
		}
	}
	for flag, want := range map[string]float64{"": 1, "--margin=0": 0, "--margin=.5": .5} {
		args := []string{"train", dir, "--overwrite", "--dim", "8", "--negatives", "10", "--epochs", "1", "--loss", "margin", "--eval-every", "-1"}
		if flag != "" {
			args = append(args, flag)
		}
		ev := clitest.Events(t, args...)
		if got := ev[0]["config"].(map[string]any)["margin"]; got != want {
			t.Errorf("%q: the run's margin is %v, expected %v", flag, got, want)
		}
		// All scores are near 0 when such a short run begins: a loss is near its margin.
		if l := clitest.Losses(ev)[0]; l > 1.05*want+.01 {
			t.Errorf("%q: loss %v with margin %v", flag, l, want)
		}
	}
}

// TestEvalCheckpoint: earlier checkpoints are ranked and written without those after them being lost.
func TestEvalCheckpoint(t *testing.T) {
	dir := smallKG(t)
	clitest.Events(t, "train", dir, "--dim", "8", "--negatives", "10", "--epochs", "3", "--keep-checkpoints", "2", "--plan", "comet", "--buffer", "4", "--eval-every", "-1")
	eval := func(args ...string) map[string]any {
		ev := clitest.Events(t, append([]string{"eval", dir, "--lists", "test"}, args...)...)
		return ev[len(ev)-1]
	}
	last := eval()
	before := eval("--checkpoint", "3")
	if before["epochs"] != 2. || last["epochs"] != 3. || before["test_mrr"] == last["test_mrr"] {
		t.Errorf("checkpoint 3: %v, the last: %v", before, last)
	}
	if again := eval(); again["checkpoint"] != last["checkpoint"] || again["test_mrr"] != last["test_mrr"] {
		t.Errorf("after checkpoint 3 was ranked: %v, before: %v", again, last)
	}
	if _, stdout, _ := clitest.Run(t, "inspect", dir); !strings.Contains(stdout, "3 to 4 of at most 2") || !strings.Contains(stdout, "2 × 8 float32") {
		t.Errorf("inspect does not show the table: %s", stdout)
	}
	var files [2][]byte
	for i, checkpoint := range []string{"3", "0"} {
		out := filepath.Join(t.TempDir(), "out")
		clitest.MustRun(t, "export", dir, out, "--what", "embeddings", "--checkpoint", checkpoint, "--quiet")
		files[i] = npyData(t, filepath.Join(out, "node_embedding.npy"), "<f4")
	}
	if string(files[0]) == string(files[1]) {
		t.Error("checkpoint 3 is written as the last one")
	}
	if code, _, stderr := clitest.Run(t, "eval", dir, "--checkpoint", "9"); code != cli.ExitFailed || !strings.Contains(stderr, "it keeps 2, from 3 to 4") {
		t.Errorf("a checkpoint that is not kept: exit code %d, %q", code, stderr)
	}
}

// TestLinkMemory: a budget that is too small is refused before anything is replaced, with the smallest that works.
func TestLinkMemory(t *testing.T) {
	dir := smallKG(t)
	train := []string{"train", dir, "--overwrite", "--dim", "8", "--negatives", "10", "--epochs", "1"}
	clitest.Events(t, train...)
	last := func() map[string]any {
		ev := clitest.Events(t, "eval", dir, "--lists", "test")
		return ev[len(ev)-1]
	}
	before := last()
	for _, args := range [][]string{train, append(train, "--plan", "comet", "--buffer", "4"), append(train, "--encoder", "sage", "--plan", "memory"), append(train, "--eval-every", "-1"), {"eval", dir}} {
		code, _, stderr := clitest.Run(t, append(args, "--mem", "10MiB")...)
		at := regexp.MustCompile(`the smallest that works is (\d+)MiB`).FindStringSubmatch(stderr)
		if code != cli.ExitFailed || at == nil {
			t.Errorf("%v: exit code %d, %q", args, code, stderr)
			continue
		}
		if got := last(); got["test_mrr"] != before["test_mrr"] {
			t.Errorf("%v: a run that was refused replaced the embeddings", args)
		}
		least, _ := strconv.Atoi(at[1])
		if code, _, _ := clitest.Run(t, append(args, "--mem", fmt.Sprintf("%dMiB", least-1))...); code != cli.ExitFailed {
			t.Errorf("%v: exit code %d with 1 MiB less than the smallest of %d", args, code, least)
		}
		if code, _, stderr := clitest.Run(t, append(args, "--mem", fmt.Sprintf("%dMiB", least))...); code != cli.ExitOK {
			t.Errorf("%v: exit code %d with the smallest of %d: %s", args, code, least, stderr)
		}
		clitest.Events(t, train...)
	}
}
