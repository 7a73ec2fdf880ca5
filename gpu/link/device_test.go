package link_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/gputest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/table"
)

// TestDeviceRows: on a device that is not the host's memory losses, ranks and the table are the host's to the bit, whatever it keeps
// of embeddings, state and features, in memory and out of core; what its operations read and write across the bus is what the run
// reports, and of the first epoch what the plan predicted.
func TestDeviceRows(t *testing.T) {
	for name, c := range map[string]link.Config{
		"memory":            {Plan: macro.Memory},
		"comet":             {Plan: macro.Comet, Buffer: 6},
		"adam":              {Plan: macro.Comet, Buffer: 6, Optimizer: "adam", Encoder: "sage", Fanouts: []int{3}},
		"features":          {Plan: macro.Comet, Buffer: 6, Features: []string{"x"}, Layers: 1, Fanouts: []int{3}},
		"without embedding": {Plan: macro.Memory, Features: []string{"x"}, Layers: 1, Fanouts: []int{3}, NoEmbeddings: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.Dim, c.BatchSize, c.Negatives, c.Chunks, c.Seed, c.Threads, c.EvalEvery, c.Epochs, c.Table, c.CheckpointEvery = 4, 40, 2, 2, 5, 2, 2, 2, "t", "0"
			dir := tripleStore(t, 8)
			if len(c.Features) > 0 {
				addFeatures(t, dir, 160, 5)
			}
			tables := 0
			type result struct {
				losses     []string
				table      []byte
				epochs     []link.Epoch
				read, back []int64 // by operations on mapped tables, by epoch
				mrr        float64
				why        string
			}
			run := func(c link.Config, room int64, ahead bool) (r result) {
				t.Helper()
				st, err := store.Open(dir, store.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = st.Close() }()
				var dev gpu.Device = host.New(host.Options{Threads: 2})
				defer func() { _ = dev.Close() }()
				read := func() (there, back int64) { return 0, 0 }
				if room > 0 {
					counting := gputest.NewCounting(dev, room)
					dev, read = counting, func() (int64, int64) { return counting.RowBytes(), counting.BackBytes() }
				}
				if ahead {
					dev = gputest.Ahead{Device: dev}
				}
				var wasRead, wasBack int64
				c.Table = fmt.Sprintf("t%d", tables) // one a run
				tables++
				got, err := link.Train(t.Context(), st, dev, c, link.Hooks{
					Start: func(_ link.Config, why []string) { r.why = strings.Join(why, "\n") },
					Macro: func(buffer.Stats, *cache.Traffic) {
						there, back := read()
						r.read, r.back = append(r.read, there-wasRead), append(r.back, back-wasBack)
						wasRead, wasBack = there, back
					},
					Epoch: func(e link.Epoch) {
						r.losses, r.epochs = append(r.losses, fmt.Sprintf("%x", e.Loss)), append(r.epochs, e)
					}})
				if err != nil {
					t.Fatal(err)
				}
				if d := got.Summary.DeviceRows; d != nil && d.Changed > 0 && d.Returned >= d.Changed {
					t.Errorf("of %d changes all %d went back", d.Changed, d.Returned)
				}
				r.mrr, r.table = got.Summary.TestMRR, allRows(t, st, c.Table)
				return r
			}
			want := run(c, 0, false)
			if want.epochs[0].DeviceRows != nil {
				t.Errorf("on the host: %+v", want.epochs[0].DeviceRows)
			}
			st := storetest.Open(t, dir, store.Options{})
			beside, largest, rowBytes, err := link.DeviceNeeds(t.Context(), st, c, gpu.Info{Async: true})
			if err != nil {
				t.Fatal(err)
			}
			moved := map[string]int64{}
			for _, rows := range []int64{1000, largest + 10, 20} { // of 160
				room := beside + rowcache.Share*rowBytes*rows
				for _, policy := range []string{"auto", cache.NameNone, cache.NameTracker, cache.NameLookahead} {
					if policy == cache.NameNone && rows != 1000 {
						continue
					}
					c := c
					c.DeviceCache, c.DeviceWindow = policy, 4
					got := run(c, room, rows != 1000)
					what := fmt.Sprintf("room for %d rows, %s", rows, policy)
					if !slices.Equal(got.losses, want.losses) || got.mrr != want.mrr || !slices.Equal(got.table, want.table) {
						t.Errorf("%s: losses %v, on the host %v, or another table", what, got.losses, want.losses)
					}
					d := got.epochs[0].DeviceRows
					if d == nil {
						if policy != cache.NameNone && rows >= largest {
							t.Errorf("%s: nothing is kept: %s", what, got.why)
						}
						if !strings.Contains(got.why, "read and written where they are") {
							t.Errorf("%s: the reasons are %s", what, got.why)
						}
						continue
					}
					if got.read[0] != d.MovedBytes || got.back[0] != d.ReturnedBytes { // the second is followed by evaluation, which reads tables too
						t.Errorf("%s: the first epoch read %d and wrote %d bytes of tables, counted %+v", what, got.read[0], got.back[0], d)
					}
					plan := planned(t, dir, c, room)
					if plan.Cost.FeatureBytes != d.MovedBytes || plan.Cost.BackBytes != d.ReturnedBytes || plan.Cost.Policy != d.Policy {
						t.Errorf("%s: planned %+v, counted %+v", what, plan.Cost, d)
					}
					moved[fmt.Sprint(policy, " ", rows)] = d.MovedBytes + d.ReturnedBytes
				}
			}
			t.Logf("bytes of the first epoch: %v", moved)
			if a, b := moved["auto 1000"], moved[fmt.Sprint("auto ", largest+10)]; a == 0 || a >= b && largest+10 < 120 {
				t.Errorf("%d bytes in room for all rows, %d in less", a, b)
			}
		})
	}
}

