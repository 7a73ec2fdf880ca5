package table_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/internal/meta"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/table"
)

var ctx = context.Background()

func TestMain(m *testing.M) {
	storetest.Main(m, func(_, dir string) error { return trainChild(dir) })
}

func TestTable(t *testing.T) {
	for _, engine := range []string{"", "pread", "io_uring"} {
		t.Run("engine "+engine, func(t *testing.T) {
			var e blockio.Engine
			if engine != "" {
				var err error
				if e, _, err = blockio.New(engine, blockio.Options{}); errors.Is(err, blockio.ErrUnsupported) {
					t.Skip(err)
				} else if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
			}
			dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 3000, Partitions: 5}))
			s := storetest.Open(t, dir, store.Options{})
			tab, err := table.Create(ctx, s, storetest.TableOptions(e))
			if err != nil {
				t.Fatal(err)
			}
			bufs := storetest.AllPlanes(t, tab)
			if r, err := storetest.RoundOf(tab, bufs); r != -1 || err != nil {
				t.Fatalf("initial state: round %d, %v", r, err)
			}
			if _, err := table.Open(ctx, s, storetest.TableOptions(e)); !errors.Is(err, store.ErrLocked) {
				t.Errorf("opened twice: %v", err)
			}
			for _, replace := range []bool{false, true} {
				o := storetest.TableOptions(e)
				o.Replace = replace
				if _, err := table.Create(ctx, s, o); !errors.Is(err, store.ErrLocked) {
					t.Errorf("created while open: %v", err)
				}
			}
			reopen := func(want int, blob string) {
				t.Helper()
				if err := tab.Close(); err != nil {
					t.Fatal(err)
				}
				if tab, err = table.Open(ctx, s, storetest.TableOptions(e)); err != nil {
					t.Fatal(err)
				}
				if r, err := storetest.RoundOf(tab, bufs); r != want || err != nil {
					t.Fatalf("round %d, %v, expected %d", r, err, want)
				}
				b, err := tab.Blob(ctx, "model")
				if string(b) != blob || (err != nil) != (blob == "") {
					t.Fatalf("blob %q, %v, expected %q", b, err, blob)
				}
				if err := tab.Verify(ctx, bufs[0][0]); err != nil && !errors.Is(err, store.ErrInvalid) {
					t.Fatal(err)
				}
			}
			reopen(-1, "")
			for round := range 4 {
				if err := storetest.WriteRound(tab, bufs, round); err != nil {
					t.Fatal(err)
				}
				// What was written last is read, checkpoint or not.
				if r, err := storetest.RoundOf(tab, bufs); r != round || err != nil {
					t.Fatalf("round %d, %v, expected %d", r, err, round)
				}
				if err := storetest.WriteRound(tab, bufs, round+100); err != nil { // overwritten before any checkpoint
					t.Fatal(err)
				}
				if err := storetest.WriteRound(tab, bufs, round); err != nil {
					t.Fatal(err)
				}
				if err := tab.Checkpoint(ctx, table.Blob{Name: "plan", Data: []byte{1}}, table.Blob{Name: "model", Data: fmt.Append(nil, "after ", round)}); err != nil {
					t.Fatal(err)
				}
				if err := storetest.WriteRound(tab, bufs, round+50); err != nil { // forgotten by closing
					t.Fatal(err)
				}
				reopen(round, fmt.Sprint("after ", round))
			}
			// A sweep spares tables; another version does not open them.
			w, err := store.OpenWriter(dir, store.WriterOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			reopen(3, "after 3")
			if err := table.Drop(ctx, dir, "nodes", store.Options{}); !errors.Is(err, store.ErrLocked) {
				t.Errorf("dropped while open: %v", err)
			}
			if err := tab.Close(); err != nil {
				t.Fatal(err)
			}
			if names, err := table.Names(ctx, dir, store.Options{}); err != nil || len(names) != 1 || names[0] != "nodes" {
				t.Errorf("tables %v, %v", names, err)
			}
			if err := table.Drop(ctx, dir, "nodes", store.Options{}); err != nil {
				t.Fatal(err)
			}
			if _, err := table.Open(ctx, s, storetest.TableOptions(e)); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("after drop: %v", err)
			}
			if _, err := os.Stat(dir + "/data/table-nodes.gsb"); !os.IsNotExist(err) {
				t.Errorf("the dropped table's file: %v", err)
			}
		})
	}
}

