package serve

import (
	"context"
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// values are rows of a column as JSON has them: numbers as the user gave them, lists, objects by the names of elements, classes by their names,
// null where there is no value.
func values(ctx context.Context, st *store.Store, c *store.ColumnInfo, nodes []store.NodeID) ([]any, error) {
	m := st.Manifest()
	rows, err := st.Features(ctx, c.Name, nodes, nil)
	if err != nil {
		return nil, err
	}
	sets := m.LabelSets()
	list, size := make([]any, len(nodes)), c.RowBytes()
	for i := range nodes {
		row := rows[i*size : (i+1)*size]
		switch c.Role {
		case store.RoleLabel:
			list[i] = label(m, sets, int32(binary.LittleEndian.Uint32(row)))
		case store.RoleSplit:
			if row[0] != store.SplitNone && int(row[0]) < len(store.SplitNames()) {
				list[i] = store.SplitNames()[row[0]]
			}
		default:
			list[i] = row2json(c, row)
		}
	}
	return list, nil
}

// label is a node's label: a class, a number, or a list of labels.
func label(m *store.Manifest, sets *store.LabelSets, code int32) any {
	name := func(k int) any {
		if k < len(m.Schema.ClassNames) {
			return m.Schema.ClassNames[k]
		}
		return k
	}
	switch {
	case code < 0:
		return nil
	case sets != nil:
		list := []any{}
		for k := range sets.Labels() {
			if sets.Has(code, k) {
				list = append(list, name(k))
			}
		}
		return list
	case m.NumberLabels():
		return finite(float64(blocks.CodedNumber(code)))
	}
	return name(int(code))
}

// eachNumber calls fn with the numbers of a row, as they were given: without scales and standardisation.
func eachNumber(c *store.ColumnInfo, row []byte, fn func(k int, x float64)) {
	wide := make([]float32, c.Dim)
	if c.Scale != nil {
		c.Elem.Widen(wide, row, c.Scale)
	}
	for k := range c.Dim {
		x := c.Elem.Float64(row[k*c.Elem.Size():])
		if c.Scale != nil {
			x = float64(wide[k])
		}
		if s := c.Standard; s != nil && k < len(s.Mean) {
			x = rounded(x*s.Deviation[k]+s.Mean[k], s.Deviation[k])
		}
		fn(k, x)
	}
}

// row2json is a row of features or of another column of nodes or edges.
func row2json(c *store.ColumnInfo, row []byte) any {
	numbers := make([]any, c.Dim)
	eachNumber(c, row, func(k int, x float64) {
		if numbers[k] = finite(x); c.Standard == nil && c.Elem != blocks.Float64 && numbers[k] != nil && math.Abs(x) < 1<<24 {
			numbers[k] = float32(x) // in the digits that it has
		}
		if c.Elem == blocks.Int64 && c.Standard == nil {
			numbers[k] = int64(binary.LittleEndian.Uint64(row[8*k:]))
		}
	})
	switch {
	case len(c.Elements) == c.Dim && c.Dim > 0:
		named := make(map[string]any, c.Dim)
		for k, name := range c.Elements {
			named[name] = numbers[k]
		}
		return named
	case c.Dim == 1:
		return numbers[0]
	}
	return numbers
}

// rounded is a number in the digits that survive being stored in the scale of a deviation, six of these.
func rounded(x, deviation float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(deviation))-5)
	if r := math.Round(x/step) * step; deviation > 0 && !math.IsInf(r, 0) && !math.IsNaN(r) {
		x, _ = strconv.ParseFloat(strconv.FormatFloat(r, 'g', 12, 64), 64) // without the product's own rounding
		if x == 0 {
			x = 0 // without a sign
		}
	}
	return x
}

// finite is a number that JSON has: none for what is none.
func finite(x float64) any {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return x
}

// typeOf is the name of a node's type; "" where the store does not know it, or has one alone.
func typeOf(m *store.Manifest, v store.NodeID) string {
	p, err := m.Partition(v)
	if err != nil || len(m.Schema.NodeTypes) < 2 {
		return ""
	}
	if t, ok := m.TypeOf(p, uint64(v-m.Partitions[p].First)); ok {
		return m.Schema.NodeTypes[t].Name
	}
	return ""
}

// columnsOf are the node columns that a request may ask for: all but what gstore keeps for itself, by the names that are asked for, nil for all.
func columnsOf(m *store.Manifest, names []string) (list []*store.ColumnInfo, err error) {
	if names != nil {
		for _, name := range names {
			c, err := m.Column(name)
			if err != nil {
				return nil, err
			}
			if c.Role.OnEdges() {
				return nil, badf("column %q lies on edges, expected one of nodes", name)
			}
			list = append(list, c)
		}
		return list, nil
	}
	for i := range m.Columns {
		c := &m.Columns[i]
		if c.Role.OnEdges() || c.Name == store.TypeColumn || c.Derived != "" || strings.HasSuffix(c.Name, store.NodeSuffix) {
			continue
		}
		list = append(list, c)
	}
	return list, nil
}

// hasRows reports whether a column has values of nodes of a type.
func hasRows(c *store.ColumnInfo, kind string) bool {
	return c.NodeType == "" || kind == "" || c.NodeType == kind
}

// relationName is what a relation is called; "" in a store of one that has no name.
func relationName(m *store.Manifest, r store.RelationID) string {
	if int(r) < len(m.Schema.Relations) {
		return m.Schema.Relations[r].Name
	}
	return ""
}
