package store

import "golang.org/x/sys/unix"

// exchange gives two folders each other's names, in one step.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
