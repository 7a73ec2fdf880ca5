package explain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
)

// What an edge takes beside its tensors: as it is found and sorted, and in the lists of each layer.
const (
	foundBytes = 120
	layerBytes = 72
	nodeBytes  = 96 // in the table of places, and as a node
)

// Holders of an account. What is read is given up before a pass begins.
const (
	holdsModel  = "model"
	holdsAround = "neighbourhood"
	holdsReads  = "what is read"
	holdsPass   = "pass over the neighbourhood"
)

// edgeBytes is what an edge takes of the heap.
func (r *runner) edgeBytes() int64 {
	return foundBytes + layerBytes*int64(r.Config.Layers) + 8*int64(r.Config.EdgeDim)
}

// base is the account without the neighbourhood.
func (r *runner) base(o Options) budget.Account {
	a := budget.Account{TotalBytes: o.MemoryBytes}
	a.Hold(budget.Program, budget.ProgramBytes, false)
	a.Hold("ids", o.HeldBytes, false)
	a.Hold(holdsModel, 2*r.Config.SavedBytes(), false) // values and gradients
	a.HoldHeap("copy of the model", int64(len(r.Checkpoint.Params)))
	return a
}

// readBytes is what reading takes: a partition's edges with what they carry, or its nodes' rows of a column.
func (r *runner) readBytes(e *eval.Evaluator) (most int64, err error) {
	m := r.Store.Manifest()
	carried, err := buffer.EdgeFeatures(m, r.Checkpoint.Config.EdgeFeatures)
	if err != nil {
		return 0, err
	}
	carried = slices.Concat(carried, m.ColumnsOf(store.RoleRelation), m.ColumnsOf(store.RoleWeight))
	for p, info := range m.Partitions {
		_, extent, err := r.Store.Files().Topology(store.PartitionID(p))
		if err != nil {
			return 0, err
		}
		edges := blocks.RangeBytes(extent.Length)
		for _, c := range carried {
			_, ce, err := r.Store.Files().Column(c.Name, store.PartitionID(p))
			if err != nil {
				return 0, err
			}
			edges += 2 * blocks.AlignUp(int64(ce.Rows)*int64(c.RowBytes()))
		}
		most = max(most, edges)
		for _, c := range e.Columns() {
			most = max(most, 2*blocks.AlignUp(int64(info.Nodes)*int64(c.RowBytes())))
		}
	}
	return most + int64(m.Nodes+63)/64*12, nil
}

// limitLeast edges are listed whatever the memory is: a refusal then says what is enough.
const limitLeast = 10_000

// limit is how many edges the memory has room to list.
func (r *runner) limit(e *eval.Evaluator, o Options) (int64, error) {
	if o.MemoryBytes == 0 {
		return math.MaxInt32, nil
	}
	a := r.base(o)
	reads, err := r.readBytes(e)
	if err != nil {
		return 0, err
	}
	a.Hold(holdsReads, reads, false)
	return max(limitLeast, min(a.LeftBytes()/r.edgeBytes(), math.MaxInt32)), nil
}

// account is that of a neighbourhood that is read, of which a pass is counted by a dry run.
func (r *runner) account(ctx context.Context, e *eval.Evaluator, o Options) (a budget.Account, err error) {
	a = r.base(o)
	reads, err := r.readBytes(e)
	if err != nil {
		return a, err
	}
	keep, pass, err := r.dry(ctx)
	if err != nil {
		return a, fmt.Errorf("what a pass takes: %w", err)
	}
	r.keep.Bound(keep) // one chunk each
	r.arena.Bound(pass)
	pass += keep
	var rows int64
	for _, c := range r.Columns {
		rows += int64(c.RowBytes())
	}
	n := int64(len(r.around.Nodes))
	a.HoldHeap(holdsAround, r.edgeBytes()*int64(len(r.around.Dst))+n*(nodeBytes+rows+int64(4*len(r.around.Reach))))
	if pass > reads || r.Device.Info().OwnMemory() {
		a.Hold(holdsPass, pass, false)
	} else {
		a.Hold(holdsReads, reads, false)
	}
	return a, a.Fits()
}

// dry is what all passes over the neighbourhood keep of the host's memory, and what one takes.
func (r *runner) dry(ctx context.Context) (keep, pass int64, err error) {
	info := r.Device.Info()
	if info.OwnMemory() {
		return 0, 0, nil
	}
	m, err := r.Dry(ctx)
	if err != nil {
		return 0, 0, err
	}
	d := on(m)
	d.around = r.around
	defer func() { err = errors.Join(err, d.close()) }()
	d.keep.Bound(math.MaxInt64 / 2) // one chunk: tensors are counted, not chunks
	d.arena.Bound(math.MaxInt64 / 2)
	if err := d.place(ctx); err != nil {
		return 0, 0, err
	}
	if _, _, err := d.at(ctx, 1, 1, true); err != nil {
		return 0, 0, err
	}
	if err := d.arena.Reset(); err != nil {
		return 0, 0, err
	}
	d.shares()
	err = errors.Join(d.Queue.Sync(ctx), d.arena.Reset(), d.keep.Reset())
	return d.keep.Peak(), d.arena.Peak(), err
}
