package feed

import (
	"math"
	"testing"

	"github.com/gstore/gstore/store/buffer"
)

// TestLabelShift: by hand. Of the graph's 40 training nodes 10 are of class 0, 30 of class 1 and none of class 2.
func TestLabelShift(t *testing.T) {
	logShare := func(n float64) float64 { return math.Log((n + .5) / 41.5) }
	l := &LabelShift{Graph: []float64{logShare(10), logShare(30), logShare(0)}, Nodes: 40, counts: make([]float64, 3)}
	mb := &buffer.MacroBatch{Labels: []int32{0, 0, 0, 1, -1, 7}, Seeds: []uint32{0, 1, 2, 3, 4, 5}}
	l.Enter(mb)
	if len(l.Logits) != 3 {
		t.Fatalf("%d logits, expected one a class", len(l.Logits))
	}
	for c, share := range []float64{.75, .25, 0} { // of the seeds whose class is known
		want := math.Log(.9*share+.1*math.Exp(l.Graph[c])) - l.Graph[c]
		if got := float64(l.Logits[c]); math.Abs(got-want) > 1e-6 {
			t.Errorf("class %d: logit %v, expected %v", c, got, want)
		}
	}
	// A class that is as frequent in the step as in the graph is hardly moved, a rarer one loses, an absent one loses most.
	if l.Logits[0] <= 0 || l.Logits[1] >= 0 || l.Logits[2] >= l.Logits[1] {
		t.Errorf("logits %v for shares of 75, 25 and 0 %% where the graph has 25, 75 and 0", l.Logits)
	}
	mb.Seeds = make([]uint32, 40)
	if l.Enter(mb); len(l.Logits) != 0 {
		t.Errorf("a step with all training nodes is shifted by %v", l.Logits)
	}
	mb.Seeds = []uint32{4}
	if l.Enter(mb); len(l.Logits) != 0 {
		t.Errorf("a step without a known class is shifted by %v", l.Logits)
	}
}
