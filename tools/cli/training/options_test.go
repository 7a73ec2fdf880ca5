package training_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestTrainHelp: the help of train has the groups, each flag with its default, and what only experts need behind --help-all.
func TestTrainHelp(t *testing.T) {
	code, short, _ := clitest.Run(t, "train", "--help")
	if code != cli.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	at := 0
	for _, want := range []string{"\nData:\n", "\nModel:\n", "--hidden n", "(default 128; ", "\nOptimiser:\n", "\nOut of core:\n", "\nLink prediction:\n",
		"\nCheckpoints:\n", "\nInput and output:\n", "auto, host, cuda or cuda:N (default auto)", "--help-all", "--help-x"} {
		i := strings.Index(short[at:], want)
		if i < 0 {
			t.Fatalf("%q is not after what is before it in\n%s", want, short)
		}
		at += i
	}
	_, all, _ := clitest.Run(t, "train", "--help-all")
	for _, expert := range []string{"--aggregator", "--io-depth", "--loss"} {
		if strings.Contains(short, expert+" ") || !strings.Contains(all, expert+" ") {
			t.Errorf("%s is for --help-all alone", expert)
		}
	}
	if strings.Contains(all, "--order ") {
		t.Error("the old name of product-order is shown")
	}
}

// TestTrainMistakes: the mistakes of a first hour are refused with what to do.
func TestTrainMistakes(t *testing.T) {
	dir := t.TempDir()
	cora, bare, kg := filepath.Join(dir, "cora.gstore"), filepath.Join(dir, "bare"), filepath.Join(dir, "kg")
	clitest.MustRun(t, "demo", "--epochs", "1", "--dir", cora, "--quiet")
	input := clitest.Put(t, t.TempDir(), map[string][]byte{"users.csv": []byte("src,dst\n0,1\n1,2\n"), "kg/train.txt": []byte("a\tr\tb\nb\tr\tc\n")})
	clitest.MustRun(t, "ingest", filepath.Join(input, "users.csv"), bare, "--quiet")
	clitest.MustRun(t, "ingest", filepath.Join(input, "kg"), kg, "--quiet")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"train", filepath.Join(input, "users.csv")}, cli.ExitUsage, "is a file, not a store: make one of it first, with gstore ingest"},
		{[]string{"train", input}, cli.ExitUsage, "is a folder of files (users.csv, …), not a store"},
		{[]string{"train", cora, "--layrs", "3"}, cli.ExitUsage, "did you mean --layers?"},
		{[]string{"train", cora, "--plan", "hanoy"}, cli.ExitUsage, "--plan hanoy is not known: did you mean hanoi?"},
		{[]string{"train", cora, "--model", "saeg"}, cli.ExitUsage, "did you mean sage?"},
		{[]string{"train", cora, "--plan", "comet"}, cli.ExitUsage, "comet is for link prediction; the store's task is node classification"},
		{[]string{"train", cora, "--hidden", "0"}, cli.ExitUsage, "--hidden 0: expected more"},
		{[]string{"train", cora, "--fanouts", "5", "--layers", "3"}, cli.ExitUsage, "needs one number for each layer, but found 1 number for 3 layers"},
		{[]string{"train", cora, "--layers", "1000000"}, cli.ExitUsage, "expected 1 to 1000"},
		{[]string{"train", cora, "--hidden", "1000000000"}, cli.ExitUsage, "expected 1 to 1048576"},
		{[]string{"train", cora, "--model", "rgcn", "--x", "bases=1000000000"}, cli.ExitUsage, "expected 1 to 65536"},
		{[]string{"train", cora, "--model", "gat", "--heads", "1000000000"}, cli.ExitUsage, "do not divide"},
		{[]string{"plan", cora, "--model", "gta"}, cli.ExitUsage, "did you mean gat?"},
		{[]string{"trian", cora}, cli.ExitUsage, "did you mean train?"},
		{[]string{"train", bare}, cli.ExitUsage, "has no labels"},
		{[]string{"train", kg}, cli.ExitUsage, "has no edge list valid to rank, or one without edges"},
	} {
		code, stdout, stderr := clitest.Run(t, append(c.args, "--json")...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d and %q, expected %d and %q", c.args, code, stderr, c.code, c.want)
		}
		if !strings.Contains(stdout, `"event":"error"`) {
			t.Errorf("%v --json: %q has no error object", c.args, stdout)
		}
	}
}

// TestResumeZeros: a zero that contradicts what the run began with is noticed, one that does not is none.
func TestResumeZeros(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cora.gstore")
	clitest.MustRun(t, "demo", "--epochs", "1", "--dir", dir, "--quiet")
	clitest.MustRun(t, "train", dir, "--epochs", "1", "--hidden", "8", "--seed", "7", "--weight-decay", "0.01", "--residual", "--quiet")
	for _, c := range []struct{ flag, want string }{
		{"--seed=0", "seed 7, not 0"}, {"--weight-decay=0", "weight_decay 0.01, not 0"}, {"--residual=false", "residual true, not false"}, {"--input-dropout=0", ""}, {"--seed=7", ""},
	} {
		code, _, stderr := clitest.Run(t, "train", dir, "--resume", c.flag)
		if refused := code != cli.ExitOK; refused != (c.want != "") || !strings.Contains(stderr, c.want) {
			t.Errorf("--resume %s: exit code %d and %q, expected %q", c.flag, code, stderr, c.want)
		}
	}
}

