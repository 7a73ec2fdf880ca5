package train

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store/storetest"
)

// TestMore: a run without a number of epochs ends by its validations, and one with a number does not ask them.
func TestMore(t *testing.T) {
	for _, c := range []struct {
		cfg    config.Config
		best   int
		fell   int // the epoch of the least loss
		blind  bool
		epochs int // after so many
		more   bool
	}{
		{config.Config{Epochs: 5, Patience: 1}, 1, 0, false, 4, true},
		{config.Config{Epochs: 5, Patience: 1}, 1, 0, false, 5, false},
		{config.Config{Patience: 3}, 7, 0, false, 9, true},
		{config.Config{Patience: 3}, 7, 0, false, 10, false},
		{config.Config{Patience: 3}, 7, 9, false, 11, true}, // the loss fell after it
		{config.Config{Patience: 3}, 7, 9, false, 12, false},
		{config.Config{Patience: 3}, 7, 5, false, 10, false},
		{config.Config{Patience: 3, EvalEvery: 4}, 8, 0, false, 11, true}, // the validation after epoch 12 may be better
		{config.Config{Patience: 3, EvalEvery: 4}, 8, 0, false, 12, false},
		{config.Config{Patience: 3}, 0, 0, false, 50, true}, // nothing was validated yet
		{config.Config{Patience: 3}, 1, 0, true, 99, true},
		{config.Config{Patience: 3}, 1, 0, true, run.EpochsBlind, false},
		{config.Config{Patience: 3}, run.EpochsMax, 0, false, run.EpochsMax, false},
		{config.Config{Patience: 9, ReusePasses: make([][]int, 4)}, 1, 0, false, 4, false},
	} {
		c.cfg.EvalEvery = max(1, c.cfg.EvalEvery)
		r := ruleOf(&c.cfg)
		r.Best, r.Fell, r.Blind = c.best, c.fell, c.blind
		if got := r.More(c.epochs); got != c.more {
			t.Errorf("epochs %d, patience %d, best %d, least loss %d, blind %v: more after %d is %v", c.cfg.Epochs, c.cfg.Patience, c.best, c.fell, c.blind, c.epochs, got)
		}
	}
}

// TestUnfinished: a checkpoint is of a run to go on with where something was trained and more was to be.
func TestUnfinished(t *testing.T) {
	for p, want := range map[Position]bool{{}: false, {Finished: 1}: true, {Batches: 1}: true, {Finished: 3, Ended: true}: false, {Finished: 3, Batches: 2}: true} {
		if got := p.Unfinished(); got != want {
			t.Errorf("%+v is unfinished: %v", p, got)
		}
	}
}

// TestPositionEnds: the checkpoints of a run say that more is to come, and the last one that nothing is.
func TestPositionEnds(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 100, Partitions: 2}))
	c := config.Config{Hidden: 4, BatchSize: 50, Split: "split", Threads: 1, Epochs: 2, CheckpointFile: t.TempDir() + "/last"}
	var at []Position
	hooks := Hooks{Checkpoint: func(int, int, int) {
		p, err := ReadPosition(vfs.Default, c.CheckpointFile)
		if err != nil {
			t.Error(err)
		}
		at = append(at, p)
	}}
	if _, err := trainNode(t.Context(), t, dir, c, hooks); err != nil {
		t.Fatal(err)
	}
	for i, p := range at {
		if last := i == len(at)-1; p.Ended != last || p.Finished == 2 != last {
			t.Errorf("checkpoint %d of %d: %+v", i+1, len(at), p)
		}
	}
	if len(at) < 2 {
		t.Errorf("checkpoints at %+v, expected one after each epoch", at)
	}
}

// TestCheckpointFails: a checkpoint that cannot be written ends the run, and the error says after which epoch.
func TestCheckpointFails(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 100, Partitions: 2}))
	folder := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	c := config.Config{Hidden: 4, BatchSize: 50, Split: "split", Threads: 1, Epochs: 3, CheckpointFile: filepath.Join(folder, "last")}
	_, err := trainNode(t.Context(), t, dir, c, Hooks{Epoch: func(e Epoch) {
		if e.Epoch == 2 {
			_ = os.RemoveAll(folder)
		}
	}})
	if err == nil || !strings.Contains(err.Error(), "epoch 3: checkpoint") { // epoch 2 has been told of when it is kept
		t.Errorf("%v, expected an error of the checkpoint after epoch 3", err)
	}
}

// TestNodeStops: by default a run ends Patience epochs after its best one, which it returns to; a resumed run that ended
// trains no further.
func TestNodeStops(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Edges: 2000, Partitions: 4}))
	c := config.Config{Hidden: 8, BatchSize: 50, Split: "split", Threads: 1, Patience: 3, CheckpointFile: t.TempDir() + "/last"}
	epochs := 0
	hooks := Hooks{Epoch: func(Epoch) { epochs++ }}
	cp, err := trainNode(t.Context(), t, dir, c, hooks)
	if err != nil {
		t.Fatal(err)
	}
	if want := max(cp.Summary.BestEpoch, cp.Summary.LeastLossEpoch) + 3; epochs != want {
		t.Errorf("%d epochs, expected %d: three after the best, and after the least loss", epochs, want)
	}
	if s := cp.Summary; s.LeastLossEpoch < 1 || s.LeastLossEpoch > epochs || !(s.LeastLoss > 0) {
		t.Errorf("least validation loss %v after epoch %d of %d", s.LeastLoss, s.LeastLossEpoch, epochs)
	}
	before := outcome(cp)
	c.Resume = true
	epochs = 0
	if cp, err = trainNode(t.Context(), t, dir, c, hooks); err != nil {
		t.Fatal(err)
	}
	if epochs != 0 || outcome(cp) != before {
		t.Errorf("resumed after its end: %d more epochs, %s, before %s", epochs, outcome(cp), before)
	}
}
