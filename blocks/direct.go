package blocks

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// WriteDirect writes b at the file's position, past the page cache where the file system can do so and b begins and ends at multiples of
// [Alignment], in memory too.
func WriteDirect(f *os.File, b []byte) error {
	direct := len(b)%Alignment == 0 && setDirect(f.Fd(), true) == nil
	n, err := f.Write(b)
	if n == 0 && direct && errors.Is(err, syscall.EINVAL) {
		if err := setDirect(f.Fd(), false); err != nil {
			return err
		}
		_, err = f.Write(b)
	}
	return err
}

// ReadDirect reads from a place in a file until b is full or the file ends, and returns how many bytes that is: past the page cache where the
// file system can do so, and b and the place begin and end at multiples of [Alignment], in memory too.
func ReadDirect(f *os.File, b []byte, at int64) (n int, err error) {
	direct := len(b)%Alignment == 0 && at%Alignment == 0 && setDirect(f.Fd(), true) == nil
	n, err = f.ReadAt(b, at)
	if n == 0 && direct && errors.Is(err, syscall.EINVAL) {
		if err := setDirect(f.Fd(), false); err != nil {
			return 0, err
		}
		n, err = f.ReadAt(b, at)
	}
	if errors.Is(err, io.EOF) || direct && n%Alignment != 0 && errors.Is(err, syscall.EINVAL) { // the last read was short: one from between two blocks is refused
		err = nil
	}
	return n, err
}
