package formats

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// tableColumn is a column of a table: a text file with a header, or Parquet.
type tableColumn struct {
	name string
	text bool            // strings
	elem blocks.ElemType // of numbers; Invalid = written as text
	dim  int             // elements a row: 1 but for lists
	list bool
	// date says of numbers and text that they are times, as far as the type or the first rows tell; mixed and empty
	// that the first rows of a text table have numbers and text, or no values; example is such a text.
	date, mixed, empty bool
	example            string
	// strange says why the column cannot be read; "" = it can be.
	strange string
	boolean bool // text, all of it True or False
}

// columnsOf is what a table says of its columns.
type columnsOf interface {
	where() string
	columns() []tableColumn
}

// table is a file with rows of named columns.
type table interface {
	columnsOf
	// use says that the columns will be read, in this pass or another.
	use(want []wantColumn)
	// read streams the named columns, each a place in columns, batch by batch in
	// the order of rows. Numbers are wanted as the elem of want (Invalid = text).
	read(ctx context.Context, env ingest.Env, want []wantColumn, emit func(*tableBatch) error) error
}

// wantColumn asks for a column: its place, and the type its elements are to
// have; Invalid = as text.
type wantColumn struct {
	at   int
	elem blocks.ElemType
	days bool // dates as days since 1970, of Float64
}

// tableBatch is a run of rows; it is the receiver's until emit returns.
type tableBatch struct {
	rows    int
	numbers [][]byte     // by wanted column; nil for text
	text    []ingest.IDs // by wanted column
	at      ingest.Position
}

// addNodes makes tables of nodes part of s, whose ids are of kind s.desc.IDs.
func (s *composed) addNodes(tables []*nodeTable) error {
	s.desc.Keyed = true
	taken := map[string]string{}
	var divided *nodeTable // the last with a split
	labelled := slices.ContainsFunc(tables, func(n *nodeTable) bool { return n.label >= 0 })
	for _, n := range tables {
		idElem := blocks.Uint64
		if s.desc.IDs == store.IDsStrings {
			idElem = blocks.Invalid
		} else if n.columns()[n.id].text {
			return ingest.Inputf(n.where(), "ids of nodes are strings, those of edges integers; --ids strings takes both as strings")
		}
		id := wantColumn{at: n.id, elem: idElem}
		n.use([]wantColumn{id})
		s.nodeIDs = append(s.nodeIDs, func(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
			var ids tableIDs
			return n.read(ctx, env, []wantColumn{id}, func(b *tableBatch) error {
				for i := range b.rows {
					if b.numbers[0] == nil && len(b.text[0].At(i)) == 0 {
						return ingest.Inputf(b.at.Of(i), "null or empty node id")
					}
				}
				return emit(n.ids(b, &ids), b.at)
			})
		})
		add := func(spec ingest.ColumnSpec, f nodeFeature) error {
			if other, twice := taken[spec.Name]; twice {
				if spec.Role == store.RoleLabel && n.kind != "" {
					return ingest.Inputf(n.where(), "labels of a second type of nodes: %s has some already; --skip %s.%s leaves these out", other, n.kind, n.columns()[n.label].name)
				}
				return ingest.Inputf(n.where(), "column %s is in %s too", spec.Name, other)
			}
			taken[spec.Name] = n.where()
			if spec.Keyed, spec.Rows = true, -1; len(s.desc.NodeTypes) > 1 {
				spec.NodeType = n.kind
			}
			for len(s.keyed) < len(s.columns) {
				s.keyed = append(s.keyed, nil)
			}
			s.column(spec, nil)
			s.keyed = append(s.keyed, n.keyedRows(id, spec, f))
			return nil
		}
		for _, f := range n.features {
			if err := add(ingest.ColumnSpec{Name: f.name, Role: store.RoleFeature, Elem: f.elem, Dim: f.dim, Indicator: f.values != nil, Elements: n.elements(&f)}, f); err != nil {
				return err
			}
		}
		if n.label >= 0 {
			if err := add(ingest.ColumnSpec{Name: "label", Role: store.RoleLabel, Elem: blocks.Float64, Dim: 1}, nodeFeature{from: []int{n.label}, values: n.classes}); err != nil {
				return err
			}
			s.desc.ClassNames = n.classes
		}
		for name, split := range n.splitParts(id) {
			if n.kind != "" && n.label < 0 && labelled {
				s.desc.Notes = append(s.desc.Notes, fmt.Sprintf("%s: split %q is left out: nodes of type %s have no labels", n.where(), name, n.kind))
				continue
			}
			if slices.Contains(s.desc.Splits, name) {
				return ingest.Inputf(n.where(), "a second split of name %q", name)
			}
			s.splits, s.desc.Splits, divided = append(s.splits, split), append(s.desc.Splits, name), n
		}
	}
	if divided != nil && s.desc.Task == "" {
		return ingest.Inputf(divided.where(), "a split of nodes, but no labels")
	}
	return nil
}

// ids are a batch's ids in its column c.
func (b *tableBatch) ids(c int, room *ingest.IDs) *ingest.IDs {
	if b.numbers[c] == nil {
		return &b.text[c]
	}
	room.Reset()
	room.Ints = widen(room.Ints, blocks.Uint64, b.numbers[c])
	return room
}

// ids are a batch's ids, which its first wanted column has.
func (n *nodeTable) ids(b *tableBatch, room *tableIDs) *ingest.IDs {
	return withType(n.kind, b.ids(0, &room.plain), &room.typed)
}

// tableIDs is room for ids.
type tableIDs struct{ plain, typed ingest.IDs }

