package claim

import "golang.org/x/sys/unix"

// setLock takes an open-file-description lock, or fails at once.
const setLock = unix.F_OFD_SETLK
