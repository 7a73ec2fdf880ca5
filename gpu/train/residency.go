package train

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// cacheAuto is [Config].DeviceCache's default.
const cacheAuto = "auto"

// deviceRows keeps feature rows on a device. nil keeps nothing.
//
// Plan mirror has no policy: a partition's rows are copied to a slot when it comes, and stay as long as it does.
type deviceRows struct {
	*rowcache.Rows
	mirror  *mirror // of plan mirror
	cfg     *Config
	counted cache.Stats // of mirror, by an earlier call of traffic
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
	o := rowcache.Options{Cache: plan.Cache, Hot: plan.hot.rows, Slots: plan.Slots}
	for _, c := range columns {
		o.Columns = append(o.Columns, rowcache.Column{Cols: c.Dim, Elem: nn.TableElem(c.Elem)})
	}
	r := &deviceRows{cfg: cfg}
	if r.Rows, err = rowcache.New(dev, o); err == nil && mirrored {
		if r.mirror, err = newMirror(dev, cfg.mirrorSlots(m, plan.Spare), r.Slabs(), upcoming); err != nil {
			err = errors.Join(err, r.close())
		}
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// enter begins a step: rows of partitions that are gone mean other nodes.
func (r *deviceRows) enter(q *gpu.Queue, mb *buffer.MacroBatch) (err error) {
	switch {
	case r == nil:
		return nil
	case r.mirror != nil:
		return r.mirror.enter(q, mb)
	}
	return r.Enter(mb)
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

// announce tells the policy of the batches that come, l's current one first.
func (r *deviceRows) announce(l *mini.Loader) error {
	if r == nil || r.mirror != nil {
		return nil
	}
	return r.Announce(l, r.cfg.inputs)
}

// admit issues what the batch in hand lacks on the device and returns where the model reads its rows: of tables, which are
// mapped, or of what is kept of them. pad, if not nil, gives the index of a padded mini-batch.
func (r *deviceRows) admit(q *gpu.Queue, a *gpu.Arena, tables []rowcache.Table, input []uint32, pad func([]uint32) []uint32) (in nn.Input) {
	var rows *rowcache.Rows
	if r != nil && r.mirror != nil {
		tables, input = r.mirrored(tables), r.mirror.places(input)
	} else if r != nil {
		rows = r.Rows
	}
	in.Tables, in.Index, in.Own = rows.Admit(q, a, tables, input, pad)
	return in
}

// mirrored are the places of whole partitions as tables.
func (r *deviceRows) mirrored(tables []rowcache.Table) []rowcache.Table {
	places := make([]rowcache.Table, len(tables))
	for i, t := range r.Scaled(tables) {
		places[i].Tensor = t
	}
	return places
}

// traffic is what moved since it was asked last; nil without r.
func (r *deviceRows) traffic() *cache.Traffic {
	switch {
	case r == nil:
		return nil
	case r.mirror == nil:
		return r.Traffic()
	}
	s := r.mirror.stats.Sub(r.counted)
	r.counted = r.mirror.stats
	return cache.NewTraffic(macro.DeviceMirror, s, r.RowBytes(), 0)
}

func (r *deviceRows) close() error {
	if r == nil {
		return nil
	}
	return errors.Join(r.mirror.close(), r.Close()) // copies are over before what they write is freed
}

// read are the columns that a run's mini-batches have: features, then precomputed hops of relations.
func (c *Config) read() []string { return slices.Concat(c.Features, c.Hops) }

// columns are the manifest's columns that the run reads.
func (c *Config) columns(m *store.Manifest) ([]store.ColumnInfo, error) {
	var cs []store.ColumnInfo
	for _, name := range c.read() {
		column, err := m.Column(name)
		if err != nil {
			return nil, err
		}
		cs = append(cs, *column)
	}
	return cs, nil
}
