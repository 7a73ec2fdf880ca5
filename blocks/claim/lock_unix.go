//go:build linux || darwin

package claim

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock claims all of an open file.
func lock(f *os.File) error {
	for {
		err := unix.FcntlFlock(f.Fd(), setLock, &unix.Flock_t{Type: unix.F_WRLCK})
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
			return ErrHeld
		case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOLCK), errors.Is(err, unix.EINVAL):
			return nil
		}
		return err
	}
}
