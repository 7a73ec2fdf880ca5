package budget

import (
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// A graph that fits has no bound unasked, whatever the machine; one that does not has three quarters of what there is, and is told.
func TestUnasked(t *testing.T) {
	small := &store.Manifest{Nodes: 2708, Edges: 10556, Columns: []store.ColumnInfo{{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: 1433}}}
	large := &store.Manifest{Nodes: 111_059_956, Edges: 1_615_685_872, Columns: []store.ColumnInfo{{Name: "x", Role: store.RoleFeature, Elem: blocks.Float16, Dim: 128}}}
	for _, c := range []struct {
		name    string
		m       *store.Manifest
		allowed int64
		limited bool
		bytes   int64
		why     string
	}{
		{"small, a laptop", small, 8 << 30, false, 0, ""},
		{"small, a small cgroup", small, 256 << 20, true, 192 << 20, "memory: at most 192.0 MiB, three quarters of what this process's cgroup allows (--mem says otherwise)"},
		{"large, a desktop", large, 24 << 30, false, 18 << 30, "memory: at most 18.00 GiB, three quarters of the machine's memory (--mem says otherwise)"},
		{"large, a server", large, 512 << 30, false, 0, ""},
	} {
		if bytes, why := unasked(c.m, 0, c.allowed, c.limited); bytes != c.bytes || why != c.why {
			t.Errorf("%s: %d, %q", c.name, bytes, why)
		}
	}
}
