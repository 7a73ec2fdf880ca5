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
func Choose(c *config.Config, ctx context.Context, st *store.Store, info gpu.Info, batches int) (Plan, error) {
	x := &choosing{asked: c, cfg: *c, st: st, m: st.Manifest(), info: info, batches: cmp.Or(batches, rowcache.SampleBatches)}
	x.tellSampler()
	if info.InPlace {
		return x.plan, nil
	}
	steps := []func(context.Context) (string, error){x.elsewhere, x.measure, x.sample, x.drawn, x.fill, x.cost}
	for _, step := range steps {
		reason, err := step(ctx)
		if err == nil && reason != "" {
			err = x.leave(reason)
		}
		if err != nil || reason != "" {
			return x.plan, err
		}
	}
	x.tell(x.place())
	return x.plan, nil
}

// choosing is a plan in the making. Its steps return why rows are read where they are, "" to go on.
type choosing struct {
	asked   *config.Config
	cfg     config.Config // asked, with its features
	st      *store.Store
	m       *store.Manifest
	info    gpu.Info
	batches int // that are sampled

	shape          config.Shape
	rowBytes, room int64 // of a node's rows; of all rows on the device
	options        macro.DeviceOptions
	rec            macro.DeviceRecord
	draw           *sampling.Options // what draws mini-batches on the device, if something does
	undrawn        string            // why nothing does
	hot            hotNodes
	costs          []string // what each plan and policy moves, in words
	plan           Plan
}

// tellSampler says of device plans that draw other mini-batches that they do.
func (x *choosing) tellSampler() {
	does := map[string]string{
		macro.DeviceLBS: fmt.Sprintf("the neighbours of %d mini-batches are drawn together", x.asked.DeviceMacro),
		macro.DevicePBS: fmt.Sprintf("%d partitions are trained together, with the states around them from the history",
			x.asked.DeviceMacro),
	}
	if x.asked.Stages() {
		why := fmt.Sprintf("device plan %s is a sampler: mini-batches and results are its own on any device; %s",
			x.asked.DevicePlan, does[x.asked.DevicePlan])
		x.plan.Why = append(x.plan.Why, why)
	}
}

// leave has rows read where they are, for a reason; what plan mirror was asked for is not.
func (x *choosing) leave(reason string) error {
	const advice = "give more device memory, fewer partitions in memory, or"
	if x.asked.SampleOn == config.SampleDevice {
		return fmt.Errorf("train: sampling on the device takes device plan %s: %s: %s have the host sample",
			macro.DeviceMirror, reason, advice)
	}
	if x.asked.DevicePlan == macro.DeviceMirror {
		return fmt.Errorf("train: device plan %s: %s: %s take plan %s", macro.DeviceMirror, reason, advice, macro.DeviceDirect)
	}
	x.plan.Why = append(x.plan.Why, "device: feature rows are read where they are: "+reason)
	return nil
}

// elsewhere looks at plans whose rows are not a partition buffer's, or do not stay where they are.
func (x *choosing) elsewhere(context.Context) (string, error) {
	c := x.asked
	if c.Plan == macro.Rows { // slots of the host's cache, whose rows change from batch to batch
		return "plan rows has them in a cache of the host's", nil
	}
	if c.DeviceCache == cache.NamePreSC && c.Capacity(x.m) > 0 {
		return "", fmt.Errorf("train: device cache %s keeps nodes that lie where they are for the whole run, "+
			"plan %s moves partitions: choose %s, or plan %s", cache.NamePreSC, c.Plan, cache.NameLookahead, macro.Memory)
	}
	return "", nil
}

// measure works out what a row takes, and the room for rows.
func (x *choosing) measure(ctx context.Context) (_ string, err error) {
	if x.shape, err = config.ShapeOf(x.m, &x.cfg); err != nil {
		return "", err
	}
	columns, err := x.cfg.Columns(x.m)
	if err != nil {
		return "", err
	}
	for _, column := range columns {
		x.rowBytes += int64(column.Dim * column.Elem.Size())
	}
	if x.room, err = DeviceRoom(&x.cfg, ctx, x.info, x.m, x.shape); err != nil {
		return "", err
	}
	if x.asked.DeviceCache == cache.NameNone && x.room <= 0 || x.room < x.rowBytes {
		return fmt.Sprintf("of %.1f MiB nothing is left beside the largest mini-batch", planning.MiB(x.info.MemoryBytes)), nil
	}
	return "", nil
}

// sample records the run's first mini-batches, and sets what their costs depend on.
func (x *choosing) sample(ctx context.Context) (_ string, err error) {
	if x.rec, err = Record(&x.cfg, ctx, x.st, RecordOptions{Info: x.info, Batches: x.batches}); err != nil {
		return "", err
	}
	c := x.asked
	stepRows, _ := planning.LargestStep(x.m, x.cfg.Capacity(x.m))
	x.options = macro.DeviceOptions{RowBytes: x.rowBytes, Rows: x.room / x.rowBytes, MirrorRows: MirrorRows(&x.cfg, x.m),
		StepRows: stepRows, Window: c.DeviceWindow}
	if c.DeviceCache != config.CacheAuto {
		x.options.Policy = c.DeviceCache
	}
	if c.DevicePlan != config.CacheAuto {
		x.options.Plan = c.DevicePlan
	}
	switch n := c.Together(); {
	case c.DeviceWindow > 0:
	case n > cache.WindowDefault:
		x.options.Window = min(n, cache.WindowMax) // all that are drawn together
	case c.MemoryBytes > 0:
		x.options.Window = cache.WindowDefault // so many are held in the account
	}
	return "", nil
}

