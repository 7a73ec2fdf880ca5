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
)

// CorruptError says which bytes are damaged and how that was noticed.
// errors.Is(err, ErrCorrupt) holds for it.
type CorruptError struct {
	Path   string // the block file
	Extent string // what of it: "header", "footer", "topology 3", "feature x 12", …
	Offset int64  // first byte of the damaged structure in the file; -1 if unknown
	Reason string // what was found and what was expected
}

// Error names the file, the extent, the offset and the reason.
func (e *CorruptError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("%s: %s is corrupt: %s", e.Path, e.Extent, e.Reason)
	}
	return fmt.Sprintf("%s: %s at byte %d is corrupt: %s", e.Path, e.Extent, e.Offset, e.Reason)
}

// Is reports whether target is [ErrCorrupt].
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }
