package blocks

import "golang.org/x/sys/unix"

// setDirect sets or clears O_DIRECT on a descriptor; an error means that it
// stays as it was (no descriptor, or a file system without direct writes).
func setDirect(fd uintptr, on bool) error {
	flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if on {
		flags |= unix.O_DIRECT
	} else {
		flags &^= unix.O_DIRECT
	}
	_, err = unix.FcntlInt(fd, unix.F_SETFL, flags)
	return err
}
