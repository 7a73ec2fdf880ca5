package train

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/history"
	"github.com/gstore/gstore/gpu/train/loader"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestNodeHistoryOutOfCore: out of core a history changes the training, the same way
// for any number of threads, and costs a pass over the store only where no validation came before.
func TestNodeHistoryOutOfCore(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 600, Edges: 5000, Partitions: 8}))
	run := func(c config.Config) (*Checkpoint, []Epoch) {
		t.Helper()
		st, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = st.Close() }()
		c.Plan, c.Buffer, c.Hidden, c.BatchSize, c.Epochs, c.Split, c.Absent = "hanoi", 2, 8, 50, 3, "split", config.AbsentIgnore
		var epochs []Epoch
		cp, err := Node(t.Context(), st, hostDevice(t), c, Hooks{Epoch: func(e Epoch) { epochs = append(epochs, e) }})
		if err != nil {
			t.Fatal(err)
		}
		return cp, epochs
	}
	_, plain := run(config.Config{Threads: 1})
	cp, want := run(config.Config{Threads: 1, History: true})
	for e := range want {
		if want[e].Loss == plain[e].Loss {
			t.Errorf("epoch %d: loss %v with and without history", e+1, plain[e].Loss)
		}
		if want[e].BytesRead != plain[e].BytesRead {
			t.Errorf("epoch %d: training reads %d bytes with history, %d without", e+1, want[e].BytesRead, plain[e].BytesRead)
		}
		if own := want[e].HistoryBytes > 0; own != (e == 0) {
			t.Errorf("epoch %d: %d bytes read for the history, expected some in the first epoch alone", e+1, want[e].HistoryBytes)
		}
	}
	sum, trained := cp.Summary, int64(0)
	for _, e := range want {
		trained += e.BytesRead
	}
	if sum.TrainBytesRead != trained || sum.EvalBytesRead == 0 || sum.BytesRead != trained+sum.EvalBytesRead+sum.StateBytesRead+sum.HistoryRowBytes || sum.ComputedRows == 0 {
		t.Errorf("the summary says %+v, expected all bytes: epochs' training read %d", sum, trained)
	}
	if !cp.Config.History || cp.Config.Split != "split" {
		t.Errorf("the checkpoint says history %v, split %q", cp.Config.History, cp.Config.Split)
	}
	// Each epoch reads every training node's row once; memory holds those of two partitions.
	train := trainingNodes(t, dir, "split")
	for _, c := range []struct {
		dtype string
		elem  blocks.ElemType
		row   int64
	}{{"", blocks.Float32, 4*8 + 4}, {"float16", blocks.Float16, 2*8 + 4}} {
		cp, got := run(config.Config{Threads: 1, History: true, HistoryDtype: c.dtype})
		cost := history.CostOf(train, nil, nil, []history.Options{{Dim: 8, Elem: c.elem}}, 2, got[0].Steps)
		rows := cp.Summary.HistoryRowBytes / int64(len(want)) / c.row
		if rows != cost.TrainingRows || cp.Summary.HistoryRowBytes != rows*int64(len(want))*c.row || int64(cost.RowBytes) != c.row {
			t.Errorf("%s: %d bytes of history read in %d epochs, expected rows of %d for %d training nodes", c.dtype, cp.Summary.HistoryRowBytes, len(want), c.row, cost.TrainingRows)
		}
		if b := cp.Summary.HistoryResidentBytes; b != cost.MemoryBytes || b >= rows*c.row {
			t.Errorf("%s: %d bytes of history in memory, expected %d, and fewer than the %d of all rows", c.dtype, b, cost.MemoryBytes, rows*c.row)
		}
		for e := range want {
			if same := got[e].Loss == want[e].Loss; same != (c.dtype == "") || math.Abs(got[e].Loss/want[e].Loss-1) > .01 {
				t.Errorf("%s: epoch %d: loss %v, with float32 rows %v", c.dtype, e+1, got[e].Loss, want[e].Loss)
			}
		}
	}
	_, got := run(config.Config{Threads: 4, History: true})
	for e := range want {
		if got[e].Loss != want[e].Loss {
			t.Errorf("epoch %d: loss %v with 4 threads, %v with one", e+1, got[e].Loss, want[e].Loss)
		}
	}
	// A pass of its own gives what a validation's states do.
	_, rare := run(config.Config{Threads: 1, History: true, EvalEvery: 10})
	for e := range want {
		if rare[e].Loss != want[e].Loss {
			t.Errorf("epoch %d without validation: loss %v, with one %v", e+1, rare[e].Loss, want[e].Loss)
		}
	}
}

// TestHistoryOfRelationsIsExact: a model that learns nothing, without dropout, from all neighbours in memory and the history of the
// others, has in every step the loss that it has in memory: all layers' messages are completed, also those to pinned nodes, which
// lack others in each step. Without the history it has not.
func TestHistoryOfRelationsIsExact(t *testing.T) {
	for _, undirected := range []bool{false, true} {
		dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 500, Edges: 3000, Partitions: 7, Relations: 3, Undirected: undirected}))
		w, err := store.OpenWriter(dir, store.WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m := w.Base().Clone()
		m.Pinned = []store.PartitionID{2}
		if err := errors.Join(w.Commit(t.Context(), m), w.Close()); err != nil {
			t.Fatal(err)
		}
		for _, c := range []config.Config{{Model: "rsage", Layers: 2}, {Model: "rgcn", Layers: 3, Bases: 2}, {Model: "rsage", Layers: 2, HistoryDtype: "float16"}} {
			none := 0.
			c.Hidden, c.BatchSize, c.Epochs, c.Split, c.Absent, c.LabelShift, c.Threads = 8, 40, 1, "split", config.AbsentIgnore, config.ShiftOff, 2
			c.Dropout, c.LR, c.Fanouts = &none, 1e-12, []int{-1, -1, -1}[:c.Layers]
			loss := func(plan string, history bool) float64 {
				t.Helper()
				d := c
				if d.Plan, d.History = plan, history; plan == "hanoi" {
					d.Buffer = 2
				}
				if !history {
					d.HistoryDtype = ""
				}
				cp, err := trainNode(t.Context(), t, dir, d, Hooks{})
				if err != nil {
					t.Fatal(err)
				}
				if history && cp.Summary.HistoryRowBytes == 0 {
					t.Error("no row of the history was read")
				}
				return cp.Summary.TrainLoss
			}
			tolerance := 1e-5
			if c.HistoryDtype != "" {
				tolerance = 1e-3
			}
			want := loss("memory", false)
			if got := loss("hanoi", true); math.Abs(got-want) > tolerance*want {
				t.Errorf("%s, %d layers, undirected %v: loss %v with a history of %q, %v in memory", c.Model, c.Layers, undirected, got, c.HistoryDtype, want)
			}
			if got := loss("hanoi", false); math.Abs(got-want) < 1e-3*want {
				t.Errorf("%s, %d layers, undirected %v: loss %v without a history, %v in memory: the test sees nothing", c.Model, c.Layers, undirected, got, want)
			}
		}
	}
}

