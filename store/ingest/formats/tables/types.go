package tables

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parquet"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
	"github.com/gstore/gstore/store/ingest/formats/text"
)

// Named is a table of nodes as --nodes names it: TYPE=PATH or PATH. Ids of a type are a space of their own: user 1
// is node user:1, item 1 is item:1.
type Named struct {
	Path, Kind string   // kind "" = nodes of the one type
	Columns    []string // what its columns are; nil = as TextOptions.NodeColumns says
}

// NameTables reads what names tables of nodes, and lists their types in order.
func NameTables(fs vfs.FS, nodes []string, columns [][]string) (tables []Named, types []string, err error) {
	for k, name := range nodes {
		t := Named{Path: name}
		if kind, path, ok := strings.Cut(name, "="); ok && kind != "" && !strings.ContainsAny(kind, `/\.`) {
			if _, err := fs.Stat(name); err != nil { // no file whose name has the sign
				t = Named{Path: path, Kind: kind}
			}
		}
		if len(columns) > 0 {
			t.Columns = columns[k]
		}
		if tables = append(tables, t); !slices.Contains(types, t.Kind) {
			types = append(types, t.Kind)
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

// stemOf is what a file is called, without what says its kind.
func stemOf(file string) string {
	stem, _, _ := strings.Cut(path.Base(filepath.ToSlash(file)), ".")
	return stem
}

// nameByFiles gives tables of nodes that are added to a store of types the type that each file is called by, and reports whether it did:
// it does where all are.
func nameByFiles(tables []Named, types []string) bool {
	var kinds []string
	for _, t := range tables {
		stem := stemOf(t.Path)
		if !slices.Contains(types, stem) {
			return false
		}
		kinds = append(kinds, stem)
	}
	for k := range kinds {
		tables[k].Kind = kinds[k]
	}
	return len(kinds) > 0
}

// nameByEnds gives two tables of nodes or more the types that their files are called by, and reports whether it did: it does where the
// columns of both ends of edges are called by such a type, customer_id and product_id beside customer.csv and products.csv.
func nameByEnds(fs vfs.FS, train string, tables []Named, o table.Options) bool {
	if len(tables) < 2 || o.Columns != nil {
		return false
	}
	var may []string // be types
	for _, t := range tables {
		stem := stemOf(t.Path)
		may = append(may, stem, strings.TrimSuffix(stem, "s"))
	}
	o.IDs = store.IDsStrings
	var ends [2]string
	if o = o.OfTypes(may); IsParquet(fs, train) {
		e, err := parquet.OpenEdges(fs, train, o)
		if err != nil {
			return false // whoever reads them says so
		}
		ends = e.Ends()
	} else {
		list, err := text.OpenEdges(fs, train, o, []string{"src", "dst"})
		if err != nil {
			return false
		}
		ends = list.Ends()
	}
	var kinds []string
	ofEnds := 0
	for k := range tables {
		kind := may[2*k]
		for _, t := range may[2*k : 2*k+2] {
			if table.IsOf(ends[0], t) || table.IsOf(ends[1], t) {
				kind = t
				ofEnds++
				break
			}
		}
		if slices.Contains(kinds, kind) {
			return false
		}
		kinds = append(kinds, kind)
	}
	if ofEnds < 2 {
		return false
	}
	for k := range kinds {
		tables[k].Kind = kinds[k]
	}
	return true
}

// typeEdges makes s's nodes those of types, and its edges those between nodes of the known ones that the columns of ends are called by, or
// that were found.
func typeEdges(s *parts.Source, where string, ends, found [2]string, types, known []string, like *store.Manifest) error {
	if len(s.ListStreams) > 0 {
		return ingest.Inputf(where, "edge lists beside edges between nodes of several types")
	}
	srcType, dstType, err := table.EndTypes(where, ends, found, known)
	if err != nil {
		return err
	}
	for k := range s.EdgeStreams {
		s.EdgeStreams[k] = table.TypedEdges(s.EdgeStreams[k], srcType, dstType)
	}
	table.TellEnds(s.Desc.Uses, srcType, dstType)
	return SetTypes(s, where, append([]string{srcType, dstType}, types...), like)
}

// options is o for this table.
func (t *Named) options(o table.Options) table.Options {
	if t.Columns != nil {
		o.NodeColumns = t.Columns
	}
	if t.Kind != "" {
		o.IDs = store.IDsStrings
		o.Skip, o.Use = ofKind(t.Kind, o.Skip), ofKind(t.Kind, o.Use)
		o.Label = slices.Clone(o.Label)
		for k, l := range o.Label {
			o.Label[k] = strings.TrimPrefix(l, t.Kind+".")
		}
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

// SetTypes makes the graph's nodes those of types, whose ids begin with them.
func SetTypes(s *parts.Source, where string, types []string, like *store.Manifest) error {
	// Ids are in the order of their bytes, and so types in that of what ids begin with.
	types = slices.Clone(types)
	slices.SortFunc(types, func(a, b string) int { return cmp.Compare(ingest.PrefixOf(a), ingest.PrefixOf(b)) })
	types = slices.Compact(types)
	s.Desc.NodeTypes, s.Desc.Nodes, s.Desc.IDs = nil, -1, store.IDsStrings
	s.Desc.TypesByPrefix = len(types) > 1
	for _, t := range types {
		known := like == nil || slices.ContainsFunc(like.Schema.NodeTypes, func(n store.NodeType) bool {
			return n.Name == t || n.Name == "node" && len(like.Schema.NodeTypes) == 1 // of a store without types, whose ids may begin with some
		})
		switch {
		case strings.Contains(t, ":"):
			return ingest.Inputf(where, "a node type is called %q, expected a name without a colon", t)
		case !known:
			return ingest.Inputf(where, "node type %q, expected one of the store's: append adds no type", t)
		}
		s.Desc.NodeTypes = append(s.Desc.NodeTypes, ingest.NodeType{Name: t, Count: -1})
	}
	return nil
}
