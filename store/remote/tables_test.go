package remote_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/remote"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/table"
)

// TestTables: learned rows go there and back with their store, but for those that a run is training, which is said by name, on
// both ways.
func TestTables(t *testing.T) {
	dir, b := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Partitions: 3})), open(t)
	train := func(dir string) *table.Table {
		t.Helper()
		tab, err := table.Open(t.Context(), storetest.Open(t, dir, store.Options{}), storetest.TableOptions(nil))
		if errors.Is(err, store.ErrNotFound) {
			tab, err = table.Create(t.Context(), storetest.Open(t, dir, store.Options{}), storetest.TableOptions(nil))
		}
		if err == nil {
			err = tab.Checkpoint(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return tab
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), `"nodes"`) || !strings.Contains(err.Error(), "being trained") {
			t.Errorf("%s: %v, expected ErrLocked that names the table", what, err)
		}
	}
	tab := train(dir)
	_, err := remote.Push(t.Context(), b, dir, remote.PushOptions{})
	refused("a push beside a run", err)
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	push(t, b, dir)
	there := filepath.Join(t.TempDir(), "there")
	if _, err := remote.Pull(t.Context(), b, there, remote.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, dir, there)
	if err := train(dir).Close(); err != nil { // another checkpoint
		t.Fatal(err)
	}
	push(t, b, dir)
	tab = train(there)
	_, err = remote.Pull(t.Context(), b, there, remote.PullOptions{})
	refused("a pull beside a run", err)
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
}
