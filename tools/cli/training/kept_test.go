package training_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// measured are the names of the files of measurements of a store.
func measured(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, store.RunsDir, "*"+store.MetricsExtension))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, filepath.Base(f))
	}
	return names
}

// A store keeps the measurements of its runs unasked, by their numbers: what --metrics writes, of a run that was interrupted and
// goes on the whole of it, and of two at once each its own. They go with the run, and a report is made of the store alone.
func TestMeasurementsKept(t *testing.T) {
	dir, work := coraStore(t), t.TempDir()
	run := func(more ...string) []string {
		return append([]string{"train", dir, "--hidden", "8", "--threads", "1", "--epochs", "2", "--quiet"}, more...)
	}
	file := filepath.Join(work, "m.jsonl")
	clitest.MustRun(t, run("--metrics", file)...)
	asked, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(filepath.Join(dir, store.RunsDir, "1.jsonl"))
	if err != nil || len(readMetrics(t, file).Results) != 2 || len(readMetrics(t, file).Confusion) != 14 || !bytes.Equal(asked, kept) {
		t.Errorf("%v: kept are %d bytes, --metrics wrote %d", err, len(kept), len(asked))
	}
	interrupt(t, "epoch", 3, "train", dir, "--hidden", "8", "--batch-size", "10", "--threads", "1", "--epochs", "9", "--seed", "3")
	if got := measured(t, dir); !slices.Equal(got, []string{"1.jsonl", "last.jsonl"}) {
		t.Errorf("of a run that was interrupted: %v", got)
	}
	if code, _, stderr := clitest.Run(t, "train", dir, "--mem", "1MiB"); code == cli.ExitOK { // it does not begin
		t.Errorf("--mem 1MiB: %s", stderr)
	}
	if m := readMetrics(t, filepath.Join(dir, store.RunsDir, "last.jsonl")); len(m.Results) < 2 {
		t.Errorf("behind a run that was refused, %d results of the interrupted one are left", len(m.Results))
	}
	again := []string{"train", dir, "--hidden", "8", "--batch-size", "10", "--threads", "1", "--epochs", "9", "--seed", "3", "--resume", "--quiet"}
	clitest.MustRun(t, again...)
	if m := readMetrics(t, filepath.Join(dir, store.RunsDir, "2.jsonl")); len(m.Results) != 9 || m.End == nil || m.Begin == nil {
		t.Errorf("of a run that went on: %d results of 9 epochs, end %v", len(m.Results), m.End)
	}
	clitest.MustRun(t, again...) // it had finished
	if got := measured(t, dir); !slices.Equal(got, []string{"1.jsonl", "2.jsonl"}) || len(readMetrics(t, filepath.Join(dir, store.RunsDir, "2.jsonl")).Results) != 9 {
		t.Errorf("resumed behind its end: %v", got)
	}
	lock, err := vfs.Default.Lock(filepath.Join(dir, store.RunsDir, "last.gsr.lock")) // another run is under way
	if err != nil {
		t.Fatal(err)
	}
	clitest.MustRun(t, run("--save", filepath.Join(work, "m.gsm"))...)
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if got := measured(t, dir); !slices.Equal(got, []string{"1.jsonl", "2.jsonl", "3.jsonl"}) {
		t.Errorf("of a run beside another one: %v", got)
	}
	for want, args := range map[string][]string{">3 runs</h1>": nil, ">2 runs</h1>": {"--run", "1,3"}, "<h1>run 2</h1>": {"--run", "2"}} {
		page := filepath.Join(work, "page.html")
		clitest.MustRun(t, append([]string{"report", dir, "-o", page, "--quiet"}, args...)...)
		if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("report %v lacks %s: %v", args, want, err)
		}
	}
	if code, _, stderr := clitest.Run(t, "report", dir, "--run", "7"); code != cli.ExitFailed || !strings.Contains(stderr, "run 7") {
		t.Errorf("a run that there is not: %d, %s", code, stderr)
	}
	clitest.MustRun(t, "drop", dir, "--run", "2", "--quiet")
	if got := measured(t, dir); !slices.Equal(got, []string{"1.jsonl", "3.jsonl"}) {
		t.Errorf("of a run that was dropped: %v", got)
	}
	clitest.MustRun(t, "verify", dir, "--quiet")
}

// Models in tables, of edges at moments and of targets of rows have measurements too.
func TestMeasurementsOfOtherTasks(t *testing.T) {
	for name, c := range map[string]struct {
		dir  func(t *testing.T) string
		args []string
	}{
		"links": {smallKG, []string{"--dim", "8", "--negatives", "10", "--epochs", "2", "--quiet"}},
	} {
		dir := c.dir(t)
		clitest.MustRun(t, append([]string{"train", dir}, c.args...)...)
		if got := measured(t, dir); !slices.Equal(got, []string{"1.jsonl"}) {
			t.Errorf("%s: %v", name, got)
			continue
		}
		if m := readMetrics(t, filepath.Join(dir, store.RunsDir, "1.jsonl")); len(m.Results) != 2 || m.End == nil {
			t.Errorf("%s: %d results, end %v", name, len(m.Results), m.End)
		}
	}
}
