package data_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

func TestPartitionFromInputToStore(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "sbm")
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "6000", "--edges", "40000", "--classes", "12", "--features", "4", "--quiet")
	ingest := func(name string, flags ...string) string {
		t.Helper()
		out := filepath.Join(dir, name)
		clitest.MustRun(t, append([]string{"ingest", in, out, "--undirected", "--partitions", "16", "--quiet"}, flags...)...)
		return out
	}
	random := ingest("random")
	plain := clitest.Quality(t, "partition", random, "--report")
	fennel := clitest.Quality(t, "partition", ingest("fennel", "--partitioner", "fennel", "--hubs", "0.02", "--threads", "1"), "--report")
	if fennel.Pinned != 1 || fennel.PinnedNode != 120 || fennel.Partitions != 17 {
		t.Errorf("hubs: %d partitions, %d pinned, %d nodes pinned", fennel.Partitions, fennel.Pinned, fennel.PinnedNode)
	}
	if fennel.LostRate > 0.7*plain.LostRate || fennel.ResidentShare[0] < plain.ResidentShare[0] {
		t.Errorf("fennel with hubs loses %.3f of the edges, random %.3f", fennel.LostRate, plain.LostRate)
	}
	// Threads do not matter to what is assigned.
	again := clitest.Quality(t, "partition", ingest("threads", "--partitioner", "fennel", "--hubs", "0.02", "--threads", "3"), "--report")
	if a, b := clitest.MustJSON(t, fennel), clitest.MustJSON(t, again); a != b {
		t.Errorf("one thread: %s\nthree: %s", a, b)
	}
	gap := clitest.Quality(t, "partition", ingest("gap", "--partitioner", "gap"), "--report")
	if gap.PartitionLabels.Mean > plain.PartitionLabels.Mean+partitioner.LabelBound {
		t.Errorf("gap's labels diverge by %.3f, random's by %.3f", gap.PartitionLabels.Mean, plain.PartitionLabels.Mean)
	}
	// Hubs by bytes: a node has 4 float32 features, an int32 label and a byte of split.
	bytes := clitest.Quality(t, "partition", ingest("bytes", "--partitioner", "fennel", "--hubs", "2100B"), "--report")
	if bytes.Pinned != 1 || bytes.PinnedNode != 100 {
		t.Errorf("hubs of 2100 bytes: %d partitions, %d nodes pinned, expected 100", bytes.Pinned, bytes.PinnedNode)
	}
	later := clitest.Quality(t, "partition", ingest("later"), "--partitioner", "fennel", "--hubs", "2100B")
	if later.PinnedNode != 100 {
		t.Errorf("hubs of 2100 bytes later: %d nodes pinned, expected 100", later.PinnedNode)
	}
	// What ingest passes on to the partitioner decides the cut.
	one := clitest.Quality(t, "partition", ingest("one", "--partitioner", "fennel", "--passes", "1", "--order", "random"), "--report")
	if plainer := clitest.Quality(t, "partition", ingest("eight", "--partitioner", "fennel"), "--report"); one.CutEdges == plainer.CutEdges {
		t.Errorf("--passes 1 --order random cuts %d edges, as the defaults do", one.CutEdges)
	}
	shared := clitest.Quality(t, "partition", ingest("shared", "--partitioner", "gap", "--label-share", "0.2"), "--report")
	if shared.CutEdges >= gap.CutEdges {
		t.Errorf("gap with a fifth of the balance by labels cuts %d edges, with all of it %d", shared.CutEdges, gap.CutEdges)
	}
	// An assignment goes to a file and from there into a store.
	file := filepath.Join(dir, "assignment")
	made := clitest.Quality(t, "partition", random, "--partitioner", "fennel", "--output", file)
	read := clitest.Quality(t, "partition", ingest("file", "--partitioner", "file:"+file), "--report")
	clitest.MustRun(t, "partition", random, "--partitioner", "fennel", "--quiet")
	if inPlace := clitest.Quality(t, "partition", random, "--report"); inPlace.CutEdges != made.CutEdges || inPlace.NodeSpread != made.NodeSpread {
		t.Errorf("in place: %d edges cut, expected %d", inPlace.CutEdges, made.CutEdges)
	}
	clitest.MustRun(t, "verify", random, "--quiet")
	if made.CutEdges != read.CutEdges || made.NodeSpread != read.NodeSpread {
		t.Errorf("written: %d edges cut; read: %d", made.CutEdges, read.CutEdges)
	}
}

