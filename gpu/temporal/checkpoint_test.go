package temporal

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestResume: a run that is stopped after any epoch and resumed ends with the uninterrupted one's bits, and holds as many edges to the rule.
func TestResume(t *testing.T) {
	_, dir := toy(t, storetest.Options{Nodes: 120, Edges: 2000, Partitions: 3})
	st := storetest.Open(t, dir, store.Options{})
	train := func(cfg Config, hooks Hooks) *Checkpoint {
		t.Helper()
		cfg.Dim, cfg.BatchSize, cfg.Negatives, cfg.EvalEdges, cfg.Threads, cfg.TimeEncoding = 8, 100, 50, 100, 2, TimeLearned
		c, err := Train(t.Context(), st, hostDevice(t), cfg, hooks)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	whole := train(Config{Epochs: 4}, Hooks{})
	for _, stop := range []int{1, 3, 4} {
		file := filepath.Join(t.TempDir(), "run")
		train(Config{Epochs: stop, Running: options.Running{CheckpointFile: file}}, Hooks{})
		told := -1
		got := train(Config{Epochs: 4, Running: options.Running{CheckpointFile: file, Resume: true}}, Hooks{Resume: func(found bool, epochs, _, _ int) {
			if found {
				told = epochs
			}
		}})
		s, w := got.Summary, whole.Summary
		if told != stop || !bytes.Equal(got.Params, whole.Params) || s.Test != w.Test || s.Valid != w.Valid || s.BestEpoch != w.BestEpoch || len(s.EpochSeconds) != 4 {
			t.Errorf("resumed after epoch %d (told %d): %+v, uninterrupted %+v", stop, told, s, w)
		}
		if stop < 4 && s.CheckedEdges <= w.CheckedEdges/2 || !s.Resumed {
			t.Errorf("resumed after epoch %d: %d edges were held to the rule, uninterrupted %d", stop, s.CheckedEdges, w.CheckedEdges)
		}
		for cfg, want := range map[*Config]string{{LR: .5}: "lr", {Fanouts: []int{3}}: "fanouts", {Sampler: "temporal"}: "sampler"} {
			cfg.CheckpointFile, cfg.Resume = file, true
			if _, err := Train(t.Context(), st, hostDevice(t), *cfg, Hooks{}); err == nil || !strings.Contains(err.Error(), "the run began with "+want) {
				t.Errorf("resumed with %s of its own: %v", want, err)
			}
		}
	}
}

// TestInterrupted: a run that its context ends within an epoch, or that made a checkpoint there, goes on to the uninterrupted one's bits.
func TestInterrupted(t *testing.T) {
	_, dir := toy(t, storetest.Options{Nodes: 120, Edges: 2000, Partitions: 3})
	st := storetest.Open(t, dir, store.Options{})
	train := func(ctx context.Context, cfg Config, hooks Hooks) (*Checkpoint, []float64, error) {
		cfg.Dim, cfg.BatchSize, cfg.Negatives, cfg.EvalEdges, cfg.Threads, cfg.Epochs = 8, 100, 50, 100, 2, 2
		var losses []float64
		hooks.Epoch = func(r Epoch) { losses = append(losses, r.Loss) }
		c, err := Train(ctx, st, hostDevice(t), cfg, hooks)
		return c, losses, err
	}
	whole, want, err := train(t.Context(), Config{}, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	for _, stop := range []int{1, 5, 20} { // mini-batches, of 14 an epoch
		cfg := Config{Running: options.Running{CheckpointFile: filepath.Join(t.TempDir(), "run"), CheckpointEvery: "2steps"}}
		ctx, cancel := context.WithCancel(t.Context())
		seen, kept := 0, 0
		_, losses, err := train(ctx, cfg, Hooks{
			Batch: func(int, int64) {
				if seen++; seen == stop {
					cancel()
				}
			},
			Checkpoint: func(int, int, int) { kept++ },
		})
		cancel()
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "--resume goes on there") || kept == 0 {
			t.Fatalf("interrupted after %d: %v, %d checkpoints", stop, err, kept)
		}
		cfg.Resume = true
		got, after, err := train(t.Context(), cfg, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		if s, w := got.Summary, whole.Summary; !bytes.Equal(got.Params, whole.Params) || s.Test != w.Test || s.CheckedEdges != w.CheckedEdges || !slices.Equal(append(losses, after...), want) {
			t.Errorf("interrupted after %d: %+v, losses %v; uninterrupted %+v, %v", stop, s, append(losses, after...), w, want)
		}
	}
}

// checkAnswers: a node's answers are all candidates, the best first, in whatever company it is asked for, and the first of them are the best ones.
func checkAnswers(t *testing.T, st *store.Store, c *Checkpoint) {
	t.Helper()
	ask := func(top int, nodes ...store.NodeID) (all [][]Answer) {
		err := Predict(t.Context(), st, hostDevice(t), c, c.Config, nodes, top, func(i int, answers []Answer) error {
			if i != len(all) {
				t.Fatalf("answers to question %d after %d others", i, len(all))
			}
			all = append(all, slices.Clone(answers))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	both, turned, few := ask(1000, 3, 70), ask(1000, 70, 3, 70), ask(2, 3)
	if !slices.Equal(both[0], turned[1]) || !slices.Equal(both[1], turned[0]) || !slices.Equal(both[1], turned[2]) || !slices.Equal(few[0], both[0][:2]) || slices.Equal(both[0], both[1]) {
		t.Errorf("answers %v and %v, in another order %v, the two best %v", both[0], both[1], turned, few)
	}
	seen := map[store.NodeID]bool{}
	for i, a := range both[0] {
		if i > 0 && a.Score > both[0][i-1].Score || seen[a.Node] {
			t.Errorf("answer %d is %+v after %+v", i, a, both[0][:i])
		}
		seen[a.Node] = true
	}
	if len(seen) != len(c.Candidates) {
		t.Errorf("%d answers of %d candidates", len(seen), len(c.Candidates))
	}
	if err := Predict(t.Context(), st, hostDevice(t), c, c.Config, []store.NodeID{5000}, 1, nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("asked for a node that there is not: %v", err)
	}
}

// TestSavedModel: a model that was saved and loaded ranks validation and test as it did when it was trained, with any threads, and any damage is told.
func TestSavedModel(t *testing.T) {
	_, dir := toy(t, storetest.Options{Nodes: 120, Edges: 2000, Partitions: 3})
	st := storetest.Open(t, dir, store.Options{})
	c, err := Train(t.Context(), st, hostDevice(t), Config{Dim: 8, BatchSize: 100, Negatives: 50, Epochs: 2, EvalEdges: 100, TimeEncoding: TimeLearned}, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.gsm")
	if err := c.SaveFile(path); err != nil || !IsFile(path) {
		t.Fatal(err)
	}
	l, err := LoadFile(path)
	if err != nil || !bytes.Equal(l.Params, c.Params) || !slices.Equal(l.Candidates, c.Candidates) {
		t.Fatalf("%v: %+v loaded, %+v saved", err, l, c)
	}
	cfg := l.Config
	cfg.Threads = 3
	s, err := Evaluate(t.Context(), st, hostDevice(t), l, cfg)
	if err != nil || s.Test != c.Summary.Test || s.Valid != c.Summary.Valid || s.TestRule != c.Summary.TestRule || s.CheckedEdges == 0 {
		t.Errorf("%v: evaluated %+v, trained %+v", err, s, c.Summary)
	}
	checkAnswers(t, st, l)
	cfg.NoRecency = true
	if _, err := Evaluate(t.Context(), st, hostDevice(t), l, cfg); err == nil || !strings.Contains(err.Error(), "parameters") {
		t.Errorf("evaluated as another model: %v", err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(b); i += 1 + len(b)/97 {
		damaged := bytes.Clone(b)
		damaged[i] ^= 4
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadFile(path); !errors.Is(err, blocks.ErrCorrupt) {
			t.Fatalf("a flipped bit of byte %d: %v", i, err)
		}
	}
}
