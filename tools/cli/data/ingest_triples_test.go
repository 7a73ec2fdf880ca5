package data_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestTriplesKeepEdgesToPredict: triples that come without lists are divided unasked, which is said, and the default
// training takes them; none leaves all in the graph, which its export says again.
func TestTriplesKeepEdgesToPredict(t *testing.T) {
	dir := t.TempDir()
	var lines strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&lines, "e%d\tr%d\te%d\n", i%97, i%5, (i*i+31*i)%89)
	}
	clitest.Put(t, dir, map[string][]byte{"facts.tsv": []byte(lines.String())})
	facts := filepath.Join(dir, "facts.tsv")
	if code, out, errs := clitest.Run(t, "ingest", facts, filepath.Join(dir, "s")); code != 0 || !strings.Contains(out, "taken for a knowledge graph") || !strings.Contains(out, "does not say which edges to predict") {
		t.Errorf("three fields of text: exit %d, %s%s", code, out, errs)
	}
	clitest.Put(t, dir, map[string][]byte{"pairs.tsv": []byte("a\tr\tx\nb\ts\ty\n")}) // no head is a tail
	if code, _, errs := clitest.Run(t, "ingest", filepath.Join(dir, "pairs.tsv"), filepath.Join(dir, "p")); code == 0 || !strings.Contains(errs, "--format triples") {
		t.Errorf("three fields that may be anything: exit %d, %s", code, errs)
	}
	divided, whole := filepath.Join(dir, "divided"), filepath.Join(dir, "whole")
	code, out, errs := clitest.Run(t, "ingest", facts, divided, "--format", "triples")
	if code != 0 || !strings.Contains(out, "does not say which edges to predict") {
		t.Fatalf("exit %d, %s%s", code, out, errs)
	}
	clitest.MustRun(t, "ingest", facts, whole, "--format", "triples", "--split-random", "none")
	rows := func(dir string) (edges, valid, test uint64) {
		s, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		m := s.Manifest()
		for _, l := range m.EdgeLists {
			switch l.Name {
			case "valid":
				valid = l.Rows
			case "test":
				test = l.Rows
			}
		}
		return m.Edges, valid, test
	}
	all, none, neither := rows(whole)
	edges, valid, test := rows(divided)
	if edges+valid+test != all || valid < all/40 || test < all/40 || edges < all*8/10 || none+neither != 0 {
		t.Errorf("%d edges, %d to validate and %d to test, of %d edges with %d and %d", edges, valid, test, all, none, neither)
	}
	if code, out, errs = clitest.Run(t, "train", divided, "--epochs", "1", "--dim", "8"); code != 0 || !strings.Contains(out, "test MRR") {
		t.Errorf("train of divided triples: exit %d, %s%s", code, out, errs)
	}
	exported := filepath.Join(dir, "exported")
	clitest.MustRun(t, "export", whole, exported)
	if b, err := os.ReadFile(filepath.Join(exported, "meta.json")); err != nil || !strings.Contains(string(b), "--split-random none") {
		t.Errorf("the export says %s, %v", b, err)
	}
}
