package training_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestScratch: what does not fit --mem lies in the store or in --scratch, and never in the system's temporary directory,
// which may be memory, and which here is not there at all. Nothing is left behind.
func TestScratch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	input, scratch, dense := filepath.Join(t.TempDir(), "in"), t.TempDir(), filepath.Join(t.TempDir(), "dense")
	clitest.MustRun(t, "generate", "sbm", input, "--nodes", "40k", "--edges", "500k", "--features", "8", "--quiet")
	clitest.MustRun(t, "ingest", input, dir, "--partitioner", "random", "--partitions", "16", "--quiet")
	input = filepath.Join(t.TempDir(), "dense.in") // whose lists are more than what reads them
	clitest.MustRun(t, "generate", "rmat", input, "--nodes", "16k", "--edges", "6M", "--quiet")
	clitest.MustRun(t, "ingest", input, dense, "--quiet")
	t.Setenv("TMPDIR", filepath.Join(scratch, "missing"))
	const nowhere = "/proc/self" // a directory in which no file can be made
	for _, args := range [][]string{
		{"train", dir, "--epochs", "1", "--layers", "2", "--fanouts", "3,3", "--plan", "hanoi", "--buffer", "4", "--history", "--precomputed-hop=false", "--threads", "2"},
		{"eval", dir, "--threads", "2", "--auc=false"},
		{"partition", dense, "--partitioner", "fennel", "--partitions", "8", "--passes", "2", "--threads", "2", "--output", filepath.Join(t.TempDir(), "parts")},
	} {
		t.Run(args[0], func(t *testing.T) {
			if args[0] != "train" { // a history is always in a file, other things where the smallest budget asks for it
				_, said, _ := clitest.Child(t, append(args, "--json", "--mem", "1MiB")...)
				least := regexp.MustCompile(`the smallest that works is (\d+) ?MiB`).FindStringSubmatch(said)
				if least == nil {
					t.Fatalf("1 MiB: %q, expected a refusal that names the smallest budget", said)
				}
				args = append(args, "--mem", least[1]+"MiB")
			}
			args = append(args, "--json", "--scratch")
			if _, said, err := clitest.Child(t, append(args, nowhere)...); err == nil || !strings.Contains(said, nowhere+"/gstore-") {
				t.Errorf("--scratch %s: %v: %s; expected that no file can be made there", nowhere, err, said)
			}
			if _, said, err := clitest.Child(t, append(args, scratch+"/missing")...); err == nil || !strings.Contains(said, "make it") {
				t.Errorf("--scratch missing: %v: %s; expected that it is refused", err, said)
			}
			for _, at := range []string{scratch, ""} { // "": the store's
				if _, said, err := clitest.Child(t, append(args, at)...); err != nil {
					t.Errorf("--scratch %q: %v: %s", at, err, said)
				}
			}
		})
	}
	for _, at := range []string{scratch, filepath.Join(dir, "tmp")} {
		if left, err := os.ReadDir(at); err != nil || len(left) > 0 {
			t.Errorf("%s holds %v (%v), expected nothing", at, left, err)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || slices.ContainsFunc(names, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "gstore-") }) {
		t.Errorf("the store holds %v (%v)", names, err)
	}
}

// TestScratchOfUnwritable: where the store's own tmp/ takes no files, temporary files lie in the system's directory.
func TestScratchOfUnwritable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cora.gstore")
	clitest.MustRun(t, "demo", "--epochs", "1", "--dir", dir, "--quiet")
	open := func() string {
		s, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.ScratchDir()
	}
	tmp := filepath.Join(dir, "tmp")
	if got := open(); got != tmp {
		t.Errorf("temporary files lie in %s, expected %s", got, tmp)
	}
	if err := os.RemoveAll(tmp); err != nil {
		t.Fatal(err)
	}
	if got := open(); got != tmp {
		t.Errorf("without tmp/: in %s, expected %s", got, tmp)
	}
	if err := os.RemoveAll(tmp); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/self", tmp); err != nil { // as a read-only file system: no file can be made
		t.Fatal(err)
	}
	if got := open(); got != os.TempDir() {
		t.Errorf("unwritable: in %s, expected the system's %s", got, os.TempDir())
	}
}
