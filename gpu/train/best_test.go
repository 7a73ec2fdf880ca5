package train

import (
	"testing"

	"github.com/gstore/gstore/gpu/eval/evaltest"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
)

// TestBestByValidation: validation chooses the epoch, not the test set, and the run returns to that epoch's parameters.
// Labels of test nodes are changed, so that test accuracy falls while validation rises, and a large learning rate makes
// the last epoch worse than the best one.
func TestBestByValidation(t *testing.T) {
	g := evaltest.Random(t, 600, 3, true)
	for v, s := range g.Split {
		if s == store.SplitTest {
			g.Labels[v] = (g.Labels[v] + 1) % 5
		}
	}
	s, epochs := runMemory(t, g, config.Config{Hidden: 8, Epochs: 30, BatchSize: 50, LR: .1, Seed: 3, Threads: 1}, 0)
	best, bestTest := epochs[0], epochs[0]
	for _, e := range epochs {
		if e.Best != (e.Epoch == 1 || e.ValidAccuracy > best.ValidAccuracy) {
			t.Errorf("epoch %d: best is %v, validation %v, before %v", e.Epoch, e.Best, e.ValidAccuracy, best.ValidAccuracy)
		}
		if e.ValidAccuracy > best.ValidAccuracy {
			best = e
		}
		if e.TestAccuracy > bestTest.TestAccuracy {
			bestTest = e
		}
	}
	last := epochs[len(epochs)-1]
	if best.Epoch == bestTest.Epoch || best.ValidAccuracy == last.ValidAccuracy {
		t.Fatalf("the best epoch is %d by validation and %d by test, accuracy %v, of the last one %v: they must differ for this test to see", best.Epoch, bestTest.Epoch, best.ValidAccuracy, last.ValidAccuracy)
	}
	if s.BestEpoch != best.Epoch || s.ValidAccuracy != best.ValidAccuracy || s.TestAccuracy != best.TestAccuracy {
		t.Errorf("the run ends with epoch %d, accuracies %v and %v; the best validation is epoch %d, %v and %v", s.BestEpoch, s.ValidAccuracy, s.TestAccuracy, best.Epoch, best.ValidAccuracy, best.TestAccuracy)
	}
}
