package benchmarks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestBenchDevice: of nodes feature rows are counted, of links embeddings, which come back; the flags of the one are not the other's.
func TestBenchDevice(t *testing.T) {
	nodes := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 400, Edges: 1500, Partitions: 4}))
	triples, edges := t.TempDir(), filepath.Join(t.TempDir(), "kg.gstore")
	for name, n := range map[string]int{"train": 1000, "valid": 20, "test": 20} {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "n%d\tr%d\tn%d\n", i%150, i%3, (n+7*i+i*i)%150)
		}
		if err := os.WriteFile(filepath.Join(triples, name+".txt"), []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	clitest.MustRun(t, "ingest", triples, edges, "--partitions", "4", "--quiet")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{nodes, "--hidden", "8", "--reorder", "4"}, cli.ExitOK, "pbs"},
		{[]string{edges, "--dim", "4", "--negatives", "5"}, cli.ExitOK, "oracle"},
		{[]string{nodes, "--dim", "4"}, cli.ExitUsage, "--dim is for link prediction"},
		{[]string{edges, "--split", "split"}, cli.ExitUsage, "--split is for node classification"},
	} {
		code, stdout, stderr := lab(t, append([]string{"bench", "device", "--rooms", "25", "--batch-size", "50", "--batches", "4"}, c.args...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%v: exit code %d, expected %d with %q: %s%s", c.args[1:], code, c.code, c.want, stdout, stderr)
		}
	}
}