// TestPartitionByExternalIDs: what ingest assigns by the input's ids, partition assigns by the same ids,
// wherever the store has its nodes: an assignment in a file, ranges, random. A file says how many partitions there are.
func TestPartitionByExternalIDs(t *testing.T) {
	dir := t.TempDir()
	in, file := filepath.Join(dir, "sbm"), filepath.Join(dir, "assignment")
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "3000", "--edges", "20000", "--classes", "4", "--features", "2", "--quiet")
	scattered := filepath.Join(dir, "scattered")
	clitest.MustRun(t, "ingest", in, scattered, "--undirected", "--partitions", "12", "--seed", "9", "--quiet")
	clitest.Quality(t, "partition", scattered, "--partitioner", "fennel", "--partitions", "7", "--output", file)
	for _, c := range []struct {
		partitioner, partitions string
		want                    int
	}{{"file:" + file, "", 7}, {"file:" + file, "9", 9}, {"range", "5", 5}, {"random", "5", 5}} {
		made, args := filepath.Join(dir, fmt.Sprint("made", c.want)+c.partitioner[:4]), []string{"--partitioner", c.partitioner, "--seed", "3"}
		if c.partitions != "" {
			args = append(args, "--partitions", c.partitions)
		}
		clitest.MustRun(t, append([]string{"ingest", in, made, "--undirected", "--quiet"}, args...)...)
		want := clitest.Quality(t, "partition", made, "--report")
		if want.Partitions != c.want {
			t.Errorf("%v: %d partitions, expected %d", args, want.Partitions, c.want)
		}
		clitest.MustRun(t, append([]string{"partition", scattered, "--quiet"}, args...)...)
		got := clitest.Quality(t, "partition", scattered, "--report")
		got.ResidentShare, want.ResidentShare = nil, nil // sums in the order of nodes, and walks
		if clitest.MustJSON(t, got) != clitest.MustJSON(t, want) {
			t.Errorf("%v: ingest makes\n%+v\npartition makes\n%+v", args, want, got)
		}
	}
	clitest.MustRun(t, "verify", scattered, "--quiet")

	// Ids that are names have no place in a file.
	edges, named := filepath.Join(dir, "edges.tsv"), filepath.Join(dir, "named")
	if err := os.WriteFile(edges, []byte("a\tb\nb\tc\nc\td\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.MustRun(t, "ingest", edges, named, "--columns", "src,dst", "--quiet")
	for _, args := range [][]string{{"--partitioner", "file:" + file}, {"--output", file + "2"}} {
		var out, errs bytes.Buffer
		if code := cli.Run(context.Background(), append([]string{"partition", named}, args...), strings.NewReader(""), &out, &errs); code != cli.ExitUsage || !strings.Contains(errs.String(), "strings") {
			t.Errorf("%v of named nodes: exit %d, %s", args, code, errs.String())
		}
	}
}

func TestPartitionUsage(t *testing.T) {
	dir := t.TempDir()
	in, made, out := filepath.Join(dir, "in"), filepath.Join(dir, "store"), filepath.Join(dir, "out")
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "1000", "--edges", "4000", "--features", "512", "--quiet")
	clitest.MustRun(t, "ingest", in, made, "--quiet")
	for _, args := range [][]string{
		{"partition"},
		{"partition", "store", "--report", "--output", "x"},
		{"partition", "store", "--report", "--hubs", "0.1"},
		{"partition", "store", "--partitioner", "metis"},
		{"partition", "store", "--partitions", "-1"},
		{"partition", "store", "--hops", "0"},
		{"partition", "store", "--slack", "0"},
		{"partition", "store", "--partitioner", "gap", "--label-share", "0"},
		{"partition", "store", "--partitioner", "fennel", "--label-share", "0.5"},
		{"partition", "store", "--partitioner", "random", "--passes", "3"},
		{"partition", made, "--hubs", "1e-9"},
		{"partition", made, "--hubs", "1KiB"},
		{"partition", made, "--hubs", "1GiB"},
		{"partition", made, "--partitions", "5000"},
		{"ingest", "../demo/nothing", out, "--partitioner", "random", "--order", "bfs"},
		{"ingest", "../demo/nothing", out, "--partitioner", "gap", "--label-share", "0"},
		{"ingest", "../demo/nothing", out, "--hubs", "0.6"},
		{"ingest", in, out, "--partitions", "5000"},
		{"ingest", in, out, "--hubs", "1KiB"},
		{"ingest", in, out, "--hubs", "1e-9"},
	} {
		var out, errs bytes.Buffer
		if code := cli.Run(context.Background(), args, strings.NewReader(""), &out, &errs); code != cli.ExitUsage {
			t.Errorf("%v: exit %d, expected %d: %s", args, code, cli.ExitUsage, errs.String())
		}
	}
}
