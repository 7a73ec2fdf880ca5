package training_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// labelledFolder is a numpy folder of a ring of nodes with such labels, −1 for none, and splits.
func labelledFolder(t *testing.T, labels []int64, train, valid, test []int64) string {
	t.Helper()
	n := len(labels)
	var ends [2][]int64
	var rows []float32
	for v := range n {
		ends[0], ends[1] = append(ends[0], int64(v)), append(ends[1], int64((v+1)%n))
		rows = append(rows, float32(v%7), float32(labels[v]))
	}
	return clitest.Put(t, t.TempDir(), map[string][]byte{
		"edge_index.npy": clitest.NpyFile("<i8", fmt.Sprintf("2, %d", n), blocks.Bytes(append(ends[0], ends[1]...))),
		"node_feat.npy":  clitest.NpyFile("<f4", fmt.Sprintf("%d, 2", n), blocks.Bytes(rows)),
		"node_label.npy": clitest.NpyInts(labels), "split/train.npy": clitest.NpyInts(train),
		"split/valid.npy": clitest.NpyInts(valid), "split/test.npy": clitest.NpyInts(test),
	})
}

// TestFewClasses: stores of one class, of splits without nodes or without labels, and of one node a split are trained, evaluated, looked
// at, predicted and exported; what there are no nodes for is left out, and never a number.
func TestFewClasses(t *testing.T) {
	const n = 61
	var all, one, three []int64
	for v := range int64(n) {
		all, one, three = append(all, v), append(one, 0), append(three, v%3)
	}
	masked := slices.Concat(three[:30], slices.Repeat([]int64{-1}, n-30))
	for name, c := range map[string]struct {
		labels, train, valid, test []int64
		valided, tested            bool // whether there is what to measure
		area                       bool // whether nodes of two classes are tested
	}{
		"one class":         {one, all[:30], all[30:45], all[45:], true, true, false},
		"no valid, no test": {three, all[:30], nil, nil, false, false, false},
		"no valid":          {three, all[:30], nil, all[45:], false, true, true},
		"no test":           {three, all[:30], all[30:45], nil, true, false, false},
		"no labels there":   {masked, all[:30], all[30:45], all[45:], false, false, false},
		"one node each":     {three, all[:1], all[30:31], all[45:46], true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store := filepath.Join(dir, "s")
			clitest.MustRun(t, "ingest", labelledFolder(t, c.labels, c.train, c.valid, c.test), store, "--partitions", "3")
			for _, plan := range [][]string{{"--plan", "memory"}, {"--plan", "hanoi", "--buffer", "2"}} {
				clitest.MustRun(t, append([]string{"train", store, "--epochs", "2", "--hidden", "8", "--metrics", filepath.Join(dir, "m.jsonl")}, plan...)...)
			}
			clitest.MustRun(t, "report", filepath.Join(dir, "m.jsonl"), "-o", filepath.Join(dir, "m.html"))
			e := clitest.Events(t, "eval", store)
			got := e[len(e)-1]
			for split, there := range map[string]bool{"train": true, "valid": c.valided, "test": c.tested} {
				for _, of := range []string{"accuracy", "loss", "f1_macro", "f1_micro"} {
					if _, ok := got[split+"_"+of]; ok != there {
						t.Errorf("%s_%s: there is one: %v, expected %v", split, of, ok, there)
					}
				}
			}
			if _, ok := got["test_auc"]; ok != c.area {
				t.Errorf("test_auc %v, expected one: %v", got["test_auc"], c.area)
			}
			if _, stdout, _ := clitest.Run(t, "eval", store); strings.Contains(stdout, "NaN") || strings.Contains(stdout, " 0.0000        0.00") {
				t.Errorf("eval says\n%s", stdout)
			}
			if _, stdout, _ := clitest.Run(t, "inspect", store); strings.Contains(stdout, "-100") || strings.Contains(stdout, "valid none") == c.valided {
				t.Errorf("inspect says\n%s", stdout)
			}
			clitest.MustRun(t, "predict", store, "0", "1")
			clitest.MustRun(t, "eval", store, "--out", filepath.Join(dir, "nodes"), "--write", "predictions,probabilities,embeddings", "--confusion", filepath.Join(dir, "c.csv"))
			clitest.MustRun(t, "export", store, filepath.Join(dir, "model"), "--what", "model")
			clitest.MustRun(t, "eval", store, "--checkpoint", filepath.Join(dir, "model"))
		})
	}
	none := filepath.Join(t.TempDir(), "s")
	clitest.MustRun(t, "ingest", labelledFolder(t, slices.Repeat([]int64{-1}, n), all[:30], all[30:45], all[45:]), none)
	if code, _, stderr := clitest.Run(t, "train", none); code != cli.ExitFailed || !strings.Contains(stderr, "no node of the store has a label") {
		t.Errorf("no labels at all: exit code %d, %q", code, stderr)
	}
}
