package source

import (
	"context"
	"encoding/binary"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// NumberColumn is a column by which models learn vectors ([store.Category]): a number for each node, which follows from its place.
type NumberColumn struct {
	Spec   ColumnSpec
	Note   string // what people are told of it; "" = nothing
	number func(row int64) uint32
}

// NumberColumns are those of d's nodes, whose types count on one behind another: of every node its type, and of the nodes of types without
// features, each its own. Nodes of one type have none unless they have labels and no features: else there were nothing that a model reads.
// Nor have more nodes than the columns can number.
func NumberColumns(d *Description) (columns []NumberColumn) {
	ends, total := []int64{}, int64(0)
	for _, t := range d.NodeTypes {
		total += t.Count
		ends = append(ends, total)
	}
	has := func(role store.Role) bool {
		return slices.ContainsFunc(d.NodeColumns, func(c ColumnSpec) bool { return c.Role == role })
	}
	if len(ends) == 0 || len(ends) == 1 && (has(store.RoleFeature) || !has(store.RoleLabel)) || total > math.MaxUint32 {
		return nil
	}
	spec := ColumnSpec{Name: store.TypeColumn, Role: store.RoleNode, Elem: blocks.Uint32, Dim: 1, Rows: total}
	columns = append(columns, NumberColumn{Spec: spec, number: func(row int64) uint32 {
		t := 0
		for ends[t] <= row {
			t++
		}
		return uint32(t + 1)
	}})
	for k, t := range d.NodeTypes {
		known := slices.ContainsFunc(d.NodeColumns, func(c ColumnSpec) bool { return c.Role == store.RoleFeature && c.NodeType == t.Name })
		if known || t.Count == 0 {
			continue
		}
		spec.Name, spec.First, spec.Rows, spec.NodeType = t.Name+store.NodeSuffix, uint64(ends[k]-t.Count), t.Count, t.Name
		columns = append(columns, NumberColumn{Spec: spec, number: func(row int64) uint32 { return uint32(row + 1) },
			Note: "nodes of type " + t.Name + " have no features: column " + spec.Name + " numbers them for models that learn a vector for each"})
		if len(ends) == 1 {
			columns[len(columns)-1].Note = "nodes have no features: column " + spec.Name + " numbers them for models that learn a vector for each"
		}
	}
	return columns
}

// Rows streams the column's rows, as [Source.Rows] does.
func (c *NumberColumn) Rows(ctx context.Context, emit func(rows []byte, at Position) error) error {
	const chunk = 1 << 16
	b := make([]byte, 0, 4*chunk)
	for row := int64(0); row < c.Spec.Rows; {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := Position{Unit: "row", Index: uint64(row)}
		for b = b[:0]; len(b) < 4*chunk && row < c.Spec.Rows; row++ {
			b = binary.LittleEndian.AppendUint32(b, c.number(row))
		}
		if err := emit(b, at); err != nil {
			return err
		}
	}
	return nil
}
