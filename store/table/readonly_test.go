package table_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/table"
)

// TestTableReadOnly: readers open any kept checkpoint, several at a time and none beside a
// trainer, and leave everything as it is.
func TestTableReadOnly(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 500, Partitions: 3}))
	s := storetest.Open(t, dir, store.Options{})
	o := storetest.TableOptions(nil)
	o.Keep = 3
	tab, err := table.Create(ctx, s, o)
	if err != nil {
		t.Fatal(err)
	}
	bufs := storetest.AllPlanes(t, tab)
	for round := range 4 { // checkpoint 1 is the initial state, round r is checkpoint r+2
		if err := errors.Join(storetest.WriteRound(tab, bufs, round), tab.Checkpoint(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(checkpoint uint64) table.Options {
		return table.Options{Name: o.Name, Checkpoint: checkpoint, ReadOnly: true}
	}
	if _, err := table.Open(ctx, s, read(0)); !errors.Is(err, store.ErrLocked) {
		t.Errorf("read while it is trained: %v", err)
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(tab.Path())
	if err != nil {
		t.Fatal(err)
	}
	var readers []*table.Table
	for _, c := range []struct {
		checkpoint uint64
		round      int
	}{{3, 1}, {4, 2}, {0, 3}, {5, 3}} {
		r, err := table.Open(ctx, s, read(c.checkpoint))
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
		if round, err := storetest.RoundOf(r, bufs); round != c.round || err != nil {
			t.Errorf("checkpoint %d: round %d, %v, expected %d", c.checkpoint, round, err, c.round)
		}
		if err := r.Write(ctx, 0, bufs[0]...); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("write: %v", err)
		}
		if err := r.Checkpoint(ctx); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("checkpoint: %v", err)
		}
	}
	if _, err := table.Open(ctx, s, read(2)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a checkpoint that is not kept: %v", err)
	}
	if _, err := table.Open(ctx, s, o); !errors.Is(err, store.ErrLocked) {
		t.Errorf("trained while it is read: %v", err)
	}
	if report, err := table.Verify(ctx, dir, store.Options{}, nil); err != nil || report.Checked != 1 || len(report.Damage) != 0 {
		t.Errorf("verified while it is read: %+v, %v", report, err)
	}
	for _, r := range readers {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	after, err := os.ReadFile(tab.Path())
	if err != nil || string(after) != string(before) {
		t.Errorf("readers changed the file, or %v", err)
	}
	if tab, err = table.Open(ctx, s, o); err != nil {
		t.Fatal(err)
	}
	if round, err := storetest.RoundOf(tab, bufs); round != 3 || err != nil || len(tab.Checkpoints()) != 3 {
		t.Errorf("afterwards round %d of %d checkpoints, %v, expected 3 of 3", round, len(tab.Checkpoints()), err)
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(tab.Path()); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Open(ctx, s, o); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("without its file: %v", err)
	}
}

// TestTableBeside: a reader that is allowed to opens a table that is being trained, and reads its last checkpoint until the run has made
// others, which it tells.
func TestTableBeside(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 500, Partitions: 3}))
	s := storetest.Open(t, dir, store.Options{})
	o := storetest.TableOptions(nil)
	o.Keep = 1
	tab, err := table.Create(ctx, s, o)
	if err != nil {
		t.Fatal(err)
	}
	bufs, own := storetest.AllPlanes(t, tab), storetest.AllPlanes(t, tab)
	write := func(round int, checkpoint bool) {
		t.Helper()
		err := storetest.WriteRound(tab, own, round)
		if err == nil && checkpoint {
			err = tab.Checkpoint(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(0, true)
	write(1, false)
	beside := table.Options{Name: o.Name, ReadOnly: true, Beside: true}
	r, err := table.Open(ctx, s, beside)
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]byte, 4*r.Dim())
	for range 2 { // writes that no checkpoint names change nothing
		if round, err := storetest.RoundOf(r, bufs); round != 0 || err != nil {
			t.Fatalf("round %d, %v, expected 0, of the last checkpoint", round, err)
		}
		if err := errors.Join(r.ReadRows(ctx, 0, 0, rows), r.Standing(ctx)); err != nil {
			t.Error(err)
		}
		write(2, false)
	}
	write(2, true)
	if err := r.Standing(ctx); !errors.Is(err, table.ErrOvertaken) {
		t.Errorf("after another checkpoint: %v", err)
	}
	write(3, false) // into the slot that was read
	if _, err := storetest.RoundOf(r, bufs); !errors.Is(err, table.ErrOvertaken) || errors.Is(err, store.ErrCorrupt) {
		t.Errorf("what is written over: %v", err)
	}
	if err := r.Write(ctx, 0, bufs[0]...); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("write: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if r, err = table.Open(ctx, s, beside); err != nil {
		t.Fatal(err)
	}
	if round, err := storetest.RoundOf(r, bufs); round != 2 || err != nil {
		t.Errorf("round %d, %v, expected 2", round, err)
	}
	if err := errors.Join(r.Close(), tab.Close()); err != nil {
		t.Fatal(err)
	}
	// Without a run it is a reader like others: nobody trains meanwhile.
	if r, err = table.Open(ctx, s, beside); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Open(ctx, s, o); !errors.Is(err, store.ErrLocked) {
		t.Errorf("trained while it is read: %v", err)
	}
	// Who looked into it for a moment is waited for.
	closed := make(chan error, 1)
	time.AfterFunc(200*time.Millisecond, func() { closed <- r.Close() })
	tab, err = table.Open(ctx, s, o)
	if err != nil {
		t.Fatalf("a reader closed after 200 ms: %v", err)
	}
	if err := errors.Join(<-closed, tab.Close()); err != nil {
		t.Error(err)
	}
}