// fullFS says how much room its disk has.
type fullFS struct {
	vfs.FS
	room uint64
}

func (f fullFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: f.room}, nil
}

// A table takes the place of another one only if it can be made.
func TestTableReplaced(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 3000, Partitions: 5}))
	open := func(room uint64) *store.Store {
		return storetest.Open(t, dir, store.Options{FS: fullFS{vfs.Default, room}})
	}
	make := func(s *store.Store, change func(o *table.Options)) (*table.Table, error) {
		o := storetest.TableOptions(nil)
		o.Replace = true
		change(&o)
		return table.Create(ctx, s, o)
	}
	tab, err := make(open(1<<30), func(*table.Options) {})
	if err != nil {
		t.Fatal(err)
	}
	bufs := storetest.AllPlanes(t, tab)
	for round := range 2 {
		if err := errors.Join(storetest.WriteRound(tab, bufs, round), tab.Checkpoint(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	stat, err := os.Stat(tab.Path())
	if err != nil {
		t.Fatal(err)
	}
	size := uint64(stat.Size())
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	stands := func(after string) {
		t.Helper()
		tab, err := table.Open(ctx, open(0), storetest.TableOptions(nil))
		if err != nil {
			t.Fatalf("after %s: %v", after, err)
		}
		defer tab.Close()
		if r, err := storetest.RoundOf(tab, bufs); r != 1 || err != nil || tab.LastCheckpoint().Number != 3 {
			t.Errorf("after %s: round %d, checkpoint %d, %v; expected round 1 of checkpoint 3", after, r, tab.LastCheckpoint().Number, err)
		}
	}
	for _, c := range []struct {
		name   string
		room   uint64
		change func(o *table.Options)
		want   error
	}{
		{"a table that does not ask for it", 1 << 30, func(o *table.Options) { o.Replace = false }, store.ErrExists},
		{"too many checkpoints", 1 << 30, func(o *table.Options) { o.Keep = table.CheckpointsMax + 1 }, store.ErrInvalid},
		{"too many planes", 1 << 30, func(o *table.Options) { o.States = 100 }, store.ErrInvalid},
		{"a full disk", size / 4, func(o *table.Options) { o.Dim *= 2 }, syscall.ENOSPC},
	} {
		if _, err := make(open(c.room), c.change); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, expected %v", c.name, err, c.want)
		}
		stands(c.name)
	}
	// The old file's room is the new one's.
	tab, err = make(open(size/4), func(o *table.Options) { o.Keep = 1 })
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	if r, err := storetest.RoundOf(tab, bufs); r != -1 || err != nil || tab.LastCheckpoint().Number != 1 || len(tab.Checkpoints()) != 1 {
		t.Errorf("replaced: round %d, checkpoint %d of %d, %v; expected the initial state", r, tab.LastCheckpoint().Number, len(tab.Checkpoints()), err)
	}
}

// A version stays readable as long as a table belongs to it, whatever is committed.
func TestTableKeepsVersion(t *testing.T) {
	graphs := []*storetest.Graph{}
	for seed := range 4 {
		graphs = append(graphs, storetest.Random(storetest.Options{Seed: uint64(seed), Partitions: 2 + seed, IDs: store.IDsIntegers}))
	}
	dir := storetest.Create(t, graphs[0])
	first := storetest.Open(t, dir, store.Options{})
	tab, err := table.Create(ctx, first, storetest.TableOptions(nil))
	if err == nil {
		err = tab.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	w, err := store.OpenWriter(dir, store.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	commit := func(g *storetest.Graph) {
		t.Helper()
		m, err := g.Write(w)
		if err == nil {
			err = w.Commit(ctx, m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	commit(graphs[1])
	commit(graphs[2])
	if _, err := store.Open(dir, store.Options{Version: 2}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("version 2, which no table belongs to: %v", err)
	}
	if _, err := table.Open(ctx, storetest.Open(t, dir, store.Options{}), storetest.TableOptions(nil)); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "belongs to version 1 of the store, this is version 3") {
		t.Errorf("opened for the newest version: %v", err)
	}
	old := storetest.Open(t, dir, store.Options{Version: 1})
	storetest.Check(t, old, graphs[0])
	if tab, err = table.Open(ctx, old, storetest.TableOptions(nil)); err != nil {
		t.Fatal(err)
	}
	if r, err := storetest.RoundOf(tab, storetest.AllPlanes(t, tab)); r != -1 || err != nil {
		t.Errorf("round %d, %v, expected the initial state", r, err)
	}
	if err := errors.Join(tab.Close(), table.Drop(ctx, dir, "nodes", store.Options{})); err != nil {
		t.Fatal(err)
	}
	commit(graphs[3])
	if _, err := store.Open(dir, store.Options{Version: 1}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("version 1 once its table was dropped: %v", err)
	}
	if _, err := table.Create(ctx, first, storetest.TableOptions(nil)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a table for a version that is gone: %v", err)
	}
}

// A partition whose writing failed is not what was trained: no checkpoint may name it beside newer ones.
func TestTableAfterFailedWrite(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 3000, Partitions: 5}))
	fail := atomic.Bool{}
	fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if fail.Load() && op.Kind == errorfs.OpFileWriteAt {
			return errorfs.ErrInjected
		}
		return nil
	}))
	s := storetest.Open(t, dir, store.Options{FS: fs})
	tab, err := table.Create(ctx, s, storetest.TableOptions(nil))
	if err != nil {
		t.Fatal(err)
	}
	bufs := storetest.AllPlanes(t, tab)
	if err := errors.Join(storetest.WriteRound(tab, bufs, 0), tab.Checkpoint(ctx), storetest.WriteRound(tab, bufs, 1)); err != nil {
		t.Fatal(err)
	}
	fail.Store(true)
	if err := tab.Write(ctx, 3, bufs[3]...); !errors.Is(err, errorfs.ErrInjected) {
		t.Fatalf("a write that fails: %v", err)
	}
	fail.Store(false)
	if err := tab.Checkpoint(ctx); !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("a checkpoint after it: %v, expected a refusal that names it", err)
	}
	if err := tab.Write(ctx, 3, bufs[3]...); !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("another write after it: %v, expected a refusal that names it", err)
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	if tab, err = table.Open(ctx, s, storetest.TableOptions(nil)); err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	if r, err := storetest.RoundOf(tab, bufs); r != 0 || err != nil {
		t.Errorf("opened again: round %d, %v, expected 0", r, err)
	}
}

