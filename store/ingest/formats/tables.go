package formats

import (
	"context"
	"iter"
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
}

// table is a file with rows of named columns.
type table interface {
	where() string
	columns() []tableColumn
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
}

// tableBatch is a run of rows; it is the receiver's until emit returns.
type tableBatch struct {
	rows    int
	numbers [][]byte     // by wanted column; nil for text
	text    []ingest.IDs // by wanted column
	at      ingest.Position
}

// nodeFields are the names with a meaning of their own in tables of nodes.
var nodeFields = []string{"id", "label", "split", "train_mask", "valid_mask", "test_mask"}

// What else the columns of tables are called.
var (
	idNames    = []string{"id", "node", "node_id", "nid", "name"}
	labelNames = []string{"label", "y", "class", "labels", "node_label"}
	srcNames   = []string{"src", "source", "from", "head", "src_id", "u", "subject"}
	dstNames   = []string{"dst", "target", "destination", "to", "tail", "dst_id", "v", "object"}
	relNames   = []string{"relation", "rel", "edge_type", "predicate", "type"}
	maskNames  = map[string]string{"val_mask": "valid_mask"}
)

// nodeTable is a table of nodes and what its columns mean.
type nodeTable struct {
	table
	id       int
	label    int    // −1 = there is none
	splits   []int  // columns of parts' names; one by the masks if there are none
	masks    [4]int // by part; −1 = there is none
	features []nodeFeature
}

// nodeFeature is a feature that one list column or some number columns make.
type nodeFeature struct {
	name string
	elem blocks.ElemType
	from []int
	dim  int
}

// openNodeTable works out what a table's columns mean: by fields, one for each
// column in order, or else by name. Columns that no name of their own gives a meaning are
// features: lists each one, columns NAME.0, NAME.1, … together, other numbers
// together "x".
func openNodeTable(t table, fields []string) (*nodeTable, error) {
	n := &nodeTable{table: t, id: -1, label: -1, masks: [4]int{-1, -1, -1, -1}}
	cols := t.columns()
	names := make([]string, len(cols)) // meaning of each column: one of nodeFields, "" = a feature, "-" = none
	if fields != nil {
		if err := n.byFields(fields, names); err != nil {
			return nil, err
		}
	} else {
		n.byName(names)
	}
	var plain []int
	for k, meaning := range names {
		c := cols[k]
		switch meaning {
		case "id":
			n.id = k
		case "label":
			n.label = k
		case "split":
			n.splits = append(n.splits, k)
		case "train_mask":
			n.masks[store.SplitTrain] = k
		case "valid_mask":
			n.masks[store.SplitValid] = k
		case "test_mask":
			n.masks[store.SplitTest] = k
		case "":
			if fields != nil {
				continue // byFields has listed the features
			}
			if c.text {
				return nil, textFeature(t, c, "--node-columns")
			}
			if c.list {
				n.features = append(n.features, nodeFeature{name: c.name, elem: numberElem(c.elem), from: []int{k}, dim: c.dim})
			} else if base, m := n.numberedFrom(names, k); m > 1 {
				f := nodeFeature{name: base, elem: numberElem(c.elem), dim: m}
				for i := range m {
					f.from, names[k+i] = append(f.from, k+i), "-"
				}
				n.features = append(n.features, f)
			} else {
				plain = append(plain, k)
			}
		}
	}
	if n.id < 0 {
		return nil, ingest.Inputf(t.where(), "no column of ids (%s); --node-columns names the columns in order", strings.Join(idNames, ", "))
	}
	if len(plain) > 0 {
		f := nodeFeature{name: "x", elem: numberElem(cols[plain[0]].elem), from: plain, dim: len(plain)}
		for _, k := range plain {
			if numberElem(cols[k].elem) != f.elem {
				f.elem = blocks.Float32
			}
		}
		n.features = append(n.features, f)
	}
	for _, c := range append([]int{n.id, n.label, n.masks[1], n.masks[2], n.masks[3]}, n.splits...) {
		if c >= 0 && cols[c].dim != 1 {
			return nil, ingest.Inputf(t.where(), "column %q has %d elements a row, expected 1", cols[c].name, cols[c].dim)
		}
	}
	return n, nil
}

// numberedFrom is the feature that columns NAME.0, NAME.1, … of one type make together, from
// column k on, and how many they are.
func (n *nodeTable) numberedFrom(names []string, k int) (string, int) {
	cols := n.columns()
	var run []string
	for i := k; i < len(cols) && names[i] == "" && !cols[i].text && !cols[i].list && cols[i].elem == cols[k].elem; i++ {
		run = append(run, cols[i].name)
	}
	return numbered(run)
}

// textFeature refuses strings where numbers are expected.
func textFeature(t table, c tableColumn, flag string) error {
	return ingest.Inputf(t.where(), "column %q holds text, which is no feature; %s names the columns in order and skips those named -", c.name, flag)
}

// numberElem is the type in which a column's numbers are read.
func numberElem(e blocks.ElemType) blocks.ElemType {
	if e == blocks.Invalid {
		return blocks.Float32
	}
	return e
}

