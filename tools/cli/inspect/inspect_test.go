package inspect_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

func TestInspectFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.gsb")
	w, err := blocks.Create(vfs.Default, path, blocks.Header{Kind: blocks.NodeColumn, Elem: blocks.Float32, Dim: 1, Partitions: 1, Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(0, 2, blocks.Bytes([]float32{1.5, -2})); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[20]++
	damaged := filepath.Join(t.TempDir(), "bad.gsb")
	if err := os.WriteFile(damaged, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	table := filepath.Join(t.TempDir(), "e.gsb")
	layout, err := blocks.NewEmbeddingLayout(blocks.Header{Elem: blocks.Float32, Dim: 2, Name: "entity"}, 2, 2, []uint64{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	fill := func(blocks.PartitionID, int, uint64, []byte) error { return nil }
	if _, err := blocks.CreateEmbedding(vfs.Default, table, layout, fill); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{"inspect", table}, cli.ExitOK, "extent embedding entity 1 plane 1 slot 1: 16 bytes, 2 rows", ""},
		{[]string{"inspect", table, "--elements", "1"}, cli.ExitOK, "7 more extents", ""},
		{[]string{"--json", "inspect", table}, cli.ExitOK, `"planes":2`, ""},
		{[]string{"inspect", path}, cli.ExitOK, "row 1: -2", ""},
		{[]string{"inspect", path, "--elements", "1"}, cli.ExitOK, "1 more: rows", ""},
		{[]string{"--json", "inspect", path}, cli.ExitOK, `"kind":"node column"`, ""},
		{[]string{"inspect", damaged}, cli.ExitCorrupt, "", "header at byte 0 is corrupt: checksum"},
		{[]string{"inspect", path + ".gsb"}, cli.ExitFailed, "", "no such file"},
		{[]string{"inspect", path, "--elements", "-1"}, cli.ExitUsage, "", "--elements -1"},
		{[]string{"inspect"}, cli.ExitUsage, "", "expected 1 argument"},
	} {
		code, stdout, stderr := clitest.Run(t, c.args...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%v: exit code %d, expected %d\n%s%s", c.args, code, c.code, stdout, stderr)
		}
	}
}

func TestVerifyCommand(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{}))
	code, stdout, stderr := clitest.Run(t, "verify", dir)
	if code != cli.ExitOK || !strings.Contains(stdout, "version 1 is whole") {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	names, err := filepath.Glob(filepath.Join(dir, "data", "*.gsb"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	raw, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	raw[blocks.HeaderBytes]++
	if err := os.WriteFile(names[0], raw, 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = clitest.Run(t, "--json", "verify", dir)
	if code != cli.ExitCorrupt || !strings.Contains(stderr, names[0]) || !strings.Contains(stdout, `"damaged":1`) {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr := clitest.Run(t, "verify", t.TempDir()); code != cli.ExitFailed {
		t.Fatalf("no store: exit code %d\n%s", code, stderr)
	}
}
