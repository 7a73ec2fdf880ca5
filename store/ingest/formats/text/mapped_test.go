package text

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store/ingest"
)

// Names in no order come out by id, whatever the number of scratch files.
func TestMappedNamesInOrder(t *testing.T) {
	const n = 10007
	fs := vfs.NewMem()
	if err := fs.MkdirAll("scratch", 0o777); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create("m.txt", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	for k := range uint64(n) {
		id := k * 5003 % n
		if _, err := fmt.Fprintf(f, "a rather long name, of %d\t%d\n", id, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := OpenMapped(fs, "m.txt", 0)
	if err != nil || m.inOrder || m.Count != n {
		t.Fatalf("%+v (%v)", m, err)
	}
	for _, bytes := range []int64{m.bytes, 40 << 20} { // as if there were more: ten files
		m.bytes = bytes
		var names []string
		env := ingest.Env{Threads: 1, ScratchDir: "scratch", FS: fs}
		err := m.Names(t.Context(), env, func(ids *ingest.IDs, _ ingest.Position) error {
			for i := range ids.Len() {
				names = append(names, string(ids.At(i)))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for id, name := range names {
			if want := fmt.Sprintf("a rather long name, of %d", id); name != want {
				t.Fatalf("name %d of %d is %q", id, len(names), name)
			}
		}
		if len(names) != n {
			t.Errorf("%d names, expected %d", len(names), n)
		}
		if left, err := fs.List("scratch"); err != nil || len(left) != 0 {
			t.Errorf("%v is left in the scratch directory (%v)", left, err)
		}
	}
}
