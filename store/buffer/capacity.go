package buffer

import (
	"context"
	"errors"
	"sort"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// MaxCapacity returns the largest capacity for which o.MemoryBytes holds two
// steps' partitions, so that one is read while the other trains; 0, meaning
// all partitions for the whole run, where the budget is big enough for that or not given.
// Where not even two single partitions fit it returns 1, if one does, or the
// [store.ErrBudget] that says what would.
func MaxCapacity(ctx context.Context, s *store.Store, o Options) (int, error) {
	return maxCapacity(ctx, s.Manifest(), s.Files(), o)
}

func maxCapacity(ctx context.Context, m *store.Manifest, opener fileOpener, o Options) (_ int, err error) {
	o.Capacity = 0
	if err := o.Validate(m); err != nil {
		return 0, err
	}
	if o.MemoryBytes == 0 {
		return 0, nil
	}
	o = o.withDefaults()
	engine, _, err := blockio.New("pread", blockio.Options{Depth: 1})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	src, err := newSource(ctx, m, opener, engine, &o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if _, err := newLayout(src, &o); err == nil {
		return 0, nil
	}
	free := len(m.Partitions) - len(o.Pinned)
	swap := func(c int) int {
		if o.Swap > 0 {
			return min(c, o.Swap)
		}
		return c
	}
	double := func(c int) bool {
		o.Capacity = c
		l, err := newLayout(src, &o)
		return err == nil && len(l.slots)-len(l.fixed) >= min(c+swap(c), free)
	}
	if c := sort.Search(free, func(i int) bool { return !double(i + 1) }); c > 0 {
		return c, nil
	}
	o.Capacity = 1
	if _, err := newLayout(src, &o); err != nil {
		return 0, err
	}
	return 1, nil
}