func (n *nodeTable) byFields(specs []string, names []string) error {
	fields, _, err := parseFields(specs, nodeFields)
	if err != nil {
		return err
	}
	for k := range names {
		names[k] = "-"
	}
	cols := n.columns()
	for _, f := range fields {
		if f.at+f.dim > len(cols) {
			return ingest.Inputf(n.where(), "%d columns, expected %d (--node-columns)", len(cols), f.at+f.dim)
		}
		if slices.Contains(nodeFields, f.name) {
			names[f.at] = f.name
			continue
		}
		feature := nodeFeature{name: f.name, elem: f.elem}
		for k := range f.dim {
			c := cols[f.at+k]
			feature.from, feature.dim = append(feature.from, f.at+k), feature.dim+c.dim
			names[f.at+k] = ""
		}
		if feature.dim != len(feature.from) && len(feature.from) > 1 {
			return ingest.Inputf(n.where(), "feature %s is made of %d columns, some of them lists, expected one list or plain numbers", f.name, len(feature.from))
		}
		n.features = append(n.features, feature)
	}
	return nil
}

func (n *nodeTable) byName(names []string) {
	cols := n.columns()
	find := func(as string, known []string) {
		for _, want := range known {
			for k, c := range cols {
				if names[k] == "" && strings.EqualFold(c.name, want) {
					names[k] = as
					return
				}
			}
		}
	}
	find("id", idNames)
	find("label", labelNames)
	for _, f := range nodeFields[3:] {
		find(f, []string{f})
	}
	for k, c := range cols { // "split", "split_public", …: as the numpy folder has them
		if names[k] == "" && (strings.EqualFold(c.name, "split") || c.text && strings.HasPrefix(strings.ToLower(c.name), "split_")) {
			names[k] = "split"
		}
	}
	for alias, f := range maskNames {
		find(f, []string{alias})
	}
}

// addNodes makes tables of nodes part of s, whose ids are of kind s.desc.IDs.
func (s *composed) addNodes(tables []*nodeTable) error {
	s.desc.Keyed = true
	taken := map[string]string{}
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
			var ids ingest.IDs
			return n.read(ctx, env, []wantColumn{id}, func(b *tableBatch) error { return emit(b.ids(0, &ids), b.at) })
		})
		add := func(spec ingest.ColumnSpec, columns []int) error {
			if other, twice := taken[spec.Name]; twice {
				return ingest.Inputf(n.where(), "column %s is in %s too", spec.Name, other)
			}
			taken[spec.Name] = n.where()
			spec.Keyed, spec.Rows = true, -1
			for len(s.keyed) < len(s.columns) {
				s.keyed = append(s.keyed, nil)
			}
			s.column(spec, nil)
			s.keyed = append(s.keyed, n.keyedRows(id, spec, columns))
			return nil
		}
		for _, f := range n.features {
			if err := add(ingest.ColumnSpec{Name: f.name, Role: store.RoleFeature, Elem: f.elem, Dim: f.dim}, f.from); err != nil {
				return err
			}
		}
		if n.label >= 0 {
			if err := add(ingest.ColumnSpec{Name: "label", Role: store.RoleLabel, Elem: blocks.Float64, Dim: 1}, []int{n.label}); err != nil {
				return err
			}
		}
		for name, split := range n.splitParts(id) {
			if slices.Contains(s.desc.Splits, name) {
				return ingest.Inputf(n.where(), "a second split of name %q", name)
			}
			s.splits, s.desc.Splits = append(s.splits, split), append(s.desc.Splits, name)
		}
	}
	if len(s.splits) > 0 && s.desc.Task == "" {
		return ingest.Inputf(tables[0].where(), "a split of nodes, but no labels")
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

// keyedRows streams a column made of some of the table's.
func (n *nodeTable) keyedRows(id wantColumn, spec ingest.ColumnSpec, columns []int) keyedFunc {
	want := []wantColumn{id}
	for _, c := range columns {
		want = append(want, wantColumn{at: c, elem: spec.Elem})
	}
	n.use(want[1:])
	size := spec.Elem.Size()
	return func(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, []byte, ingest.Position) error) error {
		var ids ingest.IDs
		var rows []byte
		return n.read(ctx, env, want, func(b *tableBatch) error {
			if len(columns) == 1 {
				return emit(b.ids(0, &ids), b.numbers[1], b.at)
			}
			rows = rows[:0]
			for i := range b.rows {
				for c := range columns {
					rows = append(rows, b.numbers[1+c][i*size:(i+1)*size]...)
				}
			}
			return emit(b.ids(0, &ids), rows, b.at)
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
		var room, out ingest.IDs
		var lines []uint64
		return n.read(ctx, env, []wantColumn{id, column}, func(b *tableBatch) error {
			ids := b.ids(0, &room)
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
	case "", "-", "none", "unlabeled", "unlabelled":
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

// openTables opens the tables of nodes at paths; a folder stands for the Parquet files in it.
func (s *composed) openTables(fs vfs.FS, paths []string, o TextOptions) error {
	var tables []*nodeTable
	for _, path := range paths {
		t, err := openTable(fs, path, o)
		if err != nil {
			return err
		}
		n, err := openNodeTable(t, o.NodeColumns)
		if err != nil {
			return err
		}
		tables = append(tables, n)
		if p, ok := t.(*parquetTable); ok {
			s.tableFiles(p)
		} else {
			s.file(path)
		}
	}
	return s.addNodes(tables)
}
