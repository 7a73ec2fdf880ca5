package link

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
)

// cacheAuto is Config.DeviceCache's default.
const cacheAuto = "auto"

// deviceColumns are a node's rows, in the order of [trainer.all]: what is learned, which batches change, then its features.
func (c *Config) deviceColumns(m *store.Manifest) (columns []rowcache.Column, rowBytes, backBytes int64, err error) {
	if !c.NoEmbeddings {
		for range c.TablePlanes() {
			columns = append(columns, rowcache.Column{Cols: c.Dim, Elem: blocks.Float32, Changes: true})
		}
		backBytes = int64(c.TablePlanes()) * 4 * int64(c.Dim)
	}
	rowBytes = backBytes
	features, err := c.columns(m)
	for _, x := range features {
		columns = append(columns, rowcache.Column{Cols: x.Dim, Elem: nn.TableElem(x.Elem)})
		rowBytes += int64(x.Dim * x.Elem.Size())
	}
	return columns, rowBytes, backBytes, err
}

// newDeviceRows makes empty places on dev for a run's rows; nil where plan keeps none.
func newDeviceRows(dev gpu.Device, m *store.Manifest, c *Config, plan macro.DevicePlan) (*rowcache.Rows, error) {
	if plan.Cache.Policy == "" {
		return nil, nil
	}
	columns, _, _, err := c.deviceColumns(m)
	if err != nil {
		return nil, err
	}
	return rowcache.New(dev, rowcache.Options{Cache: plan.Cache, Slots: plan.Slots, Columns: columns})
}

// PlanDevice chooses which rows a device that info describes keeps in a run of c on st, as [train.Config.PlanDevice] does: embeddings
// with their optimiser's state, which batches change and which go back before they leave, and features. c's plan must be chosen.
// Batches that change rows are never read in part where they are: without room for the largest one nothing is kept.
func (c *Config) PlanDevice(ctx context.Context, st *store.Store, info gpu.Info, batches int) (p macro.DevicePlan, err error) {
	if info.InPlace {
		return p, nil
	}
	m := st.Manifest()
	inPlace := func(format string, args ...any) (macro.DevicePlan, error) {
		return macro.DevicePlan{Batches: p.Batches, Why: append(p.Why, "device: rows of embeddings and features are read and written where they are: "+fmt.Sprintf(format, args...))}, nil
	}
	switch {
	case c.DeviceCache == cache.NameNone:
		return inPlace("no cache is asked for")
	case c.Absent == AbsentShadow:
		return inPlace("the shadow's are made on the host")
	}
	_, rowBytes, backBytes, err := c.deviceColumns(m)
	if err != nil {
		return p, err
	}
	largest, err := c.largestBatch(ctx, m, info)
	if err != nil {
		return p, err
	}
	stepRows, _ := largestStep(m, c.capacity(m))
	room := rowcache.Room(info, largest.tensors) / rowBytes
	o := macro.DeviceOptions{RowBytes: rowBytes, BackBytes: backBytes, Rows: room, StepRows: stepRows, BatchRows: min(largest.inputs, stepRows), Window: c.DeviceWindow}
	if c.MemoryBytes > 0 && o.Window == 0 {
		o.Window = cache.WindowDefault // so many are held in the account
	}
	if room < o.BatchRows {
		return inPlace("there is room for %d, a mini-batch may have %d", max(0, room), o.BatchRows)
	}
	if c.DeviceCache != cacheAuto {
		o.Policy = c.DeviceCache
	}
	if batches == 0 {
		batches = rowcache.SampleBatches
	}
	rec, _, err := c.RecordDevice(ctx, st, info, 1, batches)
	if err != nil {
		return p, err
	}
	p.Batches = len(rec.Batches)
	costs, err := rec.Costs(o)
	if err != nil {
		return p, err
	}
	var why []string
	p.Cost, why = macro.ChooseDevice(costs)
	p.Why = append(p.Why, fmt.Sprintf("device: room for %d rows of %d B, a mini-batch may have %d; of the first %d mini-batches:", room, rowBytes, o.BatchRows, p.Batches))
	p.Why = append(p.Why, why...)
	if p.Cost.Policy == cache.NameNone {
		return inPlace("nothing that is kept is met again")
	}
	o.Window = p.Cost.Window
	p.Cache = o.CachePolicy(p.Cost.Policy, rec.Rows, o.BatchRows)
	p.Slots = o.Slots(p.Cache)
	return p, nil
}

