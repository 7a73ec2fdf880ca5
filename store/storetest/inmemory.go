package storetest

import (
	"os"
	"testing"
)

// InMemory has the folders of t.TempDir lie in memory from now on, where the system has a file system there: a test
// that commits some thousand times then waits for no disk. It is called before the first of them is made.
func InMemory(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "gstore-")
	if err != nil {
		return // there is none
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("TMPDIR", dir)
}
