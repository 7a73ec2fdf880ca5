package training_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// lonely is a folder of a directed graph of 40 nodes with two features and two classes.
func lonely(t *testing.T, edges [][2]int64, train []int64) string {
	var src, dst, labels []int64
	for _, e := range edges {
		src, dst = append(src, e[0]), append(dst, e[1])
	}
	feat := make([]float32, 80)
	for i := range feat {
		feat[i] = float32(i%7) / 7
	}
	for i := range int64(40) {
		labels = append(labels, i%2)
	}
	return clitest.Put(t, t.TempDir(), map[string][]byte{
		"edge_index.npy": clitest.NpyFile("<i8", fmt.Sprintf("2, %d", len(src)), blocks.Bytes(append(src, dst...))),
		"node_feat.npy":  clitest.NpyFile("<f4", "40, 2", blocks.Bytes(feat)), "node_label.npy": clitest.NpyInts(labels),
		"split/train.npy": clitest.NpyInts(train), "split/valid.npy": clitest.NpyInts([]int64{36, 37}), "split/test.npy": clitest.NpyInts([]int64{38, 39}),
	})
}

// TestNeighbours: what training nodes see is counted before training, with a remedy that works as it is printed, and a model that nobody
// named is refused where they see nothing.
func TestNeighbours(t *testing.T) {
	var out, some [][2]int64 // of nodes 0 … 9 edges lead out alone; of some, one leads to node 0
	for v := range int64(10) {
		out = append(out, [2]int64{v, 20 + v}, [2]int64{v, 30})
	}
	some = append(append(some, out...), [2]int64{20, 0}, [2]int64{21, 1}, [2]int64{22, 2}, [2]int64{23, 3})
	train := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	ingest := func(folder string, flags ...string) string {
		dir := filepath.Join(t.TempDir(), "s.gstore")
		clitest.MustRun(t, append([]string{"ingest", folder, dir, "--partitions", "3", "--quiet"}, flags...)...)
		return dir
	}
	short := []string{"--epochs", "1", "--hidden", "4", "--baselines=false"}
	cases := []struct {
		name        string
		dir         string
		flags       []string
		refused     bool
		says        []string
		with, total float64
	}{
		{"none", ingest(lonely(t, out, train)), nil, true, []string{"none of 10 training nodes has a neighbour in layer 1: messages flow along edges, and none leads to them", "--model mlp"}, 10, 10},
		{"none, named", ingest(lonely(t, out, train)), []string{"--model", "sage"}, false, []string{"none of 10 training nodes"}, 10, 10},
		{"some", ingest(lonely(t, some, train)), nil, false, []string{"60 % of training nodes (6 of 10) have no neighbour in layer 1"}, 6, 10},
		{"no edges", ingest(lonely(t, [][2]int64{{39, 39}}, train)), nil, true,
			[]string{"none of 10 training nodes has a neighbour in layer 1: no edge joins them to another node", "gstore inspect shows"}, 10, 10},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := clitest.Run(t, append(append([]string{"train", c.dir, "--json"}, short...), c.flags...)...)
			if want := map[bool]int{true: cli.ExitUsage, false: cli.ExitOK}[c.refused]; code != want {
				t.Errorf("exit code %d, expected %d: %s", code, want, stderr)
			}
			for _, text := range c.says {
				if !strings.Contains(stderr+stdout, text) {
					t.Errorf("%q is not said: %s%s", text, stderr, stdout)
				}
			}
			if warned := clitest.ByName(t, stdout)["warning"] != nil; warned == c.refused {
				t.Errorf("warned %v, refused %v", warned, c.refused)
			}
			n := clitest.ByName(t, stdout)["neighbours"]
			if len(n) != 1 || n[0]["without"] != c.with || n[0]["training"] != c.total {
				t.Errorf("%v, expected %v of %v without a neighbour", n, c.with, c.total)
			}
			// What it says to do is done.
			for _, remedy := range regexp.MustCompile(`--model (rsage|mlp)`).FindAllStringSubmatch(stderr+stdout, -1) {
				code, stdout, stderr := clitest.Run(t, append([]string{"train", c.dir, "--json", "--model", remedy[1]}, short...)...)
				n := clitest.ByName(t, stdout)["neighbours"]
				if code != cli.ExitOK || remedy[1] == "rsage" && n[0]["without"] != 0. || remedy[1] == "mlp" && n != nil {
					t.Errorf("--model %s: exit code %d, neighbours %v: %s", remedy[1], code, n, stderr)
				}
			}
		})
	}
	dir := ingest(lonely(t, out, train), "--undirected")
	code, stdout, stderr := clitest.Run(t, append([]string{"train", dir, "--explain"}, short...)...)
	if code != cli.ExitOK || strings.Contains(stderr, "warning") || !strings.Contains(stdout, "neighbours: every training node has a neighbour in layer 1") {
		t.Errorf("--undirected: exit code %d: %s%s", code, stdout, stderr)
	}
	// --explain says what no edges mean.
	if code, stdout, stderr := clitest.Run(t, append([]string{"train", cases[3].dir, "--explain", "--model", "sage"}, short...)...); code != cli.ExitOK || !strings.Contains(stdout, "all layers read nodes alone") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// TestBaselinesTold: a result stands beside what it costs nothing to know, in text and in the summary, and one that is no better says so.
