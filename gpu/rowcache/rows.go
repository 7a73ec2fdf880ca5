// Package rowcache keeps rows of tables in host memory on a device: a slab of places for each column, and a [cache.Policy] that
// says which rows lie where. A model reads the same rows, of the same type, from another place: results do not depend on it.
//
// Columns that training changes, such as learned vectors and their optimiser's state, are written in their places. They go back
// before a row leaves its place, and with [Rows.Flush] at the end of each step, whose memory is other rows' then.
//
// A Rows is for one goroutine. What it issues is in the order of its queue.
package rowcache

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// SampleBatches is how many mini-batches a device's plan is chosen by, unless it is said.
const SampleBatches = 64

// ModelBytes of a model's parameters, gradients and moments are counted apart; what is more counts beside the tensors.
const ModelBytes = 8 << 20

// Share is the part of what a device has beside the largest mini-batch that rows are kept in: evaluation and what
// batches have beside tensors take the rest.
const Share = 2

// Room is how many bytes of rows a device has room for, beside mini-batches whose tensors take at most so many bytes.
func Room(info gpu.Info, batchBytes int64) int64 {
	return (info.MemoryBytes - batchBytes - ModelBytes) / Share
}

// Column is a column of rows.
type Column struct {
	Cols    int
	Elem    blocks.ElemType
	Changes bool // by training: it is written back
}

// bytes is what a row's takes.
func (c Column) bytes() int64 { return int64(c.Cols * c.Elem.Size()) }

// Options describe rows on a device.
type Options struct {
	// Cache are the policy's, but for Rows and Hot. Policy "": there is none, places are the caller's to fill.
	Cache   cache.Options
	Hot     func([]buffer.ResidentPartition) []uint32 // rows of policy presc, of the first step; nil: none
	Slots   int                                       // places that the policy uses
	Columns []Column
}

// Rows are places on a device, and what lies there. nil keeps nothing.
type Rows struct {
	options   Options
	policy    cache.Policy // made when the first step says how many rows there are
	rowBytes  int64        // of all columns
	backBytes int64        // of those that change
	mems      []gpu.Memory
	slabs     []gpu.Tensor // by column, [places × columns]
	transfer  cache.Transfer
	where     []buffer.ResidentPartition // whose rows the policy knows
	told      int                        // batches that were announced and not admitted
	counted   cache.Stats                // by an earlier call of Traffic
}

// New makes empty places on dev.
func New(dev gpu.Device, o Options) (*Rows, error) {
	r := &Rows{options: o}
	for _, c := range o.Columns {
		m, err := dev.Alloc(int64(o.Slots) * c.bytes())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("train: rows on %s: %w", dev.Info().Name, err), r.Close())
		}
		r.rowBytes += c.bytes()
		if c.Changes {
			r.backBytes += c.bytes()
		}
		r.mems = append(r.mems, m)
		r.slabs = append(r.slabs, gpu.Tensor{Mem: m, Rows: o.Slots, Cols: c.Cols, Stride: c.Cols, Elem: c.Elem})
	}
	r.options.Cache.Written = r.backBytes > 0
	return r, nil
}

// Slabs are the places, by column.
func (r *Rows) Slabs() []gpu.Tensor { return r.slabs }

// RowBytes is what a row takes.
func (r *Rows) RowBytes() int64 { return r.rowBytes }

