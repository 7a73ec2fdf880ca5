package feed

import (
	"slices"
	"testing"

	"github.com/gstore/gstore/gpu/eval/evaltest"
	"github.com/gstore/gstore/store/buffer"
)

// TestPlansAreMadeOnce: what is announced and what is started share their steps, by which the partition buffer knows the plan.
func TestPlansAreMadeOnce(t *testing.T) {
	g := evaltest.Random(t, 300, 3, true)
	var made []int
	p := Plans{Make: func(e int) buffer.Plan { made = append(made, e); return g.Plan(e) }}
	for e := range 3 {
		now, next := p.Epoch(e), p.Epoch(e+1)
		if again := p.Epoch(e + 1); &again.Steps[0] != &next.Steps[0] || &now.Steps[0] == &next.Steps[0] {
			t.Errorf("epoch %d: the next epoch's steps are made again, or are this epoch's", e)
		}
	}
	if want := []int{0, 1, 2, 3}; !slices.Equal(made, want) {
		t.Errorf("plans made for epochs %v, expected %v", made, want)
	}
}
