package training_test

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// Node v of a ring of groups is of group v mod ringGroups, which its features say, with noise; edges lead from a group to the next.
const (
	ringNodes  = 160
	ringGroups = 8
)

// ringEdges draws edges from nodes from first on.
func ringEdges(r *keyed.Rand, n, first, nodes int) (heads, tails []int64) {
	for range n {
		src := int64(first) + int64(r.Below(uint64(nodes)))
		heads, tails = append(heads, src), append(tails, (src+1)%ringGroups+ringGroups*int64(r.Below(ringNodes/ringGroups)))
	}
	return heads, tails
}

// ringFeatures are those of nodes from first on.
func ringFeatures(r *keyed.Rand, first, nodes int) []byte {
	x := make([]float32, nodes*ringGroups)
	for i := range x {
		x[i] = float32(.3 * r.Normal())
	}
	for v := range nodes {
		x[v*ringGroups+(first+v)%ringGroups]++
	}
	return clitest.NpyFile("<f4", fmt.Sprintf("%d, %d", nodes, ringGroups), blocks.Bytes(x))
}

func ring(t *testing.T) string {
	r := keyed.New(9).Rand(0)
	index := func(n int) []byte {
		heads, tails := ringEdges(&r, n, 0, ringNodes)
		return clitest.NpyFile("<i8", fmt.Sprintf("2, %d", n), blocks.Bytes(append(heads, tails...)))
	}
	list := func(n int) []byte {
		heads, tails := ringEdges(&r, n, 0, ringNodes)
		var pairs []int64
		for i := range heads {
			pairs = append(pairs, heads[i], tails[i])
		}
		return clitest.NpyFile("<i8", fmt.Sprintf("%d, 2", n), blocks.Bytes(pairs))
	}
	in := clitest.Put(t, t.TempDir(), map[string][]byte{"edge_index.npy": index(1500), "edges_valid.npy": list(60), "edges_test.npy": list(60), "node_feat.npy": ringFeatures(&r, 0, ringNodes)})
	st := filepath.Join(t.TempDir(), "ring.gstore")
	clitest.MustRun(t, "ingest", in, st, "--partitions", "8", "--quiet")
	return st
}

// TestTrainLinkFeatures: by features alone links are learned, in memory and out of core, eval ranks them as training did, and a node that
// came later is answered for as others are; learned embeddings are of one version.
func TestTrainLinkFeatures(t *testing.T) {
	st := ring(t)
	run := []string{"train", st, "--overwrite", "--features", "x", "--dim", "16", "--epochs", "8", "--eval-every", "8", "--batch-size", "100", "--negatives", "40", "--x", "chunks=4", "--lr", ".01", "--model", "complex"}
	train := func(more ...string) map[string]any {
		ev := clitest.Events(t, append(run, more...)...)
		if hides := ev[0]["config"].(map[string]any)["remove_batch_edges"]; hides == strings.Contains(strings.Join(more, " "), "none") {
			t.Errorf("%v: a batch's edges are hidden: %v", more, hides)
		}
		return ev[len(ev)-1]
	}
	for _, more := range [][]string{{}, {"--no-embeddings", "--encoder", "gat", "--threads", "1"}, {"--no-embeddings", "--plan", "comet", "--buffer", "4"}, {"--no-embeddings", "--encoder", "none"}, {"--no-embeddings"}} {
		s := train(more...)
		mrr := s["test_mrr"].(float64)
		if mrr < .11 { // of 20 right answers of 160, half are known: at random about .05
			t.Errorf("%v: test MRR %.3f, expected above .11", more, mrr)
		}
		for _, mem := range []string{"0", "88MiB"} {
			ev := clitest.Events(t, "eval", st, "--mem", mem)
			if again := ev[len(ev)-1]["test_mrr"].(float64); math.Abs(again-mrr) > 1e-9 && !strings.Contains(strings.Join(more, " "), "gat") || math.Abs(again-mrr) > .02 {
				t.Errorf("%v: eval within %s: test MRR %v, expected %v", more, mem, again, mrr)
			}
		}
	}
	// Eight nodes that came later, with an edge each from some of the old ones.
	r := keyed.New(10).Rand(0)
	heads, tails := ringEdges(&r, 40, 0, ringNodes)
	for i := range tails {
		tails[i] = ringNodes + (heads[i]+1)%ringGroups
	}
	later := clitest.Put(t, t.TempDir(), map[string][]byte{"edge_index.npy": clitest.NpyFile("<i8", "2, 40", blocks.Bytes(append(heads, tails...))), "node_feat.npy": ringFeatures(&r, ringNodes, ringGroups)})
	clitest.MustRun(t, "append", st, later, "--quiet")
	right := 0
	for v := range ringGroups {
		_, out, _ := clitest.Run(t, "predict", st, fmt.Sprint(ringNodes+v), "?", "--top", "5", "--format", "csv", "--filter", "none")
		for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
			if tail, err := strconv.Atoi(strings.Split(line, ",")[4]); err == nil && tail%ringGroups == (v+1)%ringGroups {
				right++
			}
		}
	}
	if right < 30 {
		t.Errorf("of 40 answers for nodes that came later %d are of the next group", right)
	}
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"export", st, t.TempDir(), "--what", "embeddings", "--version", "1"}, cli.ExitFailed, "its run is without"},
		{[]string{"train", st, "--features", "y"}, cli.ExitUsage, "--features y: the store's features are x"},
		{[]string{"train", st, "--features", "x", "--relation", "likes"}, cli.ExitUsage, "likes"},
		{[]string{"train", st, "--no-embeddings"}, cli.ExitUsage, "features"},
		{append(run, "--version", "1", "--epochs", "1", "--quiet"), cli.ExitOK, ""},
		{[]string{"predict", st, "3", "?"}, cli.ExitOK, "was trained on version 1"},
	} {
		if code, _, stderr := clitest.Run(t, c.args...); code != c.code || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%q: exit code %d, want %d; stderr %q, want %q in it", c.args, code, c.code, stderr, c.stderr)
		}
	}
}

