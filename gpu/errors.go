package gpu

import (
	"errors"
	"fmt"
)

// Sentinels that callers match with [errors.Is].
var (
	// ErrShape marks operations whose tensors do not fit each other.
	ErrShape = errors.New("shapes do not fit")
	// ErrMemory marks device memory that could not be had.
	ErrMemory = errors.New("out of device memory")
	// ErrLost marks a device that broke down: what it holds cannot be read any more.
	ErrLost = errors.New("device is lost")
	// ErrClosed marks the use of a closed device, queue or memory.
	ErrClosed = errors.New("device is closed")
)

// BoundError is the [ErrMemory] of an [Arena] that met its bound.
type BoundError struct {
	AskedBytes int64 // of the tensor that did not fit
	UsedBytes  int64 // of the tensors before it
	BoundBytes int64
}

// Error names all sizes.
func (e *BoundError) Error() string {
	return fmt.Sprintf("gpu: %v: a tensor of %d bytes beside %d in use, the arena may hold %d", ErrMemory, e.AskedBytes, e.UsedBytes, e.BoundBytes)
}

// Is reports whether target is [ErrMemory].
func (e *BoundError) Is(target error) bool { return target == ErrMemory }

// shapef makes an error about operation op that matches [ErrShape].
func shapef(op, format string, args ...any) error {
	return fmt.Errorf("gpu: %s: %w: %s", op, ErrShape, fmt.Sprintf(format, args...))
}
