package ondevice

import (
	"context"
	"errors"
	"time"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Rows keeps feature rows on a device. nil keeps nothing.
//
// Plan mirror has no policy: a partition's rows are copied to a slot when it comes, and stay as long as it does.
type Rows struct {
	Kept    *rowcache.Rows // rows by policy, or the room of plan mirror
	Mirror  *mirror        // of plan mirror
	cfg     *config.Config
	counted cache.Stats // of mirror, by an earlier call of traffic
}

// NewRows makes empty places on dev for the feature rows of a run; nil where plan keeps none. upcoming is
// [buffer.Buffer.Upcoming].
func NewRows(dev gpu.Device, m *store.Manifest, cfg *config.Config, plan Plan, upcoming func() []buffer.ResidentPartition) (_ *Rows, err error) {
	mirrored := plan.Cost.Plan == macro.DeviceMirror
	if !mirrored && plan.Cache.Policy == "" {
		return nil, nil
	}
	columns, err := cfg.Columns(m)
	if err != nil {
		return nil, err
	}
	o := rowcache.Options{Cache: plan.Cache, Hot: plan.hot.rows, Slots: plan.Slots}
	for _, c := range columns {
		o.Columns = append(o.Columns, rowcache.Column{Cols: c.Dim, Elem: nn.TableElem(c.Elem)})
	}
	r := &Rows{cfg: cfg}
	if r.Kept, err = rowcache.New(dev, o); err == nil && mirrored {
		if r.Mirror, err = newMirror(dev, mirrorSlots(cfg, m, plan.Spare), r.Kept.Slabs(), upcoming); err != nil {
			err = errors.Join(err, r.Kept.Close())
		}
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Enter begins a step: rows of partitions that are gone mean other nodes.
func (r *Rows) Enter(q *gpu.Queue, mb *buffer.MacroBatch) (err error) {
	switch {
	case r == nil:
		return nil
	case r.Mirror != nil:
		return r.Mirror.enter(q, mb)
	}
	return r.Kept.Enter(mb)
}

// SendAhead goes on with what of the next step's rows can cross while the step in hand trains.
func (r *Rows) SendAhead(mb *buffer.MacroBatch) {
	if r != nil {
		r.Mirror.sendAhead(mb.Features)
	}
}

// Leave ends a step that is done, before its memory is released, and returns how long the device copied whole partitions for it.
func (r *Rows) Leave(ctx context.Context) (time.Duration, error) {
	if r == nil {
		return 0, nil
	}
	return r.Mirror.leave(ctx)
}

// Announce tells the policy of the batches that come, l's current one first.
func (r *Rows) Announce(l *mini.Loader) error {
	if r == nil || r.Mirror != nil {
		return nil
	}
	return r.Kept.Announce(l, r.cfg.Inputs)
}

// Admit issues what the batch in hand lacks on the device and returns where the model reads its rows: of tables, which are
// mapped, or of what is kept of them. pad, if not nil, gives the index of a padded mini-batch.
func (r *Rows) Admit(q *gpu.Queue, a *gpu.Arena, tables []rowcache.Table, input []uint32, pad func([]uint32) []uint32) (in nn.Input) {
	var rows *rowcache.Rows
	if r != nil && r.Mirror != nil {
		tables, input = r.mirrored(tables), r.Mirror.Places(input)
	} else if r != nil {
		rows = r.Kept
	}
	in.Tables, in.Index, in.Own = rows.Admit(q, a, tables, input, pad)
	return in
}

// mirrored are the places of whole partitions as tables.
func (r *Rows) mirrored(tables []rowcache.Table) []rowcache.Table {
	places := make([]rowcache.Table, len(tables))
	for i, t := range r.Kept.Scaled(tables) {
		places[i].Tensor = t
	}
	return places
}

// Traffic is what moved since it was asked last; nil without r.
func (r *Rows) Traffic() *cache.Traffic {
	switch {
	case r == nil:
		return nil
	case r.Mirror == nil:
		return r.Kept.Traffic()
	}
	s := r.Mirror.Stats.Sub(r.counted)
	r.counted = r.Mirror.Stats
	return cache.NewTraffic(macro.DeviceMirror, s, r.Kept.RowBytes(), 0)
}

func (r *Rows) Close() error {
	if r == nil {
		return nil
	}
	return errors.Join(r.Mirror.close(), r.Kept.Close()) // copies are over before what they write is freed
}
