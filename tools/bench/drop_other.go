//go:build !linux

package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// dropPages refuses: without it a benchmark of the disk would measure memory.
func dropPages(*os.File) error {
	return fmt.Errorf("drop a file from the page cache on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
