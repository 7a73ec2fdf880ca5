package training_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestTableOfOlderVersion: what was learned on a version that two others followed is still ranked, written and trained on there,
// and not taken for the newest one's, which what asks no version is told.
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
		{[]string{"eval", dir, "--table", "old"}, cli.ExitOK, "table old was trained on version 1 of the store (400 nodes, 3000 edges)"},
		{[]string{"eval", dir, "--table", "old", "--version", "2"}, cli.ExitFailed, "version 2"},
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

// TestAnswersOfOlderVersion: a model of links answers and is ranked as before once its store has another version, with nodes that it never
// saw, and says so.
func TestAnswersOfOlderVersion(t *testing.T) {
	dir, more := smallKG(t), filepath.Join(t.TempDir(), "more.tsv")
	clitest.MustRun(t, "train", dir, "--dim", "8", "--negatives", "10", "--epochs", "2", "--quiet")
	asked := [][]string{{"predict", dir, "3", "1", "?", "--top", "5"}, {"predict", dir, "7", "--nearest", "cosine"}, {"eval", dir}}
	var before []string
	for _, args := range asked {
		_, out, _ := clitest.Run(t, args...)
		before = append(before, out)
	}
	if err := os.WriteFile(more, []byte("0\t1\t400\n400\t2\t7\n3\t1\t9\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	clitest.MustRun(t, "append", dir, more, "--columns", "src,relation,dst", "--keep-versions", "1", "--quiet")
	clitest.MustRun(t, "append", dir, more, "--columns", "src,relation,dst", "--keep-versions", "1", "--delete", "--quiet")
	for i, args := range asked {
		code, out, says := clitest.Run(t, args...)
		if code != cli.ExitOK || out != before[i] && args[0] == "predict" || !strings.Contains(says, "table embeddings was trained on version 1 of the store (400 nodes, 3000 edges), and answers for that") {
			t.Errorf("%q: exit %d: %s%s, expected\n%s", args, code, out, says, before[i])
		}
		if figures := func(s string) string { s, _, _ = strings.Cut(s, "valid against"); return s }; figures(out) != figures(before[i]) && args[0] == "eval" {
			t.Errorf("ranks %s, expected %s", out, before[i])
		}
	}
	if code, _, says := clitest.Run(t, "predict", dir, "400", "1", "?"); code != cli.ExitUsage || !strings.Contains(says, `the store has no node "400"`) {
		t.Errorf("of a node that came later: exit %d: %s", code, says)
	}
}

// TestAnswersBesideARun: while a run trains, its last checkpoint answers, is ranked and is exported; before the first one that is refused.
func TestAnswersBesideARun(t *testing.T) {
	dir := smallKG(t)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		var out bytes.Buffer
		ended <- cli.Run(ctx, []string{"train", dir, "--dim", "8", "--negatives", "10", "--epochs", "100000", "--eval-every", "-1", "--checkpoint-every", "2s", "--quiet"}, nil, &out, &out)
	}()
	deadline := time.Now().Add(time.Minute)
	for { // a reader that came before the run would keep the table from it
		if begun, err := filepath.Glob(filepath.Join(dir, "data", "table-embeddings*")); err != nil || len(begun) > 0 || time.Now().After(deadline) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	early := ""
	for {
		code, _, says := clitest.Run(t, "predict", dir, "3", "1", "?")
		if code == cli.ExitOK {
			break
		}
		if early += says; time.Now().After(deadline) {
			t.Fatalf("no answer while a run trains: %s", early)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if !strings.Contains(early, "has no trained epoch yet") {
		t.Errorf("before the first checkpoint: %s", early)
	}
	for _, args := range [][]string{{"eval", dir}, {"predict", dir, "3", "--nearest", "cosine"}, {"export", dir, filepath.Join(t.TempDir(), "out"), "--what", "embeddings,model"}} {
		code, _, says := clitest.Run(t, args...)
		if strings.Contains(says, "overtaken by a run") { // at most every two seconds
			code, _, says = clitest.Run(t, args...)
		}
		if code != cli.ExitOK {
			t.Errorf("%q: exit %d: %s", args, code, says)
		}
	}
	end()
	if code := <-ended; code != cli.ExitInterrupted {
		t.Errorf("the run ended with %d", code)
	}
	clitest.MustRun(t, "verify", dir)
}
