package usage

import (
	"slices"
	"testing"
)

// What is used is counted, and memory that was touched is in the peak.
func TestUsage(t *testing.T) {
	cpu := CPUSeconds()
	b := make([]byte, 64<<20)
	for i := range b {
		b[i] = byte(i)
	}
	if now := CPUSeconds(); now <= cpu || cpu <= 0 {
		t.Errorf("%g s after %g s", now, cpu)
	}
	if peak := PeakRSSBytes(); peak < int64(len(b)) {
		t.Errorf("a peak of %d bytes with %d touched", peak, len(b))
	}
}

// The limit of memory is looked for in the process's cgroups and in those around them, of either version.
func TestLimitFiles(t *testing.T) {
	got := limitFiles("/c", []byte("4:cpu,memory:/a/b\n3:cpuset:/x\n0::/u\nstrange\n"))
	want := []string{"/c/memory/a/b/memory.limit_in_bytes", "/c/memory/a/memory.limit_in_bytes", "/c/memory/memory.limit_in_bytes",
		"/c/u/memory.max", "/c/memory.max", "/c/memory.max", "/c/memory/memory.limit_in_bytes"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
	if n, _ := AllowedBytes(); n < 64<<20 || n > 1<<50 {
		t.Errorf("%d bytes are allowed", n)
	}
}
