package bench

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropPages drops a file's pages from the page cache.
func dropPages(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
