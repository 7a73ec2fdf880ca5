package training_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
	"github.com/gstore/gstore/tools/cli/models"
)

// TestFrom: --from begins with a trained model's parameters, with that run's options of model and optimiser unless others are given, by a
// run's number, as best, or by a file, out of core too; and the run is recorded with what it began with.
func TestFrom(t *testing.T) {
	files := clitest.ReadCora(t).Numpy()
	dir := filepath.Join(t.TempDir(), "cora.gstore")
	clitest.Events(t, "ingest", clitest.Put(t, t.TempDir(), files), dir, "--undirected", "--partitions", "4")
	run := func(more ...string) (first, summary map[string]any) {
		events := clitest.Events(t, append([]string{"train", dir, "--baselines=false", "--threads", "1"}, more...)...)
		for _, e := range events {
			if e["event"] == "epoch" && e["epoch"] == 1. {
				first = e
			}
		}
		return first, events[len(events)-1]
	}
	_, done := run("--epochs", "12", "--hidden", "24", "--lr", ".01", "--model", "gcn", "--seed", "3")
	cold, _ := run("--epochs", "1", "--hidden", "24", "--lr", ".01", "--model", "gcn", "--seed", "4")
	saved := filepath.Join(t.TempDir(), "one.gsm")
	run("--epochs", "1", "--from", "1", "--save", saved)
	for _, from := range []string{"1", "best", saved} {
		warm, _ := run("--epochs", "1", "--from", from, "--seed", "4")
		if a, b := warm["loss"].(float64), cold["loss"].(float64); a > b/2 {
			t.Errorf("--from %s: the first epoch has a loss of %v, from new parameters %v", from, a, b)
		}
		if a, b := warm["valid_accuracy"].(float64), done["valid_accuracy"].(float64); a < b-.03 {
			t.Errorf("--from %s: validation accuracy %v after an epoch, that of the run before is %v", from, a, b)
		}
	}
	if warm, _ := run("--epochs", "1", "--from", "1", "--plan", "hanoi", "--buffer", "2"); warm["loss"].(float64) > cold["loss"].(float64) {
		t.Errorf("out of core the first epoch has a loss of %v, from new parameters in memory %v", warm["loss"], cold["loss"])
	}
	if got := recorded(t, dir, 4); got["model"] != "gcn" || got["hidden"] != 24. || got["lr"] != .01 || got["from"] != "1" || got["seed"] != 4. {
		t.Errorf("the run that went on is recorded as %v", got)
	}
	if got := recorded(t, dir, 5); got["from"] != "run 1" && got["from"] != "run 4" {
		t.Errorf("from the best one: %v", got["from"])
	}
	run("--epochs", "1", "--from", "1", "--lr", ".002", "--batch-size", "100")
	if got := recorded(t, dir, 8); got["lr"] != .002 || got["batch_size"] != 100. || got["hidden"] != 24. {
		t.Errorf("with options of its own: %v", got)
	}
	// All seeds begin with the run that was the best before them.
	clitest.Events(t, "train", dir, "--baselines=false", "--threads", "1", "--epochs", "1", "--from", "best", "--seeds", "2")
	if a, b := recorded(t, dir, 9)["from"], recorded(t, dir, 10)["from"]; a != b || a == "" || a == "run 9" {
		t.Errorf("two seeds began with %v and %v, expected the same earlier run", a, b)
	}
	clitest.MustRun(t, "plan", dir, "--from", "best", "--measure", "0")
	for _, c := range []struct{ args, says string }{
		{"--from 1 --hidden 32", "leave out options of the model"}, {"--from 99", "run 99 of"}, {"--from nosuch.gsm", "nosuch.gsm"},
	} {
		code, _, errs := clitest.Run(t, append([]string{"train", dir, "--epochs", "1"}, strings.Fields(c.args)...)...)
		if code == cli.ExitOK || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d: %s, expected %q", c.args, code, errs, c.says)
		}
	}
}