// Blobs go with their checkpoints: a long run does not fill the disk with parameters of checkpoints that are gone.
func TestTableSweepsBlobs(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 500, Partitions: 3}))
	s := storetest.Open(t, dir, store.Options{})
	o := storetest.TableOptions(nil)
	o.Keep = 2
	tab, err := table.Create(ctx, s, o)
	if err != nil {
		t.Fatal(err)
	}
	for k := range 5 {
		if err := tab.Checkpoint(ctx, table.Blob{Name: "plan"}, table.Blob{Name: "model", Data: fmt.Append(nil, "blob of ", k)}); err != nil {
			t.Fatal(err)
		}
		if b, err := tab.Blob(ctx, "model"); err != nil || string(b) != fmt.Sprint("blob of ", k) { // by the table that made it
			t.Fatalf("blob %q, %v", b, err)
		}
	}
	left := func() (blobs []string) {
		t.Helper()
		db, err := pebble.Open(dir+"/meta", &pebble.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		it, err := db.NewIter(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		for it.First(); it.Valid(); it.Next() {
			if strings.HasPrefix(string(it.Value()), "blob of ") {
				blobs = append(blobs, string(it.Value()))
			}
		}
		return blobs
	}
	expect := func(want ...string) {
		t.Helper()
		if err := tab.Close(); err != nil {
			t.Fatal(err)
		}
		if got := left(); !slices.Equal(got, want) {
			t.Errorf("blobs %q are left, expected %q", got, want)
		}
	}
	expect("blob of 3", "blob of 4")
	o.Checkpoint = 5
	if tab, err = table.Open(ctx, s, o); err != nil {
		t.Fatal(err)
	}
	expect("blob of 3")
	if err := table.Drop(ctx, dir, "nodes", store.Options{}); err != nil {
		t.Fatal(err)
	}
	if got := left(); len(got) > 0 {
		t.Errorf("blobs %q are left of a table that was dropped", got)
	}
}

// TestUnfinishedTable: a table whose Create did not end is none, as one that never was, and another may take its name; a blob that
// the metadata have lost is damage.
func TestUnfinishedTable(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 500, Partitions: 3}))
	s := storetest.Open(t, dir, store.Options{})
	o := storetest.TableOptions(nil)
	full := storetest.Open(t, dir, store.Options{FS: errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync && strings.Contains(op.Path, "table-nodes") {
			return syscall.ENOSPC
		}
		return nil
	}))})
	if _, err := table.Create(ctx, full, o); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v, expected the disk's error", err)
	}
	for range 2 {
		if _, err := table.Open(ctx, s, o); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%v, expected ErrNotFound", err)
		}
		o.Name = "none"
	}
	o.Name = "nodes"
	tab, err := table.Create(ctx, s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	if err := tab.Checkpoint(ctx, table.Blob{Name: "model", Data: []byte("blob")}); err != nil {
		t.Fatal(err)
	}
	db, err := meta.Open(ctx, meta.NewEnv(dir, nil, 0), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Pebble.Delete(meta.BlobKey("nodes", tab.LastCheckpoint().Number, 0), nil), db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := tab.Blob(ctx, "model"); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), `"model"`) {
		t.Errorf("a lost blob: %v, expected damage that names it", err)
	}
	if _, err := tab.Blob(ctx, "plan"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no blob: %v", err)
	}
	// What stands in another table's place and is no record is not replaced by one.
	if db, err = meta.Open(ctx, meta.NewEnv(dir, nil, 0), true); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Pebble.Set(meta.TableKey("other"), []byte("{"), nil), db.Close()); err != nil {
		t.Fatal(err)
	}
	o.Name, o.Replace = "other", true
	if _, err := table.Create(ctx, s, o); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a record that is none: %v, expected damage", err)
	}
}

// TestTableDamage flips each byte, in strides, of a checkpointed table: reading or
// opening tells, unless the byte is in the slot that nothing names.
func TestTableDamage(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 500, Partitions: 2}))
	s := storetest.Open(t, dir, store.Options{})
	tab, err := table.Create(ctx, s, storetest.TableOptions(nil))
	if err != nil {
		t.Fatal(err)
	}
	bufs := storetest.AllPlanes(t, tab)
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	path := dir + "/data/table-nodes.gsb"
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found, total := 0, 0
	for at := 0; at < len(whole)/2; at += 501 {
		b := append([]byte{}, whole...)
		b[at] ^= 4
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		total++
		tab, err := table.Open(ctx, s, storetest.TableOptions(nil))
		if err == nil {
			_, err = storetest.RoundOf(tab, bufs)
			_ = tab.Close()
		}
		var c *blocks.CorruptError
		switch {
		case errors.As(err, &c) && c.Path == path && c.Extent != "", errors.Is(err, store.ErrFormatVersion):
			found++
		case err != nil:
			t.Errorf("byte %d: %v, expected a CorruptError", at, err)
		}
	}
	if found*10 < total*8 { // the rest is padding
		t.Errorf("%d of %d flips found", found, total)
	}
}
