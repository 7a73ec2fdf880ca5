package data_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli/clitest"
)

// filesOf are the contents of a folder's files, or of the one file.
func filesOf(t *testing.T, path string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		found[strings.TrimPrefix(p, path)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestTwoAtOnce: of two processes that write one output each leaves its own whole, or is refused by name; nothing of one is
// in the other's, and nothing is left beside it.
func TestTwoAtOnce(t *testing.T) {
	work := t.TempDir()
	var stores []string
	for k, nodes := range []int{3000, 3100} {
		data, store := filepath.Join(work, fmt.Sprint("data", k)), filepath.Join(work, fmt.Sprint("store", k))
		clitest.MustRun(t, "generate", "rmat", data, "--nodes", fmt.Sprint(nodes), "--edges", "60000", "--features", "16", "--quiet")
		clitest.MustRun(t, "ingest", data, store, "--quiet")
		stores = append(stores, store)
	}
	for what, command := range map[string]func(store, out string) []string{
		"export": func(store, out string) []string { return []string{"export", store, out, "--quiet"} },
		"export parquet": func(store, out string) []string {
			return []string{"export", store, out, "--format", "parquet", "--quiet"}
		},
		"walks": func(store, out string) []string { return []string{"walks", store, out, "--quiet"} },
	} {
		t.Run(what, func(t *testing.T) {
			var alone []map[string]string
			for k, store := range stores {
				out := filepath.Join(t.TempDir(), fmt.Sprint("alone", k), "out")
				if err := os.Mkdir(filepath.Dir(out), 0o777); err != nil {
					t.Fatal(err)
				}
				clitest.MustRun(t, command(store, out)...)
				alone = append(alone, filesOf(t, out))
			}
			if maps.Equal(alone[0], alone[1]) {
				t.Fatal("the two stores have one output")
			}
			for pair := range 20 {
				dir := t.TempDir()
				out := filepath.Join(dir, "out")
				var running [2]*exec.Cmd
				var said [2]bytes.Buffer
				for k, store := range stores {
					running[k] = clitest.Command(command(store, out)...)
					running[k].Stderr = &said[k]
					if err := running[k].Start(); err != nil {
						t.Fatal(err)
					}
				}
				done := 0
				for k := range running {
					if err := running[k].Wait(); err == nil {
						done++
					} else if !strings.Contains(said[k].String(), "another ") && !strings.Contains(said[k].String(), "name a new folder") {
						t.Errorf("pair %d: process %d: %v: %s", pair, k, err, said[k].String())
					}
				}
				got := filesOf(t, out)
				if done == 0 || !maps.Equal(got, alone[0]) && !maps.Equal(got, alone[1]) {
					t.Errorf("pair %d: %d processes had success, and the output is neither's", pair, done)
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
					t.Errorf("pair %d: beside the output there is %v, %v", pair, left, err)
				}
			}
		})
	}
}
