package table_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/table"
)

// TestTableFrom: a table begins with the rows of another one, in any order, scaled, with their state or zeros; rows that this does not have
// are asked for. Another shape, a row that there is not and damage are refused.
func TestTableFrom(t *testing.T) {
	s := storetest.Open(t, storetest.Create(t, storetest.Random(storetest.Options{Nodes: 900, Partitions: 4})), store.Options{})
	value := func(id store.NodeID, j int) float32 { return float32(id)*8 + float32(j) }
	old, err := table.Create(ctx, s, table.Options{Name: "old", Dim: 5, States: 2, Init: func(first store.NodeID, rows []float32) {
		for i := range rows {
			rows[i] = value(first+store.NodeID(i/5), i%5)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for p := range old.Partitions() { // states that tell rows and planes apart
		planes := storetest.Planes(t, old, store.PartitionID(p))
		if err := old.Read(ctx, store.PartitionID(p), planes[0]); err != nil {
			t.Fatal(err)
		}
		rows, err := blocks.View[float32](planes[0])
		if err != nil {
			t.Fatal(err)
		}
		for plane, b := range planes[1:] {
			x, err := blocks.View[float32](b)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range rows {
				x[i] = -v * float32(plane+1)
			}
		}
		if err := old.Write(ctx, store.PartitionID(p), planes...); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(old.Checkpoint(ctx), old.Close()); err != nil {
		t.Fatal(err)
	}
	open := func() *table.Table {
		tab, err := table.Open(ctx, s, table.Options{Name: "old", ReadOnly: true, AnyVersion: true})
		if err != nil {
			t.Fatal(err)
		}
		return tab
	}
	create := func(name string, dim, states int, which func(id store.NodeID) store.NodeID) (*table.Table, error) {
		tab := open()
		defer tab.Close() //nolint:errcheck // test
		return table.Create(ctx, s, table.Options{Name: name, Dim: dim, States: states, Replace: true, From: &table.From{Table: tab, Scale: 3, State: states == 2,
			Rows: func(_ context.Context, p store.PartitionID, rows []store.NodeID) error {
				for i := range rows {
					rows[i] = which(s.Manifest().Partitions[p].First + store.NodeID(i))
				}
				return nil
			},
			Init: func(_ context.Context, p store.PartitionID, row uint64, rows []float32) error {
				for i := range rows {
					rows[i] = -value(s.Manifest().Partitions[p].First+store.NodeID(row)+store.NodeID(i/5), i%5)
				}
				return nil
			}}})
	}
	for name, which := range map[string]func(id store.NodeID) store.NodeID{
		"as they were": func(id store.NodeID) store.NodeID { return id },
		"backwards":    func(id store.NodeID) store.NodeID { return 899 - id },
		"some": func(id store.NodeID) store.NodeID {
			if id%7 == 3 || id > 700 {
				return store.NoNode
			}
			return (id + 100) % 900
		},
		"none": func(store.NodeID) store.NodeID { return store.NoNode },
	} {
		states := 1
		if name == "some" || name == "backwards" {
			states = 2
		}
		tab, err := create("new", 5, states, which)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for p, info := range s.Manifest().Partitions {
			planes := storetest.Planes(t, tab, store.PartitionID(p))
			if err := tab.Read(ctx, store.PartitionID(p), planes...); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for plane, b := range planes {
				x, err := blocks.View[float32](b[:tab.PayloadBytes(store.PartitionID(p))])
				if err != nil {
					t.Fatal(err)
				}
				for i, got := range x {
					id, want := info.First+store.NodeID(i/5), float32(0)
					if from := which(id); plane == 0 && from == store.NoNode {
						want = -value(id, i%5)
					} else if plane == 0 {
						want = 3 * value(from, i%5)
					} else if plane > 0 && states == 2 && from != store.NoNode {
						want = -value(from, i%5) * float32(plane)
					}
					if got != want {
						t.Fatalf("%s: plane %d, node %d, element %d: %v, expected %v", name, plane, id, i%5, got, want)
					}
				}
			}
		}
		if err := tab.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := create("new", 6, 1, func(id store.NodeID) store.NodeID { return id }); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("of another dim: %v", err)
	}
	if tab, err := create("new", 5, 3, func(id store.NodeID) store.NodeID { return id }); err != nil || tab.Close() != nil {
		t.Errorf("of more state, which is not asked for: %v", err)
	}
	if _, err := create("new", 5, 1, func(store.NodeID) store.NodeID { return 900 }); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of a node that there is not: %v", err)
	}
	path := old.Path()
	b, err := os.ReadFile(path)
	if err == nil {
		for at := 2*4096 + 17; at < len(b); at += 4096 {
			b[at]++
		}
		err = os.WriteFile(path, b, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	var damage *blocks.CorruptError
	if _, err := create("new", 5, 1, func(id store.NodeID) store.NodeID { return id }); !errors.As(err, &damage) || damage.Path != path {
		t.Errorf("of a damaged table: %v", err)
	}
}
