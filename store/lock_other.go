//go:build !linux

package store

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

const (
	lockWriter = 0
	lockMeta   = 1
)

type rangeLock struct{}

// lockByte is for Linux only: other systems lack open-file-description locks.
func lockByte(context.Context, string, int64, bool, time.Duration) (*rangeLock, error) {
	return nil, fmt.Errorf("stores on %s cannot be locked; gstore runs on linux", runtime.GOOS)
}

func (*rangeLock) Close() error { return nil }
