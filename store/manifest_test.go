package store_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestManifestRefused commits manifests that contradict themselves or the files.
func TestManifestRefused(t *testing.T) {
	w, m := newVersion(t, storetest.Random(storetest.Options{}))
	for name, spoil := range map[string]func(*store.Manifest){
		"nodes":       func(m *store.Manifest) { m.Nodes++; m.Schema.NodeTypes[0].Count++ },
		"edges":       func(m *store.Manifest) { m.Edges-- },
		"order":       func(m *store.Manifest) { m.Partitions[1].First++ },
		"pinned":      func(m *store.Manifest) { m.Pinned = []store.PartitionID{7} },
		"task":        func(m *store.Manifest) { m.Schema.Task = "fun" },
		"split":       func(m *store.Manifest) { m.Partitions[0].Train = 1000 },
		"column":      func(m *store.Manifest) { m.Columns[1].Name = m.Columns[0].Name },
		"dim":         func(m *store.Manifest) { m.Columns[0].Dim = 0 },
		"other dim":   func(m *store.Manifest) { m.Columns[0].Dim = 9 },
		"elem":        func(m *store.Manifest) { m.Columns[0].Elem = blocks.Int32 },
		"scales":      func(m *store.Manifest) { m.Columns[0].Scale = make([]float32, 9) },
		"elements":    func(m *store.Manifest) { m.Columns[0].Elements = []string{"one"} },
		"maps":        func(m *store.Manifest) { m.IDs.Kind = store.IDsStrings },
		"a map":       func(m *store.Manifest) { m.IDs.Kind, m.IDs.Dictionaries = store.IDsStrings, []uint64{1} },
		"role":        func(m *store.Manifest) { m.Columns[0].Role = "star" },
		"kind":        func(m *store.Manifest) { m.Columns[0].Role = store.RoleWeight },
		"no topology": func(m *store.Manifest) { m.Topology = nil },
		"ids":         func(m *store.Manifest) { m.IDs.Kind = "roman" },
		"unused file": func(m *store.Manifest) { m.EdgeLists = nil },
		"unlisted":    func(m *store.Manifest) { m.Files = m.Files[1:] },
		"path":        func(m *store.Manifest) { m.Files[0].Name = "../x.gsb" },
		"size":        func(m *store.Manifest) { m.Files[0].Size++ },
		"checksum":    func(m *store.Manifest) { m.Files[0].FooterChecksum++ },
		"list":        func(m *store.Manifest) { m.EdgeLists[0].Rows++ },
		"rows": func(m *store.Manifest) {
			m.Partitions[0].Nodes--
			m.Partitions[1].Nodes++
			m.Partitions[1].First--
		},
	} {
		bad := m.Clone()
		spoil(bad)
		if err := w.Commit(ctx, bad); !errors.Is(err, store.ErrInvalid) && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v, expected ErrInvalid or ErrCorrupt", name, err)
		}
	}
	if err := w.Commit(ctx, m); err != nil {
		t.Fatal(err)
	}
}

// TestColumnsByName: columns are found by name and role, and a name that is none is told with those there are.
func TestColumnsByName(t *testing.T) {
	m := store.Manifest{Columns: []store.ColumnInfo{{Name: "x", Role: store.RoleFeature}, {Name: "a", Role: store.RoleSplit}, {Name: "b", Role: store.RoleSplit}},
		EdgeLists: []store.EdgeListInfo{{Name: "valid"}, {Name: "test"}}}
	for name, want := range map[string]string{"": "a", "a": "a", "b": "b"} {
		if c, err := m.SplitColumn(name); err != nil || c.Name != want {
			t.Errorf("split %q: %v, %v, expected %s", name, c, err, want)
		}
	}
	if _, err := m.SplitColumn("x"); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), `["a" "b"]`) {
		t.Errorf("a feature as a split: %v", err)
	}
	if _, err := (&store.Manifest{Columns: m.Columns[:1]}).SplitColumn(""); !errors.Is(err, store.ErrNotFound) || strings.Contains(err.Error(), `""`) {
		t.Errorf("no split: %v", err)
	}
	if c, err := m.Column("b"); err != nil || c != &m.Columns[2] {
		t.Errorf("column b: %v, %v", c, err)
	}
	if _, err := m.Column("y"); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "[x a b]") {
		t.Errorf("column y: %v", err)
	}
	if l, err := m.EdgeList("test"); err != nil || l != &m.EdgeLists[1] {
		t.Errorf("list test: %v, %v", l, err)
	}
	if _, err := m.EdgeList("train"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("list train: %v", err)
	}
	if got := m.ColumnsOf(store.RoleSplit); len(got) != 2 || got[0] != &m.Columns[1] || got[1] != &m.Columns[2] {
		t.Errorf("splits %v", got)
	}
}