// Enter begins a step: rows of partitions that are gone mean other nodes.
func (r *Rows) Enter(mb *buffer.MacroBatch) (err error) {
	if r == nil {
		return nil
	}
	if r.policy == nil {
		o := r.options.Cache
		o.Rows, o.Places = mb.Rows, min(o.Places, mb.Rows)
		if r.options.Hot != nil {
			o.Hot = r.options.Hot(mb.Partitions)
		}
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

// Announce tells the policy of the batches that come, l's current one first, as far as its window reaches: those that are not
// sampled yet are waited for, so that what it does is a function of the batches. input is what a batch reads.
func (r *Rows) Announce(l *mini.Loader, input func(*mini.Batch) []uint32) error {
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
		if err := r.policy.Announce(input(b)); err != nil {
			return err
		}
	}
	return nil
}

// Table is a column in host memory, mapped. Places of a device are for all nodes: rows of zeros are kept where it lacks some.
type Table struct {
	gpu.Tensor
	Runs *buffer.Runs // where the rows are of a column of one node type alone; nil: it has those of all

	places []uint32 // of a batch, until its Sync
}

// Admit issues what the batch in hand lacks on the device and returns where its rows lie: rows index of tables, by column, which
// are mapped, or of what is kept of them. A table of the store's numbers keeps its scales. pad, if not nil, adds to the index of a
// mini-batch that is padded; the index has the first of the arena's memory, before what has another size each time. own are the indices of
// tables that have their own, one a table; nil: none has.
func (r *Rows) Admit(q *gpu.Queue, a *gpu.Arena, tables []Table, input []uint32, pad func([]uint32) []uint32) (from []gpu.Tensor, index gpu.Tensor, own []gpu.Tensor) {
	staged := func(rows []uint32) gpu.Tensor {
		if pad != nil {
			rows = pad(rows)
		}
		return a.Uint32s(q, rows)
	}
	if r == nil {
		index = staged(input)
		return tensors(tables), index, indices(tables, input, index, staged)
	}
	r.told = max(0, r.told-1)
	t := &r.transfer
	if err := r.policy.Next(input, t); err != nil {
		q.Fail(err)
		return nil, gpu.Tensor{}, nil
	}
	if t.Direct {
		var none *Rows
		return none.Admit(q, a, tables, input, pad)
	}
	index = staged(t.Loc)
	r.back(q, a, tables)
	from = r.Scaled(tables)
	if len(t.Send) > 0 {
		to, rows := a.Uint32s(q, t.To), a.Uint32s(q, t.Send)
		sent := indices(tables, t.Send, rows, func(places []uint32) gpu.Tensor { return a.Uint32s(q, places) })
		for i, table := range tables {
			if sent != nil {
				rows = sent[i]
			}
			q.CopyRows(from[i], to, table.Tensor, rows)
		}
	}
	return from, index, nil
}

// tensors are those of tables.
func tensors(tables []Table) (ts []gpu.Tensor) {
	for _, t := range tables {
		ts = append(ts, t.Tensor)
	}
	return ts
}

// indices are where tables have rows, one index a table: that of all nodes' rows, or a node type's own, staged once for all of its tables.
// nil where no table has an own.
func indices(tables []Table, rows []uint32, index gpu.Tensor, staged func([]uint32) gpu.Tensor) (all []gpu.Tensor) {
	for i := range tables {
		t := &tables[i]
		if t.Runs == nil {
			continue
		}
		if all == nil {
			all = slices.Repeat([]gpu.Tensor{index}, len(tables))
		}
		if k := slices.IndexFunc(tables[:i], func(o Table) bool { return o.Runs == t.Runs }); k >= 0 {
			all[i] = all[k]
			continue
		}
		t.places = t.Runs.Places(t.places, rows)
		all[i] = staged(t.places)
	}
	return all
}

// Scaled are the slabs with the scales of tables.
func (r *Rows) Scaled(tables []Table) []gpu.Tensor {
	from := make([]gpu.Tensor, len(tables))
	for i, table := range tables {
		from[i] = r.slabs[i]
		from[i].Scale, from[i].ScaleOffset = table.Scale, table.ScaleOffset
	}
	return from
}

// back copies the transfer's rows that changed to where they are of.
func (r *Rows) back(q *gpu.Queue, a *gpu.Arena, tables []Table) {
	t := &r.transfer
	if len(t.Back) == 0 {
		return
	}
	to, from := a.Uint32s(q, t.Back), a.Uint32s(q, t.From)
	for i, table := range tables {
		if r.options.Columns[i].Changes {
			q.CopyRows(table.Tensor, to, r.slabs[i], from)
		}
	}
}

// flushRows is how many rows Flush names together, on the host and in page-locked memory: half a mebibyte of numbers.
const flushRows = 1 << 16

// Flush copies all rows that changed to where they are of, in tables. They stay in their places. It waits for q and resets a.
func (r *Rows) Flush(ctx context.Context, q *gpu.Queue, a *gpu.Arena, tables []Table) error {
	for more := r != nil && r.policy != nil && r.backBytes > 0; more; {
		more = cache.Flush(r.policy, &r.transfer, flushRows)
		r.back(q, a, tables)
		if err := errors.Join(q.Sync(ctx), a.Reset()); err != nil {
			return err
		}
	}
	return nil
}

// ListBytes is what the lists of a batch by such a policy take, on the host and again of each batch on its way in page-locked memory: rows
// that are sent and their places, and of rows that change those that go back, of which a row that is sent may cause two.
func ListBytes(o cache.Options) int64 {
	if o.Written {
		return 24 * int64(o.Batch)
	}
	return 8 * int64(o.Batch)
}

// Traffic is what moved since it was asked last; nil without r, and before the first step.
func (r *Rows) Traffic() *cache.Traffic {
	if r == nil || r.policy == nil {
		return nil
	}
	all := r.policy.Stats()
	s := all.Sub(r.counted)
	r.counted = all
	return cache.NewTraffic(r.policy.Name(), s, r.rowBytes, r.backBytes)
}

// Close frees the places.
func (r *Rows) Close() error {
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
