package ondevice

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/gpu/sampling"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
)

// Plan is which feature rows a device keeps between mini-batches, and why.
type Plan struct {
	macro.DevicePlan
	Spare int               // of plan mirror: partitions that it has room for beside those of a step
	hot   hotNodes          // that policy presc keeps
	Draw  *sampling.Options // of mini-batches on the device; nil: the host draws
}

// Choose chooses which feature rows a device that info describes keeps in a run of c on st: it samples the first batches of
// the run, at most so many (0 = [rowcache.SampleBatches]), of which only structure is read, and counts what each policy moves. c.Plan and
// c.Buffer are the run's; where features need not move, or there is no room, nothing is sampled and the plan is empty.
func Choose(c *config.Config, ctx context.Context, st *store.Store, info gpu.Info, batches int) (p Plan, err error) {
	if c.Stages() {
		p.Why = []string{fmt.Sprintf("device plan %s is a sampler: mini-batches and results are its own on any device; %s", c.DevicePlan, map[string]string{
			macro.DeviceLBS: fmt.Sprintf("the neighbours of %d mini-batches are drawn together", c.DeviceMacro),
			macro.DevicePBS: fmt.Sprintf("%d partitions are trained together, with the states around them from the history", c.DeviceMacro)}[c.DevicePlan])}
	}
	if info.InPlace {
		return p, nil
	}
	fits := func(reason string) error { // what plan mirror was asked for is not read where it is
		if c.SampleOn == config.SampleDevice {
			return fmt.Errorf("train: sampling on the device takes device plan %s: %s: give more device memory, fewer partitions in memory, or have the host sample", macro.DeviceMirror, reason)
		}
		if c.DevicePlan == macro.DeviceMirror {
			return fmt.Errorf("train: device plan %s: %s: give more device memory, fewer partitions in memory, or take plan %s", macro.DeviceMirror, reason, macro.DeviceDirect)
		}
		p.Why = append(p.Why, "device: feature rows are read where they are: "+reason)
		return nil
	}
	if c.Plan == macro.Rows { // slots of the host's cache, whose rows change from batch to batch
		return p, fits("plan rows has them in a cache of the host's")
	}
	if c.DeviceCache == cache.NamePreSC && c.Capacity(st.Manifest()) > 0 {
		return p, fmt.Errorf("train: device cache %s keeps nodes that lie where they are for the whole run, plan %s moves partitions: choose %s, or plan %s", cache.NamePreSC, c.Plan, cache.NameLookahead, macro.Memory)
	}
	if batches == 0 {
		batches = rowcache.SampleBatches
	}
	cfg := *c
	shape, err := config.ShapeOf(st.Manifest(), &cfg)
	if err != nil {
		return p, err
	}
	columns, err := cfg.Columns(st.Manifest())
	if err != nil {
		return p, err
	}
	rowBytes := int64(0)
	for _, column := range columns {
		rowBytes += int64(column.Dim * column.Elem.Size())
	}
	room, err := DeviceRoom(&cfg, ctx, info, st.Manifest(), shape)
	if err != nil {
		return p, err
	}
	if c.DeviceCache == cache.NameNone && room <= 0 || room < rowBytes {
		return p, fits(fmt.Sprintf("of %.1f MiB nothing is left beside the largest mini-batch", planning.MiB(info.MemoryBytes)))
	}
	rec, err := Record(&cfg, ctx, st, RecordOptions{Info: info, Batches: batches})
	if err != nil {
		return p, err
	}
	stepRows, _ := planning.LargestStep(st.Manifest(), cfg.Capacity(st.Manifest()))
	o := macro.DeviceOptions{RowBytes: rowBytes, Rows: room / rowBytes, MirrorRows: MirrorRows(&cfg, st.Manifest()), StepRows: stepRows, Window: c.DeviceWindow}
	if c.DeviceCache != config.CacheAuto {
		o.Policy = c.DeviceCache
	}
	if c.DevicePlan != config.CacheAuto {
		o.Plan = c.DevicePlan
	}
	draw, undrawn, err := drawing(&cfg, info, st.Manifest(), shape)
	if err != nil {
		return p, err
	}
	if draw != nil {
		if o.DrawnRows, err = drawnRoom(room, rowBytes, draw); err != nil {
			return p, err
		}
		if o.DrawnRows < o.MirrorRows {
			undrawn = fmt.Sprintf("beside neighbour lists and mini-batches there is room for %d rows, the partitions of a step take %d", o.DrawnRows, o.MirrorRows)
		}
	}
	if o.DrawnOnly = c.SampleOn == config.SampleDevice; o.DrawnOnly && (undrawn != "" || o.Policy != "" || o.Plan != "" && o.Plan != macro.DeviceMirror) {
		return p, fits(cmp.Or(undrawn, fmt.Sprintf("device plan %s and cache %s are asked for", c.DevicePlan, c.DeviceCache)))
	}
	switch n := c.Together(); {
	case c.DeviceWindow > 0:
	case n > cache.WindowDefault:
		o.Window = min(n, cache.WindowMax) // all that are drawn together
	case c.MemoryBytes > 0:
		o.Window = cache.WindowDefault // so many are held in the account
	}
	p.Batches = len(rec.Batches)
	if o.Rows < rec.BatchRows() {
		return p, fits(fmt.Sprintf("there is room for %d, a mini-batch has %d", o.Rows, rec.BatchRows()))
	}
	hot, err := presampled(&cfg, ctx, st, info, o.Rows)
	if err != nil {
		return p, err
	}
	o.Hot = hot.rows(rec.Resident())
	costs, err := rec.Costs(o)
	if err != nil {
		return p, err
	}
	if len(costs) == 0 {
		return p, fits(fmt.Sprintf("there is room for %d rows, the partitions of a step take %d", o.Rows, o.MirrorRows))
	}
	var why []string
	p.Cost, why = macro.ChooseDevice(costs)
	if p.Cost.Plan == macro.DeviceMirror {
		p.Spare = mirrorSpare(&cfg, st.Manifest(), o.Rows-o.MirrorRows)
		if p.Cost.Drawn {
			p.Draw = draw
			p.Spare = drawnSpare(&cfg, draw, st.Manifest(), p.Spare, room, rowBytes)
			why = append(why, "device: mini-batches are drawn there, the host's entry for entry")
		}
		p.Slots = int(mirrorRows(mirrorSlots(&cfg, st.Manifest(), p.Spare)))
		if capacity := cfg.Capacity(st.Manifest()); capacity > 0 {
			why = append(why, fmt.Sprintf("device plan mirror: room for %d partitions beside the %d of a step: so many of the next one's cross while a step trains", p.Spare, capacity))
		}
	} else {
		o.Window = p.Cost.Window
		p.Cache = o.CachePolicy(p.Cost.Policy, rec.Rows, rec.BatchRows())
		p.Slots = o.Slots(p.Cache)
		if p.Cache.Policy == cache.NamePreSC { // rows are the partition buffer's, which has other columns
			p.Cache.Hot, p.hot = nil, hot.first(len(p.Cache.Hot))
		}
	}
	if !p.Cost.Drawn && c.SampleOn != config.SampleHost && info.Samples {
		reason := "less crosses than neighbour lists"
		if p.Cost.Plan != macro.DeviceMirror {
			reason = fmt.Sprintf("plan %s has to know their rows", p.Cost.Plan)
		}
		why = append(why, "device: the host draws mini-batches: "+cmp.Or(undrawn, reason))
	}
	p.Why = append(p.Why, hot.why...)
	p.Why = append(p.Why, fmt.Sprintf("device: room for %d feature rows of %d B, %d of them for a mini-batch's; of the first %d mini-batches:",
		o.Rows, rowBytes, rec.BatchRows(), p.Batches))
	p.Why = append(p.Why, why...)
	return p, nil
}

// drawnSpare is how many of so many spare slots there is room for beside a sampler of as many rows, which o becomes.
func drawnSpare(c *config.Config, o *sampling.Options, m *store.Manifest, spare int, room, rowBytes int64) int {
	for ; ; spare-- {
		o.Rows = int(mirrorRows(mirrorSlots(c, m, spare)))
		// Without spare slots there is room: the plan was chosen for that. With some, mini-batches may become too large to be counted.
		if rows, err := drawnRoom(room, rowBytes, o); spare == 0 || err == nil && rows >= int64(o.Rows) {
			return spare
		}
	}
}

// DeviceRoom is how many bytes of feature rows a device has room for.
func DeviceRoom(c *config.Config, ctx context.Context, info gpu.Info, m *store.Manifest, s config.Shape) (bytes int64, err error) {
	b, err := planning.NewBatchMeter(ctx, info, m, c, s)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	worst, err := b.Worst(ctx, m, c.Capacity(m))
	if err != nil {
		return 0, err
	}
	if model := c.ModelConfig(s); c.Unrecorded(&model) == "" {
		worst += worst / planning.PaddedShare
	}
	return rowcache.Room(info, worst), nil
}
