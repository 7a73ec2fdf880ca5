package formats

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// typedFiles are two types of nodes, user without data and item, and two of edges, with files replaced.
func typedFiles(replace map[string][]byte) map[string][]byte {
	files := map[string][]byte{
		"d/node_types.txt": []byte("user\nitem\n"), "d/edge_types.txt": []byte("user buys item\nitem like item\n"),
		"d/edges/user__buys__item/edge_index.npy":  npyBytes("<i8", "2, 2", blocks.Bytes([]int64{0, 3, 1, 0})),
		"d/edges/user__buys__item/edge_weight.npy": npyBytes("<f4", "2,", blocks.Bytes([]float32{.5, 2})),
		"d/edges/item__like__item/edge_index.npy":  npyBytes("<i8", "2, 1", blocks.Bytes([]int64{1, 0})),
		"d/edges/item__like__item/edge_time.npy":   npyList(77),
		"d/nodes/item/feat.npy":                    npyBytes("<f4", "2, 1", blocks.Bytes([]float32{5, 6})),
		"d/nodes/item/label.npy":                   npyList(1, 0),
		"d/split/train.npy":                        npyList(1), "d/split/test.npy": npyList(0),
	}
	maps.Copy(files, replace)
	return files
}

// One relation between two types is stored, for models of relations; in a graph of one type there is nothing to tell apart.
func TestTypedOneRelation(t *testing.T) {
	ends, pair := npyBytes("<i8", "2, 1", blocks.Bytes([]int64{0, 1})), []byte("src,dst\n1,2\n")
	old := &store.Manifest{Schema: store.Schema{NodeTypes: []store.NodeType{{Name: "item"}, {Name: "user"}}}} // without relations
	for path, c := range map[string]struct {
		text []byte
		like *store.Manifest
		want bool
	}{
		"d/edges/user__buys__item/edge_index.npy":    {ends, nil, true},
		"d/edges/user__follows__user/edge_index.npy": {ends, nil, false},
		"d/edges/user-buys-item.csv":                 {pair, nil, true},
		"d/edges/user-buys-item.tsv":                 {pair, old, false},
		"d/edges/user-follows-user.csv":              {pair, nil, false},
	} {
		s, err := Open("d", Options{FS: memFS(t, map[string][]byte{path: c.text}), Text: table.Options{Like: c.like}})
		if err != nil {
			t.Fatal(err)
		}
		if d := s.Describe(); d.HasRelation != c.want || len(d.Relations) != 1 {
			t.Errorf("%s: relations %t of %q, expected %t", path, d.HasRelation, d.Relations, c.want)
		}
		if _, err := drain(t, s); err != nil {
			t.Error(err)
		}
	}
}

// A store of one type that has a name takes no other; one without types takes ids that begin with any.
func TestTablesLikeOneType(t *testing.T) {
	files := map[string][]byte{"d/edges/user-buys-item.csv": []byte("src,dst\n1,2\n")}
	for name, ok := range map[string]bool{"node": true, "user": false} {
		like := &store.Manifest{Schema: store.Schema{NodeTypes: []store.NodeType{{Name: name}}}}
		_, err := Open("d", Options{FS: memFS(t, files), Text: table.Options{Like: like}})
		if ok != (err == nil) || err != nil && !strings.Contains(err.Error(), "append adds no type") {
			t.Errorf("to nodes of type %q: %v", name, err)
		}
	}
}