// TestColumnsOfMeaning: the times of edges, the categories of nodes and the task are told by names, types and widths.
func TestColumnsOfMeaning(t *testing.T) {
	edge := func(name string, elem blocks.ElemType, dim int) store.ColumnInfo {
		return store.ColumnInfo{Name: name, Role: store.RoleEdge, Elem: elem, Dim: dim}
	}
	for _, c := range []struct {
		column store.ColumnInfo
		time   bool
	}{
		{edge("time", blocks.Int64, 1), true}, {edge("ts", blocks.Int64, 1), true}, {edge("when", blocks.Int64, 1), false},
		{edge("time", blocks.Float32, 1), false}, {edge("time", blocks.Int64, 2), false},
		{store.ColumnInfo{Name: "time", Role: store.RoleNode, Elem: blocks.Int64, Dim: 1}, false},
	} {
		m := store.Manifest{Columns: []store.ColumnInfo{edge("weight", blocks.Float32, 1), c.column}}
		got, err := m.TimeColumn()
		if c.time != (err == nil) || err == nil && got.Name != c.column.Name || err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%+v is times: %v, %v, expected %v", c.column, got, err, c.time)
		}
	}
	node := func(name string, elem blocks.ElemType, of []string) store.ColumnInfo {
		return store.ColumnInfo{Name: name, Role: store.RoleNode, Elem: elem, Dim: 1, Categories: of}
	}
	m := store.Manifest{Schema: store.Schema{NodeTypes: []store.NodeType{{Name: "a", Count: 5}}}, Columns: []store.ColumnInfo{
		node("age", blocks.Float32, nil), node("city", blocks.Uint32, []string{"Rome", "Oslo"}), node("n", blocks.Uint32, nil), node("a"+store.NodeSuffix, blocks.Uint32, nil)}}
	var told []string
	for _, c := range m.Categories() {
		told = append(told, c.Column)
	}
	if want := []string{"city", "a" + store.NodeSuffix}; !slices.Equal(told, want) {
		t.Errorf("columns of categories %q, expected %q", told, want)
	}
	lists := []store.EdgeListInfo{{Name: "valid"}, {Name: "test"}}
	for _, c := range []struct {
		task  string
		lists []store.EdgeListInfo
		want  string
	}{{"", nil, ""}, {"", lists[:1], ""}, {"", lists, store.TaskLink}, {store.TaskNode, lists, store.TaskNode}} {
		m := store.Manifest{Schema: store.Schema{Task: c.task}, EdgeLists: c.lists}
		if got := m.Task(); got != c.want {
			t.Errorf("schema's task %q and %d lists: task %q, expected %q", c.task, len(c.lists), got, c.want)
		}
	}
}

// TestTypesOfIDs: ids that begin with their types are told from those that do not, and from those of a graph of one type.
func TestTypesOfIDs(t *testing.T) {
	for _, c := range []struct {
		types string // of the nodes' first half and second
		ids   [2]string
		want  []string
	}{
		{"a b", [2]string{"a:", "b:"}, []string{"a", "b"}},
		{"a b", [2]string{"a:", "c:"}, nil},
		{"a b", [2]string{"", ""}, nil},
		{"a", [2]string{"a:", "a:"}, []string{"a"}},
		{store.UntypedName, [2]string{"node:", "node:"}, nil},
	} {
		g := storetest.Random(storetest.Options{Nodes: 40, IDs: store.IDsStrings})
		for i := range g.External {
			g.External[i] = c.ids[i*2/40] + g.External[i]
		}
		w, m := newVersion(t, g)
		names := strings.Fields(c.types)
		m.Schema.NodeTypes = nil
		for _, name := range names {
			m.Schema.NodeTypes = append(m.Schema.NodeTypes, store.NodeType{Name: name, Count: uint64(40 / len(names))})
		}
		if err := w.Commit(ctx, m); err != nil {
			t.Fatal(err)
		}
		s := storetest.Open(t, w.Dir(), store.Options{})
		if got, err := s.TypesOfIDs(t.Context()); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("types %s, ids of %q: %q, %v, expected %q", c.types, c.ids, got, err, c.want)
		}
	}
}