// capacity is Buffer as the batch meter takes it: 0 is all.
func (c *Config) capacity(m *store.Manifest) int {
	if c.Plan == macro.Memory || c.Buffer >= len(m.Partitions) {
		return 0
	}
	return c.Buffer
}

// largestBatch is what the largest mini-batch takes of a device.
func (c *Config) largestBatch(ctx context.Context, m *store.Manifest, info gpu.Info) (n need, err error) {
	b, err := newBatchMeter(ctx, info, m, c)
	if err != nil {
		return n, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	return b.worst(ctx, c.capacity(m))
}

// RecordDevice samples the first epochs of a run, of each at most so many batches (0 = all), structure only, and returns what they
// ask of a device that info describes, and where the last epoch begins.
func (c *Config) RecordDevice(ctx context.Context, st *store.Store, info gpu.Info, epochs, batches int) (rec macro.DeviceRecord, last int, err error) {
	l, err := OpenLoader(ctx, st, *c, LoaderOptions{Structure: true, Info: info})
	if err != nil {
		return rec, 0, fmt.Errorf("train: sample for the device's plan: %w", err)
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for epoch := range epochs {
		if err := l.Start(epoch, progress.Place{}); err != nil {
			return rec, 0, err
		}
		last = len(rec.Batches)
		step := -1
		for (batches == 0 || len(rec.Batches)-last < batches) && l.Next() {
			mb, b := l.MacroBatch(), l.Batch()
			if b.Key.Step != step {
				step = b.Key.Step
				rec.Step(mb.Rows, mb.Partitions)
			}
			rec.Batch(b.Input, besideRows(b))
		}
	}
	return rec, last, l.Err()
}

// besideRows is what a mini-batch takes to a device beside its rows: its questions and its blocks.
func besideRows(b *mini.Batch) int64 {
	e := b.Extra.(*batchExtra)
	n := 4 * int64(len(e.rows)+len(e.relations)+len(e.mask))
	for i := range b.Blocks {
		n += 4 * int64(len(b.Blocks[i].Indptr)+len(b.Blocks[i].Indices))
	}
	return n
}

// RowBytes is what a node's row takes on a device, all columns, and those of it that batches change.
func (c *Config) RowBytes(m *store.Manifest) (all, changed int64, err error) {
	_, all, changed, err = c.deviceColumns(m)
	return all, changed, err
}

// deviceBooks is what a device's policy and the batches that it looks ahead at take of the host's memory, with capacity
// partitions resident (0 = all): a holder of the run's account.
func (y *Memory) deviceBooks(capacity int) int64 {
	if y.batch == nil || y.info.InPlace || y.cfg.DeviceCache == cache.NameNone || y.cfg.Absent == AbsentShadow {
		return 0
	}
	_, rowBytes, backBytes, err := y.cfg.deviceColumns(y.m)
	if err != nil {
		y.failed = err
		return 0
	}
	rows, _ := largestStep(y.m, capacity)
	worst := y.worst(capacity)
	o := cache.Options{Policy: cache.NameLookahead, Rows: int(rows), Places: int(min(y.info.MemoryBytes/max(1, rowBytes), rows)), Batch: int(worst.inputs), Window: y.cfg.DeviceWindow, Written: backBytes > 0}
	if o.Window == 0 {
		o.Window = cache.WindowDefault
	}
	return cache.Need(o) + int64(o.Window)*worst.staged + int64(1+y.info.InFlight())*rowcache.ListBytes(o)
}