// TestTrainLinkTypes: of several relations one is predicted, by nodes of the types of its ends alone: ranks, wrong answers and answers.
func TestTrainLinkTypes(t *testing.T) {
	const users, items = 120, 40
	r := keyed.New(3).Rand(0)
	index := func(n, src, dst, step int) []byte {
		var heads, tails []int64
		for range n {
			v := int64(r.Below(uint64(src)))
			heads, tails = append(heads, v), append(tails, (v+int64(step))%ringGroups+ringGroups*int64(r.Below(uint64(dst/ringGroups))))
		}
		return clitest.NpyFile("<i8", fmt.Sprintf("2, %d", n), blocks.Bytes(append(heads, tails...)))
	}
	in := clitest.Put(t, t.TempDir(), map[string][]byte{
		"nodes/user/feat.npy": ringFeatures(&r, 0, users), "nodes/item/feat.npy": ringFeatures(&r, 0, items),
		"edges/user__buys__item/edge_index.npy": index(900, users, items, 1), "edges/user__knows__user/edge_index.npy": index(600, users, users, 2),
	})
	st := filepath.Join(t.TempDir(), "shop.gstore")
	clitest.MustRun(t, "ingest", in, st, "--partitions", "4", "--split-random", "80/10/10", "--quiet")
	for _, more := range []string{"--plan=memory", "--plan=comet --buffer=4"} {
		clitest.Events(t, append([]string{"train", st, "--overwrite", "--features", "user.feat,item.feat", "--no-embeddings", "--relation", "buys", "--model", "complex", "--dim", "16", "--epochs", "8",
			"--eval-every", "8", "--batch-size", "100", "--negatives", "40", "--x", "chunks=4", "--lr", ".01"}, strings.Fields(more)...)...)
		ev := clitest.Events(t, "eval", st)
		s := ev[len(ev)-1]
		_, out, _ := clitest.Run(t, "predict", st, "60", "?", "--top", "60", "--format", "csv", "--filter", "none")
		lines := strings.Split(strings.TrimSpace(out), "\n")[1:]
		for _, line := range lines {
			if tail, err := strconv.Atoi(strings.Split(line, ",")[4]); err != nil || tail >= items { // their ids come first
				t.Errorf("%s: answer %s, expected an item", more, line)
			}
		}
		if len(lines) != items {
			t.Errorf("%s: %d answers, expected %d", more, len(lines), items)
		}
		if got := s["test_candidates"]; got != float64(items) {
			t.Errorf("%s: an answer is ranked against %v nodes, expected the %d items", more, got, items)
		}
	}
	if code, _, stderr := clitest.Run(t, "predict", st, "60", "user:knows:user", "?"); code != cli.ExitUsage || !strings.Contains(stderr, "predicts relation user:buys:item alone") {
		t.Errorf("another relation is asked for: exit code %d, %s", code, stderr)
	}
}
