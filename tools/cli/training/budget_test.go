package training_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestTrainKeepsItsBudget: a run of a wide input stays below the smallest budget that a refusal names, and one above it. Gradients, moments,
// a checkpoint's copy of its first layer and what of Go's heap is garbage took up to 122 % of it.
func TestTrainKeepsItsBudget(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes memory of its own")
	}
	in, dir := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "store")
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "1501", "--edges", "4001", "--features", "3703", "--classes", "6", "--quiet")
	clitest.MustRun(t, "ingest", in, dir, "--partitions", "7", "--partitioner", "random", "--quiet")
	for _, threads := range []string{"1", "4"} {
		clitest.KeepsBudget(t, nil, "train", dir, "--hidden", "512", "--epochs", "3", "--threads", threads, "--quiet")
	}
	clitest.KeepsBudget(t, nil, "eval", dir, "--quiet")
}

// TestEvalOfFewKeepsItsAccount: layers of a closure, whose sizes differ, do not keep what the one below had.
func TestEvalOfFewKeepsItsAccount(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes memory of its own")
	}
	in, dir := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "store")
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "60000", "--edges", "250000", "--features", "16", "--classes", "4",
		"--train", ".045", "--valid", ".002", "--test", ".002", "--quiet")
	clitest.MustRun(t, "ingest", in, dir, "--partitions", "32", "--precompute-hops", "1", "--quiet")
	clitest.MustRun(t, "train", dir, "--epochs", "1", "--layers", "3", "--fanouts", "5,5,5", "--hidden", "512", "--quiet")
	for _, mib := range []int64{120, 130, 140, 170} {
		clitest.KeepsAccounts(t, mib, "eval", dir, "--quiet")
	}
}

// TestTemporalKeepsItsBudget: the same of edges at moments, in training, evaluation and prediction. A budget of 1 MiB was taken for what
// one holds of the graph, and the rest, up to 664 MiB, came on top.
func TestTemporalKeepsItsBudget(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes memory of its own")
	}
	var b strings.Builder
	for i := range 6001 {
		user := i * 7 % 201
		fmt.Fprintf(&b, "u%d\ti%d\t%d\n", user, (user*13+i/400*3)%1501, 1000+i/3)
	}
	dir := clitest.Put(t, t.TempDir(), map[string][]byte{"edges.tsv": []byte(b.String()), "nodes.txt": []byte("u3\nu4\n")})
	store := filepath.Join(dir, "s.gstore")
	clitest.MustRun(t, "ingest", filepath.Join(dir, "edges.tsv"), store, "--columns", "src,dst,timestamp", "--quiet")
	clitest.KeepsBudget(t, nil, "train", store, "--task", "temporal", "--epochs", "2", "--threads", "3", "--time-encoding", "learned", "--quiet")
	clitest.KeepsBudget(t, nil, "eval", store, "--threads", "2", "--quiet")
	clitest.KeepsBudget(t, nil, "predict", store, "--input", filepath.Join(dir, "nodes.txt"), "--out", filepath.Join(t.TempDir(), "answers.csv"), "--quiet")
}
