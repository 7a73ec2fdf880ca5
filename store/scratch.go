package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/gstore/gstore/store/internal/meta"
)

// ScratchDir is the operating system's directory for temporary files of what works on the store, such as an evaluation
// whose states exceed its memory: [Options.Scratch], or else tmp/ in the store, whose disk is known to be large. Where
// nothing can be written there, as in a store on a read-only file system or one that is not the operating system's, it
// is the system's temporary directory ($TMPDIR), which may be memory.
//
// Files there should be unlinked as soon as they are open: whatever ends the process, they are gone. A writer that
// begins sweeps tmp/.
func (s *Store) ScratchDir() string {
	if s.scratch != "" {
		return s.scratch
	}
	if _, err := os.Stat(s.env.Path(meta.LockName)); err == nil { // it lies in the operating system's files
		tmp := s.env.Path(meta.TempName)
		if err := os.Mkdir(tmp, 0o777); err == nil || errors.Is(err, fs.ErrExist) {
			if f, err := os.CreateTemp(tmp, "probe-*"); err == nil {
				_, _ = f.Close(), os.Remove(f.Name())
				return tmp
			}
		}
	}
	return os.TempDir()
}

// checkScratch refuses a directory for temporary files that is not there, before anything is computed.
func checkScratch(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: there is no directory %s for temporary files: make it", ErrInvalid, dir)
	case err != nil:
		return fmt.Errorf("directory for temporary files: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%w: %s, for temporary files, is not a directory", ErrInvalid, dir)
	}
	return nil
}
