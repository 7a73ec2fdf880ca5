package formats

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// namedTable is a table of nodes as --nodes names it: TYPE=PATH or PATH. Ids of a type are a space of their own: user 1
// is node user:1, item 1 is item:1.
type namedTable struct {
	path, kind string   // kind "" = nodes of the one type
	columns    []string // what its columns are; nil = as TextOptions.NodeColumns says
}

// namedTables reads what names tables of nodes, and lists their types in order.
func namedTables(fs vfs.FS, nodes []string, columns [][]string) (tables []namedTable, types []string, err error) {
	for k, name := range nodes {
		t := namedTable{path: name}
		if kind, path, ok := strings.Cut(name, "="); ok && kind != "" && !strings.ContainsAny(kind, `/\.`) {
			if _, err := fs.Stat(name); err != nil { // no file whose name has the sign
				t = namedTable{path: path, kind: kind}
			}
		}
		if len(columns) > 0 {
			t.columns = columns[k]
		}
		if tables = append(tables, t); !slices.Contains(types, t.kind) {
			types = append(types, t.kind)
		}
	}
	if len(types) > 1 && slices.Contains(types, "") {
		return nil, nil, ingest.Inputf(strings.Join(nodes, ", "), "some tables of nodes have a type (TYPE=FILE), expected one of each, or of none")
	}
	if len(types) == 1 && types[0] == "" {
		types = nil
	}
	return tables, types, nil
}

// typeOf is the type that a column is called by, TYPE or TYPE_id; "" = by none.
func typeOf(column string, types []string) string {
	for _, t := range types {
		if slices.ContainsFunc(typedIDs(t), func(n string) bool { return strings.EqualFold(strings.TrimSpace(column), n) }) {
			return t
		}
	}
	return ""
}

// typedEnds are the columns that are called by types: those of tables, or if they are not two, any TYPE_id too. Where types of ends are
// known and differ, the source's stands first.
func typedEnds(names []string, o *TextOptions) (known []int) {
	types := o.types
	if len(o.ends) == 2 && o.ends[0] != o.ends[1] {
		for _, end := range o.ends {
			if k := slices.IndexFunc(names, func(n string) bool { return typeOf(n, []string{end}) != "" }); k >= 0 {
				known = append(known, k)
			}
		}
		return known
	}
	if types == nil {
		return nil
	}
	var any []int
	for k, n := range names {
		if typeOf(n, types) != "" {
			known = append(known, k)
		}
		if endType(n, types) != "" {
			any = append(any, k)
		}
	}
	if len(known) != 2 {
		return any
	}
	return known
}

// endType is typeOf, or the TYPE of a column TYPE_id that no table has.
func endType(column string, types []string) string {
	if t := typeOf(column, types); t != "" {
		return t
	}
	column = strings.TrimSpace(column)
	if slices.ContainsFunc(endNames, func(p [2]string) bool { return strings.EqualFold(column, p[0]) || strings.EqualFold(column, p[1]) }) {
		return ""
	}
	stem, ok := strings.CutSuffix(strings.ToLower(column), "_id")
	if !ok {
		return ""
	}
	return stem
}

// typedIDs are names of columns with ids of a type.
func typedIDs(t string) []string {
	if t == "" {
		return nil
	}
	return []string{t + "_id", t + "id", t}
}

// endTypes says which types the ends of edges are of: as their columns are called, or else the first and the last of two types at most.
func endTypes(where, src, dst string, types []string) (srcType, dstType string, err error) {
	srcType, dstType = endType(src, types), endType(dst, types)
	if (srcType == "" || dstType == "") && len(types) > 2 {
		return "", "", ingest.Inputf(where, "the types of %q and %q are unknown: call the columns TYPE_id of two of %q", src, dst, types)
	}
	if srcType == "" {
		srcType = types[0]
	}
	if dstType == "" {
		dstType = types[len(types)-1]
	}
	return srcType, dstType, nil
}

// typedEdges makes the ids of edges those of two types.
func typedEdges(edges edgesFunc, src, dst string) edgesFunc {
	return func(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
		rooms := make([][2]ingest.IDs, max(1, env.Threads))
		return edges(ctx, env, func(worker int, b *ingest.EdgeBatch) error {
			typed := *b
			typed.Src = *withType(src, &b.Src, &rooms[worker][0])
			typed.Dst = *withType(dst, &b.Dst, &rooms[worker][1])
			return emit(worker, &typed)
		})
	}
}

// withType is ids of a type in room: TYPE:ID each. Integers that were written with a fraction of 0 are integers.
func withType(kind string, ids, room *ingest.IDs) *ingest.IDs {
	if kind == "" {
		return ids
	}
	room.Reset()
	var b []byte
	for i := range ids.Len() {
		id := ids.At(i)
		b = append(append(b[:0], kind...), ':')
		x, ok := uint64(0), false
		if bytes.IndexByte(id, '.') >= 0 {
			x, ok = parseID(id)
		}
		if ok {
			b = strconv.AppendUint(b, x, 10)
		} else {
			b = append(b, id...)
		}
		room.Append(b)
	}
	return room
}

// tellEnds adds to what columns became the types of edges' ends.
func tellEnds(uses []ingest.ColumnUse, src, dst string) {
	for k := range uses {
		switch uses[k].As {
		case "source":
			uses[k].As += " of type " + src
		case "destination":
			uses[k].As += " of type " + dst
		}
	}
}

// typeEdges makes s's nodes those of types, and its edges those between them whose columns are called src and dst.
func (s *composed) typeEdges(where, src, dst string, types []string, like *store.Manifest) error {
	if len(s.lists) > 0 {
		return ingest.Inputf(where, "edge lists beside edges between nodes of several types")
	}
	srcType, dstType, err := endTypes(where, src, dst, types)
	if err != nil {
		return err
	}
	for k := range s.edges {
		s.edges[k] = typedEdges(s.edges[k], srcType, dstType)
	}
	tellEnds(s.desc.Uses, srcType, dstType)
	return s.setTypes(where, append([]string{srcType, dstType}, types...), like)
}

// forTable is o for a table of nodes.
func (o TextOptions) forTable(t namedTable) TextOptions {
	o.kind = t.kind
	if t.columns != nil {
		o.NodeColumns = t.columns
	}
	if t.kind != "" {
		o.IDs = store.IDsStrings
		o.Skip, o.Use = ofKind(t.kind, o.Skip), ofKind(t.kind, o.Use)
	}
	return o
}

// ofKind is names of columns, of which TYPE.NAME are those of tables of that type alone.
func ofKind(kind string, names []string) []string {
	names = slices.Clone(names)
	for _, n := range names {
		if plain, ok := strings.CutPrefix(n, kind+"."); ok {
			names = append(names, plain)
		}
	}
	return names
}

// featureName is what a feature of the table's nodes is called in the store.
func (o *TextOptions) featureName(name string) string {
	if o.kind == "" {
		return name
	}
	return o.kind + "." + name
}
