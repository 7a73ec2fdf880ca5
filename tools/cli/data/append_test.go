package data_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// appendGraph is a random labelled graph, as numpy arrays of its first n nodes and the edges among
// them, and of the rest.
type appendGraph struct {
	src, dst, labels []int64
	x                []float32
}

func randomAppendGraph(nodes, edges int) *appendGraph {
	rng := rand.New(rand.NewPCG(1, 2))
	g := &appendGraph{}
	for v := range nodes {
		g.labels = append(g.labels, int64(v%3))
		for d := range 4 {
			g.x = append(g.x, rng.Float32()+float32((v+d)%3))
		}
	}
	for range edges {
		g.src, g.dst = append(g.src, rng.Int64N(int64(nodes))), append(g.dst, rng.Int64N(int64(nodes)))
	}
	return g
}

// write writes the nodes lo ≤ v < hi, every second one for training, and the edges whose larger end is one.
func (g *appendGraph) write(t *testing.T, lo, hi int) string {
	t.Helper()
	var src, dst, train, test []int64
	for k := range g.src {
		if last := max(g.src[k], g.dst[k]); last >= int64(lo) && last < int64(hi) {
			src, dst = append(src, g.src[k]), append(dst, g.dst[k])
		}
	}
	for v := lo; v < hi; v++ {
		if v%2 == 0 {
			train = append(train, int64(v))
		} else {
			test = append(test, int64(v))
		}
	}
	return clitest.Put(t, t.TempDir(), map[string][]byte{
		"edge_index.npy":  clitest.NpyFile("<i8", fmt.Sprintf("2, %d", len(src)), blocks.Bytes(append(src, dst...))),
		"node_feat.npy":   clitest.NpyFile("<f4", fmt.Sprintf("%d, 4", hi-lo), blocks.Bytes(g.x[4*lo:4*hi])),
		"node_label.npy":  clitest.NpyInts(g.labels[lo:hi]),
		"split/train.npy": clitest.NpyInts(train), "split/test.npy": clitest.NpyInts(test[1:]), "split/valid.npy": clitest.NpyInts(test[:1]),
	})
}

// trainedLosses trains two epochs and returns their losses.
func trainedLosses(t *testing.T, store string, args ...string) []float64 {
	t.Helper()
	return clitest.Losses(clitest.Events(t, append([]string{"train", store, "--epochs", "2", "--layers", "2", "--hidden", "8", "--fanouts", "3,3", "--batch-size", "50"}, args...)...))
}

// TestAppendTrains: a store that grew by an append trains to the same losses, to the bit, as
// one that was ingested at once, and out of core too.
func TestAppendTrains(t *testing.T) {
	g := randomAppendGraph(600, 4000)
	dir := t.TempDir()
	grown, once := filepath.Join(dir, "grown"), filepath.Join(dir, "once")
	for _, args := range [][]string{
		{"ingest", g.write(t, 0, 450), grown, "--partitions", "5"},
		{"append", grown, g.write(t, 450, 590)},
		{"append", grown, g.write(t, 590, 600), "--keep-versions", "3"},
		{"ingest", g.write(t, 0, 600), once, "--partitions", "3"},
		{"verify", grown},
	} {
		if code, stdout, stderr := clitest.Run(t, args...); code != cli.ExitOK {
			t.Fatalf("%v: exit code %d\n%s%s", args, code, stdout, stderr)
		}
	}
	a, b := trainedLosses(t, grown, "--plan", "memory"), trainedLosses(t, once, "--plan", "memory")
	if len(a) == 0 || len(a) != len(b) {
		t.Fatalf("losses %v and %v", a, b)
	}
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("losses %v, of the store ingested at once %v", a, b)
		}
	}
	for _, l := range trainedLosses(t, grown, "--plan", "hanoi", "--buffer", "3", "--x", "reuse=1") {
		if math.IsNaN(l) || l > 10 {
			t.Errorf("loss %g out of core", l)
		}
	}
}

func TestAppendCommand(t *testing.T) {
	g := randomAppendGraph(100, 300)
	dir := filepath.Join(t.TempDir(), "s")
	if code, _, stderr := clitest.Run(t, "ingest", g.write(t, 0, 100), dir, "--partitions", "4"); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	rank := make([]float32, 200)
	for i := range rank {
		rank[i] = float32(i)
	}
	files := clitest.Put(t, t.TempDir(), map[string][]byte{
		"rank.npy":  clitest.NpyFile("<f4", "100, 2", blocks.Bytes(rank)),
		"short.npy": clitest.NpyFile("<f4", "50, 2", blocks.Bytes(rank[:100])),
		"more.tsv":  []byte("3\t100\n100\t101\n"),
		"bad.tsv":   []byte("a\tb\n"),
	})
	out := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"append", dir}, cli.ExitUsage, "either INPUT, or --features"},
		{[]string{"append", dir, "--features", files + "/rank.npy"}, cli.ExitUsage, "--name"},
		{[]string{"append", dir, "--features", files + "/short.npy", "--name", "rank"}, cli.ExitFailed, "expected 100"},
		{[]string{"append", dir, "--features", files + "/rank.npy", "--name", "x"}, cli.ExitFailed, "already"},
		{[]string{"append", dir, "--features", files + "/rank.npy", "--name", "rank", "--json"}, cli.ExitOK, `"rows_rewritten":0`},
		{[]string{"verify", dir}, cli.ExitOK, "version 2 is whole"},
		{[]string{"export", dir, out, "--what", "features", "--columns", "rank"}, cli.ExitOK, "100 rows"},
		{[]string{"append", dir, files + "/bad.tsv", "--header", "no"}, cli.ExitFailed, "line 1"},
		{[]string{"append", dir, files + "/more.tsv", "--header", "no", "--keep-versions", "0"}, cli.ExitUsage, "--keep-versions"},
		{[]string{"append", dir, files + "/more.tsv", "--header", "no"}, cli.ExitOK, "version 3, 102 nodes (2 new, in 1 partitions), 302 edges (2 new), 0 of 4 stripes rewritten"},
		{[]string{"verify", dir}, cli.ExitOK, "version 3 is whole"},
		{[]string{"inspect", dir, "--version", "2"}, cli.ExitOK, "100"},
		{[]string{"inspect", dir, "--version", "1"}, cli.ExitFailed, ""},
	} {
		if code, stdout, stderr := clitest.Run(t, c.args...); code != c.code || !strings.Contains(stdout+stderr, c.text) {
			t.Errorf("%v: exit code %d, expected %d and %q\n%s%s", c.args, code, c.code, c.text, stdout, stderr)
		}
	}
	b, err := os.ReadFile(filepath.Join(out, "node_feat.npy"))
	if err != nil || string(b[128:]) != string(blocks.Bytes(rank)) {
		t.Errorf("the added column came back otherwise: %v", err)
	}
}
