package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// keyedSource is a ring of nodes named by strings or by integers with gaps, with a table of
// features and labels in another order. The last tenth of the table's nodes have no edge;
// every seventh node of the ring has no row.
type keyedSource struct {
	ring, table, dim int
	strings          bool
	twice            bool // the table's first node has two rows
	desc             ingest.Description
}

func newKeyedSource(nodes, dim int, strings bool) *keyedSource {
	s := &keyedSource{ring: nodes, table: nodes + nodes/10, dim: dim, strings: strings}
	s.desc = ingest.Description{Format: "test", Input: "test", NodeTypes: []ingest.NodeType{{Name: "node", Count: -1}}, Nodes: -1, Edges: -1,
		IDs: store.IDsIntegers, Keyed: true, Task: store.TaskNode, NodeColumns: []ingest.ColumnSpec{
			{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: dim, Rows: -1, Keyed: true},
			{Name: "label", Role: store.RoleLabel, Elem: blocks.Int64, Dim: 1, Rows: -1, Keyed: true}}}
	if strings {
		s.desc.IDs = store.IDsStrings
	}
	return s
}

func (s *keyedSource) add(ids *ingest.IDs, v int) {
	if s.strings {
		ids.Append([]byte(s.name(v)))
	} else {
		ids.Ints = append(ids.Ints, uint64(v)*1_000_003)
	}
}

func (s *keyedSource) name(v int) string {
	if s.strings {
		return fmt.Sprintf("node %d", v)
	}
	return fmt.Sprint(v * 1_000_003)
}

func (s *keyedSource) Describe() *ingest.Description { return &s.desc }
func (s *keyedSource) Close() error                  { return nil }

func (s *keyedSource) Edges(_ context.Context, _ ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	b := &ingest.EdgeBatch{At: ingest.Position{File: "ring", Unit: "edge"}}
	for v := range s.ring {
		s.add(&b.Src, v)
		s.add(&b.Dst, (v+1)%s.ring)
	}
	return emit(0, b)
}

func (s *keyedSource) hasRow(v int) bool { return v%7 != 0 || v >= s.ring }

