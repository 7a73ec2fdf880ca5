package training_test

import (
	"encoding/binary"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// npyData returns the body of a .npy file of version 1.
func npyData(t *testing.T, path, descr string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head := 10 + int(binary.LittleEndian.Uint16(b[8:]))
	if !strings.Contains(string(b[:head]), descr) {
		t.Fatalf("%s: header %q, expected %s", path, b[10:head], descr)
	}
	return b[head:]
}

// TestEval: what eval writes of every node agrees with the metrics that it prints,
// computed again from Cora's own labels, and does not depend on the budget.
func TestEval(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cora.gstore")
	clitest.Events(t, "demo", "--epochs", "3", "--dir", dir)
	cora := clitest.ReadCora(t)
	split := make([]string, len(cora.Labels))
	for name, ids := range cora.Split {
		for _, v := range ids {
			split[v] = name
		}
	}
	var first []byte
	for _, args := range [][]string{nil, {"--mem", "128MiB"}} {
		work := t.TempDir()
		out, confusion := filepath.Join(work, "out"), filepath.Join(work, "confusion.csv")
		events := clitest.Events(t, append([]string{"eval", dir, "--out", out, "--write", "predictions,probabilities,embeddings", "--confusion", confusion}, args...)...)
		sum := events[len(events)-1]
		raw := npyData(t, filepath.Join(out, "node_prediction.npy"), "<i4")
		prob := npyData(t, filepath.Join(out, "node_probability.npy"), "<f4")
		if got := len(npyData(t, filepath.Join(out, "node_embedding.npy"), "<f4")); got != 4*128*len(cora.Labels) {
			t.Errorf("%v: embeddings of %d bytes, expected 128 float32 of %d nodes", args, got, len(cora.Labels))
		}
		if first == nil {
			first = raw
		}
		if string(first) != string(raw) {
			t.Errorf("%v: other predictions than without a budget", args)
		}
		all := npyData(t, filepath.Join(out, "node_probabilities.npy"), "<f4")
		counts := map[[3]string]int{}
		for v, label := range cora.Labels {
			predicted := int32(binary.LittleEndian.Uint32(raw[4*v:]))
			counts[[3]string{split[v], strconv.Itoa(int(label)), strconv.Itoa(int(predicted))}]++
			if p := math.Float32frombits(binary.LittleEndian.Uint32(prob[4*v:])); !(p >= 1/7.-1e-6 && p <= 1) {
				t.Fatalf("%v: node %d has probability %v", args, v, p)
			}
			checkProbabilities(t, v, all[28*v:28*v+28], int(predicted), prob[4*v:4*v+4])
		}
		checkConfusion(t, dir, confusion, counts)
		for _, s := range []string{"train", "valid", "test"} {
			right, all := 0, 0
			for k, n := range counts {
				if k[0] == s {
					if all += n; k[1] == k[2] {
						right += n
					}
				}
			}
			want := float64(right) / float64(all)
			if got := sum[s+"_accuracy"].(float64); got != want {
				t.Errorf("%v: %s accuracy %v, the predictions' is %v", args, s, got, want)
			}
			if got := sum[s+"_f1_micro"].(float64); math.Abs(got-want) > 1e-12 {
				t.Errorf("%v: %s micro F1 %v, accuracy %v", args, s, got, want)
			}
			macro, auc := sum[s+"_f1_macro"].(float64), sum[s+"_auc"].(float64)
			if ap := sum[s+"_average_precision"].(float64); !(ap > want-.15 && ap <= 1) {
				t.Errorf("%v: %s average precision %v of a model with accuracy %v", args, s, ap, want)
			}
			if !(macro > want-.15 && macro < 1) || !(auc > .9 && auc <= 1) {
				t.Errorf("%v: %s macro F1 %v, area %v of a model with accuracy %v", args, s, macro, auc, want)
			}
		}
	}
	for _, c := range []struct {
		args []string
		text string
	}{
		{[]string{"--splits", "dev"}, `"dev" is none of`},
		{[]string{"--write", "labels", "--out", "x"}, `"labels" is none of`},
		{[]string{"--format", "csv", "--out", "x"}, `format "csv"`},
		{[]string{"--write", "embeddings"}, "give --out"},
		{[]string{"--splits="}, "names none of train, valid, test"},
		{[]string{"--lists="}, "names no edge list"},
		{[]string{"--write=", "--out", "x"}, "names none of predictions, probabilities, embeddings"},
	} {
		if code, _, stderr := clitest.Run(t, append([]string{"eval", dir}, c.args...)...); code != cli.ExitUsage || !strings.Contains(stderr, c.text) {
			t.Errorf("%v: exit code %d and %q, expected %d and %q", c.args, code, stderr, cli.ExitUsage, c.text)
		}
	}
}

// checkProbabilities compares a node's probabilities of all seven classes, which add up to 1, with the predicted class and its own.
func checkProbabilities(t *testing.T, node int, row []byte, class int, own []byte) {
	t.Helper()
	sum, best := 0., 0
	of := func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) }
	for c := range 7 {
		if sum += of(row[4*c:]); of(row[4*c:]) > of(row[4*best:]) {
			best = c
		}
	}
	if math.Abs(sum-1) > 1e-5 || best != class || math.Abs(of(row[4*best:])-of(own)) > 1e-6 {
		t.Fatalf("node %d: probabilities add up to %v, the largest is of class %d, %v; predicted is %d, %v", node, sum, best, of(row[4*best:]), class, of(own))
	}
}

// checkConfusion compares a file with counts of split, label and prediction by number.
func checkConfusion(t *testing.T, dir, path string, want map[[3]string]int) {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	number := map[string]string{}
	for i, name := range st.Manifest().Schema.ClassNames {
		number[name] = strconv.Itoa(i)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil || len(lines) < 2 || strings.Join(lines[0], " ") != "split label predicted nodes" {
		t.Fatalf("%s begins with %v, error %v", path, lines[:min(1, len(lines))], err)
	}
	total := 0
	for _, l := range lines[1:] {
		for i := 1; i <= 2; i++ {
			if n, ok := number[l[i]]; ok {
				l[i] = n
			}
		}
		n, _ := strconv.Atoi(l[3])
		total += n
		if k := [3]string{l[0], l[1], l[2]}; want[k] != n {
			t.Errorf("%v: %d nodes, the predictions say %d", k, n, want[k])
		}
	}
	all := 0
	for k, n := range want {
		if k[0] != "" {
			all += n
		}
	}
	if total != all {
		t.Errorf("%d nodes in the matrices, %d in the splits", total, all)
	}
}
