package progress

import (
	"slices"
	"testing"
	"time"
)

// An interval begins anew when what it is for was done, whenever that was.
func TestClock(t *testing.T) {
	due := func(every Interval, resetAt int) (at []int) {
		c := NewClock(every)
		for k := 1; k <= 12; k++ {
			if c.Batch() || k == resetAt {
				at = append(at, k)
				c.Reset()
			}
		}
		return at
	}
	if got := due(Interval{Batches: 3}, 0); !slices.Equal(got, []int{3, 6, 9, 12}) {
		t.Errorf("every 3 batches: %v", got)
	}
	if got := due(Interval{Batches: 5}, 2); !slices.Equal(got, []int{2, 7, 12}) { // an epoch's end came between
		t.Errorf("every 5 batches, and after the second: %v", got)
	}
	if got := due(Interval{Time: time.Hour}, 0); len(got) > 0 {
		t.Errorf("every hour: %v", got)
	}
	if got := due(Interval{Time: time.Nanosecond}, 0); len(got) < 6 {
		t.Errorf("every nanosecond: %v", got)
	}
	if got := due(Interval{Epochs: 1}, 0); len(got) > 0 {
		t.Errorf("every epoch, in the middle of one: %v", got)
	}
	c := NewClock(Interval{Epochs: 3})
	for n, want := range []bool{true, false, false, true} {
		if c.Epoch(n) != want {
			t.Errorf("every 3 epochs, after %d: %v", n, !want)
		}
	}
}
