// Package scratch is the memory and the files that an ingest uses up: arrays outside the Go heap, which go back to the
// system when they are freed, and what files of scratch data are counted as.
package scratch

import (
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"github.com/gstore/gstore/blocks/usage"
)

// DefaultMemoryBytes is half of the memory that this process may have ([usage.AllowedBytes]).
func DefaultMemoryBytes() int64 {
	n, _ := usage.AllowedBytes()
	return n / 2
}

// Alloc returns n zero bytes outside the Go heap, 4 KiB aligned. Pages are
// resident only once touched. They go back with Free.
func Alloc(n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	if n >= 4<<20 {
		adviseHuge(b)
	}
	return b, nil
}

// Free gives back what Alloc returned; nil is nothing.
func Free(b []byte) {
	if b != nil {
		_ = unix.Munmap(b)
	}
}

// Category names scratch writes in vfs metrics.
const Category vfs.DiskWriteCategory = "gstore-ingest"
