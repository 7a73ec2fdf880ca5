package train

import (
	"errors"
	"fmt"

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
type deviceRows struct {
	options  cache.Options // of the policy, but for Rows
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

// newDeviceRows makes empty places on dev for the feature rows of a run; nil where o has no policy.
func newDeviceRows(dev gpu.Device, m *store.Manifest, cfg *Config, plan DevicePlan) (_ *deviceRows, err error) {
	o := plan.Cache
	if o.Policy == "" {
		return nil, nil
	}
	columns, err := cfg.columns(m)
	if err != nil {
		return nil, err
	}
	r := &deviceRows{options: o, cfg: cfg}
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
func (r *deviceRows) enter(mb *buffer.MacroBatch) (err error) {
	if r == nil {
		return nil
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

// announce tells the policy of the batches that come, l's current one first, as far as its window reaches: those that are not
// sampled yet are waited for, so that what it does is a function of the batches.
func (r *deviceRows) announce(l *mini.Loader) error {
	if r == nil || r.policy.Window() == 0 {
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
	if r == nil || r.policy == nil {
		return nil
	}
	all := r.policy.Stats()
	s := all.Sub(r.counted)
	r.counted = all
	return cache.NewTraffic(r.policy.Name(), s, r.rowBytes)
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
