package grow

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/edges"
	"github.com/gstore/gstore/store/ingest/source"
)

// AppendColumns adds the node columns of src to the store in dir, as its next
// version; nothing that is there is written again. Row k is of external id k in a
// store of dense ids, elsewhere of internal id k: the order in which gstore export writes rows.
// Every column has a row for each node. Edges of src are not looked at. elem is what features are
// converted to; Invalid = as they are (float64 and integers become float32).
//
// Failures leave the store as with [Append].
func AppendColumns(ctx context.Context, dir string, src source.Source, elem blocks.ElemType, o Options) (*Report, error) {
	if err := (&ingest.Options{FeatureElem: elem}).Validate(); err != nil {
		return nil, err
	}
	a, err := openAppend(dir, src, o)
	if err != nil {
		return nil, err
	}
	a.edges.Options.FeatureElem, a.edges.Options.Normalize = elem, ingest.NormalizeNone
	if o.Normalize {
		a.edges.Options.Normalize = ingest.NormalizeAll
	}
	return a.close(a.addColumns(ctx))
}

func (a *appender) addColumns(ctx context.Context) error {
	r := a.edges
	if len(a.desc.NodeColumns) == 0 {
		return source.Inputf(a.desc.Input, "no columns")
	}
	for _, c := range a.desc.NodeColumns {
		if _, err := a.m.Column(c.Name); err == nil {
			return source.Inputf(a.desc.Input, "the store has a column %s already", c.Name)
		}
		if c.Keyed || c.First != 0 || uint64(c.Rows) != a.m.Nodes {
			return source.Inputf(a.desc.Input, "column %s has %d rows, expected %d, one for each node", c.Name, c.Rows, a.m.Nodes)
		}
	}
	ascending, err := a.placeAll(ctx)
	if err != nil {
		return err
	}
	if !ascending {
		a.numberRows()
	}
	r.Manifest.Partitions = a.m.Partitions
	for c := range a.desc.NodeColumns {
		if err := r.Column(ctx, c); err != nil {
			return err
		}
	}
	a.m.Columns = append(a.m.Columns, r.Manifest.Columns...)
	a.m.Files = append(a.m.Files, r.Manifest.Files...)
	if n := r.Manifest.Schema.Classes; n > 0 && a.m.Schema.ClassNames == nil {
		a.m.Schema.Classes = max(a.m.Schema.Classes, n)
	}
	return a.commit(ctx)
}

// numberRows has rows name their nodes: those of a partition do not come in its order.
func (a *appender) numberRows() {
	r := a.edges
	desc := *a.desc
	desc.Keyed, desc.NodeColumns = true, slices.Clone(desc.NodeColumns)
	for c := range desc.NodeColumns {
		desc.NodeColumns[c].Keyed = true
	}
	r.Desc, r.Source = &desc, &numberedSource{Source: a.src, nodes: a.m.Nodes}
}

// numberedSource is a source whose row k is of source id k, as one with tables of nodes.
type numberedSource struct {
	source.Source
	nodes uint64
}

// NodeIDs implements [KeyedSource]; the store has the nodes.
func (s *numberedSource) NodeIDs(context.Context, source.Env, func(*source.IDs, source.Position) error) error {
	return nil
}

// KeyedRows implements [KeyedSource].
func (s *numberedSource) KeyedRows(ctx context.Context, env source.Env, c int, emit func(ids *source.IDs, rows []byte, at source.Position) error) error {
	spec := &s.Describe().NodeColumns[c]
	next, ids := uint64(0), source.IDs{}
	err := s.Rows(ctx, env, c, func(rows []byte, at source.Position) error {
		ids.Ints = ids.Ints[:0]
		for range len(rows) / spec.RowBytes() {
			ids.Ints = append(ids.Ints, next)
			next++
		}
		return emit(&ids, rows, at)
	})
	if err == nil && next != s.nodes {
		err = source.Inputf(s.Describe().Input, "column %s has %d rows, expected %d", spec.Name, next, s.nodes)
	}
	return err
}

// placeAll finds the place of every row. ascending says that within each partition internal ids ascend with
// rows: so an ingest numbers nodes, and a repartition does not.
func (a *appender) placeAll(ctx context.Context) (ascending bool, err error) {
	r, nodes := a.edges, a.m.Nodes
	var sizes []uint32
	for _, p := range a.m.Partitions {
		if p.Nodes > math.MaxUint32 {
			return false, fmt.Errorf("%w: a partition of %d nodes", store.ErrInvalid, p.Nodes)
		}
		sizes = append(sizes, uint32(p.Nodes))
	}
	l, err := edges.NewLayout(sizes, 0, 1<<30)
	if err != nil {
		return false, err
	}
	r.Layout, r.State.Nodes = l, nodes
	if err := r.Divide(ctx, edges.PlaceBytes(nodes, l.PlaceBits())); err != nil {
		return false, err
	}
	if r.Places, err = edges.AllocPlaces(nodes, l); err != nil {
		return false, err
	}
	r.Phase("look up nodes", "ids", int64(nodes))
	ascending = true
	least := make([]store.NodeID, len(sizes)) // that the next row of a partition may be of
	external, internal := make([]uint64, 0, lookupBatch), make([]store.NodeID, lookupBatch)
	for at := uint64(0); at < nodes; at += lookupBatch {
		external = external[:0]
		for x := at; x < min(at+lookupBatch, nodes); x++ {
			external = append(external, x)
			internal[x-at] = store.NodeID(x)
		}
		if a.m.IDs.Kind == store.IDsDense {
			if err := a.base.LookupInts(ctx, external, internal[:len(external)]); err != nil {
				return false, err
			}
		}
		for i, x := range external {
			p, err := a.m.Partition(internal[i])
			if err != nil {
				return false, fmt.Errorf("external id %d: %w", x, err)
			}
			ascending = ascending && internal[i] >= least[p]
			least[p] = internal[i] + 1
			r.Places.Set(x, uint64(p)<<l.LocalBits|(uint64(internal[i])-l.First[p]))
		}
		r.Tick(int64(len(external)))
	}
	return ascending, ctx.Err()
}
