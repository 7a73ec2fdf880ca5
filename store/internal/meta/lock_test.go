//go:build linux

package meta

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockEnv is a store's folder with its LOCK.
func lockEnv(t *testing.T) Env {
	e := NewEnv(t.TempDir(), vfs.Default, 10*time.Second)
	if err := os.WriteFile(e.Path(LockName), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	return e
}

// A writer is not kept out by readers of which there is always one.
func TestWriterGoesBeforeReaders(t *testing.T) {
	e := lockEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var reads atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				lk, err := e.lockMetadata(ctx, false)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				time.Sleep(5 * time.Millisecond)
				reads.Add(1)
				if err := lk.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for reads.Load() < 16 {
		time.Sleep(time.Millisecond)
	}
	short := e
	short.Timeout = 3 * time.Second
	lk, err := short.lockMetadata(ctx, true)
	if err != nil {
		t.Fatalf("the writer: %v", err)
	}
	if err := lk.Close(); err != nil {
		t.Error(err)
	}
}

// A reader that has the metadata open may open them again while a writer waits for it.
func TestReadersWithinReaders(t *testing.T) {
	e := lockEnv(t)
	outer, err := e.lockMetadata(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		lk, err := e.lockMetadata(t.Context(), true)
		if err != nil {
			t.Errorf("the writer: %v", err)
		}
		_ = lk.Close()
	})
	for { // until the writer waits
		gate, err := e.Lock(t.Context(), lockGate, false, 0)
		if err != nil {
			break
		}
		_ = gate.Close()
		time.Sleep(time.Millisecond)
	}
	inner, err := e.lockMetadata(t.Context(), false)
	if err != nil {
		t.Fatalf("within the reader: %v", err)
	}
	if err := inner.Close(); err != nil {
		t.Error(err)
	}
	if err := outer.Close(); err != nil {
		t.Error(err)
	}
}
