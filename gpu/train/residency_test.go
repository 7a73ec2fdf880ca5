package train

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/gputest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/loader"
	"github.com/gstore/gstore/gpu/train/ondevice"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/storetest"
)

// TestDeviceRows: on a device that is not the host's memory losses are the host's to the bit, whatever it keeps of feature
// rows, in memory and out of core; what its operations read across the bus is what the run reports; and of the first epoch
// what the plan predicted.
func TestDeviceRows(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 600, Edges: 5000, Partitions: 8}))
	for name, c := range map[string]config.Config{
		"memory":         {},
		"hanoi":          {Plan: "hanoi", Buffer: 2},
		"hanoi, history": {Plan: "hanoi", Buffer: 3, History: true, Reuse: 1},
		"gat":            {Model: "gat", Heads: 2},
		"mlp":            {Model: "mlp"},
		"max":            {Aggregator: "max"},
		"dense, gcn":     {Model: "gcn", Sampler: "dense"},
		"lbs":            {DevicePlan: "lbs", DeviceMacro: 3},
		"lbs, hanoi":     {DevicePlan: "lbs", Plan: "hanoi", Buffer: 2},
		"pbs":            {DevicePlan: "pbs", DeviceMacro: 2},
	} {
		t.Run(name, func(t *testing.T) {
			c.Hidden, c.BatchSize, c.Fanouts, c.Epochs, c.EvalEvery, c.Split, c.Threads = 8, 30, []int{3, 2}, 3, 3, "split", 2
			c.Absent = config.AbsentIgnore
			if c.Model == "mlp" {
				c.Fanouts = nil
			}
			type result struct {
				losses []string
				cp     *Checkpoint
				epochs []Epoch
				read   []int64 // by operations on mapped tables, by epoch
				all    int64   // likewise, until the last epoch's evaluation
			}
			run := func(c config.Config, room int64) (r result) {
				t.Helper()
				st, err := store.Open(dir, store.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = st.Close() }()
				var dev gpu.Device = host.New(host.Options{Threads: 2})
				read := func() int64 { return 0 }
				if room > 0 {
					counting := gputest.NewCounting(dev, room)
					dev, read = counting, counting.RowBytes
				}
				defer func() { _ = dev.Close() }()
				before := int64(0)
				r.cp, err = Node(t.Context(), st, dev, c, Hooks{Epoch: func(e Epoch) {
					r.losses = append(r.losses, fmt.Sprintf("%x", e.Loss))
					r.epochs = append(r.epochs, e)
					r.read = append(r.read, read()-before)
					before = read()
				}, Macro: func(buffer.Stats, *cache.Traffic) { r.all = read() }})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			want := run(c, 0)
			if want.epochs[0].DeviceRows != nil {
				t.Errorf("on the host: %+v", want.epochs[0].DeviceRows)
			}
			moved := map[string]int64{}
			beside := besideRows(t, dir, c)
			for _, rows := range []int64{1500, 330, 260, 20} { // a batch has up to some 230 of 600 rows
				room := beside + rowcache.Share*32*rows
				for _, policy := range []string{config.CacheAuto, cache.NameNone, cache.NameTracker, cache.NameLookahead} {
					for _, window := range []int{1, 5} {
						if window == 1 && policy != cache.NameLookahead {
							continue
						}
						c := c
						if c.DeviceCache, c.DeviceWindow = policy, window; policy == config.CacheAuto {
							c.DeviceWindow = 0
						}
						got := run(c, room)
						what := fmt.Sprintf("room for %d rows, %s, window %d", rows, policy, window)
						if fmt.Sprint(got.losses) != fmt.Sprint(want.losses) || got.cp.Summary.TestAccuracy != want.cp.Summary.TestAccuracy {
							t.Errorf("%s: losses %v, on the host %v", what, got.losses, want.losses)
						}
						d := got.epochs[0].DeviceRows
						if d == nil {
							if rows >= 330 {
								t.Errorf("%s: nothing is kept", what)
							}
							continue
						}
						for e := range 2 { // the third is followed by evaluation, which reads tables too
							if d := got.epochs[e].DeviceRows; got.read[e] != d.MovedBytes && !c.History && c.DevicePlan != "pbs" { // which read tables of its own
								t.Errorf("%s: epoch %d read %d bytes of tables, counted %d", what, e+1, got.read[e], d.MovedBytes)
							}
						}
						plan := planned(t, dir, c, room)
						if plan.Cost.FeatureBytes != d.MovedBytes && c.Reuse == 0 || plan.Cost.Policy != d.Policy {
							t.Errorf("%s: planned %+v, counted %+v", what, plan.Cost, d)
						}
						if s := got.cp.Summary.DeviceRows; s.Hits < d.Hits || s.MovedBytes < d.MovedBytes || d.SavedBytes != int64(d.Hits-d.Pinned)*32 {
							t.Errorf("%s: in all %+v, in the first epoch %+v", what, s, d)
						}
						moved[fmt.Sprint(policy, " ", rows)] = d.MovedBytes
					}
				}
			}
			if c.DevicePlan == "" {
				mirrored(t, dir, c, beside, func(c config.Config, room int64) ([]string, []Epoch, int64) {
					r := run(c, room)
					return r.losses, r.epochs, r.all
				}, want.losses)
			}
			t.Logf("bytes of the first epoch: %v", moved)
			for i, m := range [][2]string{{"auto 330", "none 330"}, {"auto 1500", "auto 330"}, {"lookahead 330", "tracker 330"}} {
				if a, b := moved[m[0]], moved[m[1]]; a == 0 || a > b || a == b && i == 0 && name != "mlp" { // which reads each row once
					t.Errorf("%s: %d bytes, %s: %d", m[0], a, m[1], b)
				}
			}
		})
	}
}

