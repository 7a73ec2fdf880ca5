package meta

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestMarkerFollowsName: a marker is made only when the name of the file that it will name is durable: after a crash
// there is no marker without its file.
func TestMarkerFollowsName(t *testing.T) {
	mem := vfs.NewCrashableMem()
	m := metaFS{mem, newFence()}
	if err := mem.MkdirAll("/meta", 0o777); err != nil {
		t.Fatal(err)
	}
	root, err := mem.OpenDir("/")
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Sync(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/meta/MANIFEST-000001", "/meta/marker.manifest.000001.MANIFEST-000001"} {
		f, err := m.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	after := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0})
	if _, err := after.Stat("/meta/MANIFEST-000001"); err != nil {
		t.Errorf("after a crash behind the marker's creation: %v", err)
	}
}
