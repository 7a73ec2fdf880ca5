package usage

import "testing"

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
