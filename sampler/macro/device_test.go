package macro

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// TestDeviceRecord: what steps send, what changes between them, and what their batches touch.
func TestDeviceRecord(t *testing.T) {
	var r DeviceRecord
	// Three partitions of 10 rows in two places; 7 is pinned.
	p := func(id store.PartitionID, base uint32) buffer.ResidentPartition {
		return buffer.ResidentPartition{ID: id, Base: base, Nodes: 10}
	}
	r.Step(30, []buffer.ResidentPartition{p(1, 0), p(7, 20)})
	r.Batch([]uint32{1, 2, 20}, 100)
	r.Batch([]uint32{2, 3, 21}, 100)
	r.Step(30, []buffer.ResidentPartition{p(2, 0), p(7, 20)})
	r.Batch([]uint32{1, 2, 20, 22}, 50)
	r.CountTouched()
	if want := []cache.DropRows{{Before: 2, Lo: 0, Hi: 10}}; !slices.Equal(r.Drops, want) || r.BlockBytes(0) != 250 || r.Inputs() != 10 || r.Largest() != 4 {
		t.Errorf("%+v, expected that %v change", r, want)
	}
	for k, want := range []DeviceStep{{First: 0, Rows: 20, Sent: 20, Touched: 5, Untaken: 5}, {First: 2, Rows: 20, Sent: 10, Touched: 4, Untaken: 3}} {
		if r.Steps[k] != want {
			t.Errorf("step %d: %+v, expected %+v", k, r.Steps[k], want)
		}
	}
	// Where the device draws blocks, lists cross with other partitions: of a step that is recorded in part as great a part.
	var drawn DeviceRecord
	for _, s := range []struct {
		id      store.PartitionID
		batches int
	}{{1, 2}, {1, 2}, {2, 4}} {
		drawn.Step(30, []buffer.ResidentPartition{p(s.id, 0)})
		drawn.Lists(1000, s.batches)
		for range 2 {
			drawn.Batch([]uint32{1, 2}, 100)
			drawn.Seeds = append(drawn.Seeds, 4)
		}
	}
	until := drawn.Until(3)
	if a, b, c := drawn.DrawnBytes(0), drawn.DrawnBytes(2), until.DrawnBytes(0); a != 1500+24 || b != 500+16 || c != 1000+12 {
		t.Errorf("lists and seeds take %d bytes, %d behind the first step, %d of three batches", a, b, c)
	}
	costs, err := drawn.Costs(DeviceOptions{RowBytes: 8, Rows: 20, MirrorRows: 10, StepRows: 20, Plan: DeviceMirror, DrawnRows: 10})
	if best, why := ChooseDevice(costs); err != nil || len(costs) != 2 || best.Drawn || !strings.Contains(strings.Join(why, "\n"), "mirror, sampling there: 0.0 MiB of features, 0.0 MiB of neighbour lists and seeds") {
		t.Errorf("%+v, %v, %v, expected mirror, whose blocks are fewer bytes", best, why, err)
	}
	o := DeviceOptions{RowBytes: 8, Rows: 20, MirrorRows: 20, StepRows: 20}
	costs, err = r.Costs(o)
	if err != nil {
		t.Fatal(err)
	}
	bytes := map[string]int64{}
	for _, c := range costs {
		bytes[c.Name()] = c.FeatureBytes
	}
	// With room for a step each row is sent when it is touched first: mirrored ahead of time.
	for name, want := range map[string]int64{"mirror": 30 * 8, "direct, none": 10 * 8, "direct, tracker": 8 * 8, "direct, lookahead": 8 * 8} {
		if bytes[name] != want {
			t.Errorf("%s: %d bytes, expected %d (%v)", name, bytes[name], want, bytes)
		}
	}
	best, why := ChooseDevice(costs)
	if best.Policy != cache.NameTracker || !strings.Contains(strings.Join(why, "\n"), "direct, tracker: 0.0 MiB of features, 0.0 MiB of blocks, 20.0 % of rows are there already: the least") {
		t.Errorf("%+v, %v", best, why)
	}
	if c := o.CachePolicy(cache.NameTracker, r.Rows, r.BatchRows()); c.Places != 20 || o.Slots(c) != 20 {
		t.Errorf("with room for a step: %+v, %d slots", c, o.Slots(c))
	}
	// Where rows leave, of equal policies the one that looks ahead is taken, and a batch has places of its own.
	o.Rows = 12
	if costs, err = r.Costs(o); err != nil {
		t.Fatal(err)
	}
	best, _ = ChooseDevice(costs)
	if c := o.CachePolicy(best.Policy, r.Rows, r.BatchRows()); best.Policy != cache.NameLookahead || c.Places != 8 || c.Batch != 4 || o.Slots(c) != 12 || c.Window != cache.WindowDefault {
		t.Errorf("in less room: %+v, %+v", best, c)
	}
	o.Plan = DeviceMirror // which takes room for a step
	if costs, err = r.Costs(o); err != nil || len(costs) != 0 {
		t.Errorf("mirrored in less room: %+v, %v", costs, err)
	}
	o.Plan, o.Rows = DeviceLBS, 30
	if costs, err = r.Costs(o); err != nil || len(costs) != 3 || costs[0].Name() != "lbs, lookahead" && costs[0].Name() != "lbs, tracker" {
		t.Errorf("of a sampler: %+v, %v", costs, err)
	}
	o.Plan = ""
	// Mirror is taken where it moves at most a tenth more.
	for _, more := range []int64{100, 101} {
		best, why := ChooseDevice([]DeviceCost{{Plan: DeviceDirect, Policy: cache.NameTracker, FeatureBytes: 1000}, {Plan: DeviceMirror, Policy: DeviceMirror, FeatureBytes: 1000 + more}})
		if (best.Plan == DeviceMirror) != (more == 100) {
			t.Errorf("%d bytes more: %+v, %v", more, best, why)
		}
	}
	o.Rows = 4 // of a batch alone
	if costs, err = r.Costs(o); err != nil || len(costs) != 1 || costs[0].Policy != cache.NameNone {
		t.Errorf("room for a batch: %+v, %v", costs, err)
	}
	o.Policy = cache.NameTracker
	if costs, err = r.Costs(o); err != nil || len(costs) != 1 || costs[0].FeatureBytes != 80 {
		t.Errorf("room for a batch, tracker asked for: %+v, %v", costs, err)
	}
}