// TestHistoryOfSumsIsExact: likewise gcn and gin, whose first layer's sums are read where they were computed before, and whose degrees
// count absent neighbours. The hop alone does not do, and in memory it changes nothing.
func TestHistoryOfSumsIsExact(t *testing.T) {
	for _, undirected := range []bool{false, true} {
		dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 500, Edges: 3000, Partitions: 7, Undirected: undirected}))
		for _, model := range []string{"gcn", "gin"} {
			if _, err := precompute.Hop(t.Context(), dir, hostDevice(t), precompute.Options{Model: model}); err != nil {
				t.Fatal(err)
			}
			none := 0.
			loss := func(plan string, hop, history bool) (float64, float64) {
				t.Helper()
				c := config.Config{Model: model, Layers: 2, Hidden: 8, BatchSize: 40, Epochs: 1, Split: "split", Absent: config.AbsentIgnore, LabelShift: config.ShiftOff, Threads: 2, Dropout: &none, InputDropout: &none, LR: 1e-12, Fanouts: []int{-1, -1},
					Plan: plan, PrecomputedHop: hop, History: history}
				switch plan {
				case "hanoi":
					c.Buffer = 2
				case macro.DevicePBS:
					c.Plan, c.DevicePlan, c.DeviceMacro = "", plan, 2
				}
				cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
				if err != nil {
					t.Fatal(err)
				}
				if want := []string{"x.hop1." + model}; hop && !slices.Equal(cp.Config.Features, want) {
					t.Errorf("%s reads %q, expected %q", model, cp.Config.Features, want)
				}
				return cp.Summary.TrainLoss, cp.Summary.TestAccuracy
			}
			want, accuracy := loss("memory", false, false)
			for _, c := range []struct {
				plan         string
				hop, history bool
				same         bool
			}{{"memory", true, false, true}, {"rows", true, false, true}, {"hanoi", true, true, true}, {macro.DevicePBS, true, true, true}, {"hanoi", true, false, false}, {"hanoi", false, true, false}} {
				got, tested := loss(c.plan, c.hop, c.history)
				if near := math.Abs(got-want) < 1e-5*want; near != c.same {
					t.Errorf("%s, undirected %v, plan %s, hop %v, history %v: loss %v, in memory %v; expected the same: %v", model, undirected, c.plan, c.hop, c.history, got, want, c.same)
				}
				if tested != accuracy { // of the same parameters, computed exactly
					t.Errorf("%s, undirected %v, plan %s, hop %v: test accuracy %v, expected %v", model, undirected, c.plan, c.hop, tested, accuracy)
				}
			}
		}
	}
}

// TestHistoryOfAttentionIsNear: a model that learns nothing has in steps of few partitions a loss nearer to memory's with a history than
// without: attention has the mean of absent states, not each, and the first layer misses neighbours either way.
func TestHistoryOfAttentionIsNear(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 500, Edges: 4000, Partitions: 7}))
	none := 0.
	loss := func(plan string, history bool) float64 {
		t.Helper()
		c := config.Config{Model: "gat", Layers: 2, Hidden: 8, Heads: 2, BatchSize: 40, Epochs: 1, Split: "split", Absent: config.AbsentIgnore, LabelShift: config.ShiftOff, Threads: 2, Dropout: &none, LR: 1e-12, Fanouts: []int{-1, -1}, Plan: plan, History: history}
		if plan == "hanoi" {
			c.Buffer = 2
		}
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		return cp.Summary.TrainLoss
	}
	want, with, without := loss("memory", false), loss("hanoi", true), loss("hanoi", false)
	if math.Abs(with-want) > .5*math.Abs(without-want) {
		t.Errorf("loss %v with a history, %v without, %v in memory", with, without, want)
	}
}

