package table_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/table"
)

// lookedFor is what is asked beforehand, for a file or for room: where the answer fails, opening and writing tell.
func lookedFor(op errorfs.Op) bool {
	return op.Kind == errorfs.OpStat || op.Kind == errorfs.OpGetDiskUsage
}

// TestTableReadErrors: whichever operation of a table's reader fails, it says so and leaves nothing open.
func TestTableReadErrors(t *testing.T) {
	disk, bufs := tableDisk(t)
	o := func(fs vfs.FS) store.Options { return store.Options{FS: fs} }
	storetest.FailEach(t, disk, storetest.Every(11), lookedFor, func(fs vfs.FS) (err error) {
		s, err := store.Open(storetest.CrashDir, o(fs))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		tab, err := table.Open(ctx, s, storetest.TableOptions(nil))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, tab.Close()) }()
		if round, err := storetest.RoundOf(tab, bufs); err != nil || round != 0 {
			return errors.Join(err, fmt.Errorf("round %d", round))
		}
		if blob, err := tab.Blob(ctx, "model"); err != nil || string(blob) != "after 0" {
			return errors.Join(err, fmt.Errorf("blob %q", blob))
		}
		if err := tab.ReadRows(ctx, 0, 1, make([]byte, 2*4*storetest.TableDim)); err != nil {
			return err
		}
		if err := tab.Verify(ctx, make([]byte, 1<<16)); err != nil {
			return err
		}
		if infos, err := table.Describe(ctx, storetest.CrashDir, o(fs)); err != nil || len(infos) != 1 {
			return errors.Join(err, fmt.Errorf("%d tables", len(infos)))
		}
		if names, err := table.Names(ctx, storetest.CrashDir, o(fs)); err != nil || len(names) != 1 {
			return errors.Join(err, fmt.Errorf("tables %q", names))
		}
		_, err = table.Verify(ctx, storetest.CrashDir, o(fs), nil)
		return err
	})
}

// TestTableWriteErrors: whichever operation of making, writing and dropping a table fails, it is told and nothing stays open.
func TestTableWriteErrors(t *testing.T) {
	disk, bufs := tableDisk(t)
	harmless := func(op errorfs.Op) bool { return lookedFor(op) || storetest.InPebble(op) }
	storetest.FailEach(t, disk, storetest.Every(23), harmless, func(fs vfs.FS) (err error) {
		s, err := store.Open(storetest.CrashDir, store.Options{FS: fs})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		write := func(tab *table.Table, err error) error {
			if err != nil {
				return err
			}
			for round := range 2 {
				if err = storetest.WriteRound(tab, bufs, round); err == nil {
					err = tab.Checkpoint(ctx, table.Blob{Name: "model", Data: []byte("next")})
				}
				if err != nil {
					break
				}
			}
			return errors.Join(err, tab.Close())
		}
		replaced := storetest.TableOptions(nil)
		replaced.Replace = true
		if err := write(table.Open(ctx, s, storetest.TableOptions(nil))); err != nil {
			return err
		}
		if err := write(table.Create(ctx, s, replaced)); err != nil {
			return err
		}
		return table.Drop(ctx, storetest.CrashDir, "nodes", store.Options{FS: fs})
	})
}

// TestVerifyTellsReadErrors: what cannot be read is an error of verify's, and not damage, whichever operation fails: a disk that
// answers again may have it whole. Blobs are in Pebble's tables here, so that to look for one is to read.
func TestVerifyTellsReadErrors(t *testing.T) {
	disk, bufs := tableDisk(t)
	for round := range 3 { // each opening of the metadata moves to tables what the one before left in Pebble's log
		s, err := store.Open(storetest.CrashDir, store.Options{FS: disk})
		if err != nil {
			t.Fatal(err)
		}
		tab, err := table.Open(ctx, s, storetest.TableOptions(nil))
		if err != nil {
			t.Fatal(err)
		}
		err = storetest.WriteRound(tab, bufs, round+1)
		for k := 0; k < 3 && err == nil; k++ {
			err = tab.Checkpoint(ctx, table.Blob{Name: "model", Data: bytes.Repeat([]byte{byte(round)}, 100_000)})
		}
		other := storetest.TableOptions(nil)
		other.Name, other.Replace = "other", true
		after, createErr := table.Create(ctx, s, other)
		if createErr == nil {
			createErr = after.Close()
		}
		if err = errors.Join(err, createErr, tab.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for k := 0; ; k++ {
		n, failed := 0, errorfs.Op{}
		var mu sync.Mutex
		fs := errorfs.Wrap(disk.CrashClone(vfs.CrashCloneCfg{}), errorfs.InjectorFunc(func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n != k+1 {
				return nil
			}
			failed = op
			return errorfs.ErrInjected
		}))
		r, err := table.Verify(ctx, storetest.CrashDir, store.Options{FS: fs}, nil)
		if err == nil && len(r.Damage) > 0 {
			t.Errorf("operation %d of %s (kind %d) fails, and is damage: %v", k, failed.Path, failed.Kind, r.Damage)
		}
		if errors.Is(err, store.ErrCorrupt) {
			t.Errorf("operation %d of %s (kind %d) fails, and the error says damage: %v", k, failed.Path, failed.Kind, err)
		}
		mu.Lock()
		done := n <= k
		mu.Unlock()
		if done {
			if k < 20 || err != nil || r.Checked != 2 {
				t.Errorf("%d operations, then %+v, %v", k, r, err)
			}
			return
		}
	}
}
