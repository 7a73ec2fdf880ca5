package data_test

import (
	"os"
	"path/filepath"
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
	clitest.MustRun(t, "generate", "rmat", in, "--nodes", "20001", "--edges", "800001", "--features", "301", "--classes", "5", "--quiet")
	fresh := func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"--partitioner", "random"},
		{"--undirected", "--partitioner", "random", "--precompute-hops", "1"},
		{"--undirected", "--partitioner", "fennel", "--hubs", "auto", "--precompute-hops", "1"},
		{"--partitions", "1", "--partitioner", "random"},
		{"--partitions", "1", "--partitioner", "random", "--precompute-hops", "1"},
	} {
		clitest.KeepsBudget(t, fresh, append([]string{"ingest", in, dir, "--quiet"}, args...)...)
	}
	clitest.KeepsBudget(t, nil, "partition", dir, "--partitioner", "fennel", "--partitions", "3", "--quiet")
	fresh()
	clitest.MustRun(t, "ingest", in, dir, "--partitions", "7", "--quiet")
	clitest.KeepsBudget(t, nil, "precompute", dir, "--quiet")
}
