//go:build linux

package data_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestPrecomputeDiskFull: a disk that is full at whatever stage of precompute leaves the store as it was, with nothing of
// the column in it and whole; with room the same command makes it.
func TestPrecomputeDiskFull(t *testing.T) {
	disk, resize := storetest.SmallDisk(t, 64<<20)
	input, dir := filepath.Join(t.TempDir(), "in"), filepath.Join(disk, "store")
	clitest.MustRun(t, "generate", "sbm", input, "--nodes", "10k", "--edges", "30k", "--features", "64", "--quiet")
	clitest.MustRun(t, "ingest", input, dir, "--partitioner", "random", "--partitions", "4", "--quiet")
	files := func() (names []string) {
		t.Helper()
		for _, folder := range []string{"data", "tmp"} {
			list, err := os.ReadDir(filepath.Join(dir, folder))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range list {
				names = append(names, folder+"/"+f.Name())
			}
		}
		return names
	}
	before, failed := files(), 0
	for room := int64(0); ; room += 600 << 10 { // the column is 2.5 MiB
		if room > 16<<20 {
			t.Fatal("no room for the column in 16 MiB")
		}
		resize(storetest.UsedBytes(t, disk) + max(4<<10, room))
		code, _, said := clitest.Run(t, "precompute", dir, "--quiet")
		if code == cli.ExitOK {
			break
		}
		failed++
		if code != cli.ExitFailed || !strings.Contains(said, "no space left") {
			t.Fatalf("with %d bytes free: exit code %d: %s", room, code, said)
		}
		if after := files(); !slices.Equal(after, before) {
			t.Errorf("with %d bytes free: the store holds %v, expected %v as before", room, after, before)
		}
		resize(64 << 20)
		clitest.MustRun(t, "verify", dir, "--quiet")
	}
	if failed < 4 {
		t.Errorf("%d runs failed, expected more stages", failed)
	}
	clitest.MustRun(t, "verify", dir, "--quiet")
	if len(columnByExternal(t, dir, "x.hop1")) != 10_000 {
		t.Error("the column has not a row a node")
	}
}
