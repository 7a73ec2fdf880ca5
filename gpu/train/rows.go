package train

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/gpu/train/feed"
	"github.com/gstore/gstore/gpu/train/sparse"
	"github.com/gstore/gstore/gpu/vectors"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// memoryRows are rows of a macro-batch that holds all features, read where they are or, as far as [trainer.rows] keeps them, on the device.
type memoryRows struct {
	t      *trainer
	mb     *buffer.MacroBatch
	own    []buffer.Column  // the columns, in the host's memory
	tables []rowcache.Table // the same
	mapped []func()         // releases them
}

func (r *memoryRows) enter(mb *buffer.MacroBatch, _, _ int) error {
	t := r.t
	t.featureBytes = max(t.featureBytes, featureBytes(mb))
	if err := r.open(mb, mb.Features); err != nil {
		return err
	}
	return t.rows.Enter(t.queue, mb)
}

// open maps columns into the device.
func (r *memoryRows) open(mb *buffer.MacroBatch, columns []buffer.Column) error {
	r.mb, r.own, r.tables = mb, columns, r.tables[:0]
	for _, c := range columns {
		table, free, err := nn.MapTable(r.t.queue.Device(), c.Name, c.Data, c.Rows(), c.Dim, c.Stride, c.Type, c.Scale)
		if err != nil {
			return err
		}
		r.tables, r.mapped = append(r.tables, rowcache.Table{Tensor: table, Runs: c.Runs}), append(r.mapped, free)
	}
	return nil
}

func (r *memoryRows) announce(l *mini.Loader) error { return r.t.rows.Announce(l) }

func (r *memoryRows) take(_ context.Context, x *minibatch) error {
	x.issued = append(x.issued, func() { r.t.rows.SendAhead(r.mb) })
	return nil
}

func (r *memoryRows) admit(x *minibatch) {
	t := r.t
	var pad func([]uint32) []uint32
	if x.shape != nil {
		pad = func(rows []uint32) []uint32 { return t.replay.Rows(x.shape, rows) }
	}
	x.in = t.rows.Admit(t.queue, t.pipe.Arena(), r.tables, x.input, pad)
}

func (r *memoryRows) leave(ctx context.Context, err error) error {
	for _, release := range r.mapped {
		defer release()
	}
	r.mapped = r.mapped[:0]
	if err != nil {
		return err
	}
	took, err := r.t.rows.Leave(ctx)
	r.t.copied += took
	return err
}

// featureBytes is what the features of a macro-batch's nodes take.
func featureBytes(mb *buffer.MacroBatch) (n int64) {
	for i := range mb.Features {
		c := &mb.Features[i]
		for _, p := range mb.Partitions {
			rows := p.Nodes
			if c.Runs != nil {
				_, rows, _ = c.Runs.Of(p)
			}
			n += int64(rows) * int64(c.Dim*c.Type.Size())
		}
	}
	return n
}

// elemBytes is the mean size of an element of some tables; 0 of none.
func elemBytes(tables []rowcache.Table) float64 {
	bytes, cols := 0, 0
	if len(tables) == 0 {
		return 0
	}
	for _, t := range tables {
		bytes, cols = bytes+t.Cols*t.Elem.Size(), cols+t.Cols
	}
	return float64(bytes) / float64(cols)
}

// sparseRows are rows of a feature that is mostly 0, of which a run has what is not in memory, of all nodes.
type sparseRows struct {
	memoryRows
	table *sparse.Table
	nodes []uint32 // of a mini-batch
}

func (r *sparseRows) enter(mb *buffer.MacroBatch, _, _ int) error {
	r.t.featureBytes = r.table.Bytes()
	return r.open(mb, nil)
}

func (r *sparseRows) take(context.Context, *minibatch) error { return nil }

func (r *sparseRows) admit(x *minibatch) {
	r.nodes = r.nodes[:0]
	var p buffer.ResidentPartition
	for _, row := range x.input {
		if row-p.Base >= p.Nodes { // below Base it wraps around
			k, _ := slices.BinarySearchFunc(r.mb.Partitions, row, func(p buffer.ResidentPartition, row uint32) int { return cmp.Compare(p.Base+p.Nodes, row+1) })
			p = r.mb.Partitions[k]
		}
		r.nodes = append(r.nodes, uint32(p.First)+row-p.Base)
	}
	x.in = nn.Input{Sparse: r.table.Rows(r.t.pipe.Arena().Uint32s(r.t.queue, r.nodes))}
}

// fedRows, of plan rows, are rows of which a macro-batch holds none: a feed reads those of each mini-batch ahead.
type fedRows struct {
	memoryRows
	feed *feed.Feeder
}

func (r *fedRows) enter(mb *buffer.MacroBatch, epoch, batch int) error {
	r.t.featureBytes = r.feed.Reader.Sizes().SlotBytes()
	if err := r.open(mb, r.feed.Reader.Features()); err != nil {
		return err
	}
	if err := r.feed.Start(mb, epoch, batch); err != nil {
		return err
	}
	return r.t.rows.Enter(r.t.queue, mb)
}

func (r *fedRows) take(ctx context.Context, x *minibatch) error {
	if err := r.t.pipe.Drain(ctx); err != nil { // slots are a batch's until it is done
		return err
	}
	slots, err := r.feed.Take(x.input, x.sum)
	if err != nil {
		return err
	}
	x.input, x.began = slots, time.Now()
	x.over = append(x.over, r.feed.Reader.Done)
	return r.memoryRows.take(ctx, x)
}

// tableRows are rows of which some are learned vectors, in a table whose rows are in memory with their partitions.
type tableRows struct {
	rowStage
	t       *trainer
	vectors *vectors.Resident
}

func (r *tableRows) enter(mb *buffer.MacroBatch, epoch, batch int) error {
	if err := r.vectors.Enter(r.t.queue.Device(), mb); err != nil {
		return fmt.Errorf("train: epoch %d, step %d: %w", epoch+1, mb.StepIndex, err)
	}
	return r.rowStage.enter(mb, epoch, batch)
}

func (r *tableRows) admit(x *minibatch) {
	r.rowStage.admit(x)
	x.in.Vectors = r.vectors.Of(x.input)
}

// typedRows are rows of nodes whose types the model reads, on the host, where it sorts them.
type typedRows struct {
	rowStage
	of    *memoryRows
	types []uint32 // of a mini-batch
}

func (r *typedRows) enter(mb *buffer.MacroBatch, epoch, batch int) error {
	if err := r.rowStage.enter(mb, epoch, batch); err != nil {
		return err
	}
	if r.column() == nil {
		return fmt.Errorf("train: %w: column %s, which says the nodes' types, among the features in memory", store.ErrNotFound, store.TypeColumn)
	}
	return nil
}

func (r *typedRows) column() *buffer.Column {
	k := slices.IndexFunc(r.of.own, func(c buffer.Column) bool { return c.Name == store.TypeColumn && c.Type == blocks.Uint32 })
	if k < 0 {
		return nil
	}
	return &r.of.own[k]
}

func (r *typedRows) admit(x *minibatch) {
	r.rowStage.admit(x)
	c := r.column()
	r.types = r.types[:0]
	for _, row := range x.input {
		if c.Runs != nil {
			row = c.Runs.Place(row)
		}
		r.types = append(r.types, binary.LittleEndian.Uint32(c.Data[int(row)*c.Stride:]))
	}
	x.in.Types = r.types
}
