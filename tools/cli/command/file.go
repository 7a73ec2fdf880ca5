package command

import (
	"errors"
	"fmt"
	"os"

	"github.com/gstore/gstore/blocks/claim"
	"github.com/gstore/gstore/store"
)

// File is a file that a command writes. It lies under path.partial and gets its name once it is whole and durable, so
// that what was there stays until then. Its Finish must be called.
type File struct {
	*os.File
	path string // "": what is written to is no file on a disk, and has its name
}

// NewFile begins the file of that name. That it is a folder is a usage error; that another process is writing it is
// [store.ErrLocked].
func NewFile(path string) (*File, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, Usagef("%s: it is a folder, expected a file", path)
	} else if err == nil && !info.Mode().IsRegular() { // a pipe, or a device such as /dev/null, which must not be replaced
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &File{File: f}, nil
	}
	f, err := claim.File(path + ".partial")
	if errors.Is(err, claim.ErrHeld) {
		return nil, fmt.Errorf("%w: %s: another command is writing it: wait for that, or name another file", store.ErrLocked, path)
	}
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(0); err != nil { // of what a killed run left
		return nil, errors.Join(err, f.Close())
	}
	return &File{File: f, path: path}, nil
}

// Finish names the file or, where err says that writing it failed, removes what was written.
func (f *File) Finish(err error) error {
	if f.path == "" {
		return errors.Join(err, f.Close())
	}
	if err == nil {
		err = f.Sync()
	}
	// Both happen while the file is claimed: afterwards the name may be another command's.
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error counts
	}
	return errors.Join(err, f.Close())
}
