package training_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestConfigFile: a model described in YAML is the one that flags describe, flags win, it is
// stored with the model and the run, and what is wrong in the file is named with its line.
func TestConfigFile(t *testing.T) {
	work := t.TempDir()
	dir := filepath.Join(work, "cora.gstore")
	clitest.Events(t, "demo", "--epochs", "1", "--dir", dir)
	file := func(text string) string {
		path := filepath.Join(work, fmt.Sprintf("%x.yaml", len(text)))
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	model := file("# a deep one\nmodel: sage\nlayers: 3\nhidden: 16\nfanouts: [5, 5, 5]\nnorm: batch\nresidual: true\njumping: cat\nepochs: 9\n")
	flags := []string{"train", dir, "--model", "sage", "--layers", "3", "--hidden", "16", "--fanouts", "5,5,5", "--norm", "batch", "--residual", "--x", "jumping=cat", "--epochs", "2"}
	want := clitest.Events(t, flags...)
	got := clitest.Events(t, "train", dir, "--config", model, "--epochs", "2")
	if a, b := clitest.Losses(want), clitest.Losses(got); len(a) != 2 || fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("losses %v from flags, %v from the file", a, b)
	}
	for _, e := range got {
		if e["event"] != "start" {
			continue
		}
		c := e["config"].(map[string]any)
		if c["norm"] != "batch" || c["jumping"] != "cat" || c["residual"] != true || c["epochs"] != 2. {
			t.Errorf("the run's configuration is %v", c)
		}
	}
	sum := got[len(got)-1]
	eval := clitest.Events(t, "eval", dir, "--checkpoint", sum["model_file"].(string), "--splits", "test")
	if a, b := eval[len(eval)-1]["test_accuracy"], sum["test_accuracy"]; a != b {
		t.Errorf("the saved model's accuracy is %v, training said %v", a, b)
	}
	for _, c := range []struct{ text, want string }{
		{"epochs: 2\nlearning_rate: 3\n", ":2: learning_rate is no flag of train"},
		{"epochs: 2\n\nepochs: 3\n", ":3: epochs is there already, on line 1"},
		{"epochs: many\n", ":1: epochs: "},
		{"fanouts: [5, {a: b}]\n", ":1: fanouts: line 1: expected a number or a word"},
		{"model: {type: sage}\n", ":1: model: expected a value"},
		{"- epochs\n", ":1: expected flags as keys"},
		{"norm: group\n", "--norm group: expected none, batch or layer"},
		{"config: x\n", ":1: config is no flag"},
		{"epochs: [\n", "yaml"},
	} {
		path := file(c.text)
		code, _, stderr := clitest.Run(t, "train", dir, "--config", path)
		if code != cli.ExitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d and %q, expected %d and %q", c.text, code, stderr, cli.ExitUsage, c.want)
		}
	}
}
