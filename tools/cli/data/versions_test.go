package data_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestVersions: a store goes back to what it was, and what nobody wants is removed, but for what something else needs.
func TestVersions(t *testing.T) {
	in := clitest.Put(t, t.TempDir(), map[string][]byte{
		"train.txt": []byte("a\tr\tb\nb\tr\tc\nc\tr\ta\na\tr\tc\n"), "valid.txt": []byte("b\tr\ta\n"), "test.txt": []byte("c\tr\tb\n"),
		"more.tsv": []byte("a\tr\td\nd\tr\tb\n"), "again.tsv": []byte("e\tr\ta\n"),
	})
	dir := filepath.Join(t.TempDir(), "s")
	clitest.MustRun(t, "ingest", in, dir, "--format", "triples")
	clitest.MustRun(t, "train", dir, "--epochs", "1", "--dim", "4")
	clitest.MustRun(t, "append", dir, filepath.Join(in, "more.tsv"), "--keep-versions", "9")
	clitest.MustRun(t, "append", dir, filepath.Join(in, "again.tsv"), "--columns", "src,relation,dst", "--header", "no", "--keep-versions", "9")
	nodes := map[uint64]uint64{1: 3, 2: 4, 3: 5}
	has := func(want ...uint64) {
		t.Helper()
		h, err := store.ReadHistory(t.Context(), dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got []uint64
		for _, v := range h.Versions {
			if v.Readable {
				got = append(got, v.Version)
				if v.Nodes != nodes[v.Version] {
					t.Errorf("version %d has %d nodes, expected %d", v.Version, v.Nodes, nodes[v.Version])
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("versions %v can be read, expected %v", got, want)
		}
		if code, _, errs := clitest.Run(t, "verify", dir); code != cli.ExitOK {
			t.Errorf("verify: %s", errs)
		}
	}
	says := func(want int, text string, args ...string) {
		t.Helper()
		if code, out, errs := clitest.Run(t, args...); code != want || !strings.Contains(out+errs, text) {
			t.Errorf("gstore %v: exit code %d, expected %d and %q:\n%s%s", args, code, want, text, out, errs)
		}
	}
	has(1, 2, 3)
	says(cli.ExitOK, "embeddings", "versions", dir)
	says(cli.ExitOK, "version 4 is what version 2 was: 4 nodes, 6 edges; version 3 stays", "rollback", dir)
	nodes[4] = 4
	has(1, 2, 3, 4)
	says(cli.ExitOK, "version 5 is what version 3 was: 5 nodes", "rollback", dir, "3")
	nodes[5] = 5
	says(cli.ExitUsage, "version 5 is the newest", "rollback", dir, "5")
	says(cli.ExitFailed, "version 9 of "+dir+"; versions [1 2 3 4 5] are kept", "rollback", dir, "9")
	says(cli.ExitUsage, "version 5 is the newest", "drop", dir, "--version", "2", "--version", "5")
	says(cli.ExitFailed, "gstore versions "+dir+" lists", "drop", dir, "--version", "2", "--version", "8")
	says(cli.ExitUsage, "expected --run, --table or --version", "drop", dir)
	has(1, 2, 3, 4, 5)
	says(cli.ExitOK, "removed version 2", "drop", dir, "--version", "2")
	has(1, 3, 4, 5)
	says(cli.ExitOK, "version 1 stays: table embeddings was trained on it (gstore drop "+dir+" --table embeddings)", "prune", dir, "--keep", "1")
	has(1, 5)
	says(cli.ExitOK, "removed nothing", "prune", dir, "--keep", "1")
	says(cli.ExitOK, "removed version 1, run 1, table embeddings", "drop", dir, "--run", "1", "--table", "embeddings", "--version", "1")
	has(5)
	says(cli.ExitFailed, "run 1", "drop", dir, "--run", "1")
	says(cli.ExitFailed, "no version before 5", "rollback", dir)
	events := clitest.Events(t, "versions", dir)
	if len(events) != 2 || events[0]["version"] != 5.0 || events[1]["of"] != 5.0 {
		t.Errorf("events %v", events)
	}
	clitest.MustRun(t, "train", dir, "--epochs", "1", "--dim", "4")
	h, err := store.ReadHistory(t.Context(), dir, store.Options{})
	if err != nil || len(h.Runs) != 1 || h.Runs[0].Number != 2 {
		t.Errorf("runs %+v, expected one, number 2: %v", h.Runs, err)
	}
}
