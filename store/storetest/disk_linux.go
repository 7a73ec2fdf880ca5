package storetest

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// SmallDisk mounts a file system of size bytes for the test, and returns where, and what
// gives it another size. Where none can be mounted the test is skipped.
func SmallDisk(t *testing.T, size int64) (dir string, resize func(size int64)) {
	t.Helper()
	dir = t.TempDir()
	option := func(size int64) string { return fmt.Sprintf("size=%d", size) }
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, option(size)); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, func(size int64) {
		t.Helper()
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, option(size)); err != nil {
			t.Fatal(err)
		}
	}
}

// UsedBytes is what the files of the file system at dir take.
func UsedBytes(t *testing.T, dir string) int64 {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		t.Fatal(err)
	}
	return int64(s.Blocks-s.Bfree) * s.Bsize
}
