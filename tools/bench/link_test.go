package bench

import (
	"path/filepath"
	"strings"
	"testing"
)

// The trainer of a small store, out of core, reads and writes, and times the same examples at rest.
func TestLinkChild(t *testing.T) {
	o := LinkOptions{Dir: t.TempDir(), MemoryBytes: 88 << 20, Times: 1, NodeEdges: 1, Partitions: 64, Threads: 2}.withDefaults()
	if err := prepareLink(t.Context(), &o, filepath.Join(o.Dir, "kg")); err != nil {
		t.Fatal(err)
	}
	if err := prepareLink(t.Context(), &o, filepath.Join(o.Dir, "kg")); err != nil { // is kept
		t.Fatal(err)
	}
	run, err := RunLinkChild(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if run.BytesRead < o.MemoryBytes || run.BytesWritten < o.MemoryBytes || run.Amplification > 1.1 || run.InMemory <= 0 || run.Seconds <= 0 || run.Buffer >= 64 {
		t.Errorf("%+v: expected more bytes moved than there are, and a buffer of less than everything", run)
	}
	o.Times = 2
	if err := prepareLink(t.Context(), &o, filepath.Join(o.Dir, "kg")); err == nil || !strings.Contains(err.Error(), "another store") {
		t.Errorf("a store of another shape: %v", err)
	}
}
