package blocks

import (
	"errors"
	"fmt"
)

// Sentinels that callers match with [errors.Is].
var (
	// ErrCorrupt marks every error about bytes that are not what was written.
	ErrCorrupt = errors.New("corrupt")
	// ErrFormatVersion marks a file of a format version that this build does not read.
	ErrFormatVersion = errors.New("unsupported format version")
	// ErrUnsupported marks a host that this package does not run on (big-endian).
	ErrUnsupported = errors.New("unsupported host")
	// ErrClosed is returned by calls on a [Writer] that was closed or aborted.
	ErrClosed = errors.New("block file closed")
	// ErrUnsorted is returned by encoders whose input is not in the promised order.
	ErrUnsorted = errors.New("input not sorted")
)

// CorruptError says which bytes are damaged and how that was noticed.
// errors.Is(err, ErrCorrupt) holds for it.
type CorruptError struct {
	Path   string // the block file; "" where only bytes were given
	Extent string // what of it: "header", "footer", "topology 3", "feature x 12", …
	Offset int64  // first byte of the damaged structure in the file; -1 if unknown
	Reason string // what was found and what was expected
	Cause  error  // what a library made of it; nil if there is none
}

// Error names the file, the extent, the offset and the reason.
func (e *CorruptError) Error() string {
	path := e.Path
	if path == "" {
		path = "block file"
	}
	if e.Offset < 0 {
		return fmt.Sprintf("%s: %s is corrupt: %s", path, e.Extent, e.Reason)
	}
	return fmt.Sprintf("%s: %s at byte %d is corrupt: %s", path, e.Extent, e.Offset, e.Reason)
}

// Unwrap returns Cause.
func (e *CorruptError) Unwrap() error { return e.Cause }

// Is reports whether target is [ErrCorrupt].
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// corruptf makes a CorruptError without a path; callers who know path, extent or
// offset fill them in with locate.
func corruptf(extent string, offset int64, format string, args ...any) *CorruptError {
	return &CorruptError{Extent: extent, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// locate adds file and extent to a corruption that a decoder found in bytes;
// base is the file offset of those bytes. Other errors pass through.
func locate(err error, path, extent string, base int64) error {
	var c *CorruptError
	if !errors.As(err, &c) {
		return err
	}
	out := *c
	if out.Path == "" {
		out.Path = path
	}
	if extent != "" {
		if out.Extent != "" {
			out.Extent = extent + ", " + out.Extent
		} else {
			out.Extent = extent
		}
	}
	if out.Offset >= 0 {
		out.Offset += base
	}
	return &out
}