// Rows calls fn with the table's nodes in its order, a thousand at a time.
func (s *keyedSource) rows(fn func(nodes []int, ids *ingest.IDs, at ingest.Position) error) error {
	var nodes []int
	var ids ingest.IDs
	at := ingest.Position{File: "table", Unit: "row"}
	for k := range s.table {
		v := (k*7919 + 5) % s.table
		for range 1 + boolInt(s.twice && k == 0) {
			if s.hasRow(v) {
				nodes = append(nodes, v)
				s.add(&ids, v)
			}
		}
		if len(nodes) >= 1000 || k == s.table-1 {
			if err := fn(nodes, &ids, at); err != nil {
				return err
			}
			at.Index += uint64(len(nodes))
			nodes = nodes[:0]
			ids.Reset()
		}
	}
	return nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (s *keyedSource) NodeIDs(_ context.Context, _ ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
	return s.rows(func(_ []int, ids *ingest.IDs, at ingest.Position) error { return emit(ids, at) })
}

func (s *keyedSource) row(v int) []float32 {
	x := make([]float32, s.dim)
	for k := range x {
		x[k] = float32(v%1021) - float32(k%509)
	}
	return x
}

func (s *keyedSource) KeyedRows(_ context.Context, _ ingest.Env, c int, emit func(*ingest.IDs, []byte, ingest.Position) error) error {
	return s.rows(func(nodes []int, ids *ingest.IDs, at ingest.Position) error {
		var rows []byte
		for _, v := range nodes {
			if c == 0 {
				rows = append(rows, blocks.Bytes(s.row(v))...)
			} else {
				rows = append(rows, blocks.Bytes([]int64{int64(v % 5)})...)
			}
		}
		return emit(ids, rows, at)
	})
}

func (s *keyedSource) Rows(context.Context, ingest.Env, int, func([]byte, ingest.Position) error) error {
	return errors.New("a keyed column is read as if it were in order")
}

func (s *keyedSource) Split(context.Context, ingest.Env, int, uint8, func(*ingest.IDs, ingest.Position) error) error {
	return nil
}

func (s *keyedSource) EdgeList(context.Context, ingest.Env, int, func(*ingest.EdgeBatch) error) error {
	return nil
}

func (s *keyedSource) Names(context.Context, ingest.Env, func(*ingest.IDs, ingest.Position) error) error {
	return nil
}

// check compares a store with the source, by external ids.
func (s *keyedSource) check(t *testing.T, dir string) {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if n := st.Manifest().Nodes; n != uint64(s.table) {
		t.Errorf("%d nodes, expected %d", n, s.table)
	}
	names := map[string]int{}
	for v := range s.table {
		names[s.name(v)] = v
	}
	for p, info := range st.Manifest().Partitions {
		x, err := st.ReadColumn(t.Context(), "x", store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		labels, err := st.ReadColumn(t.Context(), "label", store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		y, err := blocks.View[int32](labels)
		if err != nil {
			t.Fatal(err)
		}
		external, _, err := st.ReadExternal(t.Context(), store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		for k := range int(info.Nodes) {
			v, ok := names[string(external.Append(nil, k))]
			if !ok {
				t.Fatalf("node %q is not one of the source's", string(external.Append(nil, k)))
			}
			delete(names, string(external.Append(nil, k)))
			want, label := s.row(v), int32(v%5)
			if !s.hasRow(v) {
				want, label = make([]float32, s.dim), -1
			}
			if !bytes.Equal(x[k*4*s.dim:(k+1)*4*s.dim], blocks.Bytes(want)) || y[k] != label {
				t.Fatalf("node %d has the row of another, or label %d for %d", v, y[k], label)
			}
		}
	}
	if len(names) > 0 {
		t.Errorf("%d nodes are missing", len(names))
	}
}

// Rows in any order reach their nodes, in memory and through scratch files, in whole partitions and in windows of one.
func TestKeyedColumns(t *testing.T) {
	tests := []struct {
		name       string
		nodes, dim int
		strings    bool
		spills     bool
		o          ingest.Options
	}{
		{"integers", 5000, 3, false, false, ingest.Options{Partitions: 7, MemoryBytes: 256 << 20}},
		{"strings", 5000, 3, true, false, ingest.Options{Partitions: 7, MemoryBytes: 256 << 20}},
		{"a node each", 300, 1, true, false, ingest.Options{Partitions: 330, MemoryBytes: 256 << 20}},
		{"more than memory in one partition", 9000, 1200, false, true, ingest.Options{Partitions: 1, MemoryBytes: 99 << 20}},
		{"more than memory in many", 9000, 1200, true, true, ingest.Options{Partitions: 300, MemoryBytes: 99 << 20}},
		{"rows larger than a chunk", 200, 40000, false, true, ingest.Options{Partitions: 3, MemoryBytes: 99 << 20}},
		{"gap looks at labels", 2000, 3, true, false, ingest.Options{Partitions: 4, Partitioner: partitioner.MethodGAP, MemoryBytes: 256 << 20}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newKeyedSource(tt.nodes, tt.dim, tt.strings)
			dir := filepath.Join(t.TempDir(), "store")
			rep, err := ingest.Run(t.Context(), dir, s, tt.o)
			if err != nil {
				t.Fatal(err)
			}
			if (rep.BytesSpilled > 0) != tt.spills {
				t.Errorf("%d bytes spilled", rep.BytesSpilled)
			}
			s.check(t, dir)
		})
	}
}

// int8 scales of keyed rows are those of the same rows in order.
func TestKeyedScales(t *testing.T) {
	s := newKeyedSource(500, 4, true)
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := ingest.Run(t.Context(), dir, s, ingest.Options{FeatureElem: blocks.Int8}); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	c, err := st.Manifest().Column("x")
	if err != nil || len(c.Scale) != 4 || c.Scale[0] != float32(549)/127 || c.Scale[3] != float32(546)/127 {
		t.Errorf("%+v (%v)", c, err)
	}
}

func TestKeyedTwice(t *testing.T) {
	s := newKeyedSource(500, 4, true)
	s.twice = true
	dir := filepath.Join(t.TempDir(), "store")
	_, err := ingest.Run(t.Context(), dir, s, ingest.Options{})
	if !errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), "table: row 1: a second row of column x") {
		t.Errorf("%v, expected that the second row is refused", err)
	}
}
