package grow

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/source"
)

// rowsGiven are rows of nodes, by ascending internal id.
type rowsGiven struct {
	ids  []uint64
	rows []byte
	size int // bytes of a row
}

// row is the node's row; nil = there is none.
func (g *rowsGiven) row(node uint64) []byte {
	if g == nil {
		return nil
	}
	if k, ok := slices.BinarySearch(g.ids, node); ok {
		return g.rows[k*g.size : (k+1)*g.size]
	}
	return nil
}

// sort brings rows into order. Two of one node are an error of src.
func (g *rowsGiven) sort(input string) error {
	order := make([]int, len(g.ids))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(int64(g.ids[a]) - int64(g.ids[b])) })
	ids, rows := make([]uint64, 0, len(g.ids)), make([]byte, 0, len(g.rows))
	for _, k := range order {
		if n := len(ids); n > 0 && ids[n-1] == g.ids[k] {
			return source.Inputf(input, "two rows for one node")
		}
		ids, rows = append(ids, g.ids[k]), append(rows, g.rows[k*g.size:(k+1)*g.size]...)
	}
	g.ids, g.rows = ids, rows
	return nil
}

// read reads what the tables say of nodes that the store has.
func (l *relabeller) read(ctx context.Context) error {
	if l.desc == nil {
		return nil
	}
	keyed, ok := l.src.(source.KeyedSource)
	if !ok {
		return source.Inputf(l.desc.Input, "its rows do not name their nodes")
	}
	env := l.edges.Env()
	for c, spec := range l.desc.NodeColumns {
		if spec.Role != store.RoleLabel {
			continue
		}
		g := &rowsGiven{size: spec.RowBytes()}
		err := keyed.KeyedRows(ctx, env, c, func(ids *source.IDs, rows []byte, at source.Position) error {
			return l.take(ctx, g, ids, func(i int) []byte {
				row := rows[i*g.size : (i+1)*g.size]
				if v := spec.Elem.Float64(row); math.IsNaN(v) || v == -1 && !l.m.NumberLabels() {
					return nil // says nothing
				}
				return row
			})
		})
		if err == nil {
			err = g.sort(l.desc.Input)
		}
		if err != nil {
			return err
		}
		l.label, l.merged, l.counted = g, &mergedLabels{spec: spec}, true
	}
	for s, name := range l.desc.Splits {
		g := &rowsGiven{size: 1}
		for part := store.SplitTrain; part <= store.SplitTest; part++ {
			err := keyed.Split(ctx, env, s, part, func(ids *source.IDs, at source.Position) error {
				return l.take(ctx, g, ids, func(int) []byte { return []byte{part} })
			})
			if err != nil {
				return err
			}
		}
		if err := g.sort(l.desc.Input); err != nil {
			return err
		}
		if l.parts == nil {
			l.parts = map[string]*rowsGiven{}
		}
		l.parts[name], l.counted = g, true
	}
	if l.of.Rows != nil {
		return nil
	}
	if l.label == nil && l.parts == nil {
		return source.Inputf(l.desc.Input, "no column of labels (label, y, class or what --label says) and none of a split")
	}
	if l.rep.Unknown > 0 && (l.label == nil || len(l.label.ids) == 0) && len(l.parts) == 0 {
		return source.Inputf(l.desc.Input, "none of its %d rows names a node of the store, such as %q", l.rep.Unknown, l.rep.UnknownSome)
	}
	return nil
}

// take keeps the rows of nodes that the store has, of row i what the function says: nil = nothing. The others are counted, once for all columns.
func (l *relabeller) take(ctx context.Context, g *rowsGiven, ids *source.IDs, row func(i int) []byte) error {
	nodes, err := l.lookup(ctx, ids)
	if err != nil {
		return err
	}
	for i, node := range nodes {
		r := row(i)
		if node != store.NoNode {
			if r != nil {
				g.ids, g.rows = append(g.ids, uint64(node)), append(g.rows, r...)
			}
			continue
		}
		if l.counted {
			continue
		}
		if l.rep.Unknown++; len(l.rep.UnknownSome) < 3 {
			l.rep.UnknownSome = append(l.rep.UnknownSome, idText(ids, i))
		}
	}
	if need := int64(len(g.ids)) * int64(2*g.size+32); l.edges.Options.MemoryBytes > 0 && need > l.edges.Options.MemoryBytes/2 {
		return fmt.Errorf("%w: rows of %d nodes at a time, more than half of %d MiB: divide the table", store.ErrBudget, len(g.ids), l.edges.Options.MemoryBytes>>20)
	}
	return ctx.Err()
}

// lookup finds the nodes of ids, [store.NoNode] where the store has none.
func (l *relabeller) lookup(ctx context.Context, ids *source.IDs) ([]store.NodeID, error) {
	nodes := make([]store.NodeID, ids.Len())
	for i := range nodes {
		nodes[i] = store.NoNode
	}
	if l.m.IDs.Kind != store.IDsStrings {
		return nodes, l.base.LookupInts(ctx, ids.Ints, nodes)
	}
	names := make([]string, ids.Len())
	for i := range names {
		names[i] = idText(ids, i)
	}
	return nodes, l.base.LookupNames(ctx, names, nodes)
}

func idText(ids *source.IDs, i int) string {
	if ids.Ends == nil {
		return fmt.Sprint(ids.Ints[i])
	}
	return string(ids.At(i))
}
