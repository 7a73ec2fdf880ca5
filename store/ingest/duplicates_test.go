package ingest_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/storetest"
)

// Of duplicates the one whose column bytes sort first stays, whether columns ride in the keys, as in a small graph, or
// lie beside them, as in a large one: 1 is 00 00 80 3f on disk, 2 is 00 00 00 40.
func TestDuplicateThatStays(t *testing.T) {
	for _, nodes := range []int{4, 1 << 17} {
		text := fmt.Sprintf("src\tdst\tweight\n0\t1\t1\n1\t0\t2\n0\t1\t3\n2\t%d\t5\n", nodes-1)
		dir := filepath.Join(t.TempDir(), "s")
		o := ingest.Options{Partitions: 2, Undirected: true, MemoryBytes: 256 << 20}
		if _, err := ingest.Run(context.Background(), dir, openText(t, text, store.IDsDense), o); err != nil {
			t.Fatal(err)
		}
		lines := storetest.Lines(t, openStore(t, dir, 0), nil)
		if want := "edge 0 1 weight=2"; !slices.Contains(lines, want) {
			t.Errorf("%d nodes: no line %q in %q", nodes, want, lines[:2])
		}
	}
}
