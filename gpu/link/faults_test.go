package link_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/table"
)

const faultDir = "/disk/kg"

// faultRun trains the store on fs from its last checkpoint on, or from the start where there is none.
func faultRun(t *testing.T, fs vfs.FS, c link.Config) error {
	c.Resume = true
	_, err := trainLink(t.Context(), faultDir, store.Options{FS: fs}, c, link.Hooks{})
	return err
}

// faultDisk is a crashable disk with a store of triples, and what an undisturbed run of c leaves on such a disk.
func faultDisk(t *testing.T, c link.Config) (disk *vfs.MemFS, want []byte) {
	t.Helper()
	disk = vfs.NewCrashableMem()
	if ok, err := vfs.Clone(vfs.Default, disk, tripleStore(t, 8), faultDir, vfs.CloneSync); err != nil || !ok {
		t.Fatalf("cloned: %t, %v", ok, err)
	}
	for _, dir := range []string{"/", "/disk", faultDir} {
		d, err := disk.OpenDir(dir)
		if err == nil {
			err = errors.Join(d.Sync(), d.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	fs := disk.CrashClone(vfs.CrashCloneCfg{})
	if err := faultRun(t, fs, c); err != nil {
		t.Fatal(err)
	}
	return disk, finalState(t, faultDir, c.Table, store.Options{FS: fs})
}

// restarts checks that what fs holds of the table verifies, and that training goes on from it to the bits of want.
func restarts(t *testing.T, fs vfs.FS, c link.Config, want []byte, when string) {
	t.Helper()
	o := store.Options{FS: fs}
	r, err := table.Verify(t.Context(), faultDir, o, func(int64) {})
	if err != nil || len(r.Damage) > 0 {
		t.Fatalf("%s: damage %v, %v", when, r, err)
	}
	if err := faultRun(t, fs, c); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if !bytes.Equal(finalState(t, faultDir, c.Table, o), want) {
		t.Errorf("%s: the resumed run ends with other bits", when)
	}
}

// faultConfig writes partitions back all the time and makes a checkpoint every few mini-batches.
func faultConfig() link.Config {
	c := smallRun("comet", "none")
	c.Table, c.CheckpointEvery, c.Epochs, c.EvalEvery, c.Buffer = "faults", "20steps", 2, -1, 2
	return c
}

// A machine that stops before any write, sync, rename or removal of training, with nothing or with half of what was
// not synced on its disk (torn writes), leaves a checkpoint that verifies and that training goes on from to the same bits.
func TestLinkCrash(t *testing.T) {
	c := faultConfig()
	mem, want := faultDisk(t, c)
	disk := &storetest.Clonable{MemFS: mem}
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(5, 6))
	type crash struct {
		when string
		disk *vfs.MemFS
	}
	var crashes []crash
	operations, step := 0, storetest.Every(37)
	stop := func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo, errorfs.OpFileWriteAt, errorfs.OpFileWrite, errorfs.OpRename, errorfs.OpRemove:
		default:
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if operations++; operations%step == 0 {
			when := fmt.Sprintf("crash before operation %d (kind %d)", operations, op.Kind)
			crashes = append(crashes, crash{when, disk.CrashClone(vfs.CrashCloneCfg{})},
				crash{when + ", torn", disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})})
		}
		return nil
	}
	if err := faultRun(t, errorfs.Wrap(disk, errorfs.InjectorFunc(stop)), c); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d operations, %d crashes", operations, len(crashes))
	if len(crashes) < 16/race.Every(3) {
		t.Errorf("%d crashes among %d operations: too few to say anything", len(crashes), operations)
	}
	for _, x := range crashes {
		restarts(t, x.disk, c, want, x.when)
	}
}

// An operation that fails once, or a disk that is full from then on, ends training with that error and leaves a
// checkpoint that verifies and that training goes on from to the same bits.
func TestLinkInjectedErrors(t *testing.T) {
	c := faultConfig()
	disk, want := faultDisk(t, c)
	for _, full := range []bool{false, true} {
		failed := 0
		for k := 5; ; k += storetest.Every(61) {
			fs := disk.CrashClone(vfs.CrashCloneCfg{})
			var mu sync.Mutex
			n, hit := 0, false
			inject := func(op errorfs.Op) error {
				mu.Lock()
				defer mu.Unlock()
				n++
				switch {
				case !full && n == k:
					hit = true
					return errorfs.ErrInjected
				case full && n >= k && (op.Kind == errorfs.OpFileWriteAt || op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpCreate):
					hit = true
					return syscall.ENOSPC
				}
				return nil
			}
			err := faultRun(t, errorfs.Wrap(fs, errorfs.InjectorFunc(inject)), c)
			mu.Lock()
			done := !hit
			mu.Unlock()
			when := fmt.Sprintf("error at operation %d, full disk: %t", k, full)
			if err != nil {
				failed++
			}
			restarts(t, fs, c, want, when)
			if done {
				if err != nil {
					t.Errorf("%s: nothing was injected, and yet %v", when, err)
				}
				break
			}
		}
		if failed < 8/race.Every(3) {
			t.Errorf("full disk: %t: training failed %d times: too few to say anything", full, failed)
		}
	}
}
