package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestTrainResume: --resume alone goes on with the flags of the run before, and says what contradicts them.
func TestTrainResume(t *testing.T) {
	cora := filepath.Join(t.TempDir(), "cora.gstore")
	trainEvents(t, "ingest", put(t, t.TempDir(), readCora(t).numpy()), cora, "--undirected", "--partitions", "4")
	flags := []string{"train", cora, "--hidden", "8", "--batch-size", "50", "--lr", ".02", "--dropout", ".2", "--threads", "1"}
	want := losses(trainEvents(t, append(flags, "--epochs", "4")...))
	trainEvents(t, append(flags, "--epochs", "2", "--checkpoint-every", "1")...)
	got := trainEvents(t, "train", cora, "--resume", "--epochs", "4")
	if l := losses(got); len(l) != 2 || l[0] != want[2] || l[1] != want[3] {
		t.Errorf("losses %v, expected the last two of %v", l, want)
	}
	if s := got[len(got)-1]; s["resumed"] != true || len(s["epoch_seconds"].([]any)) != 4 {
		t.Errorf("summary %v", s)
	}

	run := func(args ...string) (int, string) {
		code, _, errs := runCommand(t, args...)
		return code, errs
	}
	if code, errs := run("train", cora, "--resume", "--hidden", "16"); code == ExitOK || !strings.Contains(errs, "began with hidden 8, not 16") {
		t.Errorf("another width: %d, %s", code, errs)
	}

	// While one run is under way another trains without checkpoints, and is told so; asked for them it is refused.
	lock, err := vfs.Default.Lock(filepath.Join(cora, runsDir, lastRun+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	before, err := os.ReadFile(filepath.Join(cora, runsDir, lastRun))
	if err != nil {
		t.Fatal(err)
	}
	if code, errs := run("train", cora, "--epochs", "1"); code != ExitOK || !strings.Contains(errs, "cannot be resumed") {
		t.Errorf("beside another run: %d, %s", code, errs)
	}
	if code, errs := run("train", cora, "--epochs", "1", "--resume"); code == ExitOK || !strings.Contains(errs, "--checkpoint-file") {
		t.Errorf("resumed beside another run: %d, %s", code, errs)
	}
	if after, err := os.ReadFile(filepath.Join(cora, runsDir, lastRun)); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the other run's checkpoint was touched: %v", err)
	}
	if code, errs := run("train", cora, "--epochs", "1", "--resume", "--checkpoint-file", filepath.Join(t.TempDir(), "mine.gsr")); code != ExitOK {
		t.Errorf("a file of its own: %d, %s", code, errs)
	}
}
