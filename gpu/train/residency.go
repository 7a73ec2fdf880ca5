package train

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// cacheAuto is [Config].DeviceCache's default.
const cacheAuto = "auto"

// deviceRows keeps feature rows on a device: a slab of places for each column, and the policy that says what lies where. A batch
// reads the same rows, of the same type, from another place: results do not depend on it. nil keeps nothing.
//
// Plan mirror has no policy: a partition's rows are copied to a slot when it comes, and stay as long as it does.
type deviceRows struct {
	mirror   []mirrorSlot  // of plan mirror
	shifts   []uint32      // what to add to a row of the partition buffer for its place, by row >> mirrorShift
	index    []uint32      // of a batch's rows, until its Sync
	options  cache.Options // of the policy, but for Rows
	policy   cache.Policy  // made when the first step says how many rows there are
	cfg      *Config
	rowBytes int64 // of all columns
	mems     []gpu.Memory
	slabs    []gpu.Tensor // by column, [places × columns]
	transfer cache.Transfer
	where    []buffer.ResidentPartition // whose rows the policy knows
	told     int                        // batches that were announced and not admitted
	mirrored cache.Stats                // by plan mirror
	counted  cache.Stats                // by an earlier call of traffic
}

// newDeviceRows makes empty places on dev for the feature rows of a run; nil where o has no policy.
func newDeviceRows(dev gpu.Device, m *store.Manifest, cfg *Config, plan DevicePlan) (_ *deviceRows, err error) {
	o := plan.Cache
	var slots []mirrorSlot
	if plan.Cost.Plan == macro.DeviceMirror {
		slots = cfg.mirrorSlots(m)
	} else if o.Policy == "" {
		return nil, nil
	}
	columns, err := cfg.columns(m)
	if err != nil {
		return nil, err
	}
	r := &deviceRows{mirror: slots, options: o, cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("train: feature rows on %s: %w", dev.Info().Name, err), r.close())
		}
	}()
	for _, c := range columns {
		row := int64(c.Dim * c.Elem.Size())
		m, err := dev.Alloc(int64(plan.Slots) * row)
		if err != nil {
			return nil, err
		}
		r.rowBytes += row
		r.mems = append(r.mems, m)
		r.slabs = append(r.slabs, gpu.Tensor{Mem: m, Rows: plan.Slots, Cols: c.Dim, Stride: c.Dim, Elem: nn.TableElem(c.Elem)})
	}
	return r, nil
}

// enter begins a step: rows of partitions that are gone mean other nodes.
func (r *deviceRows) enter(q *gpu.Queue, mb *buffer.MacroBatch) (err error) {
	if r == nil {
		return nil
	}
	if r.mirror != nil {
		return r.copyPartitions(q, mb)
	}
	if r.policy == nil {
		o := r.options
		o.Rows, o.Places = mb.Rows, min(o.Places, mb.Rows)
		if r.policy, err = cache.New(o); err != nil {
			return err
		}
	}
	for _, p := range macro.Gone(r.where, mb.Partitions) {
		r.policy.Drop(p.Base, p.Base+p.Nodes)
	}
	r.where = append(r.where[:0], mb.Partitions...)
	return nil
}

// mirrorSlot is room for a partition on the device.
type mirrorSlot struct {
	base, rows uint32
	own        bool // it is partition id's alone
	taken      bool // by partition id
	id         store.PartitionID
}

// mirrorShift: partitions begin at multiples of 64 rows of the partition buffer.
const mirrorShift = 6

// mirrorSlots are the slots of plan mirror: a partition that is always resident has its own, the others of a step have any, of the
// largest one's size.
func (c *Config) mirrorSlots(m *store.Manifest) (slots []mirrorSlot) {
	capacity := c.capacity(m)
	at, most := uint32(0), uint32(0)
	for id, p := range m.Partitions {
		id, rows := store.PartitionID(id), uint32(p.Nodes)
		if capacity > 0 && !slices.Contains(m.Pinned, id) {
			most = max(most, rows)
			continue
		}
		slots = append(slots, mirrorSlot{base: at, rows: rows, own: true, id: id})
		at += rows
	}
	for range capacity {
		slots = append(slots, mirrorSlot{base: at, rows: most})
		at += most
	}
	return slots
}

// mirrorRows is what slots take.
func mirrorRows(slots []mirrorSlot) (n int64) {
	for _, s := range slots {
		n += int64(s.rows)
	}
	return n
}

