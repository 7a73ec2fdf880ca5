package training_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// featureFolder is a numpy folder of a random graph of three classes, its features [n × 4] divided into columns of
// the widths given: x, and f1, f2, … of node_f1.npy and so on.
func featureFolder(t *testing.T, widths ...int) string {
	t.Helper()
	const n, edges = 400, 2400
	rng := rand.New(rand.NewPCG(3, 4))
	var ends, labels, sets [4][]int64
	x := make([][]float32, n)
	for v := range n {
		labels[0] = append(labels[0], int64(v%3))
		sets[v%4] = append(sets[v%4], int64(v))
		for d := range 4 {
			x[v] = append(x[v], rng.Float32()+float32((v+d)%3))
		}
	}
	for range edges {
		ends[0], ends[1] = append(ends[0], rng.Int64N(n)), append(ends[1], rng.Int64N(n-40)) // the last 40 have no neighbours
	}
	files := map[string][]byte{
		"edge_index.npy": clitest.NpyFile("<i8", fmt.Sprintf("2, %d", edges), blocks.Bytes(append(ends[0], ends[1]...))),
		"node_label.npy": clitest.NpyInts(labels[0]), "split/train.npy": clitest.NpyInts(append(sets[0], sets[1]...)),
		"split/valid.npy": clitest.NpyInts(sets[2]), "split/test.npy": clitest.NpyInts(sets[3]),
	}
	at := 0
	for k, w := range widths {
		var rows []float32
		for v := range n {
			rows = append(rows, x[v][at:at+w]...)
		}
		name := "node_feat.npy"
		if k > 0 {
			name = fmt.Sprintf("node_f%d.npy", k)
		}
		files[name] = clitest.NpyFile("<f4", fmt.Sprintf("%d, %d", n, w), blocks.Bytes(rows))
		at += w
	}
	return clitest.Put(t, t.TempDir(), files)
}

// TestFeaturesTogether: a store whose features are several columns trains to the losses, and is evaluated to the metrics, of
// one that has them in one: to the bit, with every model, in memory and out of it.
func TestFeaturesTogether(t *testing.T) {
	dir := t.TempDir()
	one, several := filepath.Join(dir, "one"), filepath.Join(dir, "several")
	clitest.MustRun(t, "ingest", featureFolder(t, 4), one, "--partitions", "6", "--precompute-hops", "1")
	clitest.MustRun(t, "ingest", featureFolder(t, 2, 1, 1), several, "--partitions", "6", "--precompute-hops", "1")
	clitest.MustRun(t, "verify", several)
	outOfCore := []string{"--plan", "hanoi", "--buffer", "2"}
	for name, args := range map[string][]string{
		"sage":                 nil,
		"gcn":                  {"--model", "gcn"},
		"gat":                  {"--model", "gat"},
		"gin":                  {"--model", "gin"},
		"mlp":                  {"--model", "mlp"},
		"max":                  {"--aggregator", "max"},
		"residual, input":      {"--residual", "--norm", "layer", "--input-dropout", ".2"},
		"multiply first":       {"--x", "product-order=multiply"},
		"hop and history":      outOfCore,
		"hop, residual":        append([]string{"--residual", "--precomputed-hop"}, outOfCore...),
		"max out of core, mem": append([]string{"--aggregator", "max", "--mem", "128MiB"}, outOfCore...),
		"rows":                 {"--plan", "rows", "--mem", "160MiB"},
		"gat out of core":      append([]string{"--model", "gat"}, outOfCore...),
	} {
		t.Run(name, func(t *testing.T) {
			args = append([]string{"--epochs", "2", "--hidden", "8", "--fanouts", "3,3", "--batch-size", "50"}, args...)
			var losses [2][]float64
			var metrics [2]map[string]any
			for i, store := range []string{one, several} {
				losses[i] = clitest.Losses(clitest.Events(t, append([]string{"train", store}, args...)...))
				e := clitest.Events(t, "eval", store)
				metrics[i] = e[len(e)-1]
				for k := range metrics[i] {
					if !strings.HasPrefix(k, "test_") && !strings.HasPrefix(k, "valid_") {
						delete(metrics[i], k)
					}
				}
			}
			if !slices.Equal(losses[0], losses[1]) || len(losses[0]) != 2 {
				t.Errorf("losses %v, of one column %v", losses[1], losses[0])
			}
			if !reflect.DeepEqual(metrics[0], metrics[1]) || len(metrics[0]) == 0 {
				t.Errorf("metrics %v, of one column %v", metrics[1], metrics[0])
			}
		})
	}
}

// TestAppendedFeatures: a column that gstore append adds is trained on without a flag, --features leaves it out, and what is
// named wrongly is told.
func TestAppendedFeatures(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "s")
	clitest.MustRun(t, "ingest", featureFolder(t, 4), store, "--partitions", "4", "--precompute-hops", "1")
	rank := clitest.Put(t, t.TempDir(), map[string][]byte{"rank.npy": clitest.NpyFile("<f4", "400", blocks.Bytes(make([]float32, 400)))})
	train := func(args ...string) []float64 {
		t.Helper()
		return clitest.Losses(clitest.Events(t, append([]string{"train", store, "--epochs", "2", "--hidden", "8", "--fanouts", "3,3"}, args...)...))
	}
	before := train()
	clitest.MustRun(t, "append", store, "--features", filepath.Join(rank, "rank.npy"), "--name", "rank")
	if after := train(); slices.Equal(before, after) {
		t.Errorf("losses %v with the appended column and without", after)
	}
	if got := train("--features", "x"); !slices.Equal(before, got) {
		t.Errorf("--features x: losses %v, before the append %v", got, before)
	}
	if a, b := train("--features", "rank,x"), train("--features", "x,rank"); slices.Equal(a, b) {
		t.Error("the order of --features says nothing")
	}
	// The hop of x alone does for no model of both; with the other it is read unasked, and by --features x too.
	outOfCore := []string{"train", store, "--epochs", "1", "--hidden", "8", "--fanouts", "3,3", "--plan", "hanoi", "--buffer", "2", "--explain"}
	_, out, _ := clitest.Run(t, outOfCore...)
	if !strings.Contains(out, "the store has no rank.hop1 (gstore precompute makes what is missing)") {
		t.Errorf("nothing is said of the hop that is missing: %s", out)
	}
	clitest.MustRun(t, "precompute", store)
	if _, out, _ = clitest.Run(t, outOfCore...); !strings.Contains(out, "reads x.hop1, rank.hop1") {
		t.Errorf("both hops are there and not read: %s", out)
	}
	if _, out, _ = clitest.Run(t, append(outOfCore, "--features", "x")...); !strings.Contains(out, "reads x.hop1, which") {
		t.Errorf("the hop of x is not read: %s", out)
	}
	for _, c := range []struct{ features, want string }{
		{"y", "--features y: the store's features are x, x.hop1, rank, rank.hop1\n"}, {"ramk", "did you mean rank?"}, {"rank.hop2", "rank.hop2"}, {"x,x", "x is named twice"}, {"label", "column label is a label, no feature"},
	} {
		if code, _, errs := clitest.Run(t, "train", store, "--features", c.features); code == 0 || !strings.Contains(errs, c.want) {
			t.Errorf("--features %s: exit %d, %s", c.features, code, errs)
		}
	}
	if code, _, errs := clitest.Run(t, "train", store, "--features", "x", "--precomputed-hop", "--epochs", "1"); code != 0 {
		t.Errorf("--features x --precomputed-hop: exit %d, %s", code, errs)
	}
}
