package data_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/npy"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestWalks: the file has as many walks as it says, the same with any number of threads, and nothing is left where they are refused.
func TestWalks(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{}))
	out, again := filepath.Join(t.TempDir(), "walks.npy"), filepath.Join(t.TempDir(), "again.npy")
	events := clitest.Events(t, "walks", dir, out, "--length", "7", "--per-node", "3", "--q", ".5", "--threads", "1")
	if last := events[len(events)-1]; last["walks"] != 600. || last["length"] != 7. {
		t.Errorf("the summary says %v, expected 600 walks of 7 nodes", last)
	}
	clitest.MustRun(t, "walks", dir, again, "--length", "7", "--per-node", "3", "--q", ".5", "--quiet")
	a, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(again); err != nil || !slices.Equal(a, b) {
		t.Errorf("with all threads the file is another, %v", err)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if h, err := npy.Read(f); err != nil || h.Elem != blocks.Int64 || !slices.Equal(h.Shape, []int64{600, 7}) || int64(len(a)) != h.Bytes+h.DataBytes() {
		t.Errorf("%d bytes with header %+v, %v", len(a), h, err)
	}
	text := storetest.Create(t, storetest.Random(storetest.Options{IDs: store.IDsStrings}))
	folder := t.TempDir()
	for _, c := range []struct {
		code int
		args []string
	}{{cli.ExitUsage, []string{dir, folder}}, {cli.ExitUsage, []string{dir, folder + "/x", "--p", "0"}}, {cli.ExitUsage, []string{dir, folder + "/x", "--length", "-2"}},
		{cli.ExitFailed, []string{dir, folder + "/x", "--mem", "1MiB"}}, {cli.ExitFailed, []string{text, folder + "/x"}}} {
		if code, _, errs := clitest.Run(t, append([]string{"walks"}, c.args...)...); code != c.code {
			t.Errorf("%v: exit %d, expected %d: %s", c.args, code, c.code, errs)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	clitest.MustRun(t, "walks", text, out, "--internal", "--length", "3", "--quiet")
}
