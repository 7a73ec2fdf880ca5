package temporal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/ingesttest"
	"github.com/gstore/gstore/store/storetest"
)

// TestLoopsFitInMemory: where each node has an edge to itself, answers are nodes of every type, of which relations do not name one as their
// end, and a run and predictions of its model fit in the memory that they count.
func TestLoopsFitInMemory(t *testing.T) {
	var items, users, has strings.Builder
	has.WriteString("src,dst,timestamp\n")
	items.WriteString("id\n")
	users.WriteString("id,x\n")
	for i := range 40 {
		fmt.Fprintf(&users, "%d,.5\n", i)
		fmt.Fprintf(&has, "%d,%d,%d\n%d,%d,%d\n", i, i%5, i, i, (i+2)%5, 100-i)
	}
	for i := range 5 {
		fmt.Fprintf(&items, "%d\n", i)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"nodes/item": items.String(), "nodes/user": users.String(), "edges/user-has-item": has.String()} {
		path := filepath.Join(dir, name+".csv")
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, loops := range []ingest.SelfLoops{ingest.SelfLoopsKeep, ingest.SelfLoopsAdd} {
		st := storetest.Open(t, ingesttest.Store(t, dir, ingest.Options{SelfLoops: loops}), store.Options{})
		cfg := Config{Dim: 8, BatchSize: 1, Negatives: 5, Epochs: 1, Running: options.Running{Threads: 1, MemoryBytes: 256 << 20}}
		c, err := Train(t.Context(), st, hostDevice(t), cfg, Hooks{})
		if err != nil {
			t.Fatalf("self loops %s: %v", loops, err)
		}
		questions := []store.NodeID{0, 1, 2}
		answered := 0
		err = Predict(t.Context(), st, hostDevice(t), c, cfg, questions, 3, func(_ int, answers []Answer) error {
			answered += len(answers)
			return nil
		})
		if err != nil || answered != 9 {
			t.Errorf("self loops %s: %d answers, expected 9: %v", loops, answered, err)
		}
	}
}