// TestBatchesOfStepsAreEven: none of a plan's several steps has a small last batch; in memory the only step's last one has what is left.
func TestBatchesOfStepsAreEven(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 600, Edges: 3000, Partitions: 8, Relations: 2}))
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	spread := func(c config.Config) (most int) {
		c.BatchSize, c.Fanouts, c.Split, c.Threads = 19, []int{2}, "split", 1
		l := openLoader(t, st, c, loader.Options{})
		defer func() { _ = l.Close() }()
		if err := l.Start(0, progress.Place{}); err != nil {
			t.Fatal(err)
		}
		least, largest, step := 0, 0, -1
		for l.Next() {
			b := l.Batch()
			if n := len(b.Seeds); b.Key.Step != step {
				least, largest, step = n, n, b.Key.Step
			} else {
				least, largest = min(least, n), max(largest, n)
			}
			most = max(most, largest-least)
		}
		if l.Err() != nil || (step > 0) != (c.Plan == "hanoi" || c.Group > 0) {
			t.Fatalf("plan %s: %d steps, %v", c.Plan, step+1, l.Err())
		}
		return most
	}
	for _, model := range []string{"sage", "gat", "rsage"} {
		if n := spread(config.Config{Model: model, Plan: "hanoi", Buffer: 2}); n > 1 {
			t.Errorf("%s: batches of a step differ by %d seeds", model, n)
		}
	}
	if n := spread(config.Config{Plan: "memory", Group: 2}); n > 1 {
		t.Errorf("groups: batches of a step differ by %d seeds", n)
	}
	if n := spread(config.Config{Plan: "memory"}); n < 2 {
		t.Errorf("in memory: batches differ by %d seeds: the test sees nothing", n)
	}
}

// trainingNodes returns a store's partitions with the training nodes of a split.
func trainingNodes(t *testing.T, dir, split string) []store.PartitionInfo {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	parts := st.Manifest().Partitions
	for p := range parts {
		b, err := st.ReadColumn(t.Context(), split, store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		parts[p].Train = uint64(bytes.Count(b, []byte{store.SplitTrain}))
	}
	return parts
}

// TestNodeUnknownSplit: a split column that is not there is named.
func TestNodeUnknownSplit(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{}))
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	if _, err := Node(t.Context(), st, hostDevice(t), config.Config{Epochs: 1, Split: "dense"}, Hooks{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("error %v, expected ErrNotFound", err)
	}
}

// TestHistoryWhateverTheBudget: with the same plan, losses and the test with a history have the same bits for every
// budget, which decides in how many tiles the states are computed and whether they lie in a file.
func TestHistoryWhateverTheBudget(t *testing.T) {
	for i, model := range []string{"sage", "sage", "gat"} {
		undirected := i == 0
		dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 3000, Edges: 25000, Partitions: 8, Dim: 256}))
		if undirected {
			makeUndirected(t, dir)
		}
		st := storetest.Open(t, dir, store.Options{})
		var want []Epoch
		read := map[int64]bool{} // bytes of evaluation, which tell tilings apart
		for _, mib := range []int64{0, 128, 100, 92} {
			var epochs []Epoch
			c := config.Config{Model: model, Plan: "hanoi", Buffer: 2, Hidden: 16, BatchSize: 200, Epochs: 3, Split: "split", Absent: config.AbsentIgnore, History: true, Threads: 2, MemoryBytes: mib << 20}
			cp, err := Node(t.Context(), st, hostDevice(t), c, Hooks{Epoch: func(e Epoch) { epochs = append(epochs, e) }})
			if err != nil {
				t.Fatal(err)
			}
			read[cp.Summary.EvalBytesRead] = true
			if want == nil {
				want = epochs
			}
			for e := range want {
				if epochs[e].Loss != want[e].Loss || epochs[e].ValidAccuracy != want[e].ValidAccuracy {
					t.Errorf("%s, undirected %v, %d MiB, epoch %d: loss %v, valid %v; without a budget %v, %v", model, undirected, mib, e+1, epochs[e].Loss, epochs[e].ValidAccuracy, want[e].Loss, want[e].ValidAccuracy)
				}
			}
		}
		if len(read) < 3 {
			t.Errorf("%s, undirected %v: evaluations read %v bytes, expected budgets that cut the graph in three ways or more", model, undirected, read)
		}
	}
}

// makeUndirected commits a version of a store whose edges count in both directions.
func makeUndirected(t *testing.T, dir string) {
	t.Helper()
	w, err := store.OpenWriter(dir, store.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := w.Base().Clone()
	m.Schema.Undirected = true
	if err := w.Commit(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
