package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/gputest"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

func trainNode(ctx context.Context, t *testing.T, dir string, c config.Config, h Hooks) (*Checkpoint, error) {
	t.Helper()
	return trainNodeOn(ctx, t, hostDevice(t), dir, c, h)
}

func trainNodeOn(ctx context.Context, t *testing.T, dev gpu.Device, dir string, c config.Config, h Hooks) (*Checkpoint, error) {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	return Node(ctx, st, dev, c, h)
}

// brokenOff trains until a mini-batch of an epoch, counted from 0, is over, and goes on from there in a second run.
func brokenOff(t *testing.T, dir string, c config.Config, h Hooks, epoch int, batches int64) *Checkpoint {
	t.Helper()
	c.CheckpointFile, c.CheckpointEvery = dir+"/run", "0"
	ctx, cancel := context.WithCancel(t.Context())
	first := h
	first.Batch = func(e int, b int64) {
		if e == epoch && b == batches {
			cancel()
		}
	}
	if _, err := trainNode(ctx, t, dir, c, first); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	c.Resume = true
	cp, err := trainNode(t.Context(), t, dir, c, h)
	if err != nil {
		t.Fatal(err)
	}
	return cp
}

// outcome is what a run leaves that is no time: its model, which is the best epoch's, and what was counted.
func outcome(cp *Checkpoint) string {
	s := &cp.Summary
	return fmt.Sprint(cp.Params, s.TestAccuracy, s.ValidAccuracy, s.BestEpoch, s.TrainLoss, s.Batches, s.SampledEdges, len(s.EpochSeconds), s.Choices)
}

// A run that is broken off after any mini-batch and resumed, again and again, ends with the bits of one that was not, also
// where every other part of it issues mini-batches ahead.
func TestNodeResumes(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 600, Edges: 5000, Partitions: 8, Relations: 3}))
	for name, c := range map[string]config.Config{
		"memory, batch norm":    {Plan: "memory", Norm: "batch"},
		"rows":                  {Plan: "rows", RowReads: config.RowsCached},
		"rows, packed":          {Plan: "rows", RowReads: config.RowsPacked},
		"hanoi, fixed passes":   {Plan: "hanoi", Buffer: 3, Reuse: 1},
		"hanoi, history":        {Plan: "hanoi", Buffer: 2, History: true},
		"relations, history":    {Plan: "hanoi", Buffer: 2, History: true, Model: "rsage"},
		"gcn, history":          {Plan: "hanoi", Buffer: 2, History: true, Model: "gcn"},
		"rows, accumulated":     {Plan: "rows", RowReads: config.RowsCached, Accumulate: 3},
		"memory, accumulated":   {Plan: "memory", Accumulate: 2},
		"cosine":                {Plan: "rows", RowReads: config.RowsCached, LRSchedule: config.ScheduleCosine},
		"plateau":               {Plan: "memory", LRSchedule: config.SchedulePlateau, Epochs: 16},
		"trainnodes, rare eval": {Plan: "trainnodes", Buffer: 8, EvalEvery: 3},
	} {
		t.Run(name, func(t *testing.T) {
			c.Hidden, c.BatchSize, c.Epochs, c.Split, c.Threads, c.Seed = 8, 20, max(c.Epochs, 5), "split", 1, 3
			whole, err := trainNode(t.Context(), t, dir, c, Hooks{})
			if err != nil {
				t.Fatal(err)
			}
			c.CheckpointFile, c.CheckpointEvery, c.Threads = filepath.Join(t.TempDir(), "run.gsr"), "4steps", 2
			rng := rand.New(rand.NewPCG(11, 1))
			broken, middle := 0, 0
			for {
				ctx, cancel := context.WithCancel(t.Context())
				left := (5 + rng.IntN(9)) / max(1, c.Accumulate)
				c.Resume = broken > 0
				dev := hostDevice(t)
				if broken%2 == 1 {
					dev = gputest.Ahead{Device: dev}
				}
				cp, err := trainNodeOn(ctx, t, dev, dir, c, Hooks{
					Batch: func(int, int64) {
						if left--; left == 0 {
							cancel()
						}
					},
					Checkpoint: func(_, _, batch int) {
						if batch > 0 {
							middle++
						}
					},
				})
				cancel()
				if err == nil {
					if got, want := outcome(cp), outcome(whole); got != want {
						t.Errorf("the resumed run ends with %s, expected %s", got, want)
					}
					if got, want := cp.Config.Vectors, whole.Config.Vectors; got != want { // which the model's file and its description say
						t.Errorf("the resumed run's configuration has vectors %q, expected %q", got, want)
					}
					if cp.Summary.Resumed != c.Resume {
						t.Errorf("summary %+v", cp.Summary)
					}
					break
				}
				if !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				if broken++; broken > 100 {
					t.Fatal("no end")
				}
			}
			if broken < 3 || middle < 3 {
				t.Errorf("broken off %d times, %d checkpoints in the middle of an epoch", broken, middle)
			}
			// A finished run is trained further, like one that was to be longer from the start.
			c.Epochs, c.Resume = c.Epochs+2, true
			longer, err := trainNode(t.Context(), t, dir, c, Hooks{})
			if c.LRSchedule == config.ScheduleCosine { // which was at 0 at the end
				if err == nil || !strings.Contains(err.Error(), "epoch 5, not 7") {
					t.Errorf("two epochs more of a rate that falls to 0: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c.CheckpointFile, c.Resume, c.CheckpointEvery = "", false, ""
			want, err := trainNode(t.Context(), t, dir, c, Hooks{})
			if err != nil {
				t.Fatal(err)
			}
			if longer.Summary.TrainLoss != want.Summary.TrainLoss {
				t.Errorf("loss %v after two epochs more, expected %v", longer.Summary.TrainLoss, want.Summary.TrainLoss)
			}
		})
	}
}

// What a run is resumed with must be what it began with, on the version of the store that it began on; a damaged file is named.
func TestNodeResumeRefused(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 200, Edges: 1000, Partitions: 4}))
	file := filepath.Join(t.TempDir(), "run.gsr")
	c := config.Config{Hidden: 8, Epochs: 1, Split: "split", CheckpointFile: file, Fanouts: []int{7, 5}, Layers: 2}
	if _, err := trainNode(t.Context(), t, dir, c, Hooks{}); err != nil {
		t.Fatal(err)
	}
	if _, err := trainNode(t.Context(), t, dir, config.Config{Resume: true}, Hooks{}); err == nil || !strings.Contains(err.Error(), "needs a file of checkpoints") {
		t.Errorf("no file: %v", err)
	}
	for _, bad := range []config.Config{{Hidden: 16}, {Model: "gcn"}, {Seed: 1}, {LR: .5}, {Fanouts: []int{8, 5}}, {EvalEvery: 2}, {History: true}} {
		bad.CheckpointFile, bad.Resume = file, true
		if _, err := trainNode(t.Context(), t, dir, bad, Hooks{}); err == nil || !strings.Contains(err.Error(), "the run began with") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	var started config.Config
	c.Resume, c.Epochs, c.Threads = true, 2, 1
	cp, err := trainNode(t.Context(), t, dir, c, Hooks{Start: func(c config.Config) { started = c }})
	if err != nil || len(cp.Summary.EpochSeconds) != 2 || started.Hidden != 8 || len(started.Fanouts) != 2 {
		t.Fatalf("the flags that it began with: %v, started as %+v", err, started)
	}

	wide := config.Config{Epochs: 1, Split: "split", CheckpointFile: filepath.Join(t.TempDir(), "wide.gsr"), Plan: "hanoi", Buffer: 9} // of 4 partitions
	for range 2 {
		if _, err := trainNode(t.Context(), t, dir, wide, Hooks{}); err != nil {
			t.Fatalf("a buffer of more partitions than there are, resumed %t: %v", wide.Resume, err)
		}
		wide.Resume = true
	}

	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, 20, len(b) / 2, len(b) - 1} {
		damaged := bytes.Clone(b)
		damaged[at] ^= 1
		if err := os.WriteFile(file, damaged, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := trainNode(t.Context(), t, dir, c, Hooks{}); !errors.Is(err, blocks.ErrCorrupt) {
			t.Errorf("byte %d damaged: %v", at, err)
		}
	}
	if err := os.WriteFile(file, b, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := precompute.Hop(t.Context(), dir, hostDevice(t), precompute.Options{}); err != nil { // another version
		t.Fatal(err)
	}
	if _, err := trainNode(t.Context(), t, dir, c, Hooks{}); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("another version of the store: %v", err)
	}
}

