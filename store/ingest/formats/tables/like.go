package tables

import (
	"slices"
	"strings"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// liked is o for tables whose rows are added to the store o.Like: what was a feature there is one here.
func (n *nodeTable) liked(o *table.Options) *table.Options {
	if o.Like == nil {
		return o
	}
	with := *o
	with.Use = slices.Clone(o.Use)
	if l := o.Like.Labels(); l != nil && (n.kind == "" || l.NodeType == "" || l.NodeType == n.kind) {
		with.Label = l.Elements
		if l.Sets != nil && l.Elements == nil && len(o.Like.Schema.ClassNames) > 1 && n.has(o.Like.Schema.ClassNames) { // a column each
			with.Label = o.Like.Schema.ClassNames
		}
	}
	for _, c := range o.Like.ColumnsOf(store.RoleFeature) {
		with.Use = append(append(with.Use, strings.TrimPrefix(c.Name, n.featureName(""))), c.Elements...)
	}
	return &with
}

// has reports whether the table has all of some columns.
func (n *nodeTable) has(columns []string) bool {
	names := table.ColumnNames(n.Columns())
	return !slices.ContainsFunc(columns, func(c string) bool { return !slices.Contains(names, c) })
}

// valuesOf is what the elements of feature name stand for in the store that rows are added to; nil = there is none.
func (n *nodeTable) valuesOf(o *table.Options, name string) ([]string, error) {
	if o.Like == nil {
		return nil, nil
	}
	c, err := o.Like.Column(name)
	if err != nil {
		return nil, nil // the append says so
	}
	if c.Elements == nil {
		return nil, ingest.Inputf(n.Where(), "column %q holds text, and the store does not say which values the %d elements of its %s stand for; leave it out with --skip %s", name, c.Dim, name, name)
	}
	return c.Elements, nil
}

// InOrder sorts the columns that make a feature as those of the store were.
func (n *nodeTable) inOrder(o *table.Options, feature string, from []int) {
	if o.Like == nil {
		return
	}
	cols := n.Columns()
	c, err := o.Like.Column(feature)
	if err != nil {
		return
	}
	place := func(k int) int {
		if at := slices.Index(c.Elements, cols[k].Name); at >= 0 {
			return at
		}
		return len(c.Elements)
	}
	slices.SortStableFunc(from, func(a, b int) int { return place(a) - place(b) })
}

// featureName is what a feature of the table's nodes is called in the store.
func (n *nodeTable) featureName(name string) string {
	if n.kind == "" {
		return name
	}
	return n.kind + "." + name
}

// code is the place of a value of text among those known; what is missing has none. Others are refused: all were read
// before, but of rows that are added to a store.
func code(known map[string]int, value []byte, at ingest.Position, row int) (k int, ok bool, err error) {
	if k, ok = known[string(value)]; ok || table.MissingText(value) {
		return k, ok, nil
	}
	names := make([]string, len(known))
	for v, k := range known {
		names[k] = v
	}
	return 0, false, ingest.Inputf(at.Of(row), "%.40q is none of the store's values %s", strings.TrimSpace(string(value)), table.Listed(names))
}
