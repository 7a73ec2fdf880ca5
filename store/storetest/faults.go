package storetest

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/store"
)

// CrashDir is where [CommitOn] makes its store on a disk of [NewDisk].
const CrashDir = "/disk/store"

// Every is how far a loop over crash points, operations or damages goes on at a time: step, three of them with the race
// detector on, or 1 where all are asked for.
func Every(step int) int { return race.Sample(step, 3*step) }

// Tiny makes a tiny graph, so that there are hundreds of crash points rather than thousands.
func Tiny(seed uint64) *Graph {
	return Random(Options{Seed: seed, Nodes: 24, Partitions: 2, Dim: 3, IDs: store.IDsIntegers})
}

// CommitOn commits g to the store in [CrashDir] of fs, which it makes if create is set.
func CommitOn(fs vfs.FS, g *Graph, create bool) (err error) {
	openWriter := store.OpenWriter
	if create {
		openWriter = store.Create
	}
	w, err := openWriter(CrashDir, store.WriterOptions{FS: fs})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	m, err := g.Write(w)
	if err != nil {
		return err
	}
	return w.Commit(context.Background(), m)
}

// NewDisk makes an empty disk in memory that knows what is synced.
func NewDisk(t *testing.T) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewCrashableMem()
	if err := mem.MkdirAll("/disk", 0o777); err != nil {
		t.Fatal(err)
	}
	root, err := mem.OpenDir("/")
	if err == nil {
		err = errors.Join(root.Sync(), root.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return mem
}

// Clonable is a disk that can be cloned while other goroutines use it. What of [vfs.MemFS] takes its lock for reading twice
// (Link, ReuseForWrite, Lock) would never have it the second time where a clone began to wait for it between the two, nor
// the clone: here they keep each other out.
type Clonable struct {
	*vfs.MemFS
	cloning sync.RWMutex
}

// Link is that of [vfs.FS].
func (d *Clonable) Link(oldname, newname string) error {
	d.cloning.RLock()
	defer d.cloning.RUnlock()
	return d.MemFS.Link(oldname, newname)
}

// ReuseForWrite is that of [vfs.FS].
func (d *Clonable) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	d.cloning.RLock()
	defer d.cloning.RUnlock()
	return d.MemFS.ReuseForWrite(oldname, newname, c)
}

// Lock is that of [vfs.FS].
func (d *Clonable) Lock(name string) (io.Closer, error) {
	d.cloning.RLock()
	defer d.cloning.RUnlock()
	return d.MemFS.Lock(name)
}

// CrashClone is [vfs.MemFS.CrashClone].
func (d *Clonable) CrashClone(cfg vfs.CrashCloneCfg) *vfs.MemFS {
	d.cloning.Lock()
	defer d.cloning.Unlock()
	return d.MemFS.CrashClone(cfg)
}

// CrashPoints returns what disk a crash would leave before every write, sync, rename and removal of run: without what
// was not synced, and with half of it.
func CrashPoints(t *testing.T, disk *vfs.MemFS, run func(vfs.FS) error) []*vfs.MemFS {
	t.Helper()
	mem := &Clonable{MemFS: disk}
	var mu sync.Mutex
	var crashed []*vfs.MemFS
	rng := rand.New(rand.NewPCG(3, 4))
	snap := func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo, errorfs.OpFileWriteAt, errorfs.OpRename, errorfs.OpRemove:
			mu.Lock()
			defer mu.Unlock()
			crashed = append(crashed, mem.CrashClone(vfs.CrashCloneCfg{}), mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}))
		}
		return nil
	}
	if err := run(errorfs.Wrap(mem, errorfs.InjectorFunc(snap))); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(crashed) < 30 {
		t.Fatalf("only %d crash points", len(crashed))
	}
	return crashed
}
