package train

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
	"github.com/gstore/gstore/blocks/npy"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/ingesttest"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/table"
)

// typedStore is a store of several types, authors of which have no features.
func typedStore(t *testing.T, o ingest.Options) string {
	t.Helper()
	graph, _ := storetest.Typed(t)
	return ingesttest.Store(t, graph, o)
}

// tableRun is a run whose learned vectors are in a table.
func tableRun(c config.Config) config.Config {
	c.Model, c.Hidden, c.Fanouts, c.BatchSize, c.Seed, c.Threads = "rsage", 8, []int{4, 4}, 40, 7, 1
	c.Vectors, c.Overwrite = config.VectorsTable, true
	if c.Epochs == 0 {
		c.Epochs = 3
	}
	return c
}

// inlined is what a checkpoint's model is, vectors included.
func inlined(t *testing.T, dir string, cp *Checkpoint) *Checkpoint {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close() //nolint:errcheck // test
	whole, err := cp.Inline(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// TestVectorTableRuns: runs whose learned vectors lie in a table learn, have the bits that their plan and seed say whatever memory they
// may use, read and write what was planned, and their models are evaluated from the table and as parameters alike.
func TestVectorTableRuns(t *testing.T) {
	plain, hubs := typedStore(t, ingest.Options{Partitions: 8, Seed: 1}), typedStore(t, ingest.Options{Partitions: 8, Seed: 1, Hubs: .1})
	if len(manifestOf(t, hubs).Pinned) == 0 {
		t.Fatal("the store has no hubs")
	}
	for _, v := range []struct {
		dir  string
		plan config.Config
	}{
		{plain, config.Config{Plan: macro.Memory}}, {plain, config.Config{Plan: macro.Hanoi, Buffer: 2, Absent: config.AbsentIgnore}}, {plain, config.Config{Plan: macro.Hanoi, Buffer: 2, History: true}},
		{hubs, config.Config{Plan: macro.Hanoi, Buffer: 2, Absent: config.AbsentIgnore}},
	} {
		dir, plan := v.dir, v.plan
		var first []byte
		for _, mem := range []int64{0, 200 << 20, 2 << 30} {
			c := tableRun(plan)
			if c.MemoryBytes = mem; mem > 0 && c.History {
				continue // a history of relations rounds by its tiles
			}
			var epochs []Epoch
			cp, err := trainNode(t.Context(), t, dir, c, Hooks{Epoch: func(e Epoch) { epochs = append(epochs, e) }})
			if err != nil {
				t.Fatalf("plan %s, %d bytes: %v", plan.Plan, mem, err)
			}
			for _, e := range epochs {
				if e.BytesRead != e.PlannedBytes {
					t.Errorf("plan %s, %d bytes: epoch %d read %d bytes, planned %d", plan.Plan, mem, e.Epoch, e.BytesRead, e.PlannedBytes)
				}
			}
			if plan.Plan == macro.Hanoi && mem == 0 && cp.Summary.BytesWritten == 0 { // more memory holds all
				t.Errorf("plan %s: nothing was written back", plan.Plan)
			}
			whole := inlined(t, dir, cp)
			if first == nil {
				first = whole.Params
			} else if !bytes.Equal(whole.Params, first) {
				t.Errorf("plan %s with %d bytes ends with another model", plan.Plan, mem)
			}
			same(t, dir, cp, whole)
		}
	}
}

// same fails unless a model has the same metrics from the table, in tiles, and with its vectors as parameters.
func same(t *testing.T, dir string, cp, whole *Checkpoint) {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close() //nolint:errcheck // test
	var loss []float64
	for _, c := range []*Checkpoint{cp, whole} {
		r, err := c.Evaluate(t.Context(), st, hostDevice(t), EvaluateOptions{Splits: []string{"valid", "test"}})
		if err != nil {
			t.Fatal(err)
		}
		loss = append(loss, r.Metrics[0].Loss, r.Metrics[1].Loss)
		if c == cp && r.Metrics[0].Accuracy != cp.Summary.ValidAccuracy {
			t.Errorf("validation accuracy %v afterwards, %v in the run", r.Metrics[0].Accuracy, cp.Summary.ValidAccuracy)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(loss[:2], loss[2:]) {
		t.Errorf("losses %v from the table, %v as parameters", loss[:2], loss[2:])
	}
}

// TestVectorTableResumes: a run that ends in the middle of an epoch, or between epochs where a history is kept, goes on to the same bits.
func TestVectorTableResumes(t *testing.T) {
	dir := typedStore(t, ingest.Options{Partitions: 8, Seed: 1})
	for _, plan := range []config.Config{{Plan: macro.Hanoi, Buffer: 2, Absent: config.AbsentIgnore}, {Plan: macro.Hanoi, Buffer: 2, History: true}} {
		c := tableRun(plan)
		c.Epochs = 4
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		want := inlined(t, dir, cp).Params
		c.CheckpointFile, c.CheckpointEvery = filepath.Join(t.TempDir(), "run"), "1"
		stopped := errors.New("stopped")
		for batches, resumes := 3, 0; ; resumes++ {
			ctx, cancel := context.WithCancelCause(t.Context())
			n := 0
			cp, err = trainNode(ctx, t, dir, c, Hooks{Batch: func(int, int64) {
				if n++; n == batches {
					cancel(stopped)
				}
			}})
			cancel(nil)
			if err == nil {
				if resumes < 2 {
					t.Errorf("plan %s: the run was resumed %d times only", plan.Plan, resumes)
				}
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			c.Resume, batches = true, batches+2
		}
		if !bytes.Equal(inlined(t, dir, cp).Params, want) {
			t.Errorf("plan %s, history %v: the resumed run ends with another model", plan.Plan, plan.History)
		}
	}
}

// TestVectorTableRefused: an earlier run's table is kept unless it may be replaced, and a model says so whose table was.
func TestVectorTableRefused(t *testing.T) {
	dir := typedStore(t, ingest.Options{Partitions: 2, Seed: 1})
	c := tableRun(config.Config{Plan: macro.Memory, Epochs: 1})
	c.Overwrite, c.CheckpointFile = false, filepath.Join(t.TempDir(), "run")
	old, err := trainNode(t.Context(), t, dir, c, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trainNode(t.Context(), t, dir, c, Hooks{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("a second run: %v, expected %v", err, store.ErrExists)
	}
	c.Overwrite = true
	if _, err := trainNode(t.Context(), t, dir, c, Hooks{}); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close() //nolint:errcheck // test
	if _, err := old.Evaluate(t.Context(), st, hostDevice(t), EvaluateOptions{Splits: []string{"test"}}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a model whose table was replaced: %v, expected %v", err, store.ErrNotFound)
	}
	c.Accumulate = 2
	if _, err := trainNode(t.Context(), t, dir, c, Hooks{}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("two mini-batches a step: %v, expected %v", err, store.ErrInvalid)
	}
	c.Model, c.Accumulate = "sage", 1
	if _, err := trainNode(t.Context(), t, dir, c, Hooks{}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("model sage: %v, expected %v", err, store.ErrInvalid)
	}
	c.Model, c.Vectors, c.Table = "rsage", config.VectorsMemory, "vectors" // a run without one says that it replaced none
	if cp, err := trainNode(t.Context(), t, dir, c, Hooks{}); err != nil || cp.Summary.Table != "" {
		t.Errorf("vectors as parameters: %v, table %q", err, cp.Summary.Table)
	}
	if r, err := table.Verify(t.Context(), dir, store.Options{}, nil); err != nil || r.Checked != 1 || len(r.Damage) > 0 {
		t.Errorf("verify: %+v, %v", r, err)
	}
}

// TestVectorsChosen: a budget in which vectors do not fit as parameters has them in a table unasked, one in which they do as parameters;
// where they are to be parameters it is refused.
func TestVectorsChosen(t *testing.T) {
	race.SkipArithmetic(t)
	const users, items = 300_000, 1000
	in := t.TempDir()
	save := func(path string, elem blocks.ElemType, b []byte, shape ...uint64) {
		t.Helper()
		path = filepath.Join(in, path)
		err := os.MkdirAll(filepath.Dir(path), 0o777)
		if err == nil {
			err = os.WriteFile(path, append(npy.Append(nil, elem, true, shape...), b...), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ends := make([]int64, 2*users) // each user has an item
	nodes := make([]int64, items)
	for i := range users {
		ends[i], ends[users+i] = int64(i), int64(i%items)
	}
	for i := range nodes {
		nodes[i] = int64(i)
	}
	save("edges/user__has__item/edge_index.npy", blocks.Int64, blocks.Bytes(ends), 2, users)
	save("edges/item__is__item/edge_index.npy", blocks.Int64, blocks.Bytes([]int64{0, 1}), 2, 1)
	save("nodes/item/feat.npy", blocks.Float32, blocks.Bytes(make([]float32, 2*items)), items, 2)
	save("nodes/item/label.npy", blocks.Int64, blocks.Bytes(make([]int64, items)), items)
	for i, name := range []string{"train", "valid", "test"} {
		save("split/"+name+".npy", blocks.Int64, blocks.Bytes(nodes[i*100:(i+1)*100]), 100)
	}
	src, err := formats.Open(in, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close() //nolint:errcheck // test
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := ingest.Run(t.Context(), dir, src, ingest.Options{Partitions: 32, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close() //nolint:errcheck // test
	for _, v := range []struct {
		asked  string
		memory int64
		table  bool
		err    error
	}{{"", 128 << 20, true, nil}, {"", 1 << 30, false, nil}, {config.VectorsMemory, 128 << 20, false, store.ErrBudget}, {config.VectorsTable, 1 << 30, true, nil}} {
		c := config.Config{Model: "rsage", Hidden: 32, BatchSize: 50, Vectors: v.asked, MemoryBytes: v.memory, Threads: 1}
		if err := c.Normalize(); err != nil {
			t.Fatal(err)
		}
		c.FillFeatures(st.Manifest())
		d, err := planning.Decide(t.Context(), st, hostDevice(t).Info(), c)
		if v.err != nil || err != nil {
			if !errors.Is(err, v.err) {
				t.Errorf("vectors %q in %d bytes: %v, expected %v", v.asked, v.memory, err, v.err)
			}
			continue
		}
		if of := d.Config.VectorTypes; len(of) > 0 != v.table || v.table != strings.Contains(strings.Join(d.Why, " "), "table vectors") {
			t.Errorf("vectors %q in %d bytes: of %q in a table, because %q, account %v", v.asked, v.memory, of, d.Why, d.Account)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
