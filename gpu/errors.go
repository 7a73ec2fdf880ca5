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
	// ErrClosed marks the use of a closed device, queue or memory.
	ErrClosed = errors.New("device is closed")
)

// shapef makes an error about operation op that matches [ErrShape].
func shapef(op, format string, args ...any) error {
	return fmt.Errorf("gpu: %s: %w: %s", op, ErrShape, fmt.Sprintf(format, args...))
}