// Ids within types become source ids: users 0 to 3, items 4 and 5; columns that a type of edges lacks have their default.
func TestTyped(t *testing.T) {
	s, err := Open("d", Options{FS: memFS(t, typedFiles(nil))})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = s.Edges(t.Context(), ingest.Env{Threads: 2}, func(_ int, b *ingest.EdgeBatch) error {
		for i := range b.Len() {
			w, _ := blocks.View[float32](b.Columns[0])
			at, _ := blocks.View[int64](b.Columns[1])
			got = append(got, fmt.Sprint(b.Src.Ints[i], b.Dst.Ints[i], b.Relations[i], w[i], at[i]))
		}
		return nil
	})
	slices.Sort(got)
	want := []string{fmt.Sprint(0, 5, 0, .5, int64(math.MinInt64)), fmt.Sprint(3, 4, 0, 2, int64(math.MinInt64)), fmt.Sprint(5, 4, 1, 1, 77)}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("edges %q (%v), expected %q", got, err, want)
	}
	d := s.Describe()
	if d.Format != "typed" || d.Nodes != 6 || d.Edges != 3 || !slices.Equal(d.Relations, []string{"user:buys:item", "item:like:item"}) || d.Task != store.TaskNode {
		t.Errorf("described as %+v", d)
	}
	if x := d.NodeColumns[0]; x.Name != "item.feat" || x.First != 4 || x.Rows != 2 || x.NodeType != "item" {
		t.Errorf("features %+v", x)
	}
	// Categories: of every node its type, of users, who have no features, each one's number.
	for name, want := range map[string][]uint32{store.TypeColumn: {1, 1, 1, 1, 2, 2}, "user" + store.NodeSuffix: {1, 2, 3, 4}} {
		var numbers []uint32
		c := slices.IndexFunc(d.NodeColumns, func(c ingest.ColumnSpec) bool { return c.Name == name })
		if c < 0 || d.NodeColumns[c].Role != store.RoleNode || d.NodeColumns[c].First != 0 || d.NodeColumns[c].Rows != int64(len(want)) {
			t.Fatalf("column %s is number %d of %+v", name, c, d.NodeColumns)
		}
		err := s.Rows(t.Context(), ingest.Env{}, c, func(b []byte, _ ingest.Position) error {
			x, err := blocks.View[uint32](b)
			numbers = append(numbers, x...)
			return err
		})
		if err != nil || !slices.Equal(numbers, want) {
			t.Errorf("column %s holds %v (%v), expected %v", name, numbers, err, want)
		}
	}
	if !slices.Equal(d.NodeTypes, []ingest.NodeType{{Name: "user", Count: 4}, {Name: "item", Count: 2}}) {
		t.Errorf("types %+v", d.NodeTypes)
	}
	var ids []byte
	err = s.Split(t.Context(), ingest.Env{}, 0, store.SplitTest, func(x *ingest.IDs, _ ingest.Position) error {
		ids = append(ids, blocks.Bytes(x.Ints)...)
		return nil
	})
	if err != nil || !bytes.Equal(ids, blocks.Bytes([]uint64{4})) {
		t.Errorf("test nodes %v (%v)", ids, err)
	}
	if _, err := drain(t, s); err != nil {
		t.Error(err)
	}
}

// TestTypedCounts: nodes without data are as many as meta.json says, else as edges show.
func TestTypedCounts(t *testing.T) {
	s, err := Open("d", Options{FS: memFS(t, typedFiles(map[string][]byte{"d/meta.json": []byte(`{"node_types": {"user": 9, "item": 7}}`)}))})
	if err != nil || s.Describe().NodeTypes[0].Count != 9 || s.Describe().NodeTypes[1].Count != 2 {
		t.Errorf("%v, %+v", err, s)
	}
}

// Features of edges are a column: one for all types of edges where they are alike, else one of each type.
func TestTypedEdgeFeatures(t *testing.T) {
	hex := func(x ...float32) string { return fmt.Sprintf("%x", blocks.Bytes(x)) }
	weight, time, none := " weight ", " time ", fmt.Sprintf("%x", blocks.Bytes([]int64{math.MinInt64}))
	for _, c := range []struct {
		like []byte // features of the second type of edges
		want []string
	}{
		{npyBytes("<f4", "1, 2", blocks.Bytes([]float32{8, 9})), []string{"edge 0 5 0" + weight + hex(.5) + " feat " + hex(1, 2) + time + none,
			"edge 3 4 0" + weight + hex(2) + " feat " + hex(3, 4) + time + none, "edge 5 4 1" + weight + hex(1) + " feat " + hex(8, 9) + time + "4d00000000000000"}},
		{npyBytes("<f4", "1, 1", blocks.Bytes([]float32{8})), []string{
			"edge 0 5 0" + weight + hex(.5) + " user:buys:item.feat " + hex(1, 2) + " item:like:item.feat " + hex(0) + time + none,
			"edge 3 4 0" + weight + hex(2) + " user:buys:item.feat " + hex(3, 4) + " item:like:item.feat " + hex(0) + time + none,
			"edge 5 4 1" + weight + hex(1) + " user:buys:item.feat " + hex(0, 0) + " item:like:item.feat " + hex(8) + time + "4d00000000000000"}},
	} {
		s, err := Open("d", Options{FS: memFS(t, typedFiles(map[string][]byte{"d/edges/item__like__item/edge_feat.npy": c.like,
			"d/edges/user__buys__item/edge_feat.npy": npyBytes("<f4", "2, 2", blocks.Bytes([]float32{1, 2, 3, 4}))}))})
		if err != nil {
			t.Fatal(err)
		}
		if got := told(t, s)[1:4]; !slices.Equal(got, c.want) {
			t.Errorf("%q, expected %q", got, c.want)
		}
	}
}

