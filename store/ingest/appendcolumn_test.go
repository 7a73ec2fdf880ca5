package ingest_test

import (
	"context"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/grow"
	"github.com/gstore/gstore/store/ingest/repartition"
	"github.com/gstore/gstore/store/ingest/source"
	"github.com/gstore/gstore/store/storetest"
)

// rowsSource has one column of integers, whose row k is k.
type rowsSource struct {
	source.Source
	desc source.Description
}

func newRowsSource(name string, n int) *rowsSource {
	return &rowsSource{desc: source.Description{Input: "rows", NodeTypes: []source.NodeType{{Name: "node", Count: -1}}, IDs: store.IDsDense,
		NodeColumns: []source.ColumnSpec{{Name: name, Role: store.RoleNode, Elem: blocks.Int32, Dim: 1, Rows: int64(n)}}}}
}

func (s *rowsSource) Describe() *source.Description { return &s.desc }

func (s *rowsSource) Rows(_ context.Context, _ source.Env, _ int, emit func([]byte, source.Position) error) error {
	n := int32(s.desc.NodeColumns[0].Rows)
	for lo := int32(0); lo < n; lo += 7 {
		var rows []int32
		for k := lo; k < min(lo+7, n); k++ {
			rows = append(rows, k)
		}
		if err := emit(blocks.Bytes(rows), source.Position{File: "rows", Unit: "row", Index: uint64(lo)}); err != nil {
			return err
		}
	}
	return nil
}

// Row k of a column that is added to a store of dense ids is node k's, though repartitions have
// ordered the nodes of a partition otherwise than by their external ids.
func TestAppendColumnsAfterRepartition(t *testing.T) {
	const nodes = 60
	ctx := context.Background()
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: nodes}))
	for seed := range uint64(2) {
		s := openStore(t, dir, 0)
		a, err := partitioner.NewRandom(nodes, 4+int(seed), seed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := repartition.Run(ctx, s, a, ingest.Options{MemoryBytes: 256 << 20}); err != nil {
			t.Fatal(err)
		}
		name := []string{"first", "second"}[seed]
		if _, err := grow.AppendColumns(ctx, dir, newRowsSource(name, nodes), blocks.Invalid, grow.Options{MemoryBytes: 256 << 20}); err != nil {
			t.Fatal(err)
		}
		s = openStore(t, dir, 0)
		for p := range s.Manifest().Partitions {
			ids, _, err := s.ReadExternal(ctx, store.PartitionID(p), nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := s.ReadColumn(ctx, name, store.PartitionID(p), nil)
			if err != nil {
				t.Fatal(err)
			}
			rows, err := blocks.View[int32](b)
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range ids.Ints {
				if uint64(rows[i]) != x {
					t.Fatalf("after repartition %d node %d has row %d", seed+1, x, rows[i])
				}
			}
		}
	}
	if _, err := grow.AppendColumns(ctx, dir, newRowsSource("short", nodes-1), blocks.Invalid, grow.Options{MemoryBytes: 256 << 20}); err == nil {
		t.Error("a row less than nodes is accepted")
	}
}
