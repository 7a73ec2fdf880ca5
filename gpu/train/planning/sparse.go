package planning

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/sparse"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
)

// A feature of more than countedBytes that by some of its rows takes surelyMore times the budget is not counted, which would read all of it.
const (
	surelyMore   = 2
	countedBytes = 4 << 30
)

// holdSparse looks whether the one feature that c reads is mostly 0, which says how a first layer multiplies it. If all of the graph fits in
// memory with those of its elements that are not 0, c has these there alone, and why says so. Where that takes more memory than
// there is, refused says how much would do.
func holdSparse(c *config.Config, ctx context.Context, st *store.Store, info gpu.Info, once *Counted) (why []string, refused, err error) {
	column := c.SparseColumn(st.Manifest())
	if column == nil {
		return nil, nil, nil
	}
	some, err := once.sample(ctx, st, column)
	if err != nil {
		return nil, nil, err
	}
	m := st.Manifest()
	c.MostlyZero = some.Few()
	if !c.MostlyZero || !info.Sparse || !c.HoldsAll(m) {
		return nil, nil, nil
	}
	if bytes := int64(m.Nodes) * int64(column.RowBytes()); c.MemoryBytes > 0 && bytes > countedBytes && some.Of(m.Nodes) > surelyMore*c.MemoryBytes {
		return nil, nil, nil
	}
	of, err := sparse.Count(ctx, st, column)
	if err != nil || !of.Few() {
		return nil, nil, err
	}
	d := *c
	d.Features, d.Sparse = slices.Clone(c.Features), &of
	y, err := OpenMemoryOnce(ctx, st, info, d, once)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, y.Close()) }()
	y.Cfg.Plan = macro.Memory // which plan auto is where there is room for it
	if _, err = y.Planned(d.MemoryBytes); errors.Is(err, store.ErrBudget) {
		return nil, err, nil
	} else if err != nil {
		return nil, nil, err
	}
	*c = d
	return []string{fmt.Sprintf("%.2g %% of feature %s are not 0: these are in memory, %s instead of %s, and they alone are multiplied; the feature is read twice as the run begins",
		100*float64(of.Elements)/float64(of.Rows)/float64(of.Cols), column.Name, blocks.SizeText(of.Bytes()), blocks.SizeText(of.DenseBytes()))}, nil, nil
}

// sparseBytes is what a feature that is mostly 0 takes in memory, and the order of a mini-batch's elements by column.
func (y *Memory) sparseBytes() (table, sorted int64) {
	of := y.Cfg.Sparse
	if of == nil {
		return 0, 0
	}
	rows := of.Rows
	if y.batch != nil {
		rows, _ = y.batch.inputs(y.M)
	}
	return of.Bytes(), of.SortBytes(rows)
}
