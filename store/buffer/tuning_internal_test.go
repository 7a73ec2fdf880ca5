package buffer

import (
	"testing"
	"time"

	"github.com/gstore/gstore/blocks/blockio"
)

// TestTuneByDevice turns a device's figures into the planner's.
func TestTuneByDevice(t *testing.T) {
	for _, c := range []struct {
		cost          time.Duration
		bandwidth     float64
		split         int
		gap, request  int64
		givenGap      int64
		givenRequests int64
	}{
		{cost: 13 * time.Microsecond, bandwidth: 3e9, split: 1 << 20, gap: 32 << 10, request: 1 << 20}, // 38 KiB
		{cost: 60 * time.Microsecond, bandwidth: 3e9, split: 256 << 10, gap: 128 << 10, request: 256 << 10},
		{cost: 5 * time.Millisecond, bandwidth: 2e8, split: 4 << 20, gap: 1 << 20, request: 4 << 20}, // a spinning disk
		{cost: time.Nanosecond, bandwidth: 1e9, split: 4096, gap: 4 << 10, request: 64 << 10},
		{cost: 13 * time.Microsecond, bandwidth: 3e9, split: 1 << 20, gap: -1, request: 128 << 10, givenGap: -5, givenRequests: 128 << 10},
	} {
		o := Options{GapBytes: c.givenGap, RequestBytes: c.givenRequests}
		got := o.tune(&blockio.Calibration{Measured: true, RequestCost: c.cost, BytesPerSecond: c.bandwidth, Options: blockio.Options{Depth: 7, SplitBytes: c.split}})
		if got.GapBytes != c.gap || got.RequestBytes != c.request || got.Depth != 7 {
			t.Errorf("%v at %.0f B/s: %+v, expected a gap of %d and requests of %d", c.cost, c.bandwidth, got, c.gap, c.request)
		}
	}
}
