//go:build unix

package train

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// usage is what the process had used when a run began.
type usage struct{ cpu float64 }

func startUsage() usage { return usage{cpuSeconds()} }

// into sets CPU seconds since the start and the process's peak memory.
func (u usage) into(s *Summary) {
	s.CPUSeconds = cpuSeconds() - u.cpu
	s.PeakRSSBytes = peakRSS()
}

func cpuSeconds() float64 {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

// peakRSS returns the most resident memory so far, in bytes: VmHWM where there
// is /proc, because ru_maxrss counts a parent's memory before exec.
func peakRSS() int64 {
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
