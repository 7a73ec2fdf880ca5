package progress

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Interval says how often something is done: every so many epochs, mini-batches or so
// much time, whichever is set; the zero value is never.
type Interval struct {
	Epochs  int
	Batches int64
	Time    time.Duration
}

// Intervals says what [ParseInterval] reads.
const Intervals = "epochs such as 1, mini-batches such as 500steps, a time such as 10m, or 0"

// IsInterval reports whether [ParseInterval] reads s.
func IsInterval(s string) bool {
	_, err := ParseInterval(s)
	return err == nil
}

// ParseInterval reads "3" (epochs), "500steps" (mini-batches) or "10m" (time); "0" is never.
func ParseInterval(s string) (Interval, error) {
	bad := fmt.Errorf("%q is no interval: expected %s", s, Intervals)
	if n, err := strconv.Atoi(s); err == nil {
		if n < 0 {
			return Interval{}, bad
		}
		return Interval{Epochs: n}, nil
	}
	if text, ok := strings.CutSuffix(s, "steps"); ok {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return Interval{}, bad
		}
		return Interval{Batches: n}, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return Interval{}, bad
	}
	return Interval{Time: d}, nil
}

// Clock tells when an interval is over.
type Clock struct {
	every   Interval
	batches int64 // since the last time
	last    time.Time
}

// NewClock begins an interval.
func NewClock(every Interval) *Clock { return &Clock{every: every, last: time.Now()} }

// Batch counts a mini-batch and reports whether it is time.
func (c *Clock) Batch() bool {
	c.batches++
	return c.every.Batches > 0 && c.batches >= c.every.Batches || c.every.Time > 0 && time.Since(c.last) >= c.every.Time
}

// Epoch reports whether it is time after epoch n, counted from 1.
func (c *Clock) Epoch(n int) bool { return c.every.Epochs > 0 && n%c.every.Epochs == 0 }

// Reset begins another interval.
func (c *Clock) Reset() { c.batches, c.last = 0, time.Now() }