// copyPartitions issues the copies of the partitions that came since the step before.
func (r *deviceRows) copyPartitions(q *gpu.Queue, mb *buffer.MacroBatch) error {
	for i := range r.mirror {
		s := &r.mirror[i]
		s.taken = s.taken && slices.ContainsFunc(mb.Partitions, func(p buffer.ResidentPartition) bool { return p.ID == s.id })
	}
	r.shifts = resized(r.shifts, mb.Rows>>mirrorShift+1)
	for _, p := range mb.Partitions {
		at := slices.IndexFunc(r.mirror, func(s mirrorSlot) bool { return s.id == p.ID && (s.own || s.taken) })
		if at < 0 {
			at = slices.IndexFunc(r.mirror, func(s mirrorSlot) bool { return !s.own && !s.taken && s.rows >= p.Nodes })
		}
		if at < 0 || p.Base%(1<<mirrorShift) != 0 {
			return fmt.Errorf("train: plan mirror: no slot for partition %d of %d rows, at row %d of the partition buffer", p.ID, p.Nodes, p.Base)
		}
		s := &r.mirror[at]
		for g := p.Base >> mirrorShift; g<<mirrorShift < p.Base+p.Nodes; g++ {
			r.shifts[g] = s.base - p.Base
		}
		if s.taken {
			continue
		}
		s.id, s.taken = p.ID, true
		for i, c := range mb.Features {
			row := c.Dim * c.Type.Size()
			slab := r.slabs[i].View(int(s.base), 0, int(p.Nodes), c.Dim)
			if c.Stride == row {
				q.Upload(slab, c.Data[int(p.Base)*row:int(p.Base+p.Nodes)*row])
				continue
			}
			for k := range int(p.Nodes) { // rows with gaps between them
				from := (int(p.Base) + k) * c.Stride
				q.Upload(slab.View(k, 0, 1, c.Dim), c.Data[from:from+row])
			}
		}
		r.mirrored.Pinned += uint64(p.Nodes)
	}
	return nil
}

// announce tells the policy of the batches that come, l's current one first, as far as its window reaches: those that are not
// sampled yet are waited for, so that what it does is a function of the batches.
func (r *deviceRows) announce(l *mini.Loader) error {
	if r == nil || r.mirror != nil || r.policy.Window() == 0 {
		return nil
	}
	for ; r.told <= r.policy.Window(); r.told++ {
		b := l.Batch()
		if r.told > 0 {
			b = l.Ahead(r.told)
		}
		if b == nil { // the pass ends
			break
		}
		if err := r.policy.Announce(r.cfg.inputs(b)); err != nil {
			return err
		}
	}
	return nil
}

// admit issues what the batch in hand lacks on the device and returns where the model reads its rows: of tables, which are
// mapped, or of what is kept of them.
func (r *deviceRows) admit(q *gpu.Queue, a *gpu.Arena, tables []gpu.Tensor, input []uint32) nn.Input {
	if r == nil {
		return nn.Input{Tables: tables, Index: a.Uint32s(q, input)}
	}
	if r.mirror != nil {
		r.index = r.index[:0]
		for _, row := range input {
			r.index = append(r.index, row+r.shifts[row>>mirrorShift])
		}
		in := nn.Input{Index: a.Uint32s(q, r.index)}
		for i, table := range tables {
			slab := r.slabs[i]
			slab.Scale, slab.ScaleOffset = table.Scale, table.ScaleOffset
			in.Tables = append(in.Tables, slab)
		}
		r.mirrored.Hits += uint64(len(input))
		return in
	}
	r.told = max(0, r.told-1)
	t := &r.transfer
	if err := r.policy.Next(input, t); err != nil {
		q.Fail(err)
		return nn.Input{}
	}
	if t.Direct {
		return nn.Input{Tables: tables, Index: a.Uint32s(q, input)}
	}
	in := nn.Input{Tables: make([]gpu.Tensor, len(tables))}
	to, from := a.Uint32s(q, t.To), a.Uint32s(q, t.Send)
	for i, table := range tables {
		slab := r.slabs[i]
		slab.Scale, slab.ScaleOffset = table.Scale, table.ScaleOffset
		if len(t.Send) > 0 {
			q.CopyRows(slab, to, table, from)
		}
		in.Tables[i] = slab
	}
	in.Index = a.Uint32s(q, t.Loc)
	return in
}

// traffic is what moved since it was asked last; nil without r.
func (r *deviceRows) traffic() *cache.Traffic {
	if r == nil || r.policy == nil && r.mirror == nil {
		return nil
	}
	all, name := r.mirrored, macro.DeviceMirror
	if r.mirror == nil {
		all, name = r.policy.Stats(), r.policy.Name()
	}
	s := all.Sub(r.counted)
	r.counted = all
	return cache.NewTraffic(name, s, r.rowBytes)
}

func (r *deviceRows) close() error {
	if r == nil {
		return nil
	}
	var err error
	for _, m := range r.mems {
		err = errors.Join(err, m.Free())
	}
	r.mems = nil
	if r.policy != nil {
		err = errors.Join(err, r.policy.Close())
	}
	return err
}

// columns are the manifest's columns of the run's features.
func (c *Config) columns(m *store.Manifest) ([]store.ColumnInfo, error) {
	var cs []store.ColumnInfo
	for _, name := range c.Features {
		column, err := m.Column(name)
		if err != nil {
			return nil, err
		}
		cs = append(cs, *column)
	}
	return cs, nil
}
