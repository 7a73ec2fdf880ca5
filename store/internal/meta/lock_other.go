//go:build !linux && !darwin

package meta

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

const (
	LockWriter = 0
	lockMeta   = 1
	lockGate   = 2
)

type Lock struct{}

// lockByte is for Linux and macOS: other systems lack open-file-description locks.
func lockByte(context.Context, string, int64, bool, time.Duration) (*Lock, error) {
	return nil, fmt.Errorf("stores on %s cannot be locked; gstore runs on linux and darwin", runtime.GOOS)
}

func (*Lock) Of(string) bool { return false }

func (*Lock) Close() error { return nil }
