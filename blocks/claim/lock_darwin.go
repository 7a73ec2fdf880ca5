package claim

// setLock takes an open-file-description lock, or fails at once: F_OFD_SETLK of <sys/fcntl.h>, which x/sys/unix does not name.
const setLock = 90
