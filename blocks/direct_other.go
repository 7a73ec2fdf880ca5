//go:build !linux

package blocks

import "errors"

func setDirect(uintptr, bool) error { return errors.ErrUnsupported }