// recorded is the configuration of a store's run.
func recorded(t *testing.T, dir string, n uint64) map[string]any {
	t.Helper()
	h, err := store.ReadHistory(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range h.Runs {
		if r.Number == n {
			var c map[string]any
			if err := json.Unmarshal(r.Config, &c); err != nil {
				t.Fatal(err)
			}
			return c
		}
	}
	t.Fatalf("there is no run %d", n)
	return nil
}

// categories are how many vectors of categories the model of a store's run has.
func categories(t *testing.T, dir string, n uint64) []int {
	t.Helper()
	cp, err := train.LoadFile(models.File(dir, n))
	if err != nil {
		t.Fatal(err)
	}
	return cp.Model.Categories
}

// TestFromGrows: on a later version with more nodes, of which some have learned vectors of their own, a model goes on; one of other classes
// does not.
func TestFromGrows(t *testing.T) {
	folder := t.TempDir()
	shop := func(name string, text func(w *strings.Builder)) {
		var b strings.Builder
		text(&b)
		clitest.Put(t, folder, map[string][]byte{name: []byte(b.String())})
	}
	shop("shop/nodes/user.csv", func(w *strings.Builder) {
		fmt.Fprintln(w, "user_id,age,label")
		for u := range 300 {
			fmt.Fprintf(w, "u%d,%d,%s\n", u, 20+u*7%50, []string{"gold", "silver", "silver"}[u%3])
		}
	})
	shop("shop/edges/user-bought-item.csv", func(w *strings.Builder) {
		fmt.Fprintln(w, "user_id,item_id")
		for i := range 2400 {
			u := i % 300
			fmt.Fprintf(w, "u%d,i%d\n", u, []int{i * 7 % 50, i * 11 % 100, i * 11 % 100}[u%3])
		}
	})
	shop("more/user-bought-item.csv", func(w *strings.Builder) {
		fmt.Fprintln(w, "user_id,item_id")
		for i := range 40 {
			fmt.Fprintf(w, "u%d,i%d\n", i*7%300, 100+i%8)
		}
	})
	dir := filepath.Join(folder, "shop.gstore")
	clitest.Events(t, "ingest", filepath.Join(folder, "shop"), dir)
	clitest.Events(t, "train", dir, "--epochs", "80", "--lr", ".02", "--hidden", "16", "--baselines=false")
	clitest.Events(t, "append", dir, filepath.Join(folder, "more", "user-bought-item.csv"), "--new-nodes", "ok")
	clitest.MustRun(t, "verify", dir)
	// Items that came since have numbers of their own: the model before has no vectors for them, the next one has.
	clitest.MustRun(t, "eval", dir, "--checkpoint", "1")
	clitest.MustRun(t, "predict", dir, "user:u7", "--checkpoint", "1")
	cold := clitest.Losses(clitest.Events(t, "train", dir, "--epochs", "1", "--lr", ".02", "--hidden", "16", "--baselines=false"))
	warm := clitest.Losses(clitest.Events(t, "train", dir, "--epochs", "1", "--from", "1", "--baselines=false"))
	if warm[0] > cold[0]/2 {
		t.Errorf("after an append the first epoch has a loss of %v, from new parameters %v", warm[0], cold[0])
	}
	was, is := categories(t, dir, 1), categories(t, dir, 3)
	if len(was) == 0 || len(is) != len(was) || is[len(is)-1]-was[len(was)-1] != 8 {
		t.Errorf("the models have vectors of %v and %v nodes, expected 8 items more", was, is)
	}
	other := filepath.Join(folder, "cora.gstore")
	clitest.Events(t, "ingest", clitest.Put(t, t.TempDir(), clitest.ReadCora(t).Numpy()), other, "--undirected")
	code, _, errs := clitest.Run(t, "train", other, "--epochs", "1", "--from", filepath.Join(dir, "runs", "1.gsm"))
	if code == cli.ExitOK || !strings.Contains(errs, "feature") && !strings.Contains(errs, "model to begin with") {
		t.Errorf("on another graph: exit %d: %s", code, errs)
	}
}
