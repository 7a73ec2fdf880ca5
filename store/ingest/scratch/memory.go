// Package scratch is the memory and the files that an ingest uses up: arrays outside the Go heap, which go back to the
// system when they are freed, and what files of scratch data are counted as.
package scratch

import (
	"bytes"
	"os"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// DefaultMemoryBytes is half of the memory that the process's cgroup allows,
// or half of the machine's where no cgroup sets a limit.
func DefaultMemoryBytes() int64 {
	limit := machineBytes()
	if limit <= 0 {
		limit = 8 << 30
	}
	for _, path := range cgroupLimitFiles() {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err == nil && n > 0 && n < limit {
			limit = n
		}
	}
	return limit / 2
}

// cgroupLimitFiles lists where the limit of this process's memory may stand, of
// cgroup version 2 and 1.
func cgroupLimitFiles() []string {
	files := []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return files
	}
	for line := range bytes.Lines(b) {
		parts := bytes.SplitN(bytes.TrimSpace(line), []byte(":"), 3)
		if len(parts) == 3 && len(parts[1]) == 0 {
			files = append(files, "/sys/fs/cgroup"+string(parts[2])+"/memory.max")
		}
	}
	return files
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
