package tables

import (
	"context"
	"encoding/binary"
	"iter"
	"math"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// IDs are a batch's ids, which its first wanted column has.
func (n *nodeTable) ids(b *table.Batch, room *tableIDs) *ingest.IDs {
	return table.WithType(n.kind, b.IDs(0, &room.plain), &room.typed)
}

// tableIDs is room for ids.
type tableIDs struct{ plain, typed ingest.IDs }

// Elements names what a feature is made of; nil if one column is all.
func (n *nodeTable) elements(f *nodeFeature) (names []string) {
	if f.values != nil {
		return f.values
	}
	if len(f.from) == f.dim {
		for _, k := range f.from {
			names = append(names, n.Columns()[k].Name)
		}
	}
	return names
}

// keyedRows streams a column made of some of the table's.
func (n *nodeTable) keyedRows(id table.Want, spec ingest.ColumnSpec, f nodeFeature) parts.Keyed {
	if f.values != nil {
		return n.codedRows(id, spec, f)
	}
	columns := f.from
	want := []table.Want{id}
	for _, c := range columns {
		want = append(want, table.Want{At: c, Elem: spec.Elem, Days: f.days})
	}
	n.Use(want[1:])
	size := spec.Elem.Size()
	return func(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, []byte, ingest.Position) error) error {
		var ids tableIDs
		var rows []byte
		return n.Read(ctx, env, want, func(b *table.Batch) error {
			if len(columns) == 1 {
				return emit(n.ids(b, &ids), b.Numbers[1], b.At)
			}
			rows = rows[:0]
			for i := range b.Rows {
				for c := range columns {
					rows = append(rows, b.Numbers[1+c][i*size:(i+1)*size]...)
				}
			}
			return emit(n.ids(b, &ids), rows, b.At)
		})
	}
}

// codedRows streams a column of text by its value's place among f.values: a label's class, as Float64, or of a
// feature a 1 there, as Float32. What is missing has no class, and is 0 everywhere.
func (n *nodeTable) codedRows(id table.Want, spec ingest.ColumnSpec, f nodeFeature) parts.Keyed {
	want := []table.Want{id, {At: f.from[0]}}
	codes := map[string]int{}
	for k, v := range f.values {
		codes[v] = k
	}
	return func(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, []byte, ingest.Position) error) error {
		var ids tableIDs
		var rows []byte
		return n.Read(ctx, env, want, func(b *table.Batch) error {
			rows = rows[:0]
			for i := range b.Rows {
				v := b.Text[1].At(i)
				k, known := codes[string(v)]
				if !known && !(spec.Role == store.RoleLabel && isUnknown(string(v))) {
					var err error
					if k, known, err = code(codes, v, b.At, i); err != nil {
						return err
					}
				}
				if spec.Role == store.RoleLabel {
					class := math.NaN()
					if known {
						class = float64(k)
					}
					rows = binary.LittleEndian.AppendUint64(rows, math.Float64bits(class))
					continue
				}
				at := len(rows)
				rows = append(rows, make([]byte, spec.RowBytes())...)
				if known {
					binary.LittleEndian.PutUint32(rows[at+4*k:], math.Float32bits(1))
				}
			}
			return emit(n.ids(b, &ids), rows, b.At)
		})
	}
}

// splitParts yields the splits: one for each column of parts' names, in the order of the columns,
// or the one that masks make.
func (n *nodeTable) splitParts(id table.Want) iter.Seq2[string, parts.Split] {
	return func(yield func(string, parts.Split) bool) {
		for k, c := range n.splits {
			p := parts.Split{}
			for part := store.SplitTrain; part <= store.SplitTest; part++ {
				p[part] = n.members(id, table.Want{At: c}, part)
			}
			name := n.Columns()[c].Name
			if k == 0 && !strings.HasPrefix(strings.ToLower(name), "split") { // named by --node-columns
				name = "split"
			}
			if !yield(name, p) {
				return
			}
		}
		p := parts.Split{}
		for part := store.SplitTrain; part <= store.SplitTest && len(n.splits) == 0; part++ {
			if n.masks[part] >= 0 {
				p[part] = n.members(id, table.Want{At: n.masks[part], Elem: blocks.Uint8}, part)
			}
		}
		if len(p) > 0 {
			yield("split", p)
		}
	}
}

// members streams the ids of rows whose column, a mask or a part's name, says that they are in part.
func (n *nodeTable) members(id, column table.Want, part uint8) parts.IDs {
	n.Use([]table.Want{column})
	return func(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
		var room tableIDs
		var out ingest.IDs
		var lines []uint64
		return n.Read(ctx, env, []table.Want{id, column}, func(b *table.Batch) error {
			ids := n.ids(b, &room)
			out.Reset()
			lines = lines[:0]
			for i := range b.Rows {
				in, err := b.Member(1, i, part)
				if err != nil {
					return err
				}
				if !in {
					continue
				}
				if ids.Ends != nil {
					out.Append(ids.At(i))
				} else {
					out.Ints = append(out.Ints, ids.Ints[i])
				}
				lines = append(lines, b.At.Number(i))
			}
			if len(lines) == 0 {
				return nil
			}
			return emit(&out, ingest.Position{File: b.At.File, Unit: b.At.Unit, Lines: lines})
		})
	}
}
