//go:build unix

// Package usage says what this process has used of the machine: processor time and memory.
package usage

import (
	"bytes"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// CPUSeconds returns what the process has used so far, user and system, of all threads.
func CPUSeconds() float64 {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

// PeakRSSBytes returns the most resident memory so far: VmHWM where there is /proc, because ru_maxrss
// counts a parent's memory before exec. 0 if it is not known.
func PeakRSSBytes() int64 {
	if b, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range bytes.Lines(b) {
			if f := bytes.Fields(line); len(f) == 3 && string(f[0]) == "VmHWM:" {
				if kib, err := strconv.ParseInt(string(f[1]), 10, 64); err == nil {
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
