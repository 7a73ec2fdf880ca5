package train

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/loader"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/storetest"
)

// yielded is a copy of what a loader's batch holds, and the place after it.
type yielded struct {
	key          mini.Key
	seeds, input []store.NodeID // rows depend on what was in memory before
	blocks       []mini.Block
	labels       []int32
	shift        []float32
	rows         []float32 // the first feature's, of the input
	next         progress.Place
}

// nodesOf translates rows of a macro-batch.
func nodesOf(mb *buffer.MacroBatch, rows []uint32) (nodes []store.NodeID) {
	for _, r := range rows {
		for _, p := range mb.Partitions {
			if r >= p.Base && r < p.Base+p.Nodes {
				nodes = append(nodes, p.First+store.NodeID(r-p.Base))
			}
		}
	}
	return nodes
}

// yields runs an epoch of a loader from a place on.
func yields(t *testing.T, l *loader.Loader, epoch int, from progress.Place) (all []yielded) {
	t.Helper()
	if err := l.Start(epoch, from); err != nil {
		t.Fatal(err)
	}
	for l.Next() {
		b := l.Batch()
		mb := l.MacroBatch()
		y := yielded{key: b.Key, seeds: nodesOf(mb, b.Seeds), input: nodesOf(mb, b.Input), next: l.Place(), shift: slices.Clone(l.LabelShift())}
		for _, k := range b.Blocks {
			k.Indptr, k.Indices, k.Degrees = slices.Clone(k.Indptr), slices.Clone(k.Indices), slices.Clone(k.Degrees)
			y.blocks = append(y.blocks, k)
		}
		for _, s := range b.Seeds {
			y.labels = append(y.labels, mb.Labels[s])
		}
		for _, r := range l.Rows() {
			f := &l.Features()[0]
			row, err := blocks.View[float32](f.Data[int(r)*f.Stride:][:4*f.Dim])
			if err != nil {
				t.Fatal(err)
			}
			y.rows = append(y.rows, row...)
		}
		all = append(all, y)
	}
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// loaderGraph is a store of 12 partitions whose nodes have labels and a split.
func loaderGraph(t *testing.T) *store.Store {
	t.Helper()
	return storetest.Open(t, storetest.Create(t, storetest.Random(storetest.Options{Nodes: 900, Partitions: 12, Seed: 3})), store.Options{})
}

func openLoader(t *testing.T, st *store.Store, c config.Config, o loader.Options) *loader.Loader {
	t.Helper()
	l, err := loader.Open(t.Context(), st, c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestLoaderIsTraining: a loop of one's own over a loader's batches has the losses of Node to the bit, in and out of memory,
// with passes, and with rows that are read as batches use them.
func TestLoaderIsTraining(t *testing.T) {
	st := loaderGraph(t)
	column, err := st.Manifest().Column("x")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]config.Config{
		"memory":     {BatchSize: 50, Fanouts: []int{3, 2}, Seed: 5, Threads: 2},
		"hanoi":      {BatchSize: 20, Fanouts: []int{3, 2}, Seed: 5, Plan: macro.Hanoi, Buffer: 4, Reuse: 1, Threads: 3},
		"trainnodes": {BatchSize: 20, Fanouts: []int{4}, Seed: 6, Plan: macro.TrainNodes, Buffer: 9, Threads: 2},
		"rows":       {BatchSize: 20, Fanouts: []int{3, 2}, Seed: 6, Plan: macro.Rows, Threads: 2},
		"packed":     {BatchSize: 20, Fanouts: []int{3, 2}, Seed: 6, Plan: macro.Rows, RowReads: config.RowsPacked, Threads: 3},
	} {
		t.Run(name, func(t *testing.T) {
			c.Features, c.Absent, c.LabelShift, c.Epochs, c.Hidden = []string{"x"}, config.AbsentIgnore, config.ShiftOff, 2, 4
			var want []Epoch
			if _, err := Node(t.Context(), st, hostDevice(t), c, Hooks{Epoch: func(e Epoch) { want = append(want, e) }}); err != nil {
				t.Fatal(err)
			}
			r, err := NewTrainer(t.Context(), hostDevice(t), c, column.Dim, st.Manifest().Schema.Classes)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			l := openLoader(t, st, c, loader.Options{})
			for epoch := range 2 {
				r.sum = progress.Counts{}
				if err := l.Start(epoch, progress.Place{}); err != nil {
					t.Fatal(err)
				}
				for l.Next() {
					mb, b := *l.MacroBatch(), *l.Batch()
					mb.Features, mb.Rows, b.Input = l.Features(), len(l.Features()[0].Data)/l.Features()[0].Stride, l.Rows()
					if err := r.Step(t.Context(), &mb, &b); err != nil {
						t.Fatal(err)
					}
				}
				if l.Err() != nil || r.Loss() != want[epoch].Loss || r.Batches() != want[epoch].Batches || r.Batches() < 5 {
					t.Errorf("epoch %d: loss %v after %d batches (%v), training's is %v after %d", epoch+1, r.Loss(), r.Batches(), l.Err(), want[epoch].Loss, want[epoch].Batches)
				}
			}
		})
	}
}

// TestLoaderGoesOn: an epoch begun at any place yields what was left of it, whatever was yielded before.
func TestLoaderGoesOn(t *testing.T) {
	st := loaderGraph(t)
	for _, c := range []config.Config{
		{Plan: macro.Hanoi, Buffer: 4, Reuse: 1},
		{Plan: macro.Rows},
		{Plan: macro.Rows, RowReads: config.RowsPacked},
	} {
		c.BatchSize, c.Fanouts, c.Seed, c.Threads = 20, []int{3, 2}, 5, 2
		l, other := openLoader(t, st, c, loader.Options{}), openLoader(t, st, c, loader.Options{})
		for epoch := range 2 {
			all := yields(t, l, epoch, progress.Place{})
			for i := range all {
				if i%5 != 2 && i != len(all)-1 {
					continue
				}
				if got := yields(t, other, epoch, all[i].next); len(got) != len(all)-i-1 || len(got) > 0 && !reflect.DeepEqual(got, all[i+1:]) {
					t.Errorf("plan %s %s, epoch %d from %+v: %d batches, %d were left, or they differ", c.Plan, c.RowReads, epoch, all[i].next, len(got), len(all)-i-1)
				}
			}
		}
	}
}

// TestLoaderOfRows: batches of plan rows are those of plan memory to the bit, rows included, in a cache smaller than an epoch, shuffled
// or not, for one rank of two, and when an epoch is left in its middle; the ranks' seeds together are the epoch's.
func TestLoaderOfRows(t *testing.T) {
	st := storetest.Open(t, storetest.Create(t, storetest.Random(storetest.Options{Nodes: 3001, Partitions: 12, Dim: 300, Seed: 3})), store.Options{})
	for _, reads := range []string{config.RowsCached, config.RowsPacked} {
		c := config.Config{BatchSize: 20, Fanouts: []int{3, 2}, Seed: 5, Plan: macro.Memory, Threads: 2}
		rows := c
		rows.Plan, rows.RowReads, rows.MemoryBytes = macro.Rows, reads, 64<<20
		for err := store.ErrBudget; err != nil; rows.MemoryBytes += 1 << 20 { // until about the smallest
			if !errors.Is(err, store.ErrBudget) {
				t.Fatal(err)
			}
			var l *loader.Loader
			if l, err = loader.Open(t.Context(), st, rows, loader.Options{}); err == nil {
				err = l.Close()
			}
		}
		for name, o := range map[string]loader.Options{"all": {}, "sequential": {Sequential: true, Seeds: "valid"}, "rank 0": {World: 2}, "rank 1": {World: 2, Rank: 1}} {
			t.Run(reads+" "+name, func(t *testing.T) {
				memory, l := openLoader(t, st, c, o), openLoader(t, st, rows, o)
				if n := l.Feed.Reader.Sizes().Slots; reads == config.RowsCached && n >= 3001 {
					t.Fatalf("the cache holds %d rows in %d bytes", n, rows.MemoryBytes)
				}
				for epoch := range 3 {
					if epoch == 1 { // left in its middle
						if err := l.Start(epoch, progress.Place{}); err != nil || !l.Next() || !l.Next() {
							t.Fatal(err, l.Err())
						}
						continue
					}
					if got, want := yields(t, l, epoch, progress.Place{}), yields(t, memory, epoch, progress.Place{}); len(got) < 4 || !reflect.DeepEqual(got, want) {
						t.Errorf("epoch %d: %d batches, %d expected, or they differ", epoch, len(got), len(want))
					}
				}
			})
		}
	}
}

// TestLoaderSeeds: the nodes of any split, each once, shuffled or not; Finish sees every batch.
func TestLoaderSeeds(t *testing.T) {
	st := loaderGraph(t)
	for _, seeds := range []string{"train", "valid", "test"} {
		finished := make(chan int, 1000)
		l := openLoader(t, st, config.Config{BatchSize: 20, Fanouts: []int{2}, Plan: macro.Hanoi, Buffer: 3, Threads: 2},
			loader.Options{Seeds: seeds, Sequential: true, Finish: func(mb *buffer.MacroBatch, b *mini.Batch) error {
				finished <- len(b.Seeds)
				return nil
			}})
		n, want := 0, uint64(0)
		for _, p := range st.Manifest().Partitions {
			want += map[string]uint64{"train": p.Train, "valid": p.Valid, "test": p.Test}[seeds]
		}
		for _, y := range yields(t, l, 0, progress.Place{}) {
			if n += len(y.seeds); !slices.IsSorted(y.seeds) && seeds == "train" {
				t.Errorf("%s: seeds %v are not in order", seeds, y.seeds)
			}
		}
		for len(finished) > 0 {
			n -= <-finished
		}
		if want == 0 || n != 0 {
			t.Errorf("%s: %d seeds more than finished, of %d", seeds, n, want)
		}
	}
	if _, err := loader.Open(t.Context(), st, config.Config{Plan: macro.TrainNodes, Buffer: 5}, loader.Options{Seeds: "test"}); err == nil {
		t.Error("test nodes by a plan that holds training nodes: not refused")
	}
	if _, err := loader.Open(t.Context(), st, config.Config{History: true}, loader.Options{}); err == nil {
		t.Error("a history: not refused")
	}
	if _, err := loader.Open(t.Context(), st, config.Config{MemoryBytes: 1 << 20}, loader.Options{}); !errors.Is(err, store.ErrBudget) {
		t.Errorf("1 MiB: error %v, expected ErrBudget", err)
	}
}

// TestLoaderEnds: the end of its context ends a loader, with that error, and it can be closed.
func TestLoaderEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l, err := loader.Open(ctx, loaderGraph(t), config.Config{BatchSize: 20, Fanouts: []int{2}, Plan: macro.Hanoi, Buffer: 3}, loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start(0, progress.Place{}); err != nil || !l.Next() {
		t.Fatal(err, l.Err())
	}
	cancel()
	for l.Next() {
	}
	if !errors.Is(l.Err(), context.Canceled) {
		t.Errorf("error %v, expected the context's", l.Err())
	}
	if err := l.Start(1, progress.Place{}); err == nil {
		t.Error("an ended loader starts")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
