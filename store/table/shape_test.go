package table_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/table"
)

// tinyStore is a store of g in memory, open, and its disk.
func tinyStore(t *testing.T, g *storetest.Graph) (*store.Store, *vfs.MemFS) {
	t.Helper()
	disk := storetest.NewDisk(t)
	if err := storetest.CommitOn(disk, g, true); err != nil {
		t.Fatal(err)
	}
	return storetest.Open(t, storetest.CrashDir, store.Options{FS: disk}), disk
}

// TestTableOptions: what a table cannot be is refused by its options' names, before anything is made; the least that it can be is made.
func TestTableOptions(t *testing.T) {
	s, disk := tinyStore(t, storetest.Tiny(1))
	for _, o := range []table.Options{{Dim: 1}, {Name: "a/b", Dim: 1}, {Name: "a"}, {Name: "a", Dim: -1}, {Name: "a", Dim: 1, States: -1}} {
		if _, err := table.Create(ctx, s, o); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "expected a name of letters") {
			t.Errorf("table %q of dim %d with %d state planes: %v", o.Name, o.Dim, o.States, err)
		}
	}
	if names, err := table.Names(ctx, storetest.CrashDir, store.Options{FS: disk}); err != nil || len(names) > 0 {
		t.Errorf("tables %q, %v, expected none", names, err)
	}
	tab, err := table.Create(ctx, s, table.Options{Name: "a", Dim: 1})
	if err != nil {
		t.Fatal(err)
	}
	if tab.Planes() != 1 || tab.Dim() != 1 || len(tab.Checkpoints()) != 1 {
		t.Errorf("%d planes of dim %d, %d checkpoints, expected one each", tab.Planes(), tab.Dim(), len(tab.Checkpoints()))
	}
	if err := tab.Close(); err != nil {
		t.Error(err)
	}
}

// TestTableOfAnotherShape: a table's file that is sound in itself and of another table is damage, whichever number tells them apart.
func TestTableOfAnotherShape(t *testing.T) {
	graph := storetest.Options{Nodes: 40, Partitions: 3}
	s, disk := tinyStore(t, storetest.Random(graph))
	make := func(s *store.Store, change func(o *table.Options)) string {
		t.Helper()
		o := storetest.TableOptions(nil)
		change(&o)
		tab, err := table.Create(ctx, s, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := tab.Close(); err != nil {
			t.Fatal(err)
		}
		return tab.Path()
	}
	path := make(s, func(*table.Options) {})
	for name, c := range map[string]struct {
		partitions int
		change     func(o *table.Options)
	}{
		"a plane more":     {3, func(o *table.Options) { o.States++ }},
		"a slot more":      {3, func(o *table.Options) { o.Keep = 2 }},
		"wider":            {3, func(o *table.Options) { o.Dim++ }},
		"fewer partitions": {2, func(*table.Options) {}},
	} {
		graph.Partitions = c.partitions
		other, from := tinyStore(t, storetest.Random(graph))
		if err := vfs.CopyAcrossFS(from, make(other, c.change), disk, path); err != nil {
			t.Fatal(err)
		}
		_, err := table.Open(ctx, s, storetest.TableOptions(nil))
		report, verr := table.Verify(ctx, storetest.CrashDir, store.Options{FS: disk}, nil)
		if verr != nil || len(report.Damage) != 1 {
			t.Errorf("%s: verified: %+v, %v, expected one damage", name, report, verr)
			continue
		}
		for what, err := range map[string]error{"opened": err, "verified": report.Damage[0]} {
			if c := (*blocks.CorruptError)(nil); !errors.As(err, &c) || c.Extent != "directory" || c.Path != path {
				t.Errorf("%s: %s: %v, expected damage of the directory of %s", name, what, err, path)
			}
		}
	}
}

// TestGoBackErrors: whatever fails from some operation on while a table is opened at a checkpoint before the last, it is told, unless
// the later ones are gone for good.
func TestGoBackErrors(t *testing.T) {
	_, disk := tinyStore(t, storetest.Tiny(1))
	o := storetest.TableOptions(nil)
	o.Keep = 3
	open := func(fs store.Options, use func(s *store.Store) (*table.Table, error)) (last uint64, err error) {
		s, err := store.Open(storetest.CrashDir, fs)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		tab, err := use(s)
		if err != nil {
			return 0, err
		}
		return tab.LastCheckpoint().Number, tab.Close()
	}
	if _, err := open(store.Options{FS: disk}, func(s *store.Store) (*table.Table, error) {
		tab, err := table.Create(ctx, s, o)
		if err != nil {
			return nil, err
		}
		return tab, errors.Join(tab.Checkpoint(ctx), tab.Checkpoint(ctx))
	}); err != nil {
		t.Fatal(err)
	}
	back := o
	back.Checkpoint = 2
	told, kept := 0, 0
	for k := 0; ; k += storetest.Every(5) {
		fs := disk.CrashClone(vfs.CrashCloneCfg{})
		var mu sync.Mutex
		n, opened, hit := 0, false, false
		inject := func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if !opened || !storetest.InPebble(op) {
				return nil
			}
			if n++; n > k {
				hit = true
				return errorfs.ErrInjected
			}
			return nil
		}
		_, err := open(store.Options{FS: errorfs.Wrap(fs, errorfs.InjectorFunc(inject))}, func(s *store.Store) (*table.Table, error) {
			mu.Lock()
			opened = true
			mu.Unlock()
			return table.Open(ctx, s, back)
		})
		last, lerr := open(store.Options{FS: fs}, func(s *store.Store) (*table.Table, error) { return table.Open(ctx, s, o) })
		switch {
		case lerr != nil || last != 2 && last != 3:
			t.Fatalf("after an error from operation %d on: checkpoint %d, %v", k, last, lerr)
		case err == nil && last != 2:
			t.Errorf("an error from operation %d on is not told, and the checkpoint is %d", k, last)
		case err != nil && !errors.Is(err, errorfs.ErrInjected) && !errors.Is(err, store.ErrCorrupt):
			t.Errorf("operation %d: the error hides its cause: %v", k, err)
		}
		if err != nil {
			told++
		}
		if last == 3 {
			kept++
		}
		mu.Lock()
		done := !hit
		mu.Unlock()
		if done {
			if err != nil || told < 5 || kept < 3 {
				t.Errorf("%d errors told, checkpoint kept %d times, at last %v: the injector sees too little", told, kept, err)
			}
			return
		}
	}
}
