//go:build !linux

package blockio

import "golang.org/x/sys/unix"

// oDirect is a flag that opening cannot take, so that direct I/O falls back.
const oDirect = 0

func directWorks(int) bool { return false }

func datasync(fd int) error { return unix.Fsync(fd) }

func adviseHuge([]byte) {}

func populate(b []byte) error {
	for i := 0; i < len(b); i += Alignment {
		b[i] = 0
	}
	return nil
}
