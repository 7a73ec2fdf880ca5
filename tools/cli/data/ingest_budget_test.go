package data_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestIngestKeepsItsBudget: the smallest budget that a refusal names works for every phase: the partitioner, the bucket of one partition's
// edges, and the hop after the store. Each was asked for in its turn: 98 MiB were named, and 184 when the store was made.
func TestIngestKeepsItsBudget(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes memory of its own")
	}
	in, dir := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "store")
	clitest.MustRun(t, "generate", "rmat", in, "--nodes", "20001", "--edges", "800001", "--features", "301", "--classes", "5", "--train", ".1", "--quiet")
	fresh := func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	for k, args := range [][]string{
		{},
		{"--undirected"},
		{"--undirected", "--partitioner", "random", "--precompute-hops", "1"},
		{"--undirected", "--partitioner", "fennel", "--hubs", "auto", "--precompute-hops", "1"},
		{"--partitioner", "fennel", "--hubs", "train"},
		{"--partitions", "1", "--partitioner", "random"},
		{"--partitions", "1", "--partitioner", "random", "--precompute-hops", "1"},
	} {
		if k%race.Sample(2, 2) != 1%race.Sample(2, 2) {
			continue
		}
		clitest.KeepsBudget(t, fresh, append([]string{"ingest", in, dir, "--quiet"}, args...)...)
	}
	clitest.KeepsBudget(t, nil, "partition", dir, "--partitioner", "fennel", "--partitions", "3", "--quiet")
	fresh()
	clitest.MustRun(t, "ingest", in, dir, "--partitions", "7", "--quiet")
	clitest.KeepsBudget(t, nil, "precompute", dir, "--quiet")
}

// TestIngestKnowsUnevenEdges: the first refusal counts the edges of an input that does not say how many it has, and those of the largest
// bucket where nearly all are between two nodes; both were found out when edges were sorted.
func TestIngestKnowsUnevenEdges(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes memory of its own")
	}
	dir := t.TempDir()
	in, st := filepath.Join(dir, "edges.csv"), filepath.Join(dir, "store")
	f, err := os.Create(in) // written bit by bit: a child's peak counts what its parent held when it began
	if err != nil {
		t.Fatal(err)
	}
	same := strings.Repeat("0,1\n", 1000)
	for range 2000 {
		_, _ = f.WriteString(same)
	}
	for v := range 3000 {
		_, _ = fmt.Fprintf(f, "%d,%d\n", v, (v+7)%3000)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	fresh := func() {
		if err := os.RemoveAll(st); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"--ids", "dense", "--num-nodes", "3000"}, {"--ids", "dense", "--num-nodes", "3000", "--partitions", "8"}, {"--ids", "integers", "--partitions", "3"}} {
		clitest.KeepsBudget(t, fresh, append([]string{"ingest", in, st, "--header", "no", "--quiet"}, args...)...)
	}
}