// TestCheckpointsOfRunsAhead: a checkpoint holds what was trained until its place, also where a mini-batch was in flight when it was due.
func TestCheckpointsOfRunsAhead(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Edges: 2000, Partitions: 4}))
	c := config.Config{Hidden: 8, BatchSize: 20, Epochs: 2, Split: "split", Threads: 1, Seed: 3}
	whole, err := trainNode(t.Context(), t, dir, c, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	c.CheckpointFile, c.CheckpointEvery = filepath.Join(folder, "run.gsr"), "2steps"
	var kept []string
	_, err = trainNodeOn(t.Context(), t, gputest.Ahead{Device: hostDevice(t)}, dir, c, Hooks{Checkpoint: func(_, _, batch int) {
		if batch > 0 && len(kept) < 3 {
			b, err := os.ReadFile(c.CheckpointFile)
			kept = append(kept, filepath.Join(folder, fmt.Sprint(len(kept))))
			if err = errors.Join(err, os.WriteFile(kept[len(kept)-1], b, 0o666)); err != nil {
				t.Error(err)
			}
		}
	}})
	if err != nil || len(kept) < 3 {
		t.Fatalf("%d checkpoints in the middle of an epoch: %v", len(kept), err)
	}
	c.Resume = true
	for i, file := range kept {
		c.CheckpointFile = file
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := outcome(cp), outcome(whole); got != want {
			t.Errorf("checkpoint %d: the run ends with %s, expected %s", i, got, want)
		}
	}
}

// TestResumeWithOtherMemory: a run of a model of relations with a history goes on with another budget to the bits of one without a break.
func TestResumeWithOtherMemory(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Edges: 2000, Partitions: 8, Relations: 2}))
	for _, model := range []string{"rsage", "rgcn"} {
		c := config.Config{Model: model, Plan: "hanoi", Buffer: 2, History: true, Hidden: 8, BatchSize: 50, Epochs: 2, Split: "split", Threads: 1}
		whole, err := trainNode(t.Context(), t, dir, c, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		c.CheckpointFile, c.Epochs = filepath.Join(t.TempDir(), "run.gsr"), 1
		if _, err := trainNode(t.Context(), t, dir, c, Hooks{}); err != nil {
			t.Fatal(err)
		}
		c.Resume, c.Epochs, c.MemoryBytes = true, 2, 1<<30
		resumed, err := trainNode(t.Context(), t, dir, c, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := outcome(resumed), outcome(whole); got != want {
			t.Errorf("%s: resumed with another budget the run ends with %s, expected %s", model, got, want)
		}
	}
}
