package blocks

import (
	"errors"
	"io/fs"
	"os"
)

// Unnamed makes a temporary file in dir, of a name that begins with prefix while it has one. It is gone when it is closed, whatever ends
// the process.
func Unnamed(dir, prefix string) (*os.File, error) {
	f, err := os.CreateTemp(dir, prefix+"*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) { // a writer of the store may have swept it just now
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
