package blocks

import (
	"errors"
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
