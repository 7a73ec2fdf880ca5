package data_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestIngestRecipe: a graph that training will not have in memory gets, without a flag, the partitions, hubs and hop that
// training out of core wants, and train uses them; one that fits, or a user who says otherwise, gets what it got.
func TestIngestRecipe(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "32k", "--edges", "200k", "--classes", "8", "--features", "1024", "--train", ".1", "--quiet") // 128 MiB
	for _, c := range []struct {
		name       string
		args       []string
		recipe     bool
		partitions int
		hop        bool
	}{
		{"beyond", []string{"--mem", "120MiB"}, true, 512, true},
		{"beside a mini-batch", []string{"--mem", "500MiB"}, true, 512, true}, // which takes 188 MiB, and the evaluator 108
		{"within", []string{"--mem", "510MiB"}, false, 8, false},
		{"asked", []string{"--mem", "120MiB", "--partitioner", "random"}, false, 8, false},
		{"shared", []string{"--mem", "240MiB", "--partitions", "16", "--precompute-hops", "0"}, true, 16, false},
	} {
		path := filepath.Join(dir, c.name)
		_, out, _ := clitest.Run(t, append([]string{"ingest", in, path}, c.args...)...)
		if got := strings.Contains(out, "training will not have all of this graph in memory"); got != c.recipe {
			t.Errorf("%s: the recipe is told %v, expected %v: %s", c.name, got, c.recipe, out)
		}
		s, err := store.Open(path, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m := s.Manifest()
		_, err = m.Column("x.hop1")
		if loose := len(m.Partitions) - len(m.Pinned); loose != c.partitions || (err == nil) != c.hop {
			t.Errorf("%s: %d partitions, hop %v; expected %d and %v", c.name, loose, err == nil, c.partitions, c.hop)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for plan, told := range map[string]string{"auto": "every neighbour can be drawn", "hanoi": "an epoch old"} { // few neighbours lie in a partition's company
		_, out, _ := clitest.Run(t, "train", filepath.Join(dir, "beyond"), "--plan", plan, "--mem", "220MiB", "--epochs", "1", "--hidden", "16", "--fanouts", "5,5", "--explain")
		for _, want := range []string{"x.hop1", told} {
			if !strings.Contains(out, want) {
				t.Errorf("train by plan %s says nothing of %q: %s", plan, want, out)
			}
		}
	}
}
