package cuda

import (
	"errors"
	"fmt"

	"github.com/gstore/gstore/gpu"
)

// ErrNotBuilt says that the program was built without the tag cuda.
var ErrNotBuilt = errors.New("this gstore was built without CUDA: build it with gpu/cuda/build.sh gstore, or use --device host")

// ErrOrdinal says that the driver has fewer devices.
var ErrOrdinal = errors.New("no such device")

// MemoryError is memory that could not be had; it matches [gpu.ErrMemory].
type MemoryError struct {
	Device     string
	Pinned     bool  // page-locked host memory, not the device's
	AskedBytes int64 // of what did not fit
	UsedBytes  int64 // allocated by this program before
	BoundBytes int64 // Options.MemoryBytes
	FreeBytes  int64 // of the device, whoever uses the rest; −1: not known
	Err        error // the driver's; nil: the bound was met
}

// Error names the sizes and the flag that changes them.
func (e *MemoryError) Error() string {
	if e.Pinned {
		return fmt.Sprintf("%s: %v: %d bytes of host memory cannot be page-locked: %v; ask for less by --mem, or raise the limit of locked memory (ulimit -l)", e.Device, gpu.ErrMemory, e.AskedBytes, e.Err)
	}
	s := fmt.Sprintf("%s: %v: a tensor of %d bytes beside %d in use, --device-mem allows %d", e.Device, gpu.ErrMemory, e.AskedBytes, e.UsedBytes, e.BoundBytes)
	if e.Err != nil {
		s += fmt.Sprintf("; %d are free on the device (%v): other programs may use it, smaller batches need less", e.FreeBytes, e.Err)
	}
	return s
}

// Is reports whether target is [gpu.ErrMemory].
func (e *MemoryError) Is(target error) bool { return target == gpu.ErrMemory }

// Unwrap returns the driver's error.
func (e *MemoryError) Unwrap() error { return e.Err }

// IndexError is an index outside its table that an operation met; it left out what
// the index names. Others may have been bad too.
type IndexError struct {
	Device string
	Op     string // as the host names it
	Place  int64  // of the index: an edge, a row, a destination
	Value  int64
	Limit  int64 // what Value has to be below
}

// Error names operation and place.
func (e *IndexError) Error() string {
	return fmt.Sprintf("%s: %s: the index at %d is %d, expected less than %d", e.Device, e.Op, e.Place, e.Value, e.Limit)
}

// LostError is a device that broke down: nothing that it holds can be read any more. It matches [gpu.ErrLost].
type LostError struct {
	Device string
	Ops    []string // what was issued since the last Sync, the last ones if there are many
	Err    error    // the driver's
}

// Error names the driver's error and what ran.
func (e *LostError) Error() string {
	s := fmt.Sprintf("%s: %v: %v", e.Device, gpu.ErrLost, e.Err)
	if len(e.Ops) > 0 {
		s += fmt.Sprintf("; issued since the last wait, at the end: %v", e.Ops)
	}
	return s + "; start again with --resume, set CUDA_LAUNCH_BLOCKING=1 to learn which operation it was"
}

// Is reports whether target is [gpu.ErrLost].
func (e *LostError) Is(target error) bool { return target == gpu.ErrLost }

// Unwrap returns the driver's error.
func (e *LostError) Unwrap() error { return e.Err }
