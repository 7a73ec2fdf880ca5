package bench

import (
	"os"
	"runtime/debug"

	"github.com/gstore/gstore/blocks/usage"
)

// residentPeak starts to watch this process's resident memory, after garbage is given back; the function
// it returns says the most since, in bytes, or 0 where the system keeps no such mark (Linux does).
func residentPeak() func() int64 {
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // resets the mark
		return func() int64 { return 0 }
	}
	return usage.PeakRSSBytes
}
