package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// checkAfter opens the store on fs and checks that it is exactly one of the
// graphs (nil = nothing committed), then, if goOn, that a writer can go on.
func checkAfter(t *testing.T, fs vfs.FS, when string, goOn bool, allowed ...*storetest.Graph) {
	t.Helper()
	s, err := store.Open(storetest.CrashDir, store.Options{FS: fs})
	switch {
	case errors.Is(err, store.ErrNotFound) && slices.Contains(allowed, nil):
		if err := storetest.CommitOn(fs, storetest.Tiny(9), true); err != nil {
			t.Fatalf("%s: create afterwards: %v", when, err)
		}
		return
	case err != nil:
		t.Fatalf("%s: open: %v", when, err)
	}
	v := int(s.Manifest().Version)
	if v > len(allowed) || allowed[v-1] == nil {
		t.Fatalf("%s: version %d", when, v)
	}
	storetest.Check(t, s, allowed[v-1])
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !goOn {
		return
	}
	if err := storetest.CommitOn(fs, storetest.Tiny(9), false); err != nil {
		t.Fatalf("%s: commit afterwards: %v", when, err)
	}
	if s, err = store.Open(storetest.CrashDir, store.Options{FS: fs}); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	storetest.Check(t, s, storetest.Tiny(9))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCrash stops the machine before and after storetest.Every operation that makes
// anything durable or changes a name, with and without unsynced data
// surviving, while a first and a second version are committed.
func TestCrash(t *testing.T) {
	for _, second := range []bool{false, true} {
		t.Run(fmt.Sprintf("second version %t", second), func(t *testing.T) {
			mem := &storetest.Clonable{MemFS: storetest.NewDisk(t)}
			allowed := []*storetest.Graph{storetest.Tiny(1), nil}
			if second {
				if err := storetest.CommitOn(mem, allowed[0], true); err != nil {
					t.Fatal(err)
				}
				allowed[1] = storetest.Tiny(2)
			}
			var mu sync.Mutex
			var crashed []*vfs.MemFS
			rng := rand.New(rand.NewPCG(1, 2))
			snap := func(op errorfs.Op) error {
				switch op.Kind {
				case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo, errorfs.OpRename, errorfs.OpLink, errorfs.OpRemove, errorfs.OpRemoveAll:
					mu.Lock()
					defer mu.Unlock()
					crashed = append(crashed, mem.CrashClone(vfs.CrashCloneCfg{}),
						mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}))
				}
				return nil
			}
			g := allowed[0]
			if second {
				g = allowed[1]
			}
			if err := storetest.CommitOn(errorfs.Wrap(mem, errorfs.InjectorFunc(snap)), g, !second); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(crashed) < 40 {
				t.Fatalf("only %d crash points: the injector sees nothing", len(crashed))
			}
			step := storetest.Every(5) // odd: points with and without unsynced data
			for i := 0; i < len(crashed); i += step {
				checkAfter(t, crashed[i], fmt.Sprintf("crash point %d of %d", i, len(crashed)), i/step%2 == 0, allowed...)
			}
			// After Commit has returned nothing may be lost.
			final := mem.CrashClone(vfs.CrashCloneCfg{})
			s, err := store.Open(storetest.CrashDir, store.Options{FS: final})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			storetest.Check(t, s, g)
		})
	}
}

// TestInjectedErrors fails each operation of a commit in turn, once and from
// then on. The writer reports it unless it came after the commit, and the store is
// the old version or the new one.
func TestInjectedErrors(t *testing.T) {
	base := storetest.NewDisk(t)
	old, next := storetest.Tiny(1), storetest.Tiny(2)
	if err := storetest.CommitOn(base, old, true); err != nil {
		t.Fatal(err)
	}
	for _, lasting := range []bool{false, true} {
		reported, step := 0, storetest.Every(7)
		if lasting { // storetest.Every third operation will do
			step *= 3
		}
		for k, i := 0, 0; ; k, i = k+step, i+1 {
			fs := base.CrashClone(vfs.CrashCloneCfg{})
			var mu sync.Mutex
			n, hit := -1, false
			inject := func(errorfs.Op) error {
				mu.Lock()
				defer mu.Unlock()
				if n++; n == k || lasting && n > k {
					hit = true
					return errorfs.ErrInjected
				}
				return nil
			}
			err := storetest.CommitOn(errorfs.Wrap(fs, errorfs.InjectorFunc(inject)), next, false)
			mu.Lock()
			done := !hit
			mu.Unlock()
			if err != nil {
				reported++
			}
			if err != nil && !errors.Is(err, errorfs.ErrInjected) && !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("operation %d: the error hides its cause: %v", k, err)
			}
			checkAfter(t, fs, fmt.Sprintf("error at operation %d, lasting %t", k, lasting), i%4 == 0, old, next)
			if done {
				if err != nil {
					t.Fatalf("without an error injected: %v", err)
				}
				if reported*step < 30 || k < 100 {
					t.Errorf("%d operations, %d errors reported: the injector sees too little", k, reported)
				}
				break
			}
		}
	}
}

// A disk that fails while the seal is looked for is named, though there is no store yet.
func TestErrorOfTheSealIsNamed(t *testing.T) {
	fails := func(op errorfs.Op) error {
		if op.Kind == errorfs.OpStat && strings.HasSuffix(op.Path, "SEAL") {
			return errorfs.ErrInjected
		}
		return nil
	}
	err := storetest.CommitOn(errorfs.Wrap(storetest.NewDisk(t), errorfs.InjectorFunc(fails)), storetest.Tiny(1), true)
	if !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("the error hides its cause: %v", err)
	}
}