// elements names what a feature is made of; nil if one column is all.
func (n *nodeTable) elements(f *nodeFeature) (names []string) {
	if f.values != nil {
		return f.values
	}
	if len(f.from) == f.dim {
		for _, k := range f.from {
			names = append(names, n.columns()[k].name)
		}
	}
	return names
}

// keyedRows streams a column made of some of the table's.
func (n *nodeTable) keyedRows(id wantColumn, spec ingest.ColumnSpec, f nodeFeature) keyedFunc {
	if f.values != nil {
		return n.codedRows(id, spec, f)
	}
	columns := f.from
	want := []wantColumn{id}
	for _, c := range columns {
		want = append(want, wantColumn{at: c, elem: spec.Elem, days: f.days})
	}
	n.use(want[1:])
	size := spec.Elem.Size()
	return func(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, []byte, ingest.Position) error) error {
		var ids tableIDs
		var rows []byte
		return n.read(ctx, env, want, func(b *tableBatch) error {
			if len(columns) == 1 {
				return emit(n.ids(b, &ids), b.numbers[1], b.at)
			}
			rows = rows[:0]
			for i := range b.rows {
				for c := range columns {
					rows = append(rows, b.numbers[1+c][i*size:(i+1)*size]...)
				}
			}
			return emit(n.ids(b, &ids), rows, b.at)
		})
	}
}

// codedRows streams a column of text by its value's place among f.values: a label's class, as Float64, or of a
// feature a 1 there, as Float32. What is missing has no class, and is 0 everywhere.
func (n *nodeTable) codedRows(id wantColumn, spec ingest.ColumnSpec, f nodeFeature) keyedFunc {
	want := []wantColumn{id, {at: f.from[0]}}
	codes := map[string]int{}
	for k, v := range f.values {
		codes[v] = k
	}
	return func(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, []byte, ingest.Position) error) error {
		var ids tableIDs
		var rows []byte
		return n.read(ctx, env, want, func(b *tableBatch) error {
			rows = rows[:0]
			for i := range b.rows {
				k, known, err := code(codes, b.text[1].At(i), b.at, i)
				if err != nil {
					return err
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
			return emit(n.ids(b, &ids), rows, b.at)
		})
	}
}

// splitParts yields the splits: one for each column of parts' names, in the order of the columns,
// or the one that masks make.
func (n *nodeTable) splitParts(id wantColumn) iter.Seq2[string, parts] {
	return func(yield func(string, parts) bool) {
		for k, c := range n.splits {
			p := parts{}
			for part := store.SplitTrain; part <= store.SplitTest; part++ {
				p[part] = n.members(id, wantColumn{at: c}, part)
			}
			name := n.columns()[c].name
			if k == 0 && !strings.HasPrefix(strings.ToLower(name), "split") { // named by --node-columns
				name = "split"
			}
			if !yield(name, p) {
				return
			}
		}
		p := parts{}
		for part := store.SplitTrain; part <= store.SplitTest && len(n.splits) == 0; part++ {
			if n.masks[part] >= 0 {
				p[part] = n.members(id, wantColumn{at: n.masks[part], elem: blocks.Uint8}, part)
			}
		}
		if len(p) > 0 {
			yield("split", p)
		}
	}
}

// members streams the ids of rows whose column, a mask or a part's name, says that they are in part.
func (n *nodeTable) members(id, column wantColumn, part uint8) idsFunc {
	n.use([]wantColumn{column})
	return func(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
		var room tableIDs
		var out ingest.IDs
		var lines []uint64
		return n.read(ctx, env, []wantColumn{id, column}, func(b *tableBatch) error {
			ids := n.ids(b, &room)
			out.Reset()
			lines = lines[:0]
			for i := range b.rows {
				in, err := b.member(1, i, part)
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
				lines = append(lines, b.at.Number(i))
			}
			if len(lines) == 0 {
				return nil
			}
			return emit(&out, ingest.Position{File: b.at.File, Unit: b.at.Unit, Lines: lines})
		})
	}
}

// member reports whether row i of wanted column c says part.
func (b *tableBatch) member(c, i int, part uint8) (bool, error) {
	if b.numbers[c] != nil {
		return b.numbers[c][i] != 0, nil
	}
	switch name := string(b.text[c].At(i)); strings.ToLower(name) {
	case "train", "training":
		return part == store.SplitTrain, nil
	case "valid", "val", "validation":
		return part == store.SplitValid, nil
	case "test", "testing":
		return part == store.SplitTest, nil
	case "", "-", "none", "unlabeled", "unlabelled", "nan", "na", "null", "<na>":
		return false, nil
	default:
		return false, ingest.Inputf(b.at.Of(i), "split %.40q, expected train, valid, test or none", name)
	}
}

// openTable opens a table by its name's ending.
func openTable(fs vfs.FS, path string, o TextOptions) (table, error) {
	if isParquet(fs, path) {
		return openParquet(fs, path)
	}
	return openTextTable(fs, path, o)
}

// openTables opens tables of nodes; a folder stands for the Parquet files in it.
func (s *composed) openTables(fs vfs.FS, named []namedTable, o TextOptions) error {
	var tables []*nodeTable
	for _, table := range named {
		path, o := table.path, o.forTable(table)
		t, err := openTable(fs, path, o)
		if err != nil {
			return err
		}
		n, err := openNodeTable(context.Background(), t, &o)
		if err != nil {
			return err
		}
		tables = append(tables, n)
		s.desc.Uses = append(s.desc.Uses, columnUses(path, columnNames(n.columns()), n.uses)...)
		if p, ok := t.(*parquetTable); ok {
			s.tableFiles(p)
		} else {
			s.file(path)
		}
	}
	return s.addNodes(tables)
}
