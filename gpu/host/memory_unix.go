//go:build unix

package host

import "golang.org/x/sys/unix"

// hugePage is the size above which huge pages are asked for: first touch of
// ordinary pages costs up to 2 CPU s/GiB (docs/lab/limits.md, "Disk").
const hugePage = 2 << 20

func mapAnonymous(bytes int64) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err == nil && bytes >= hugePage {
		adviseHuge(b)
	}
	return b, err
}

func unmap(b []byte) error { return unix.Munmap(b) }
