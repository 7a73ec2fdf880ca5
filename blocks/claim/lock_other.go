//go:build !linux && !darwin

package claim

import "os"

// lock grants every claim: other systems lack open-file-description locks.
func lock(*os.File) error { return nil }
