package ingest

import (
	"context"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// AppendColumns adds the node columns of src to the store in dir, as its next
// version; nothing that is there is written again. Row k is of external id k in a
// store of dense ids, elsewhere of internal id k: the order in which gstore export writes rows.
// Every column has a row for each node. Edges of src are not looked at. elem is what features are
// converted to; Invalid = as they are (float64 and integers become float32).
//
// Failures leave the store as with [Append].
func AppendColumns(ctx context.Context, dir string, src Source, elem blocks.ElemType, o AppendOptions) (*AppendReport, error) {
	if err := (&Options{FeatureElem: elem}).Validate(); err != nil {
		return nil, err
	}
	a, err := openAppend(dir, src, o)
	if err != nil {
		return nil, err
	}
	a.edges.o.FeatureElem = elem
	return a.close(a.addColumns(ctx))
}

func (a *appender) addColumns(ctx context.Context) error {
	r := a.edges
	if len(a.desc.NodeColumns) == 0 {
		return Inputf(a.desc.Input, "no columns")
	}
	for _, c := range a.desc.NodeColumns {
		if _, err := a.m.Column(c.Name); err == nil {
			return Inputf(a.desc.Input, "the store has a column %s already", c.Name)
		}
		if c.Keyed || c.First != 0 || uint64(c.Rows) != a.m.Nodes {
			return Inputf(a.desc.Input, "column %s has %d rows, expected %d, one for each node", c.Name, c.Rows, a.m.Nodes)
		}
	}
	if err := a.placeAll(ctx); err != nil {
		return err
	}
	r.m.Partitions = a.m.Partitions
	for c := range a.desc.NodeColumns {
		if err := r.column(ctx, c); err != nil {
			return err
		}
	}
	a.m.Columns = append(a.m.Columns, r.m.Columns...)
	a.m.Files = append(a.m.Files, r.m.Files...)
	if n := r.m.Schema.Classes; n > 0 && a.m.Schema.ClassNames == nil {
		a.m.Schema.Classes = max(a.m.Schema.Classes, n)
	}
	return a.commit(ctx)
}

// placeAll finds the place of every row.
func (a *appender) placeAll(ctx context.Context) error {
	r, nodes := a.edges, a.m.Nodes
	var sizes []uint32
	for _, p := range a.m.Partitions {
		if p.Nodes > math.MaxUint32 {
			return fmt.Errorf("%w: a partition of %d nodes", store.ErrInvalid, p.Nodes)
		}
		sizes = append(sizes, uint32(p.Nodes))
	}
	l, err := newLayout(sizes, 0, 1<<30)
	if err != nil {
		return err
	}
	r.layout, r.state.Nodes = l, nodes
	if err := r.divide(ctx, placeBytes(nodes, l.placeBits())); err != nil {
		return err
	}
	if r.places, err = allocPlaces(nodes, l); err != nil {
		return err
	}
	r.phase("look up nodes", "ids", int64(nodes))
	external, internal := make([]uint64, 0, lookupBatch), make([]store.NodeID, lookupBatch)
	for at := uint64(0); at < nodes; at += lookupBatch {
		external = external[:0]
		for x := at; x < min(at+lookupBatch, nodes); x++ {
			external = append(external, x)
			internal[x-at] = store.NodeID(x)
		}
		if a.m.IDs.Kind == store.IDsDense {
			if err := a.base.LookupInts(ctx, external, internal[:len(external)]); err != nil {
				return err
			}
		}
		for i, x := range external {
			p, err := a.m.Partition(internal[i])
			if err != nil {
				return fmt.Errorf("external id %d: %w", x, err)
			}
			r.places.set(x, uint64(p)<<l.localBits|(uint64(internal[i])-l.first[p]))
		}
		r.tick(int64(len(external)))
	}
	return ctx.Err()
}
