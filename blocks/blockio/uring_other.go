//go:build !linux

package blockio

import "fmt"

func newUring(Options) (Engine, string, error) {
	return nil, "", fmt.Errorf("io_uring: %w: it is Linux's", ErrUnsupported)
}
