package train

import (
	"reflect"
	"testing"

	"github.com/gstore/gstore/gpu/eval/evaltest"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/macro"
)

// reuseRun trains three epochs in memory with steps whose passes are open, the next
// macro-batch ready or not.
func reuseRun(t *testing.T, g *evaltest.Graph, pending bool, replay [][]int) []Epoch {
	t.Helper()
	g.Pending, g.Reuse = pending, true
	_, epochs := runMemory(t, g, config.Config{Hidden: 8, Epochs: 3, BatchSize: 100, LR: .01, Seed: 3, Threads: 1, Reuse: macro.ReuseAuto, ReusePasses: replay}, 0)
	return epochs
}

// TestReuseWhilePending: a macro-batch is trained once more as long as the next is not in memory, never
// more than ReuseMax times; what was taken is recorded, and repeats the run to the bit though timing differs.
func TestReuseWhilePending(t *testing.T) {
	g := evaltest.Random(t, 1000, 3, true)
	once, most := reuseRun(t, g, false, nil), reuseRun(t, g, true, nil)
	for e := range once {
		if !reflect.DeepEqual(once[e].Passes, []int{1}) || !reflect.DeepEqual(most[e].Passes, []int{1 + macro.ReuseMax}) {
			t.Errorf("epoch %d: %v passes with the next step in memory, %v without; expected 1 and %d", e+1, once[e].Passes, most[e].Passes, 1+macro.ReuseMax)
		}
		if most[e].Batches != (1+macro.ReuseMax)*once[e].Batches {
			t.Errorf("epoch %d: %d batches in %d passes, %d in one", e+1, most[e].Batches, 1+macro.ReuseMax, once[e].Batches)
		}
	}
	again := reuseRun(t, g, false, [][]int{{5}, {5}, {5}})
	for e := range most {
		if again[e].Loss != most[e].Loss || !reflect.DeepEqual(again[e].Passes, most[e].Passes) {
			t.Errorf("epoch %d: loss %v in passes %v, repeated %v in %v", e+1, most[e].Loss, most[e].Passes, again[e].Loss, again[e].Passes)
		}
	}
}
