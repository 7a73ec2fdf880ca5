//go:build unix

package progress

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Usage is what the process had used when a run began.
type Usage struct{ cpu float64 }

// StartUsage begins to count.
func StartUsage() Usage { return Usage{CPUSeconds()} }

// CPUSeconds returns those since the start.
func (u Usage) CPUSeconds() float64 { return CPUSeconds() - u.cpu }

// CPUSeconds returns what the process has used so far, all threads together.
func CPUSeconds() float64 {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

// PeakRSS returns the most resident memory so far, in bytes: VmHWM where there
// is /proc, because ru_maxrss counts a parent's memory before exec.
func PeakRSS() int64 {
	if b, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
				if kib, err := strconv.ParseInt(f[1], 10, 64); err == nil {
					return kib << 10
				}
			}
		}
	}
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return r.Maxrss // bytes there
	}
	return r.Maxrss << 10
}
