package training_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestTrainResume: --resume alone goes on with the flags of the run before, and says what contradicts them.
func TestTrainResume(t *testing.T) {
	cora := filepath.Join(t.TempDir(), "cora.gstore")
	clitest.Events(t, "ingest", clitest.Put(t, t.TempDir(), clitest.ReadCora(t).Numpy()), cora, "--undirected", "--partitions", "4")
	flags := []string{"train", cora, "--hidden", "8", "--batch-size", "50", "--lr", ".02", "--dropout", ".2", "--threads", "1"}
	want := clitest.Losses(clitest.Events(t, append(flags, "--epochs", "4")...))
	clitest.Events(t, append(flags, "--epochs", "2", "--checkpoint-every", "1")...)
	got := clitest.Events(t, "train", cora, "--resume", "--epochs", "4")
	if l := clitest.Losses(got); len(l) != 2 || l[0] != want[2] || l[1] != want[3] {
		t.Errorf("losses %v, expected the last two of %v", l, want)
	}
	if s := got[len(got)-1]; s["resumed"] != true || len(s["epoch_seconds"].([]any)) != 4 {
		t.Errorf("summary %v", s)
	}

	run := func(args ...string) (int, string) {
		code, _, errs := clitest.Run(t, args...)
		return code, errs
	}
	if code, errs := run("train", cora, "--resume", "--hidden", "16"); code == cli.ExitOK || !strings.Contains(errs, "began with hidden 8, not 16") {
		t.Errorf("another width: %d, %s", code, errs)
	}

	// While one run is under way another trains without checkpoints, and is told so; asked for them it is refused.
	lock, err := vfs.Default.Lock(filepath.Join(cora, "runs", "last.gsr"+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	before, err := os.ReadFile(filepath.Join(cora, "runs", "last.gsr"))
	if err != nil {
		t.Fatal(err)
	}
	if code, errs := run("train", cora, "--epochs", "1"); code != cli.ExitOK || !strings.Contains(errs, "cannot be resumed") {
		t.Errorf("beside another run: %d, %s", code, errs)
	}
	if code, errs := run("train", cora, "--epochs", "1", "--resume"); code == cli.ExitOK || !strings.Contains(errs, "--checkpoint-file") {
		t.Errorf("resumed beside another run: %d, %s", code, errs)
	}
	if after, err := os.ReadFile(filepath.Join(cora, "runs", "last.gsr")); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the other run's checkpoint was touched: %v", err)
	}
	if code, errs := run("train", cora, "--epochs", "1", "--resume", "--checkpoint-file", filepath.Join(t.TempDir(), "mine.gsr")); code != cli.ExitOK {
		t.Errorf("a file of its own: %d, %s", code, errs)
	}
}

// TestResumeFinished: a run that is resumed after its end says so, exits well and is not recorded twice; with more epochs
// it goes on.
func TestResumeFinished(t *testing.T) {
	node := filepath.Join(t.TempDir(), "cora.gstore")
	clitest.Events(t, "ingest", clitest.Put(t, t.TempDir(), clitest.ReadCora(t).Numpy()), node, "--undirected", "--partitions", "4")
	for _, c := range []struct {
		name, dir string
		flags     []string
	}{
		{"node", node, []string{"--hidden", "8"}},
		{"link", smallKG(t), []string{"--dim", "8", "--negatives", "10", "--lr-decay", "0"}},
	} {
		runs := func() int {
			h, err := store.ReadHistory(t.Context(), c.dir, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return len(h.Runs)
		}
		clitest.Events(t, append([]string{"train", c.dir, "--epochs", "2", "--threads", "1"}, c.flags...)...)
		again := clitest.Events(t, "train", c.dir, "--resume")
		if s := again[len(again)-1]; s["finished_run"] != 1. || len(s["epoch_seconds"].([]any)) != 2 || runs() != 1 {
			t.Errorf("%s: resumed after the end: finished_run %v, %d runs in the history", c.name, s["finished_run"], runs())
		}
		if code, stdout, stderr := clitest.Run(t, "train", c.dir, "--resume"); code != cli.ExitOK || !strings.Contains(stdout, "run 1 is finished: all 2 epochs") {
			t.Errorf("%s: exit code %d, %q, %q", c.name, code, stdout, stderr)
		}
		more := clitest.Events(t, "train", c.dir, "--resume", "--epochs", "3")
		if s := more[len(more)-1]; s["finished_run"] != nil || len(s["epoch_seconds"].([]any)) != 3 || runs() != 2 {
			t.Errorf("%s: an epoch more: finished_run %v, %d runs in the history", c.name, s["finished_run"], runs())
		}
	}
}