func TestTypedBadInput(t *testing.T) {
	file := func(name, path string, b []byte, want ...string) badCase {
		return badCase{name: name, path: "d", files: typedFiles(map[string][]byte{"d/" + path: b}), want: want}
	}
	runBad(t, []badCase{
		file("destination out of its type", "edges/item__like__item/edge_index.npy", npyBytes("<i8", "2, 1", blocks.Bytes([]int64{1, 2})), "edge_index.npy: edge 0", "destination 2, expected 0 ≤ id < 2"),
		file("a negative id of a type without data", "edges/user__buys__item/edge_index.npy", npyBytes("<i8", "2, 2", blocks.Bytes([]int64{-1, 3, 1, 0})), "id -1"),
		file("a node of a split out of its type", "split/test.npy", npyList(2), "test.npy: row 0: node 2, expected 0 ≤ id < 2"),
		file("a type that leads elsewhere", "node_types.txt", []byte("user\nitem\n../x\n"), "name of a folder"),
		file("features of other edges", "edges/user__buys__item/edge_feat.npy", npyBytes("<f4", "1, 1", make([]byte, 4)), "edge_feat.npy", "expected 2 rows"),
		file("weights of other edges", "edges/user__buys__item/edge_weight.npy", npyBytes("<f4", "1,", make([]byte, 4)), "edge_weight.npy", "shape [2]"),
		file("weights that are a folder", "edges/user__buys__item/edge_cost.npy/x", nil, "edge_cost.npy", "it is no file"),
		file("times that are no integers", "edges/item__like__item/edge_time.npy", npyBytes("<f8", "1,", make([]byte, 8)), "edge_time.npy", "expected int64"),
		file("edges as rows", "edges/user__buys__item/edge_index.npy", npyBytes("<i8", "3, 2", make([]byte, 48)), "expected integers of shape [2, E]"),
		file("a type that is not listed", "node_types.txt", []byte("user\n"), `"item" is not listed`),
		file("an edge type that is no triple", "edge_types.txt", []byte("user buys item\nitem like item\nlike\n"), "expected source__name__destination"),
		file("an edge type without edges", "edge_types.txt", []byte("user buys item\nitem like item\nuser sees item\n"), "no edge_index.npy"),
		file("a type twice", "node_types.txt", []byte("user\nitem\nuser\n"), "twice"),
		file("labels of two types", "nodes/user/label.npy", npyList(1, 2, 3, 4), "second type"),
		file("labels of other nodes", "nodes/item/label.npy", npyList(1), "1 rows, expected 2"),
	})
}

// Whatever the lists of types and the edges, a folder is refused or read as described.
func FuzzTyped(f *testing.F) {
	f.Add([]byte("user\nitem\n"), []byte("user buys item\nitem like item\n"), npyBytes("<i8", "2, 1", blocks.Bytes([]int64{1, 0})))
	f.Fuzz(func(t *testing.T, nodes, relations, edges []byte) {
		fs := memFS(t, typedFiles(map[string][]byte{"d/node_types.txt": nodes, "d/edge_types.txt": relations, "d/edges/item__like__item/edge_index.npy": edges}))
		s, err := Open("d", Options{FS: fs, Format: "typed"})
		if err != nil || s.Describe().Nodes > 1<<16 || s.Describe().Edges > 1<<16 {
			return
		}
		_ = openDrain(t, fs, "d", Options{Format: "typed"})
	})
}
