// Package claim lets one process at a time write a file that several may want to write: what lies half written under a name
// is of one writer, and what a killed one left is free for the next.
//
// A claim is a lock on the open file, which ends with the process however that ends. Two claims in one process exclude each
// other as those of two processes do. A file that was renamed or removed by who had claimed it is nobody's: the next claim
// of its name makes a new one.
package claim

import (
	"errors"
	"fmt"
	"os"
)

// ErrHeld says that somebody else is writing the file.
var ErrHeld = errors.New("somebody else is writing it")

// File opens the file at path for writing, or makes it, and claims it until it is closed. What is in it stays. Where somebody
// else has claimed it the error matches [ErrHeld]. File systems without locks grant every claim.
func File(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		if err := lock(f); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
		}
		// Who held it may have renamed or removed it between the open and the lock: then the lock is on a file of another name.
		is, err := named(f, path)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if is {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// named reports whether path still leads to f.
func named(f *os.File, path string) (bool, error) {
	own, err := f.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(own, now), err
}
