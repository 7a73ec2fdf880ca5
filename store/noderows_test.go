package store_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// twoTypes is a manifest of 5 + 4 nodes in two partitions, 3 + 2 of type a and 2 + 2 of type b, with features and labels of b.
func twoTypes() *store.Manifest {
	m := &store.Manifest{
		Version: 1, Nodes: 9, Topology: []string{"t.gsb"}, IDs: store.IDInfo{Kind: store.IDsDense, External: []string{"e.gsb"}, Map: "m.gsb"},
		Schema:     store.Schema{NodeTypes: []store.NodeType{{Name: "a", Count: 5}, {Name: "b", Count: 4}}, Relations: []store.Relation{{Name: "r"}}},
		Partitions: []store.PartitionInfo{{Nodes: 5, Types: []uint32{3, 2}}, {First: 5, Nodes: 4, Types: []uint32{2, 2}}},
		Columns: []store.ColumnInfo{
			{Name: "x", Role: store.RoleFeature, Elem: blocks.Uint8, Dim: 2, NodeType: "b", Runs: true, Files: []string{"x.gsb"}},
			{Name: "y", Role: store.RoleLabel, Elem: blocks.Int32, Dim: 1, NodeType: "b", Runs: true, Files: []string{"y.gsb"}},
		},
	}
	for _, name := range []string{"t.gsb", "e.gsb", "m.gsb", "x.gsb", "y.gsb"} {
		m.Files = append(m.Files, store.FileRef{Name: name})
	}
	return m
}

// TestNodeRows: of a column of one type the extent holds its rows alone, and the rest is 0 or no label, whatever part of the
// partition is asked for.
func TestNodeRows(t *testing.T) {
	m := twoTypes()
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	whole := m.Columns[0]
	whole.Runs = false
	if r := m.NodeRows(&whole, 0); !r.Whole() || r.Rows != 5 || !r.Stored(0) || r.Stored(5) {
		t.Errorf("a column of all: %+v", r)
	}
	r := m.NodeRows(&m.Columns[0], 0)
	if r.First != 3 || r.Rows != 2 || r.Nodes != 5 || r.Whole() {
		t.Fatalf("%+v, expected rows 3 and 4 of 5", r)
	}
	for first := range uint64(6) {
		for end := first; end <= 5; end++ {
			b := bytes.Repeat([]byte{7}, int(2*(end-first)))
			r.Fill(b, first)
			lo, hi := r.Overlap(first, end)
			for row := first; row < end; row++ {
				want := byte(0)
				if row >= 3 {
					want = 7
				}
				if r.Stored(row) != (want == 7) || b[2*(row-first)] != want || b[2*(row-first)+1] != want || (want == 7) != (row-3 >= lo && row-3 < hi) {
					t.Errorf("rows %d to %d: %v, of the extent's %d to %d, row %d expected %d", first, end, b, lo, hi, row, want)
				}
			}
		}
	}
	labels, b := m.NodeRows(&m.Columns[1], 1), make([]byte, 16)
	labels.Fill(b, 0)
	if want := append(bytes.Repeat([]byte{0xff}, 8), make([]byte, 8)...); !bytes.Equal(b, want) {
		t.Errorf("labels %v, expected %v: -1 for those of the other type", b, want)
	}
	types := store.ColumnInfo{Name: store.TypeColumn, Role: store.RoleNode, Elem: blocks.Uint32, Dim: 1, Runs: true} // no file has it
	for p, want := range [][]uint32{{1, 1, 1, 2, 2}, {1, 1, 2, 2}} {
		r, b := m.NodeRows(&types, store.PartitionID(p)), make([]byte, 4*len(want))
		r.Fill(b, 0)
		for i, v := range want {
			if got := binary.LittleEndian.Uint32(b[4*i:]); got != v {
				t.Errorf("partition %d: row %d is of type %d, expected %d", p, i, got, v)
			}
		}
	}
	for what, spoil := range map[string]func(m *store.Manifest){
		"a partition of more nodes": func(m *store.Manifest) { m.Partitions[0].Types[1] = 3 },
		"a type too few":            func(m *store.Manifest) { m.Partitions[0].Types = []uint32{5} },
		"more of a type":            func(m *store.Manifest) { m.Partitions[0].Types = []uint32{4, 1} },
		"no such type":              func(m *store.Manifest) { m.Columns[0].NodeType = "c" },
		"values of a feature":       func(m *store.Manifest) { m.Columns[0].Values = []float32{1} },
		"a column of edges":         func(m *store.Manifest) { m.Columns[0].Role = store.RoleEdge },
		"fewer of a type":           func(m *store.Manifest) { m.Schema.NodeTypes[0].Count, m.Schema.NodeTypes[1].Count = 6, 3 },
	} {
		m := twoTypes()
		if spoil(m); !errors.Is(m.Validate(), store.ErrInvalid) {
			t.Errorf("%s: %v, expected that it is refused", what, m.Validate())
		}
	}
	m.Partitions[1].Types = nil // appended by one that did not say of what type
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
	if r := m.NodeRows(&m.Columns[0], 1); !r.Whole() {
		t.Errorf("types are not known: %+v", r)
	}
}

// FuzzManifest: whatever a manifest says, it is refused or says of every column which rows each partition has.
func FuzzManifest(f *testing.F) {
	b, err := json.Marshal(twoTypes())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(bytes.Replace(b, []byte(`"types":[3,2]`), []byte(`"types":[4294967295,4294967295]`), 1))
	f.Add(bytes.Replace(b, []byte(`"node_type":"b"`), []byte(`"node_type":""`), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m store.Manifest
		if json.Unmarshal(b, &m) != nil || m.Validate() != nil {
			return
		}
		for i := range m.Columns {
			c := &m.Columns[i]
			for p, part := range m.Partitions {
				if c.Role.OnEdges() {
					continue
				}
				r := m.NodeRows(c, store.PartitionID(p))
				if r.Nodes != part.Nodes || r.First+r.Rows < r.First || r.First+r.Rows > r.Nodes {
					t.Fatalf("column %s of partition %d: %+v of %d nodes", c.Name, p, r, part.Nodes)
				}
				if lo, hi := r.Overlap(0, r.Nodes); lo != 0 || hi != r.Rows {
					t.Fatalf("%+v: rows %d to %d of all", r, lo, hi)
				}
			}
		}
	})
}
