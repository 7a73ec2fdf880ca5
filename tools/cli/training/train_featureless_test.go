package training_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// Nodes with labels and without features learn a vector each, unasked: in memory, out of core and behind an export, and new ones are
// numbered on.
func TestTrainWithoutFeatures(t *testing.T) {
	const n, classes = 601, 3
	rng := rand.New(rand.NewPCG(7, 1))
	var edges, nodes strings.Builder
	edges.WriteString("node_1,node_2\n")
	nodes.WriteString("id,kind\n")
	for v := range n {
		fmt.Fprintf(&nodes, "%d,%s\n", v, []string{"a", "b", "c"}[v%classes])
		for range 5 {
			u := rng.IntN(n)
			if rng.Float64() < .8 {
				u = u - u%classes + v%classes
			}
			fmt.Fprintf(&edges, "%d,%d\n", v, u)
		}
	}
	dir := clitest.Put(t, t.TempDir(), map[string][]byte{"edges.csv": []byte(edges.String()), "nodes.csv": []byte(nodes.String()), "more.csv": []byte("node_1,node_2\n9000,3\n9000,6\n9001,9\n")})
	path := func(name string) string { return filepath.Join(dir, name) }
	clitest.MustRun(t, "ingest", path("edges.csv"), path("s"), "--nodes", path("nodes.csv"), "--label", "kind", "--partitions", "5", "--quiet")
	test := func(args ...string) float64 {
		events := clitest.Events(t, append([]string{"train"}, args...)...)
		return events[len(events)-1]["test_accuracy"].(float64)
	}
	memory := test(path("s"))
	if memory < .9 {
		t.Errorf("test accuracy %v", memory)
	}
	if rows := test(path("s"), "--plan", "rows"); rows != memory {
		t.Errorf("by plan rows %v, in memory %v", rows, memory)
	}
	for _, args := range [][]string{{"--plan", "hanoi", "--buffer", "3"}, {"--vectors", "table"}} {
		if got := test(append(args, path("s"))...); got < .85 {
			t.Errorf("%q: test accuracy %v", args, got)
		}
	}
	if code, _, errs := clitest.Run(t, "train", path("s"), "--model", "sage"); code == cli.ExitOK || !strings.Contains(errs, "--model rsage") {
		t.Errorf("sage: exit code %d, %s", code, errs)
	}
	code, out, errs := clitest.Run(t, "append", path("s"), path("more.csv"))
	if code != cli.ExitOK || strings.Contains(out+errs, "node_type") {
		t.Errorf("append: exit code %d, %s%s", code, out, errs)
	}
	clitest.MustRun(t, "predict", path("s"), "9000", "9001", "5", "--checkpoint", "1", "--quiet")
	clitest.MustRun(t, "verify", path("s"), "--quiet")
	if got := test(path("s")); got < .85 { // with vectors of the new ones
		t.Errorf("after an append: test accuracy %v", got)
	}
	clitest.MustRun(t, "export", path("s"), path("out"), "--quiet")
	clitest.MustRun(t, "ingest", path("out"), path("again"), "--quiet")
	if got := test(path("again")); got < .85 {
		t.Errorf("behind an export: test accuracy %v", got)
	}
}
