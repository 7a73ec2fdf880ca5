package gputest

import (
	"cmp"
	"fmt"
	"sync/atomic"

	"github.com/gstore/gstore/gpu"
)

// Tight is a device of its own memory that has none left once it is tightened, until something that was allocated is freed.
type Tight struct {
	*Counting
	Allocated func() (bytes, most int64) // of the device beneath: what is allocated now

	tight atomic.Bool
	full  int64 // bytes allocated then
	freed bool
}

// Tighten has the device be out of memory.
func (d *Tight) Tighten() { d.tight.Store(true) }

// Alloc fails with [gpu.ErrMemory] as long as nothing was freed.
func (d *Tight) Alloc(bytes int64) (gpu.Memory, error) {
	now, _ := d.Allocated()
	if d.tight.Load() && !d.freed {
		d.full = cmp.Or(d.full, now)
		if now >= d.full {
			return nil, fmt.Errorf("%w: the test's", gpu.ErrMemory)
		}
		d.freed = true
	}
	return d.Counting.Alloc(bytes)
}
