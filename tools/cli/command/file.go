package command

import (
	"errors"
	"os"
)

// File is a file that a command writes. It lies under path.partial and gets its name once it is whole and durable, so
// that what was there stays until then. Its Finish must be called.
type File struct {
	*os.File
	path string
}

// NewFile begins the file of that name. That it is a folder is a usage error.
func NewFile(path string) (*File, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, Usagef("%s: it is a folder, expected a file", path)
	}
	f, err := os.Create(path + ".partial")
	if err != nil {
		return nil, err
	}
	return &File{File: f, path: path}, nil
}

// Finish names the file or, where err says that writing it failed, removes what was written.
func (f *File) Finish(err error) error {
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error counts
	}
	return err
}
