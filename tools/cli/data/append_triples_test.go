package data_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestAppendTriples: a file of heads, relations and tails is appended to a knowledge graph, and deleted from it, without a word on what its
// fields are. What may be something else is refused.
func TestAppendTriples(t *testing.T) {
	in := clitest.Put(t, t.TempDir(), map[string][]byte{
		"train.txt": []byte("a\tlikes\tb\nb\tlikes\tc\nc\t7\ta\n"), "valid.txt": []byte("b\tlikes\ta\n"), "test.txt": []byte("c\tlikes\tb\n"),
		"more.tsv": []byte("a\tlikes\td\nd\tknows\tb\n"), "weights.tsv": []byte("a\tb\t2.5\n"), "number.tsv": []byte("a\t7\tb\n"),
	})
	dir := filepath.Join(t.TempDir(), "s")
	clitest.MustRun(t, "ingest", in, dir, "--format", "triples")
	done := clitest.Events(t, "append", dir, filepath.Join(in, "more.tsv"))
	if got := done[len(done)-1]; got["edges_added"] != 2. || got["new_nodes"] != 1. || !slices.Equal(got["new_relations"].([]any), []any{"knows"}) {
		t.Errorf("appended: %v", got)
	}
	done = clitest.Events(t, "append", dir, filepath.Join(in, "more.tsv"), "--delete")
	if got := done[len(done)-1]; got["edges"] != 3. {
		t.Errorf("deleted: %v", got)
	}
	for _, file := range []string{"weights.tsv", "number.tsv"} {
		code, _, errs := clitest.Run(t, "append", dir, filepath.Join(in, file))
		if code == cli.ExitOK || !strings.Contains(errs, "3 fields, of which 1 are left over") {
			t.Errorf("%s: exit %d: %s", file, code, errs)
		}
	}
}