func TestBaselinesTold(t *testing.T) {
	var ring [][2]int64
	all := []int64{}
	for v := range int64(36) {
		ring, all = append(ring, [2]int64{v, (v + 1) % 40}), append(all, v)
	}
	folder := lonely(t, ring, all)
	// Features are constant, so that no model beats the majority, which all validation and test nodes are of.
	feat, labels := make([]float32, 80), make([]int64, 40)
	for i := range labels {
		labels[i] = 1
	}
	labels[3] = 0
	clitest.Put(t, folder, map[string][]byte{"node_feat.npy": clitest.NpyFile("<f4", "40, 2", blocks.Bytes(feat)), "node_label.npy": clitest.NpyInts(labels)})
	dir := filepath.Join(t.TempDir(), "s.gstore")
	clitest.MustRun(t, "ingest", folder, dir, "--partitions", "2", "--quiet")
	args := []string{"train", dir, "--epochs", "60", "--hidden", "4", "--eval-every", "1"}
	code, stdout, stderr := clitest.Run(t, args...)
	if code != cli.ExitOK || !strings.Contains(stdout, "\nbeside it, on the test nodes: the most frequent class (1) 100.00 %; the same model without edges 100.00 % ± 0.0 (36 training nodes)\n") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if !strings.Contains(stderr, "warning: the model's 100.00 % are no better than what answering 1 for every node comes to (100.00 %)") {
		t.Errorf("no warning: %s", stderr)
	}
	summary := func(flags ...string) map[string]any {
		events := clitest.Events(t, append(args, flags...)...)
		return events[len(events)-1]
	}
	if !strings.Contains(stdout, "\nranked by 1: test ROC AUC -, average precision 1.0000; valid -, 1.0000\n") {
		t.Errorf("how the model ranks nodes is not told: %s", stdout)
	}
	whole := summary()
	if _, ok := whole["test_auc"]; ok || whole["test_average_precision"] != 1. {
		t.Errorf("%v, expected an average precision of 1 and no area of one class", whole)
	}
	b, _ := whole["baselines"].(map[string]any)
	if b["split"] != "test" || b["majority"] != 1. || b["majority_accuracy"] != 1. || b["features_accuracy"] != 1. || b["features_trained"] != 36. || b["features_tested"] != 2. {
		t.Errorf("summary has baselines %v", b)
	}
	if b, ok := summary("--baselines=false")["baselines"]; ok {
		t.Errorf("--baselines=false: %v", b)
	}
}
