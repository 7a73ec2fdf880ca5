package progress

import (
	"testing"
	"time"
)

// TestParseInterval: epochs, mini-batches and times are told apart, and what is none is refused.
func TestParseInterval(t *testing.T) {
	for text, want := range map[string]Interval{"0": {}, "3": {Epochs: 3}, "1steps": {Batches: 1}, "500steps": {Batches: 500}, "10m": {Time: 10 * time.Minute}, "1.5s": {Time: 1500 * time.Millisecond}} {
		if got, err := ParseInterval(text); err != nil || got != want || !IsInterval(text) {
			t.Errorf("%s: %+v, %v; expected %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "0steps", "-2steps", "steps", "xsteps", "0s", "-3m", "m", "3 epochs"} {
		if got, err := ParseInterval(text); err == nil || IsInterval(text) {
			t.Errorf("%q was taken for %+v", text, got)
		}
	}
}
