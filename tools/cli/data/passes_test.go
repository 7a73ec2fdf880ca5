package data_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestPassesAreTold: after each pass ingest says what partition says: how many edges are cut and how large the largest
// partition is, the last of which is what the report of the store says.
func TestPassesAreTold(t *testing.T) {
	dir := t.TempDir()
	in, made, moved := filepath.Join(dir, "in"), filepath.Join(dir, "made"), filepath.Join(dir, "moved")
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "3000", "--edges", "20000", "--classes", "4", "--features", "2", "--quiet")
	clitest.MustRun(t, "ingest", in, moved, "--undirected", "--partitions", "8", "--quiet")
	for _, c := range []struct {
		partitioner, store string
		args               []string
	}{
		{"fennel", made, []string{"ingest", in, made, "--undirected", "--partitions", "8"}},
		{"gap", made + "2", []string{"ingest", in, made + "2", "--undirected", "--partitions", "8"}},
		{"hdr", made + "3", []string{"ingest", in, made + "3", "--undirected", "--partitions", "8"}},
		{"fennel", moved, []string{"partition", moved}},
	} {
		code, stdout, stderr := clitest.Run(t, append(c.args, "--partitioner", c.partitioner, "--json")...)
		if code != cli.ExitOK {
			t.Fatalf("%v: exit code %d: %s", c.args, code, stderr)
		}
		passes := clitest.ByName(t, stdout)["pass"]
		q := clitest.Quality(t, "partition", c.store, "--report")
		if len(passes) == 0 || c.partitioner != "hdr" && len(passes) < 4 {
			t.Fatalf("%v by %s: %d passes are told", c.args, c.partitioner, len(passes))
		}
		for i, p := range passes {
			if p["pass"] != float64(i+1) || p["method"] != c.partitioner || p["edges_per_second"].(float64) <= 0 {
				t.Errorf("%v by %s: pass %d says %v", c.args, c.partitioner, i+1, p)
			}
		}
		last := passes[len(passes)-1]
		if largest := last["largest_over_mean"].(float64); math.Abs(largest-q.NodeSpread.MaxOverMean) > 1e-9 {
			t.Errorf("%v by %s: the last pass's largest partition is %v of the mean, the store's %v", c.args, c.partitioner, largest, q.NodeSpread.MaxOverMean)
		}
		switch cut := last["cut_rate"].(float64); {
		case c.partitioner == "hdr":
			if cut != -1 {
				t.Errorf("hdr counts no cut, and says %v", cut)
			}
		case math.Abs(cut-q.CutRate) > .02: // as nodes saw it when they were placed
			t.Errorf("%v by %s: the last pass cut %.3f of the edges, the store %.3f", c.args, c.partitioner, cut, q.CutRate)
		}
	}
}
