package eval

import (
	"math"
	"testing"
)

// TestCalibration compares with an error computed by hand, edges of parts included.
func TestCalibration(t *testing.T) {
	var c Calibration
	if !math.IsNaN(c.Error()) {
		t.Errorf("error of no predictions %v, expected none", c.Error())
	}
	for _, x := range []struct {
		p     float32
		right bool
	}{{1, true}, {1, true}, {.97, false}, {.5, true}, {.52, false}, {0, false}, {float32(math.NaN()), true}} {
		c.add(x.p, x.right)
	}
	// Parts [14/15, 1]: 2.97 sure, 2 right; [7/15, 8/15): 1.02 sure, 1 right; [0, 1/15): nothing sure, none right.
	if want := (.97 + .02 + 0) / 6; math.Abs(c.Error()-want) > 1e-6 {
		t.Errorf("error %v, expected %v", c.Error(), want)
	}
	if c.Count != [CalibrationBins]int64{0: 1, 7: 2, 14: 3} {
		t.Errorf("parts have %v", c.Count)
	}
	if sure, right := c.Bin(7); math.Abs(sure-.51) > 1e-6 || right != .5 {
		t.Errorf("part 7: probability %v, right %v", sure, right)
	}
}