// TestOrderNames: what was called --order has a name for each thing it meant, and the old one still works.
func TestOrderNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cora.gstore")
	clitest.MustRun(t, "demo", "--epochs", "1", "--dir", dir, "--quiet")
	for _, c := range [][]string{
		{"train", dir, "--epochs", "1", "--hidden", "8", "--x", "product-order=multiply"},
		{"partition", dir, "--visit-order", "bfs", "--output", filepath.Join(t.TempDir(), "p")}, {"partition", dir, "--order", "bfs", "--output", filepath.Join(t.TempDir(), "p")},
	} {
		if code, _, stderr := clitest.Run(t, c...); code != cli.ExitOK {
			t.Errorf("%v: exit code %d: %s", c, code, stderr)
		}
	}
}

// TestEvalTakesTheBest: of several runs eval takes the one that was best on validation nodes, not the last, and says so;
// with --json standard output has one object a line, the confusion matrix too.
func TestEvalTakesTheBest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cora.gstore")
	clitest.MustRun(t, "demo", "--epochs", "4", "--dir", dir, "--quiet")
	clitest.MustRun(t, "train", dir, "--epochs", "1", "--hidden", "2", "--quiet")
	if _, stdout, _ := clitest.Run(t, "eval", dir, "--splits", "test"); !strings.Contains(stdout, "run 1, of 2 the best on validation nodes") {
		t.Errorf("eval says %q", stdout)
	}
	if _, stdout, _ := clitest.Run(t, "eval", dir, "--checkpoint", "2", "--splits", "test"); !strings.Contains(stdout, "(run 2)") {
		t.Errorf("eval of run 2 says %q", stdout)
	}
	events := clitest.Events(t, "eval", dir, "--splits", "test", "--confusion", "-")
	if len(events) < 5 || events[0]["event"] != "confusion" || events[0]["nodes"].(float64) < 1 {
		t.Errorf("%d events, the first %v", len(events), events[0])
	}
}

// TestEvalWithoutValidation: of runs that had no validation nodes eval takes the last, and says so; the area under the ROC
// curve is part of the smallest budget, which a refusal names before anything is computed.
func TestEvalWithoutValidation(t *testing.T) {
	in, dir := filepath.Join(t.TempDir(), "sbm"), filepath.Join(t.TempDir(), "sbm.gstore")
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "150000", "--edges", "10000", "--classes", "2", "--features", "1", "--train", ".9", "--valid", "0", "--test", ".1", "--quiet")
	clitest.MustRun(t, "ingest", in, dir, "--partitions", "64", "--partitioner", "random", "--quiet")
	for range 2 {
		clitest.MustRun(t, "train", dir, "--epochs", "1", "--layers", "1", "--batch-size", "20000", "--quiet")
	}
	if _, stdout, _ := clitest.Run(t, "eval", dir, "--splits", "test", "--auc=false"); !strings.Contains(stdout, "(run 2, the last of 2: none has validation nodes") {
		t.Errorf("eval says %q", stdout)
	}
	smallest := func(flags ...string) (mib int, text string) {
		t.Helper()
		code, _, stderr := clitest.Run(t, append([]string{"eval", dir, "--mem", "64MiB"}, flags...)...)
		_, after, ok := strings.Cut(stderr, "the smallest that works is ")
		if code != cli.ExitFailed || !ok {
			t.Fatalf("%v: exit code %d, %q", flags, code, stderr)
		}
		if _, err := fmt.Sscanf(after, "%dMiB", &mib); err != nil {
			t.Fatal(err)
		}
		return mib, stderr
	}
	with, text := smallest()
	without, _ := smallest("--auc=false")
	if least := without + 2; with < least || !strings.Contains(text, "area under the ROC curve 2.") { // 12 bytes a training node and 4 a node
		t.Errorf("%d MiB with the area and %d without: %q", with, without, text)
	}
	clitest.MustRun(t, "eval", dir, "--mem", strconv.Itoa(with)+"MiB", "--quiet")
}

// TestQuiet: --quiet prints nothing but what goes wrong.
func TestQuiet(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cora.gstore")
	for _, args := range [][]string{{"demo", "--epochs", "1", "--dir", dir}, {"train", dir, "--epochs", "1"}, {"precompute", dir},
		{"train", dir, "--epochs", "1", "--explain", "--metrics", dir + ".jsonl"}, {"report", dir + ".jsonl", "-o", dir + ".html"}, {"verify", dir},
		{"partition", dir, "--partitions", "3"}, {"export", dir, dir + "-out"}, {"ingest", dir + "-out", dir + "-again", "--partitioner", "fennel"}} {
		if code, stdout, stderr := clitest.Run(t, append(args, "--quiet")...); code != cli.ExitOK || stdout != "" || stderr != "" {
			t.Errorf("%v --quiet: exit code %d, %q and %q", args, code, stdout, stderr)
		}
	}
	if code, _, stderr := clitest.Run(t, "generate", "sbm", filepath.Join(t.TempDir(), "x"), "--features", "-3"); code != cli.ExitUsage || !strings.Contains(stderr, "--features -3") {
		t.Errorf("generate --features -3: exit code %d, %q", code, stderr)
	}
}

// TestInspectRuns: inspect shows a line a run: its model, plan, epochs and best metric.
func TestInspectRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cora.gstore")
	clitest.MustRun(t, "demo", "--epochs", "2", "--dir", dir, "--quiet")
	_, stdout, _ := clitest.Run(t, "inspect", dir)
	i := strings.Index(stdout, "\nrun  version")
	if i < 0 || strings.Contains(stdout, "epoch_seconds") {
		t.Fatalf("no table of runs in\n%s", stdout)
	}
	if line := strings.Split(stdout[i+1:], "\n")[1]; !strings.Contains(line, "sage") || !strings.Contains(line, "hanoi") || !strings.Contains(line, "epoch 2: valid") {
		t.Errorf("run 1: %q", line)
	}
}
