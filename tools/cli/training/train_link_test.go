package training_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestTrainLink: a store of triples is trained for link prediction without being told;
// it learns, and repeats to the bit for any threads.
func TestTrainLink(t *testing.T) {
	dir := t.TempDir()
	const nodes, groups = 160, 8
	r := keyed.New(4).Rand(0)
	for i, name := range []string{"train", "valid", "test"} {
		n := []int{4000, 100, 100}[i]
		var b strings.Builder
		for range n { // relation k leads from group g to group g+k
			k, src := r.Below(3), r.Below(nodes)
			fmt.Fprintf(&b, "n%d\tr%d\tn%d\n", src, k, (src+k)%groups+groups*r.Below(nodes/groups))
		}
		if err := os.WriteFile(filepath.Join(dir, name+".tsv"), []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	st := filepath.Join(t.TempDir(), "kg.gstore")
	clitest.Events(t, "ingest", dir, st, "--partitions", "8")
	for flag, want := range map[string]float64{"": .5, "--lr-decay=.25": .25, "--lr-decay=0": -1} {
		args := []string{"train", st, "--overwrite", "--dim", "4", "--epochs", "1", "--negatives", "10"}
		if flag != "" {
			args = append(args, flag)
		}
		if got := clitest.Events(t, args...)[0]["config"].(map[string]any)["lr_decay"]; got != want {
			t.Errorf("%q: the run's decay is %v, expected %v", flag, got, want)
		}
	}
	// Of 8 partitions; what is kept is left out where it is nothing.
	for flags, want := range map[string][2]any{"--plan=memory": {true, .5}, "--plan=comet --buffer=2": {true, .5}, "--plan=comet --buffer=4": {true, .5}, "--plan=comet --buffer=2 --x remove-batch-edges=false": {false, nil},
		"--plan=comet --buffer=2 --x remove-batch-edges": {true, nil}, "--plan=comet --buffer=2 --x keep-batch-edges=.2": {true, .2}} {
		args := append([]string{"train", st, "--overwrite", "--encoder", "sage", "--dim", "4", "--epochs", "1", "--negatives", "10"}, strings.Fields(flags)...)
		start := clitest.Events(t, args...)[0]
		config, why := start["config"].(map[string]any), fmt.Sprint(start["why"])
		if got := [2]any{config["remove_batch_edges"], config["keep_batch_edges"]}; got != want {
			t.Errorf("%q: a batch's edges are hidden, and kept: %v, expected %v", flags, got, want)
		}
		if strings.Contains(why, "are hidden from the encoder") != want[0] || strings.Contains(why, fmt.Sprintf("a share of %v", want[1])) != (want[1] != nil) {
			t.Errorf("%q: the reasons are %s", flags, why)
		}
	}
	for _, encoder := range []string{"none", "sage", "gcn", "gat"} {
		var first []map[string]any
		for _, threads := range []string{"1", "2"} {
			ev := clitest.Events(t, "train", st, "--overwrite", "--encoder", encoder, "--dim", "16", "--epochs", "6", "--eval-every", "6", "--batch-size", "300",
				"--negatives", "40", "--x", "chunks=4", "--seed", "3", "--threads", threads)
			last := ev[len(ev)-1]
			if l := clitest.Losses(ev); len(l) != 6 || l[5] >= l[0] {
				t.Errorf("%s: losses %v, expected 6 that fall", encoder, l)
			}
			if mrr := last["test_mrr"].(float64); mrr < .08 { // at random about .04
				t.Errorf("%s: test MRR %.3f, expected above .08", encoder, mrr)
			}
			if first == nil {
				first = ev
				for _, budget := range []string{"0", "96MiB"} { // what was trained is what is evaluated
					ev := clitest.Events(t, "eval", st, "--lists", "test", "--mem", budget)
					got := ev[len(ev)-1]
					for _, key := range []string{"mrr", "raw_mrr", "hits1", "hits10"} {
						name := "test_" + key
						if d := math.Abs(got[name].(float64) - last[name].(float64)); d > 1e-12 {
							t.Errorf("%s: eval --mem %s says %s %v, train %v", encoder, budget, name, got[name], last[name])
						}
					}
				}
				continue
			}
			was := first[len(first)-1]
			if !slices.Equal(clitest.Losses(ev), clitest.Losses(first)) {
				t.Errorf("%s: losses %v with 2 threads, %v with 1", encoder, clitest.Losses(ev), clitest.Losses(first))
			}
			for _, key := range []string{"test_mrr", "test_hits1", "test_hits3", "test_hits10", "valid_mrr"} {
				if last[key] != was[key] {
					t.Errorf("%s: %s is %v with 2 threads, %v with 1", encoder, key, last[key], was[key])
				}
			}
		}
	}
}
