package train

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/gputest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/ondevice"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestPreSC: with --device-cache presc an epoch is sampled once for a store's version, sampler and split, and kept; what it keeps on the
// device changes no loss, and what moves is what was planned.
func TestPreSC(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 600, Edges: 5000, Partitions: 8}))
	c := config.Config{Hidden: 8, BatchSize: 30, Fanouts: []int{3, 2}, Epochs: 2, EvalEvery: 2, Split: "split", Threads: 2, DevicePlan: macro.DeviceDirect}
	run := func(c config.Config, rows int64) (losses []string, first *cache.Traffic, why string) {
		t.Helper()
		st, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = st.Close() }()
		dev := gputest.NewCounting(host.New(host.Options{Threads: 2}), besideRows(t, dir, c)+rowcache.Share*32*rows)
		defer func() { _ = dev.Close() }()
		_, err = Node(t.Context(), st, dev, c, Hooks{Plan: func(w []string) { why = strings.Join(w, "\n") }, Epoch: func(e Epoch) {
			if losses = append(losses, fmt.Sprintf("%x", e.Loss)); e.Epoch == 1 {
				if first = e.DeviceRows; first == nil || dev.RowBytes() != first.MovedBytes {
					t.Errorf("counted %+v, operations read %d bytes", first, dev.RowBytes())
				}
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		return losses, first, why
	}
	c.DeviceCache = cache.NameNone
	want, _, why := run(c, 330)
	if strings.Contains(why, "visits") {
		t.Errorf("nobody asked for visits: %s", why)
	}
	const counted, known = "an epoch was sampled to count visits, which the store keeps", "known from an earlier run"
	for i, s := range []struct {
		change func()
		cache  string
		why    string
	}{
		{func() {}, cache.NamePreSC, counted},
		{func() {}, cache.NamePreSC, known},
		{func() { c.Seed = 5 }, cache.NamePreSC, known}, // chance decides no kind of run
		{func() { c.Fanouts = []int{3, 1} }, cache.NamePreSC, counted},
		{func() { c.Fanouts = []int{3, 2} }, config.CacheAuto, known},
		{func() { c.BatchSize = 29 }, config.CacheAuto, ""},
		{func() { addVersion(t, dir) }, cache.NamePreSC, counted},
	} {
		s.change()
		c.DeviceCache = s.cache
		losses, d, why := run(c, 330)
		if s.why == "" && strings.Contains(why, "visits") || !strings.Contains(why, s.why) {
			t.Errorf("run %d says %s, expected %q", i, why, s.why)
		}
		if s.cache == config.CacheAuto {
			continue
		}
		if d.Policy != cache.NamePreSC || d.Pinned == 0 || d.Hits < d.Misses/10 {
			t.Errorf("run %d: %+v", i, d)
		}
		if i < 2 && fmt.Sprint(losses) != fmt.Sprint(want) {
			t.Errorf("run %d: losses %v, with nothing kept %v", i, losses, want)
		}
		if p := planned(t, dir, c, besideRows(t, dir, c)+rowcache.Share*32*330); p.Cost.FeatureBytes != d.MovedBytes || p.Cost.Policy != d.Policy {
			t.Errorf("run %d: planned %+v, counted %+v", i, p.Cost, d)
		}
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	c.Plan, c.Buffer, c.Absent = macro.Hanoi, 2, config.AbsentIgnore
	if err := c.Normalize(); err != nil {
		t.Fatal(err)
	}
	if _, err := ondevice.Choose(&c, t.Context(), st, gpu.Info{Name: "test", MemoryBytes: 1 << 30}, 0); err == nil || !strings.Contains(err.Error(), "moves partitions") {
		t.Errorf("where partitions move: %v", err)
	}
}

// addVersion commits the store as it is once more.
func addVersion(t *testing.T, dir string) {
	t.Helper()
	w, err := store.OpenWriter(dir, store.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := *w.Base()
	if err := errors.Join(w.Commit(t.Context(), &m), w.Close()); err != nil {
		t.Fatal(err)
	}
}
