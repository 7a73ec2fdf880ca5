package training_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// A knowledge graph whose tests are not public is trained, validated and evaluated, and no rank is told that was not computed.
func TestLinksWithoutTest(t *testing.T) {
	triples := func(n, from int) []byte {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "n%d\tr%d\tn%d\n", (from+i)%60, i%2, (from+i*7+1)%60)
		}
		return []byte(b.String())
	}
	in := clitest.Put(t, t.TempDir(), map[string][]byte{"train.tsv": triples(400, 0), "valid.tsv": triples(30, 5)})
	for _, budget := range []string{"", "96MiB"} {
		kg := filepath.Join(t.TempDir(), "kg.gstore")
		clitest.MustRun(t, "ingest", in, kg, "--partitions", "4")
		args := []string{"train", kg, "--dim", "8", "--epochs", "2", "--negatives", "10"}
		if budget != "" {
			args = append(args, "--plan", "comet", "--buffer", "2", "--mem", budget)
		}
		ev := clitest.Events(t, args...)
		last := ev[len(ev)-1]
		if _, tested := last["test_mrr"]; tested || last["valid_mrr"].(float64) <= 0 {
			t.Errorf("%q: %v", budget, last)
		}
		ev = clitest.Events(t, "eval", kg)
		got := ev[len(ev)-1]
		if _, tested := got["test_mrr"]; tested || got["valid_mrr"] != last["valid_mrr"] {
			t.Errorf("%q: evaluated %v, trained %v", budget, got, last)
		}
		if code, out, errs := clitest.Run(t, "inspect", kg); code != cli.ExitOK || strings.Contains(out, "test MRR") || !strings.Contains(out, "valid MRR") {
			t.Errorf("%s %s", out, errs)
		}
	}
}

// A run that has ended and is resumed has nothing left to train, and still tells its tests' ranks.
func TestLinksResumedAtEnd(t *testing.T) {
	line := []byte("a\tr\tb\nb\tr\tc\nc\tr\ta\na\tr\tc\n")
	in := clitest.Put(t, t.TempDir(), map[string][]byte{"train.tsv": line, "valid.tsv": line[6:12], "test.tsv": line[12:18]})
	kg := filepath.Join(t.TempDir(), "kg.gstore")
	clitest.MustRun(t, "ingest", in, kg)
	train := []string{"train", kg, "--dim", "4", "--epochs", "2", "--negatives", "2"}
	first := clitest.Events(t, train...)
	again := clitest.Events(t, append(train, "--resume")...)
	want, got := first[len(first)-1]["test_mrr"], again[len(again)-1]["test_mrr"]
	if want == nil || got != want {
		t.Errorf("test MRR %v, resumed %v", want, got)
	}
}