// TestDeviceRowsCheckpoint: a checkpoint inside a step has the rows as the device changed them, so that a run goes on from it on
// another device to the same end.
func TestDeviceRowsCheckpoint(t *testing.T) {
	dir, copied := tripleStore(t, 4), filepath.Join(t.TempDir(), "copy.gstore")
	c := link.Config{Plan: macro.Memory, Dim: 4, BatchSize: 100, Negatives: 3, Chunks: 2, Seed: 5, Threads: 2, EvalEvery: -1, Epochs: 2, CheckpointEvery: "7steps", Table: "t"}
	dev := gputest.NewCounting(host.New(host.Options{Threads: 2}), 1<<30)
	defer func() { _ = dev.Close() }()
	train := func(dir string, dev gpu.Device, c link.Config, h link.Hooks) []byte {
		t.Helper()
		st := storetest.Open(t, dir, store.Options{})
		if _, err := link.Train(t.Context(), st, dev, c, h); err != nil {
			t.Fatal(err)
		}
		return allRows(t, st, c.Table)
	}
	want := train(dir, dev, c, link.Hooks{Checkpoint: func(_ uint64, epochs, _, batch int) {
		if epochs == 1 && batch > 0 && batch < 10 { // the first one of the second epoch
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
		}
	}})
	c.Resume = true
	other := host.New(host.Options{Threads: 2})
	defer func() { _ = other.Close() }()
	resumed := false
	got := train(copied, other, c, link.Hooks{Resume: func(found bool, epochs, _, batch int) { resumed = found && epochs == 1 && batch > 0 }})
	if !resumed || !slices.Equal(got, want) {
		t.Errorf("resumed inside a step %v; another table", resumed)
	}
}

// TestDeviceRowsGiveWay: where the device's memory does not do for evaluation beside the rows that it keeps, they are given up and the
// run goes on to the same end; what they cost until then is counted.
func TestDeviceRowsGiveWay(t *testing.T) {
	dir := tripleStore(t, 4)
	run := func(table string, tightens bool) (kept []bool, mrr float64, rows []byte) {
		st, h := storetest.Open(t, dir, store.Options{}), host.New(host.Options{Threads: 1})
		dev := &gputest.Tight{Counting: gputest.NewCounting(h, 1<<30), Allocated: h.AllocatedBytes}
		defer func() { _ = dev.Close() }()
		c := link.Config{Plan: macro.Memory, Dim: 4, BatchSize: 100, Negatives: 3, Chunks: 2, Threads: 1, Epochs: 3, CheckpointEvery: "0", Table: table}
		got, err := link.Train(t.Context(), st, dev, c, link.Hooks{
			Batch: func(int, int64) {
				if tightens {
					dev.Tighten()
				}
			},
			Epoch: func(e link.Epoch) { kept = append(kept, e.DeviceRows != nil) }})
		if err != nil {
			t.Fatal(err)
		}
		return kept, got.Summary.TestMRR, allRows(t, st, table)
	}
	kept, wantMRR, want := run("a", false)
	if fmt.Sprint(kept) != "[true true true]" {
		t.Fatalf("rows are kept in epochs %v", kept)
	}
	kept, mrr, got := run("b", true)
	if fmt.Sprint(kept) != "[true false false]" || mrr != wantMRR || !slices.Equal(got, want) {
		t.Errorf("rows kept %v, MRR %v for %v, or another table", kept, mrr, wantMRR)
	}
}

// allRows are a table's rows and states.
func allRows(t *testing.T, st *store.Store, name string) (all []byte) {
	t.Helper()
	tab, err := table.Open(t.Context(), st, table.Options{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tab.Close() }()
	for p := range tab.Partitions() {
		n := tab.PlaneBytes(store.PartitionID(p))
		slab, err := blockio.AllocSlab(max(1, n*int64(tab.Planes())), blockio.SlabOptions{})
		if err != nil {
			t.Fatal(err)
		}
		planes := slices.Collect(slices.Chunk(slab.Bytes()[:n*int64(tab.Planes())], int(n)))
		if err := tab.Read(t.Context(), store.PartitionID(p), planes...); err != nil {
			t.Fatal(err)
		}
		all = append(all, slab.Bytes()[:n*int64(tab.Planes())]...)
		_ = slab.Free()
	}
	return all
}

// planned is what a run's first epoch is predicted to move.
func planned(t *testing.T, dir string, c link.Config, room int64) macro.DevicePlan {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	if err := c.Normalize(); err != nil {
		t.Fatal(err)
	}
	p, err := c.PlanDevice(t.Context(), st, gpu.Info{Name: "test", MemoryBytes: room, Async: true}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