// TestStages: mini-batches of plan pbs reach the partitions of their group alone; what the two samplers cannot be joined with is refused.
func TestStages(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 600, Edges: 5000, Partitions: 9}))
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	l, err := loader.Open(t.Context(), st, config.Config{DevicePlan: "pbs", BatchSize: 30, Fanouts: []int{5, 5}, Split: "split"}, loader.Options{Structure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := l.Start(0, progress.Place{}); err != nil {
		t.Fatal(err)
	}
	steps, edges := map[int]bool{}, 0
	for l.Next() {
		mb, b := l.MacroBatch(), l.Batch()
		steps[b.Key.Step] = true
		edges += b.SampledEdges()
		if len(mb.Step.Reached()) > 2 || len(mb.Partitions) != 9 {
			t.Fatalf("step %d reaches partitions %v of %d, expected an eighth of 9", b.Key.Step, mb.Step.Reached(), len(mb.Partitions))
		}
		for _, p := range mb.Partitions {
			for _, r := range b.Input {
				if r >= p.Base && r < p.Base+p.Nodes && !slices.Contains(mb.Step.Reached(), p.ID) {
					t.Fatalf("step %d of partitions %v reads row %d of partition %d", b.Key.Step, mb.Step.Reached(), r, p.ID)
				}
			}
		}
	}
	if l.Err() != nil || len(steps) != 5 || edges == 0 {
		t.Errorf("%d steps, %d edges, %v: expected 5 steps", len(steps), edges, l.Err())
	}
	for want, c := range map[string]config.Config{
		"expected auto, direct":  {DevicePlan: "uva"},
		"draws neighbours":       {DevicePlan: "lbs", Sampler: "labor"},
		"plan rows":              {DevicePlan: "lbs", Plan: "rows"},
		"plan hanoi":             {DevicePlan: "pbs", Plan: "hanoi"},
		"needs device_plan lbs":  {DeviceMacro: 2},
		"a model with a history": {DevicePlan: "pbs", Model: "mlp"},
	} {
		if err := c.Normalize(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, expected %q", c, err, want)
		}
	}
}

// TestDeviceRowsGiveWay: where the device's memory does not do for evaluation beside the rows that it keeps, they are given up
// and the run goes on to the same losses.
func TestDeviceRowsGiveWay(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 600, Edges: 5000, Partitions: 8}))
	run := func(dev *gputest.Tight, tightens bool) (losses []float64, kept []bool) {
		st, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = st.Close() }()
		c := config.Config{Hidden: 8, BatchSize: 30, Fanouts: []int{3, 2}, Epochs: 3, Split: "split", Threads: 1}
		_, err = Node(t.Context(), st, dev, c, Hooks{
			Batch: func(int, int64) {
				if tightens {
					dev.Tighten()
				}
			},
			Epoch: func(e Epoch) { losses, kept = append(losses, e.Loss), append(kept, e.DeviceRows != nil) }})
		if err != nil {
			t.Fatal(err)
		}
		return losses, kept
	}
	open := func() *gputest.Tight {
		h := host.New(host.Options{Threads: 1})
		d := &gputest.Tight{Counting: gputest.NewCounting(h, 16<<20), Allocated: h.AllocatedBytes}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	want, kept := run(open(), false)
	if fmt.Sprint(kept) != "[true true true]" {
		t.Fatalf("rows are kept in epochs %v", kept)
	}
	got, kept := run(open(), true)
	if fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprint(kept) != "[true false false]" {
		t.Errorf("losses %v, rows kept %v; with memory enough %v", got, kept, want)
	}
}

// besideRows is the device memory of a run that is not for feature rows.
func besideRows(t *testing.T, dir string, c config.Config) int64 {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	if err := c.Normalize(); err != nil {
		t.Fatal(err)
	}
	s, err := config.ShapeOf(st.Manifest(), &c)
	if err != nil {
		t.Fatal(err)
	}
	n, err := ondevice.DeviceRoom(&c, t.Context(), gpu.Info{}, st.Manifest(), s)
	if err != nil {
		t.Fatal(err)
	}
	return -rowcache.Share * n
}

// planned is what a run's first epoch is predicted to move.
func planned(t *testing.T, dir string, c config.Config, room int64) ondevice.Plan {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	if err := c.Normalize(); err != nil {
		t.Fatal(err)
	}
	if c.Plan == "auto" {
		c.Plan = "memory"
	}
	p, err := ondevice.Choose(&c, t.Context(), st, gpu.Info{Name: "test", MemoryBytes: room}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
