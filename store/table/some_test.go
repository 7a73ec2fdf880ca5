package table_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/table"
)

// TestTableOfSome: a table of some nodes has their rows alone, as they were set, whole after it is opened again; other numbers of rows
// than partitions have are refused.
func TestTableOfSome(t *testing.T) {
	s := storetest.Open(t, storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Partitions: 3})), store.Options{})
	rows := []uint64{7, 0, 20}
	some := func(rows []uint64) table.Options {
		return table.Options{Name: "some", Dim: 4, States: 1, Some: &table.Some{Rows: rows, Init: func(p store.PartitionID, first uint64, x []float32) error {
			for i := range x {
				x[i] = float32(p)*1000 + float32(first)*4 + float32(i)
			}
			return nil
		}}}
	}
	for _, wrong := range [][]uint64{rows[:2], {7, 0, 4000}} {
		if _, err := table.Create(ctx, s, some(wrong)); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("rows %v: %v, expected %v", wrong, err, store.ErrInvalid)
		}
	}
	tab, err := table.Create(ctx, s, some(rows))
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	if tab, err = table.Open(ctx, s, table.Options{Name: "some"}); err != nil {
		t.Fatal(err)
	}
	defer tab.Close() //nolint:errcheck // test
	r := table.NewReader(tab)
	defer r.Close() //nolint:errcheck // test
	for p, n := range rows {
		b, err := r.Read(ctx, store.PartitionID(p))
		if err != nil || uint64(len(b)) != n*16 || tab.Nodes(store.PartitionID(p)) != n {
			t.Fatalf("partition %d: %d bytes, %v, expected %d rows", p, len(b), err, n)
		}
		x, err := blocks.View[float32](b)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range x {
			if v != float32(p)*1000+float32(i) {
				t.Fatalf("partition %d, element %d is %v", p, i, v)
			}
		}
	}
	if infos, err := table.Describe(ctx, s.Dir(), store.Options{}); err != nil || len(infos) != 1 || !infos[0].Some {
		t.Errorf("described as %+v, %v", infos, err)
	}
}

// TestSparedCheckpoints: checkpoints that are spared outlive newer ones that are not, can be read, and nothing is written then.
func TestSparedCheckpoints(t *testing.T) {
	s := storetest.Open(t, storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Partitions: 3})), store.Options{})
	o := storetest.TableOptions(nil)
	o.Keep = 3
	tab, err := table.Create(ctx, s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tab.Close() }()
	bufs := storetest.AllPlanes(t, tab)
	numbers := func() (ns []uint64) {
		for _, c := range tab.Checkpoints() {
			ns = append(ns, c.Number)
		}
		return ns
	}
	for round := range 6 { // checkpoints 2 to 7; 3 and, from then on, 5 are spared
		if err := storetest.WriteRound(tab, bufs, round); err != nil {
			t.Fatal(err)
		}
		if err := tab.Checkpoint(ctx); err != nil {
			t.Fatal(err)
		}
		switch round {
		case 1:
			err = tab.Spare(3)
		case 3:
			err = tab.Spare(3, 5)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := []uint64{3, 5, 7}; !slices.Equal(numbers(), want) {
		t.Errorf("checkpoints %v are kept, expected %v", numbers(), want)
	}
	if err := tab.Spare(3, 5, 7); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("all of them spared: %v, expected %v", err, store.ErrInvalid)
	}
	if err := errors.Join(tab.Spare(4), tab.ReadAt(6)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("checkpoints that are gone: %v, expected %v", err, store.ErrNotFound)
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	if tab, err = table.Open(ctx, s, o); err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct {
		number uint64
		round  int
	}{{5, 3}, {3, 1}, {7, 5}} {
		if err := tab.ReadAt(at.number); err != nil {
			t.Fatal(err)
		}
		if round, err := storetest.RoundOf(tab, bufs); round != at.round || err != nil {
			t.Errorf("checkpoint %d is of round %d, %v, expected %d", at.number, round, err, at.round)
		}
	}
	if err := storetest.WriteRound(tab, bufs, 9); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("written while an old checkpoint is read: %v, expected %v", err, store.ErrInvalid)
	}
}
