package training_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestTableOfOlderVersion: what was learned on a version that two others followed is still ranked, written and trained on there,
// and not taken for the newest one's.
func TestTableOfOlderVersion(t *testing.T) {
	dir, work := smallKG(t), t.TempDir()
	run := []string{"--dim", "8", "--negatives", "10", "--epochs", "2", "--plan", "comet", "--buffer", "4", "--eval-every", "-1", "--lr-decay", "0"}
	clitest.MustRun(t, append([]string{"train", dir, "--table", "old", "--quiet"}, run...)...)
	more := filepath.Join(work, "more.tsv")
	if err := os.WriteFile(more, []byte("0\t1\t400\n400\t2\t7\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	clitest.MustRun(t, "append", dir, more, "--columns", "src,relation,dst", "--keep-versions", "1", "--quiet")
	clitest.MustRun(t, "partition", dir, "--partitions", "4", "--quiet")

	out := func(name string) string { return filepath.Join(work, name) }
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"export", dir, out("none"), "--what", "embeddings"}, cli.ExitFailed, "old (of version 1): name that version with --version"},
		{[]string{"export", dir, out("all"), "--what", "all"}, cli.ExitOK, "old (of version 1)"},
		{[]string{"export", dir, out("named"), "--what", "embeddings", "--tables", "old"}, cli.ExitFailed, "belongs to version 1 of the store, this is version 3"},
		{[]string{"export", dir, out("first"), "--what", "embeddings", "--version", "1"}, cli.ExitOK, ""},
		{[]string{"eval", dir, "--table", "old"}, cli.ExitFailed, "belongs to version 1"},
		{[]string{"eval", dir, "--table", "old", "--version", "1"}, cli.ExitOK, ""},
		{[]string{"train", dir, "--table", "old", "--resume", "--epochs", "3"}, cli.ExitFailed, "belongs to version 1"},
		{[]string{"train", dir, "--table", "old", "--resume", "--epochs", "3", "--version", "1"}, cli.ExitOK, ""},
		{append([]string{"train", dir, "--table", "new"}, run...), cli.ExitOK, ""},
		{[]string{"export", dir, out("both"), "--what", "embeddings"}, cli.ExitOK, "old (of version 1)"},
		{append([]string{"train", dir, "--table", "old"}, run...), cli.ExitFailed, "--overwrite"},
		{append([]string{"train", dir, "--table", "old", "--overwrite"}, run...), cli.ExitOK, ""}, // the last that belongs to version 1
		{[]string{"append", dir, more, "--columns", "src,relation,dst", "--keep-versions", "1"}, cli.ExitOK, ""},
		{[]string{"eval", dir, "--table", "old", "--version", "1"}, cli.ExitFailed, "version 1"},
		{[]string{"eval", dir, "--table", "old", "--version", "3"}, cli.ExitOK, ""},
	} {
		if code, _, stderr := clitest.Run(t, c.args...); code != c.code || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%q: exit code %d, want %d; stderr %q, want %q in it", c.args, code, c.code, stderr, c.stderr)
		}
	}
	if a, b := npyData(t, filepath.Join(out("first"), "node_embedding.npy"), "<f4"), npyData(t, filepath.Join(out("both"), "node_embedding.npy"), "<f4"); len(a) != 400*8*4 || len(b) != 401*8*4 {
		t.Errorf("embeddings of %d and %d bytes, expected those of 400 nodes and of 401", len(a), len(b))
	}
}
