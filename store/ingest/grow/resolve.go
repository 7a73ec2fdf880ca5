package grow

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/scratch"
	"github.com/gstore/gstore/store/ingest/source"
)

// resolve finds out which of the source's nodes the store has, and numbers the others by
// ascending external id. In a store whose ids begin with their types, the type of a node that it has may be left out, that of a
// new one may not.
func (a *appender) resolve(ctx context.Context) error {
	r := a.edges
	desc := r.Desc
	ids := *a.desc // the dictionary takes dense ids as integers, and ends of edges that may be in the store
	ids.Dangling = ""
	if ids.IDs == store.IDsDense {
		ids.IDs = store.IDsIntegers
	}
	r.Desc = &ids
	var err error
	if a.idTypes, err = a.base.TypesOfIDs(ctx); err != nil {
		return err
	}
	err = r.CollectIDs(ctx)
	r.Desc = desc
	if err != nil {
		return err
	}
	n := r.Dictionary.Len()
	if a.desc.NodesByRows() {
		if err := a.findRows(ctx, n); err != nil {
			return err
		}
	}
	if a.mem, err = scratch.Alloc(8 * int64(n)); err != nil {
		return err
	}
	if a.internal, err = blocks.View[uint64](a.mem); err != nil {
		return err
	}
	r.Phase("look up nodes", "ids", int64(n))
	found := a.number
	if a.m.IDs.Kind == store.IDsDense {
		found = a.denseNumbers(n)
	}
	if a.o.Change == Delete {
		return a.lookup(ctx, func(int, int, []uint64) error { return nil }) // nodes that the store does not have stay [store.NoNode]
	}
	if err := a.lookup(ctx, found); err != nil {
		return err
	}
	if err := a.refuseUntyped(); err != nil {
		return err
	}
	return a.refuseNew(uint64(n))
}

// findRows finds out which of n ranks the source has rows of: the others are ends of edges alone.
func (a *appender) findRows(ctx context.Context, n int) error {
	a.rows = roaring64.New()
	s, ok := a.src.(source.KeyedSource)
	if !ok {
		return fmt.Errorf("ingest: %s has rows of nodes and is no KeyedSource", a.desc.Input)
	}
	return s.NodeIDs(ctx, a.edges.Env(), func(ids *source.IDs, at source.Position) error {
		for i := range ids.Len() {
			rank, ok := a.edges.Dictionary.Rank(ids, i)
			if !ok || !a.rows.CheckedAdd(uint64(rank)) {
				return source.Inputf(at.Of(i), "a second row of key %s, expected one of each", a.edges.Dictionary.Show(ids, i))
			}
		}
		return ctx.Err()
	})
}

// newAlways nodes may be new whatever their share: a first try is not refused.
const newAlways = 10

// refuseNew refuses a source without rows of nodes of whose n nodes too many are new.
func (a *appender) refuseNew(n uint64) error {
	if a.o.NewShare == 0 || a.newNodes <= newAlways || len(a.desc.NodeColumns) > 0 || float64(a.newNodes) <= a.o.NewShare*float64(n) {
		return nil
	}
	return fmt.Errorf("%w: %s: the store has %d of the %d nodes and would get %d", ErrNewNodes, a.desc.Input, n-min(n, a.newNodes), n, a.newNodes)
}

// number numbers the nodes of n ranks that the store does not have.
func (a *appender) number(from, n int, _ []uint64) error {
	for rank, id := range a.internal[from : from+n] {
		if store.NodeID(id) == store.NoNode && (a.rows == nil || a.rows.Contains(uint64(from+rank))) {
			a.internal[from+rank] = a.m.Nodes + a.newNodes
			a.newNodes++
		}
	}
	return nil
}

// denseNumbers is number for dense ids, of which the source has n: new ones follow those of the
// store without a gap, and are their internal ids.
func (a *appender) denseNumbers(n int) func(from, n int, external []uint64) error {
	old := a.m.Nodes
	end := old
	for _, c := range a.desc.NodeColumns {
		if !c.Keyed && c.Rows > 0 {
			end = max(end, old+c.First+uint64(c.Rows))
		}
	}
	rows := end > old
	a.newNodes = end - old
	return func(from, _ int, external []uint64) error {
		for i, x := range external {
			if store.NodeID(a.internal[from+i]) == store.NoNode {
				a.internal[from+i] = x
			}
			if x < end {
				continue
			}
			if rows {
				return source.Inputf(a.desc.Input, "node %d, expected less than %d: the store's %d nodes and the new ones' rows", x, end, old)
			}
			if x-old > uint64(4*n)+1<<20 {
				return source.Inputf(a.desc.Input, "node %d is far behind the store's last, %d: dense ids leave no gaps", x, old-1)
			}
			end = x + 1
			a.newNodes = end - old
		}
		return nil
	}
}

// lookupBatch is how many ids are looked up at once.
const lookupBatch = 1 << 14

// lookup fills a.internal with the store's ids, NoNode where it has none, and calls found after
// each batch: with the first of its n ranks and, unless ids are strings, their ids.
func (a *appender) lookup(ctx context.Context, found func(from, n int, external []uint64) error) error {
	d := a.edges.Dictionary
	at := 0
	ints, text, out := make([]uint64, 0, lookupBatch), []string(nil), make([]store.NodeID, lookupBatch)
	flush := func() error {
		n := max(len(ints), len(text))
		var err error
		if d.Strings && a.rows != nil { // which say their types
			err = a.base.LookupStrings(ctx, text, out[:n])
		} else if d.Strings {
			err = a.base.LookupNames(ctx, text, out[:n])
		} else {
			err = a.base.LookupInts(ctx, ints, out[:n])
		}
		if err != nil {
			return err
		}
		for i, id := range out[:n] {
			a.internal[at+i] = uint64(id)
			if id == store.NoNode && a.idTypes != nil && a.typeOf(text[i]) < 0 {
				if a.untyped++; len(a.untypedSome) < untypedNamed {
					a.untypedSome = append(a.untypedSome, text[i])
				}
			}
		}
		if err := found(at, n, ints); err != nil {
			return err
		}
		a.edges.Tick(int64(n))
		at, ints, text = at+n, ints[:0], text[:0]
		return nil
	}
	err := d.Each(ctx, func(_ uint64, id []byte) error {
		if d.Strings {
			text = append(text, string(id))
		} else {
			ints = append(ints, binary.BigEndian.Uint64(id))
		}
		if max(len(ints), len(text)) == lookupBatch {
			return flush()
		}
		return nil
	})
	if err == nil && max(len(ints), len(text)) > 0 {
		err = flush()
	}
	return err
}
