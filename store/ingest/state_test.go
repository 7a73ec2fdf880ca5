package ingest_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/storetest"
)

// An ingest resumes after a crash that loses what was not synced, before any sync: what the state calls
// finished is there.
func TestResumeAfterCrash(t *testing.T) {
	input := faultInputs(t)["triples"]
	mem := vfs.NewCrashableMem()
	if ok, err := vfs.Clone(vfs.Default, mem, input.dir, faultInput, vfs.CloneSync); err != nil || !ok {
		t.Fatalf("cloned: %t, %v", ok, err)
	}
	for _, name := range []string{"/", "/disk", faultInput} {
		dir, err := mem.OpenDir(name)
		if err == nil {
			err = errors.Join(dir.Sync(), dir.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	o := ingest.Options{Partitions: 3, Seed: 1, Threads: 1, MemoryBytes: 256 << 20}
	on := func(fs vfs.FS) error {
		src, err := formats.Open(faultInput, formats.Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		o.FS = fs
		_, err = ingest.Run(t.Context(), faultStore, src, o)
		return err
	}
	disk := &storetest.Clonable{MemFS: mem}
	var mu sync.Mutex
	var crashed []*vfs.MemFS
	stop := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
			mu.Lock()
			defer mu.Unlock()
			crashed = append(crashed, disk.CrashClone(vfs.CrashCloneCfg{}))
		}
		return nil
	})
	if err := on(errorfs.Wrap(disk, stop)); err != nil {
		t.Fatal(err)
	}
	want := storedOn(t, mem, input.externals)
	if len(crashed) < 20 {
		t.Fatalf("%d crashes: too few to say anything", len(crashed))
	}
	o.Resume = true
	for i, fs := range crashed {
		if err := on(fs); err != nil && !errors.Is(err, store.ErrExists) {
			t.Fatalf("crash %d of %d: %v", i, len(crashed), err)
		}
		sameFiles(t, want, storedOn(t, fs, input.externals))
	}
}
