package simulate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/store/storetest"
)

// Ways in which a disk disturbs a step.
const (
	sound   = "sound"
	once    = "error once"
	lasting = "errors from then on"
	unsure  = "error once in a sync of Pebble's log" // the commit fails, and a crash may undo what it wrote
	full    = "disk full"
	crash   = "crash"        // what was not synced is lost
	torn    = "crash, torn"  // half of it is
	stopped = "crash, clean" // nothing is: a process that was killed
)

// disk is a file system whose operations fail as the step at hand says.
type disk struct {
	mem *storetest.Clonable // nil: files of the operating system
	fs  vfs.FS              // what everything goes through

	mu      sync.Mutex
	fault   string
	at, n   int        // the operation that is disturbed, those so far
	hit     bool       // it came to that
	what    string     // it was
	crashed *vfs.MemFS // what the crash leaves
	seed    uint64
}

func newDisk(mem *vfs.MemFS) *disk {
	d := &disk{fault: sound}
	d.on(mem)
	return d
}

// on puts the disk on mem, nil for the operating system's.
func (d *disk) on(mem *vfs.MemFS) {
	if mem == nil {
		d.mem, d.fs = nil, errorfs.Wrap(vfs.Default, d)
		return
	}
	d.mem = &storetest.Clonable{MemFS: mem}
	d.fs = errorfs.Wrap(d.mem, d)
}

// newMem is an empty disk in memory with a synced folder /disk.
func newMem() (*vfs.MemFS, error) {
	mem := vfs.NewCrashableMem()
	if err := mem.MkdirAll("/disk", 0o777); err != nil {
		return nil, err
	}
	root, err := mem.OpenDir("/")
	if err != nil {
		return nil, err
	}
	return mem, errors.Join(root.Sync(), root.Close())
}

// begin chooses how the disk disturbs what comes next.
func (d *disk) begin(rng *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault, d.n, d.hit, d.what, d.crashed, d.seed = sound, 0, false, "none came so far", nil, rng.Uint64()
	at := int(math.Exp(rng.Float64() * math.Log(1500)))
	if rng.IntN(2) == 0 {
		return
	}
	faults := []string{once, once, lasting, unsure, full, crash, torn, stopped}
	if d.mem == nil {
		faults = faults[:5]
	}
	d.fault, d.at = faults[rng.IntN(len(faults))], at
	if d.fault == unsure {
		d.at = at % 3 // few of its operations are such
	}
}

// end lets the disk work again and says what it did. A crashed disk is what is left of it from here on.
func (d *disk) end() (what string, hit, down bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	what, hit = d.fault, d.hit
	switch d.fault {
	case crash, torn, stopped:
		if !hit { // after all was done
			d.crashed = d.clone()
		}
		down = true
		d.on(d.crashed)
	}
	if what != sound {
		what = fmt.Sprintf("%s at operation %d of %d (%s)", what, d.at, d.n, d.what)
	}
	d.fault = sound
	return what, hit, down
}

// stopped reports whether the machine crashed: what is done from then on never happened.
func (d *disk) stopped() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.crashed != nil
}

// clone is the disk after a crash now.
func (d *disk) clone() *vfs.MemFS {
	c := vfs.CrashCloneCfg{RNG: rand.New(rand.NewPCG(d.seed, 1))}
	switch d.fault {
	case torn:
		c.UnsyncedDataPercent = 50
	case stopped:
		c.UnsyncedDataPercent = 100
	}
	return d.mem.CrashClone(c)
}

// MaybeError implements [errorfs.Injector].
func (d *disk) MaybeError(op errorfs.Op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fault == sound || d.fault == full && !allocates(op.Kind) || d.fault == unsure && !syncsLog(op) {
		return nil
	}
	n := d.n
	d.n++
	if n < d.at {
		return nil
	}
	first := !d.hit
	if first {
		d.what = fmt.Sprintf("kind %d on %s", op.Kind, op.Path)
	}
	switch d.fault {
	case once, unsure:
		if !first {
			return nil
		}
		d.hit = true
		return errorfs.ErrInjected
	case lasting:
		d.hit = true
		return errorfs.ErrInjected
	case full:
		d.hit = true
		return syscall.ENOSPC
	}
	if first { // the machine stops here; what the process does afterwards never happened
		d.hit, d.crashed = true, d.clone()
	}
	return nil
}

// String implements [errorfs.Injector].
func (d *disk) String() string { return "simulated disk" }

// syncsLog says whether op syncs a log that Pebble writes ahead.
func syncsLog(op errorfs.Op) bool {
	return (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) && strings.HasSuffix(op.Path, ".log")
}

// allocates says what a full disk refuses.
func allocates(k errorfs.OpKind) bool {
	switch k {
	case errorfs.OpCreate, errorfs.OpMkdirAll, errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFilePreallocate:
		return true
	}
	return false
}
