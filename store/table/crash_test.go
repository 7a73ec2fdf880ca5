package table_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/table"
)

// tableRounds opens the table at its checkpoint, and writes and checkpoints two more rounds.
func tableRounds(fs vfs.FS, bufs [][][]byte) (err error) {
	s, err := store.Open(storetest.CrashDir, store.Options{FS: fs})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	tab, err := table.Open(ctx, s, storetest.TableOptions(nil))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tab.Close()) }()
	for round := 1; round <= 2; round++ {
		if err := storetest.WriteRound(tab, bufs, round); err != nil {
			return err
		}
		if err := tab.Checkpoint(ctx, table.Blob{Name: "model", Data: fmt.Append(nil, "after ", round)}); err != nil {
			return err
		}
	}
	return nil
}

// checkTable opens the table and checks that rows and blob are of one round.
func checkTable(t *testing.T, fs vfs.FS, bufs [][][]byte, when string) {
	t.Helper()
	s, err := store.Open(storetest.CrashDir, store.Options{FS: fs})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	defer s.Close()
	tab, err := table.Open(ctx, s, storetest.TableOptions(nil))
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	defer tab.Close()
	round, err := storetest.RoundOf(tab, bufs)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	blob, err := tab.Blob(ctx, "model")
	if err != nil || string(blob) != fmt.Sprint("after ", round) {
		t.Fatalf("%s: blob %q, %v, but rows of round %d", when, blob, err, round)
	}
}

func tableDisk(t *testing.T) (*vfs.MemFS, [][][]byte) {
	t.Helper()
	mem := storetest.NewDisk(t)
	if err := storetest.CommitOn(mem, storetest.Tiny(1), true); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(storetest.CrashDir, store.Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tab, err := table.Create(ctx, s, storetest.TableOptions(nil))
	if err != nil {
		t.Fatal(err)
	}
	bufs := storetest.AllPlanes(t, tab)
	err = storetest.WriteRound(tab, bufs, 0)
	if err == nil {
		err = tab.Checkpoint(ctx, table.Blob{Name: "model", Data: []byte("after 0")})
	}
	if err = errors.Join(err, tab.Close()); err != nil {
		t.Fatal(err)
	}
	return mem, bufs
}

func TestTableCrash(t *testing.T) {
	mem, bufs := tableDisk(t)
	crashed := storetest.CrashPoints(t, mem, func(fs vfs.FS) error { return tableRounds(fs, bufs) })
	for i := 0; i < len(crashed); i += storetest.Every(3) {
		checkTable(t, crashed[i], bufs, fmt.Sprintf("crash point %d of %d", i, len(crashed)))
	}
}

func TestTableInjectedErrors(t *testing.T) {
	base, bufs := tableDisk(t)
	for k := 0; ; k += storetest.Every(5) {
		fs := base.CrashClone(vfs.CrashCloneCfg{})
		var mu sync.Mutex
		n, hit := -1, false
		inject := func(errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n == k {
				hit = true
				return errorfs.ErrInjected
			}
			return nil
		}
		err := tableRounds(errorfs.Wrap(fs, errorfs.InjectorFunc(inject)), bufs)
		mu.Lock()
		done := !hit
		mu.Unlock()
		if err != nil && !errors.Is(err, errorfs.ErrInjected) && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("operation %d: the error hides its cause: %v", k, err)
		}
		checkTable(t, fs, bufs, fmt.Sprintf("error at operation %d", k))
		if done {
			if err != nil || k < 100 {
				t.Errorf("%d operations, %v", k, err)
			}
			return
		}
	}
}

// TestTableKilled kills a training process at random moments; the last
// checkpoint is whole each time and the next process goes on from it.
func TestTableKilled(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 4000, Partitions: 4}))
	s := storetest.Open(t, dir, store.Options{})
	tab, err := table.Create(ctx, s, storetest.TableOptions(nil))
	if err != nil {
		t.Fatal(err)
	}
	bufs := storetest.AllPlanes(t, tab)
	err = storetest.WriteRound(tab, bufs, 0)
	if err = errors.Join(err, tab.Checkpoint(ctx, table.Blob{Name: "model", Data: []byte("after 0")}), tab.Close()); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	last := 0
	for i := range 20 / storetest.Every(2) {
		child := storetest.Start(t, "train", dir)
		if i == 0 { // one child at least gets as far as a checkpoint
			if line, err := child.Out.ReadString('\n'); line != "checkpoint\n" {
				t.Fatalf("child: %q, %v", line, err)
			}
		}
		time.Sleep(time.Duration(rng.IntN(80)) * time.Millisecond)
		_ = child.Cmd.Process.Kill()
		var exit *exec.ExitError
		if err := child.Cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
			t.Fatalf("the child ended by itself: %v", err)
		}
		tab, err := table.Open(ctx, s, storetest.TableOptions(nil))
		if err != nil {
			t.Fatalf("after kill %d: %v", i, err)
		}
		round, err := storetest.RoundOf(tab, bufs)
		blob, berr := tab.Blob(ctx, "model")
		if err = errors.Join(err, berr, tab.Close()); err != nil || string(blob) != fmt.Sprint("after ", round) || round < last {
			t.Fatalf("after kill %d: round %d after %d, blob %q, %v", i, round, last, blob, err)
		}
		last = round
	}
	if last == 0 {
		t.Error("no child ever made a checkpoint: the test kills too early")
	}
}

// trainChild goes on from the last checkpoint until killed.
func trainChild(dir string) error {
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	tab, err := table.Open(ctx, s, storetest.TableOptions(nil))
	if err != nil {
		return err
	}
	var bufs [][][]byte
	for p := range tab.Partitions() {
		n := int(tab.PlaneBytes(store.PartitionID(p)))
		var b [][]byte
		for range tab.Planes() {
			b = append(b, blocks.Bytes(make([]uint64, n/8)))
		}
		bufs = append(bufs, b)
	}
	round, err := storetest.RoundOf(tab, bufs)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		round++
		if err := storetest.WriteRound(tab, bufs, round); err != nil {
			return err
		}
		if err := tab.Checkpoint(ctx, table.Blob{Name: "model", Data: fmt.Append(nil, "after ", round)}); err != nil {
			return err
		}
		fmt.Println("checkpoint")
	}
}
