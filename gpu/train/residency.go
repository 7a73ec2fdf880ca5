package train

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	mirror   *mirror       // of plan mirror
	options  cache.Options // of the policy, but for Rows and Hot
	hot      hotNodes      // of policy presc
	policy   cache.Policy  // made when the first step says how many rows there are
	cfg      *Config
	rowBytes int64 // of all columns
	mems     []gpu.Memory
	slabs    []gpu.Tensor // by column, [places × columns]
	transfer cache.Transfer
	where    []buffer.ResidentPartition // whose rows the policy knows
	told     int                        // batches that were announced and not admitted
	counted  cache.Stats                // by an earlier call of traffic
}

// newDeviceRows makes empty places on dev for the feature rows of a run; nil where plan keeps none. upcoming is
// [buffer.Buffer.Upcoming].
func newDeviceRows(dev gpu.Device, m *store.Manifest, cfg *Config, plan DevicePlan, upcoming func() []buffer.ResidentPartition) (_ *deviceRows, err error) {
	mirrored := plan.Cost.Plan == macro.DeviceMirror
	if !mirrored && plan.Cache.Policy == "" {
		return nil, nil
	}
	columns, err := cfg.columns(m)
	if err != nil {
		return nil, err
	}
	r := &deviceRows{options: plan.Cache, hot: plan.hot, cfg: cfg}
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
	if mirrored {
		r.mirror, err = newMirror(dev, cfg.mirrorSlots(m, plan.Spare), r.slabs, upcoming)
	}
	return r, err
}

// enter begins a step: rows of partitions that are gone mean other nodes.
func (r *deviceRows) enter(q *gpu.Queue, mb *buffer.MacroBatch) (err error) {
	if r == nil {
		return nil
	}
	if r.mirror != nil {
		return r.mirror.enter(q, mb)
	}
	if r.policy == nil {
		o := r.options
		o.Rows, o.Places, o.Hot = mb.Rows, min(o.Places, mb.Rows), r.hot.rows(mb.Partitions)
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

// sendAhead goes on with what of the next step's rows can cross while the step in hand trains.
func (r *deviceRows) sendAhead(mb *buffer.MacroBatch) {
	if r != nil {
		r.mirror.sendAhead(mb.Features)
	}
}

// leave ends a step that is done, before its memory is released, and returns how long the device copied whole partitions for it.
func (r *deviceRows) leave(ctx context.Context) (time.Duration, error) {
	if r == nil {
		return 0, nil
	}
	return r.mirror.leave(ctx)
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
		in := nn.Input{Index: a.Uint32s(q, r.mirror.places(input))}
		for i, table := range tables {
			slab := r.slabs[i]
			slab.Scale, slab.ScaleOffset = table.Scale, table.ScaleOffset
			in.Tables = append(in.Tables, slab)
		}
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
	var all cache.Stats
	name := macro.DeviceMirror
	if r.mirror != nil {
		all = r.mirror.stats
	} else {
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
	err := r.mirror.close() // its copies are over before what they write is freed
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
