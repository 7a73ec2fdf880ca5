package recipe

import (
	"context"
	"errors"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/train/sparse"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// lookRows are read before it is said that a feature is not mostly 0.
const lookRows = 512

var errDense = errors.New("recipe: the feature is not mostly 0")

// sparseFeature counts the elements other than 0 of the input's one feature, where training may have these alone in memory; nil where it may
// not. It reads the feature, unless its first rows say that it is not for that.
func sparseFeature(ctx context.Context, p *ingest.Prospect, in *ingest.Options) (*sparse.Counts, error) {
	columns := p.Describe().NodeColumns
	isFeature := func(c ingest.ColumnSpec) bool { return c.Role == store.RoleFeature }
	k := slices.IndexFunc(columns, isFeature)
	if k < 0 || slices.ContainsFunc(columns[k+1:], isFeature) {
		return nil, nil
	}
	spec := &columns[k]
	if spec.NodeType != "" || spec.Dim < sparse.ColumnsMin || in.FeatureElemOf(*spec) != blocks.Float32 || in.Standardises(spec) {
		return nil, nil
	}
	of, size := sparse.Counts{Cols: spec.Dim}, spec.Elem.Size()
	err := p.Rows(ctx, k, func(rows []byte) error {
		for ; len(rows) > 0; rows = rows[spec.RowBytes():] {
			n := 0
			for at := 0; at < spec.RowBytes(); at += size {
				if spec.Elem.Float64(rows[at:]) != 0 {
					n++
				}
			}
			of.Row(n)
		}
		if of.Rows >= lookRows && !of.Few() {
			return errDense
		}
		return ctx.Err()
	})
	if errors.Is(err, errDense) {
		return nil, nil
	}
	of.Rows = int(p.Nodes())
	if err != nil || !of.Few() {
		return nil, err
	}
	return &of, nil
}