// drawn finds out whether the device draws mini-batches.
func (x *choosing) drawn(context.Context) (_ string, err error) {
	c, o := x.asked, &x.options
	if x.draw, x.undrawn, err = drawing(&x.cfg, x.info, x.m, x.shape); err != nil {
		return "", err
	}
	if x.draw != nil {
		if o.DrawnRows, err = drawnRoom(x.room, x.rowBytes, x.draw); err != nil {
			return "", err
		}
		if o.DrawnRows < o.MirrorRows {
			x.undrawn = fmt.Sprintf("beside neighbour lists and mini-batches there is room for %d rows, "+
				"the partitions of a step take %d", o.DrawnRows, o.MirrorRows)
		}
	}
	if o.DrawnOnly = c.SampleOn == config.SampleDevice; !o.DrawnOnly {
		return "", nil
	}
	if x.undrawn != "" || o.Policy != "" || o.Plan != "" && o.Plan != macro.DeviceMirror {
		return cmp.Or(x.undrawn, fmt.Sprintf("device plan %s and cache %s are asked for", c.DevicePlan, c.DeviceCache)), nil
	}
	return "", nil
}

// fill checks that a mini-batch's rows have room, and finds the nodes that are hot.
func (x *choosing) fill(ctx context.Context) (_ string, err error) {
	x.plan.Batches = len(x.rec.Batches)
	if x.options.Rows < x.rec.BatchRows() {
		return fmt.Sprintf("there is room for %d, a mini-batch has %d", x.options.Rows, x.rec.BatchRows()), nil
	}
	x.hot, err = presampled(&x.cfg, ctx, x.st, x.info, x.options.Rows)
	x.options.Hot = x.hot.rows(x.rec.Resident())
	return "", err
}

// cost counts what each plan and policy moves, and takes what moves least.
func (x *choosing) cost(context.Context) (string, error) {
	costs, err := x.rec.Costs(x.options)
	if err != nil {
		return "", err
	}
	if len(costs) == 0 {
		return fmt.Sprintf("there is room for %d rows, the partitions of a step take %d", x.options.Rows, x.options.MirrorRows), nil
	}
	x.plan.Cost, x.costs = macro.ChooseDevice(costs)
	return "", nil
}

// place divides the room by the plan that was chosen, and says how.
func (x *choosing) place() (why []string) {
	p, o := &x.plan, &x.options
	if p.Cost.Plan != macro.DeviceMirror {
		o.Window = p.Cost.Window
		p.Cache = o.CachePolicy(p.Cost.Policy, x.rec.Rows, x.rec.BatchRows())
		p.Slots = o.Slots(p.Cache)
		if p.Cache.Policy == cache.NamePreSC { // rows are the partition buffer's, which has other columns
			p.Cache.Hot, p.hot = nil, x.hot.first(len(p.Cache.Hot))
		}
		return nil
	}
	p.Spare = mirrorSpare(&x.cfg, x.m, o.Rows-o.MirrorRows)
	if p.Cost.Drawn {
		p.Draw = x.draw
		p.Spare = drawnSpare(&x.cfg, x.draw, x.m, p.Spare, x.room, x.rowBytes)
		why = append(why, "device: mini-batches are drawn there, the host's entry for entry")
	}
	p.Slots = int(mirrorRows(mirrorSlots(&x.cfg, x.m, p.Spare)))
	if capacity := x.cfg.Capacity(x.m); capacity > 0 {
		why = append(why, fmt.Sprintf("device plan mirror: room for %d partitions beside the %d of a step: "+
			"so many of the next one's cross while a step trains", p.Spare, capacity))
	}
	return why
}

// tell says what was counted, how the room is divided, and who draws mini-batches.
func (x *choosing) tell(divided []string) {
	p := &x.plan
	p.Why = append(p.Why, x.hot.why...)
	p.Why = append(p.Why, fmt.Sprintf("device: room for %d feature rows of %d B, %d of them for a mini-batch's; "+
		"of the first %d mini-batches:", x.options.Rows, x.rowBytes, x.rec.BatchRows(), p.Batches))
	p.Why = append(append(p.Why, x.costs...), divided...)
	if p.Cost.Drawn || x.asked.SampleOn == config.SampleHost || !x.info.Samples {
		return
	}
	reason := "less crosses than neighbour lists"
	if p.Cost.Plan != macro.DeviceMirror {
		reason = fmt.Sprintf("plan %s has to know their rows", p.Cost.Plan)
	}
	p.Why = append(p.Why, "device: the host draws mini-batches: "+cmp.Or(x.undrawn, reason))
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
