package bench

import (
	"context"
	"testing"
	"time"
)

// TestChildEnds: an interrupt ends a trainer's process that does not hear it.
func TestChildEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	var run EpochRun
	if _, _, err := runChild(ctx, []string{"sh", "-c", `trap "" INT; while :; do :; done`}, 0, &run); err == nil {
		t.Error("no error")
	}
	if took := time.Since(start); took > 10*interruptGrace {
		t.Errorf("it took %v to end", took)
	}
}
