package repartition

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/scratch"
)

// WriteIDs writes the integer external ids of the store.
func (src *storeSource) WriteIDs(ctx context.Context, r *ingest.Job) error {
	mem, err := scratch.Alloc(16 * int64(r.Layout.Nodes))
	if err != nil {
		return err
	}
	defer scratch.Free(mem)
	both, err := blocks.View[uint64](mem)
	if err != nil {
		return err
	}
	external, order := both[:r.Layout.Nodes], both[r.Layout.Nodes:]
	err = src.pieces(ctx, 8, src.external, func(first uint64, rows []byte) error {
		ids, err := blocks.View[uint64](rows)
		copy(external[first:], ids)
		return err
	})
	if err != nil {
		return err
	}
	of := func(id uint64) uint64 { return external[id] }
	if src.m.IDs.Kind == store.IDsDense && src.gone == nil { // else some are missing
		for id, x := range external { // order: external → source id
			if x >= r.Layout.Nodes {
				return fmt.Errorf("%w: external id %d of %d nodes", store.ErrInvalid, x, r.Layout.Nodes)
			}
			order[x] = uint64(id)
		}
		return r.DenseIDs(ctx, of, func(x uint64) uint64 { return order[x] })
	}
	ingest.SortByID(external, order)
	return r.IntegerIDs(ctx, of, func(rank uint64) uint64 { return order[rank] })
}
