//go:build !linux

package blockio

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// oDirect is a flag that opening cannot take, so that direct I/O falls back.
const oDirect = 0

func directWorks(int) bool { return false }

// DeviceID names the device that holds path.
func DeviceID(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return fmt.Sprintf("dev%x", st.Dev), nil
}

func datasync(fd int) error { return unix.Fsync(fd) }

func adviseHuge([]byte) {}

func populate(b []byte) error {
	for i := 0; i < len(b); i += Alignment {
		b[i] = 0
	}
	return nil
}
