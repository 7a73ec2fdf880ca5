package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// readEverything reads everything of the newest version in every way there is.
func readEverything(fs vfs.FS, kind store.IDKind, names []string) (err error) {
	s, err := store.Open(storetest.CrashDir, store.Options{FS: fs})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	m := s.Manifest()
	nodes := []store.NodeID{3, 0, store.NodeID(m.Nodes - 1), 3}
	for p := range m.Partitions {
		p := store.PartitionID(p)
		if _, _, err := s.ReadStripe(ctx, p, nil); err != nil {
			return err
		}
		if _, _, err := s.ReadExternal(ctx, p, nil); err != nil {
			return err
		}
		for _, c := range m.Columns {
			if _, err := s.ReadColumn(ctx, c.Name, p, nil); err != nil {
				return err
			}
		}
	}
	for _, limit := range []int64{1, 1 << 20} { // bucket by bucket, and all at once
		r := s.ReadStripes(m.ColumnsOf(store.RoleRelation), limit, 0)
		if _, err := r.Need(); err != nil {
			return err
		}
		for p := range m.Partitions {
			if err := r.Stripe(ctx, store.PartitionID(p), 0, len(m.Partitions), func(*store.BucketPart) error { return nil }); err != nil {
				return errors.Join(err, r.Close())
			}
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	list, err := s.EdgeList(ctx, "valid")
	if err != nil {
		return err
	}
	for list.Next() {
		_ = list.Edge()
	}
	if err := list.Err(); err != nil {
		return err
	}
	if _, err := s.TrainingNodes(ctx, "split"); err != nil {
		return err
	}
	if _, err := s.TrainingClasses(ctx, "split"); err != nil {
		return err
	}
	if _, err := s.Features(ctx, "x", nodes, nil); err != nil {
		return err
	}
	for _, o := range []store.NeighborOptions{{}, {Out: true, Relations: true, MemoryBytes: 1}} {
		if _, err := s.Neighbors(ctx, nodes, o); err != nil {
			return err
		}
	}
	for _, v := range nodes {
		name, err := s.External(ctx, v)
		if err != nil {
			return err
		}
		if got, err := s.Lookup(ctx, name); err != nil || got != v {
			return errors.Join(err, wrongUnless(err != nil, "%s is node %d, expected %d", name, got, v))
		}
	}
	ids := make([]store.NodeID, 2)
	if kind == store.IDsStrings {
		if err := s.LookupStrings(ctx, names[:2], ids); err != nil {
			return err
		}
		_, err = s.ExternalStrings(ctx, nodes)
	} else {
		err = s.ExternalInts(ctx, nodes, make([]uint64, len(nodes)))
	}
	if err != nil {
		return err
	}
	h, err := store.ReadHistory(ctx, storetest.CrashDir, store.Options{FS: fs})
	if err == nil && (len(h.Versions) != 2 || len(h.Runs) != 1) {
		err = fmt.Errorf("a history of %d versions and %d runs", len(h.Versions), len(h.Runs))
	}
	return err
}

func wrongUnless(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// TestReadErrors: whichever operation of a reader fails, whatever it reads, it says so and leaves nothing open.
func TestReadErrors(t *testing.T) {
	for _, kind := range []store.IDKind{store.IDsDense, store.IDsIntegers, store.IDsStrings} {
		t.Run(string(kind), func(t *testing.T) {
			disk := storetest.NewDisk(t)
			g := storetest.Random(storetest.Options{Nodes: 40, Partitions: 3, Dim: 3, Relations: 2, IDs: kind})
			for i := range 2 {
				if err := storetest.CommitOn(disk, g, i == 0); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := store.RecordRun(ctx, storetest.CrashDir, store.Run{Version: 2, Command: "train"}, store.Options{FS: disk}); err != nil {
				t.Fatal(err)
			}
			// What cannot be looked for is taken to be there, and found out when it is opened.
			harmless := func(op errorfs.Op) bool { return op.Kind == errorfs.OpStat }
			storetest.FailEach(t, disk, storetest.Every(11), harmless, func(fs vfs.FS) error { return readEverything(fs, kind, g.External) })
		})
	}
}

// TestScratchDir: temporary files lie where it is asked for, or in the store where that can be written, and a store that is in
// no directory of the operating system's sends them to its.
func TestScratchDir(t *testing.T) {
	dir, own := storetest.Create(t, storetest.Random(storetest.Options{})), t.TempDir()
	if got := storetest.Open(t, dir, store.Options{Scratch: own}).ScratchDir(); got != own {
		t.Errorf("as asked for: %s, expected %s", got, own)
	}
	for range 2 { // made, and there already
		if got, want := storetest.Open(t, dir, store.Options{}).ScratchDir(), filepath.Join(dir, "tmp"); got != want {
			t.Errorf("in the store: %s, expected %s", got, want)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "tmp", "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	disk := storetest.NewDisk(t)
	if err := storetest.CommitOn(disk, storetest.Tiny(1), true); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(storetest.CrashDir, store.Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := s.ScratchDir(); got != os.TempDir() {
		t.Errorf("of a store in memory: %s, expected %s", got, os.TempDir())
	}
	for _, bad := range []string{filepath.Join(own, "none"), filepath.Join(dir, "LOCK")} {
		if _, err := store.Open(dir, store.Options{Scratch: bad}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v, expected ErrInvalid", bad, err)
		}
	}
}
