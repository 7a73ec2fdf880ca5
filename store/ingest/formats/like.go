package formats

import (
	"slices"
	"strings"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// liked is o for tables whose rows are added to the store o.Like: what was a feature there is one here.
func (o *TextOptions) liked() *TextOptions {
	if o.Like == nil {
		return o
	}
	with := *o
	with.Use = slices.Clone(o.Use)
	for _, c := range o.Like.ColumnsOf(store.RoleFeature) {
		with.Use = append(append(with.Use, strings.TrimPrefix(c.Name, o.featureName(""))), c.Elements...)
	}
	return &with
}

// valuesOf is what the elements of feature name stand for in the store that rows are added to; nil = there is none.
func (o *TextOptions) valuesOf(t columnsOf, name string) ([]string, error) {
	if o.Like == nil {
		return nil, nil
	}
	c, err := o.Like.Column(name)
	if err != nil {
		return nil, nil // the append says so
	}
	if c.Elements == nil {
		return nil, ingest.Inputf(t.where(), "column %q holds text, and the store does not say which values the %d elements of its %s stand for; leave it out with --skip %s", name, c.Dim, name, name)
	}
	return c.Elements, nil
}

// inOrder sorts the columns that make a feature as those of the store were.
func (o *TextOptions) inOrder(cols []tableColumn, feature string, from []int) {
	if o.Like == nil {
		return
	}
	c, err := o.Like.Column(feature)
	if err != nil {
		return
	}
	place := func(k int) int {
		if at := slices.Index(c.Elements, cols[k].name); at >= 0 {
			return at
		}
		return len(c.Elements)
	}
	slices.SortStableFunc(from, func(a, b int) int { return place(a) - place(b) })
}

// code is the place of a value of text among those known; what is missing has none. Others are refused: all were read
// before, but of rows that are added to a store.
func code(known map[string]int, value []byte, at ingest.Position, row int) (k int, ok bool, err error) {
	if k, ok = known[string(value)]; ok || missingText(value) {
		return k, ok, nil
	}
	names := make([]string, len(known))
	for v, k := range known {
		names[k] = v
	}
	return 0, false, ingest.Inputf(at.Of(row), "%.40q is none of the store's values %s", strings.TrimSpace(string(value)), listed(names))
}