// TestDeviceWindow: lookahead takes the shortest window that moves hardly more than the longest, unless one was asked for.
func TestDeviceWindow(t *testing.T) {
	const rows, batch = 3000, 100 // each row is met again after 30 batches on the average
	var r DeviceRecord
	r.Step(rows, []buffer.ResidentPartition{{ID: 1, Nodes: rows}})
	rng := rand.New(rand.NewPCG(1, 2))
	for range 240 {
		var input []uint32
		for _, row := range rng.Perm(rows)[:batch] {
			input = append(input, uint32(row))
		}
		r.Batch(input, 0)
	}
	for _, tt := range []struct {
		percent     int64
		asked, want int
	}{{5, 0, 16}, {25, 0, 32}, {50, 0, 62}, {50, 16, 16}, {5, 40, 40}, {100, 0, 16}} {
		o := DeviceOptions{RowBytes: 8, Rows: tt.percent*rows/100 + batch, BatchRows: batch, StepRows: rows, Policy: cache.NameLookahead, Window: tt.asked}
		costs, err := r.Costs(o)
		if err != nil || len(costs) != 1 {
			t.Fatalf("%+v, %v", costs, err)
		}
		if c := costs[0]; c.Window != tt.want {
			t.Errorf("room for %d %%, asked for %d: a window of %d that sends %d bytes, expected %d", tt.percent, tt.asked, c.Window, c.FeatureBytes, tt.want)
		}
	}
}
