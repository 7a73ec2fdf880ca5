package ingest_test

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
)

// TestDiskFull runs out of a real file system's room: an ingest leaves nothing
// that opens and is resumed when there is room.
func TestDiskFull(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	ctx, dir := context.Background(), filepath.Join(disk, "store")
	input := randomGraph(8, 20_000, 200_000).write(t, false)
	ingestAll := func(resume bool) error {
		src, err := formats.Open(input, formats.Options{})
		if err != nil {
			return err
		}
		_, err = ingest.Run(ctx, dir, src, ingest.Options{Resume: resume, MemoryBytes: 256 << 20})
		return errors.Join(err, src.Close())
	}
	if err := ingestAll(false); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v, expected that the disk is full", err)
	}
	if s, err := store.Open(dir, store.Options{}); err == nil {
		s.Close()
		t.Fatal("the store of a failed ingest opens")
	} else if !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrNoVersion) {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, "size=16m"); err != nil {
		t.Fatal(err)
	}
	if err := ingestAll(true); err != nil {
		t.Fatalf("resumed with room: %v", err)
	}
	whole(t, dir, 0)
}
