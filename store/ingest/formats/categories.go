package formats

import (
	"context"
	"encoding/binary"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// addCategories adds the columns by which models learn vectors ([store.Category]): of every node its type, and of the nodes of
// types without features, each its own. A graph of one type of nodes has none.
func (s *typedGraph) addCategories() error {
	if len(s.desc.NodeTypes) < 2 || s.desc.Nodes > math.MaxUint32 {
		return nil
	}
	spec := ingest.ColumnSpec{Name: store.TypeColumn, Role: store.RoleNode, Elem: blocks.Uint32, Dim: 1, Rows: s.desc.Nodes}
	s.column(spec, numberRows(spec.Rows, func(v int64) uint32 {
		k := 0
		for end := s.desc.NodeTypes[0].Count; v >= end; end += s.desc.NodeTypes[k].Count {
			k++
		}
		return uint32(k + 1)
	}))
	first := uint64(0)
	for _, t := range s.desc.NodeTypes {
		known := slices.ContainsFunc(s.desc.NodeColumns, func(c ingest.ColumnSpec) bool { return c.Role == store.RoleFeature && c.NodeType == t.Name })
		if !known && t.Count > 0 {
			spec := ingest.ColumnSpec{Name: t.Name + store.NodeSuffix, Role: store.RoleNode, Elem: blocks.Uint32, Dim: 1, First: first, Rows: t.Count, NodeType: t.Name}
			s.column(spec, numberRows(t.Count, func(v int64) uint32 { return uint32(v + 1) }))
			s.desc.Notes = append(s.desc.Notes, "nodes of type "+t.Name+" have no features: column "+spec.Name+" numbers them for models that learn a vector for each")
		}
		first += uint64(t.Count)
	}
	return nil
}

// numberRows is rows of one number each, by their place.
func numberRows(rows int64, value func(row int64) uint32) rowsFunc {
	const chunk = 1 << 16
	return func(ctx context.Context, _ ingest.Env, emit func([]byte, ingest.Position) error) error {
		var b []byte
		for row := int64(0); row < rows; {
			if err := ctx.Err(); err != nil {
				return err
			}
			at := ingest.Position{Unit: "row", Index: uint64(row)}
			for b = b[:0]; len(b) < 4*chunk && row < rows; row++ {
				b = binary.LittleEndian.AppendUint32(b, value(row))
			}
			if err := emit(b, at); err != nil {
				return err
			}
		}
		return nil
	}
}
