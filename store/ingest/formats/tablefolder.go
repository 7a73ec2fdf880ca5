package formats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// tableFolder is a graph of several types in tables: nodes/TYPE.csv (.tsv, .txt, packed, or .parquet, which may be a folder of part files),
// one for each node type, and edges/SOURCE-NAME-DESTINATION.csv, one for each edge type. Ids of each node type are a space of their own:
// node 1 of type user is user:1. A type without a table has the nodes that edges name.
type tableFolder struct {
	*typedGraph
	nodes []tableFile
	edges []tableFile
}

// tableFile is a table of such a folder, and what it is called.
type tableFile struct {
	name, path    string
	src, rel, dst string // of edges
}

// relationParts divides the name of a table of edges: between two underscores, or else at the first and the last hyphen.
func relationParts(name string) (src, rel, dst string, ok bool) {
	parts := strings.Split(name, typedSeparator)
	if len(parts) != 3 {
		if parts = strings.Split(name, "-"); len(parts) < 3 {
			return "", "", "", false
		}
		parts = []string{parts[0], strings.Join(parts[1:len(parts)-1], "-"), parts[len(parts)-1]}
	}
	return parts[0], parts[1], parts[2], !slices.Contains(parts, "")
}

// tablesIn lists the tables of a folder by name, and what else is in it. What begins with a dot or an underscore is other programs'.
func tablesIn(fs vfs.FS, dir string) (tables []tableFile, others []string) {
	entries, err := fs.List(dir)
	if err != nil {
		return nil, nil
	}
	slices.Sort(entries)
	for _, entry := range entries {
		path := fs.PathJoin(dir, entry)
		name, isTable := strings.CutSuffix(entry, ".parquet")
		for _, suffix := range textSuffixes {
			if base, ok := strings.CutSuffix(plainName(entry), suffix); ok && isFile(fs, path) {
				name, isTable = base, true
			}
		}
		switch {
		case strings.HasPrefix(entry, ".") || strings.HasPrefix(entry, "_"):
		case isTable && isFile(fs, path) || findParquet(fs, path):
			tables = append(tables, tableFile{name: name, path: path})
		default:
			others = append(others, path)
		}
	}
	return tables, others
}

// isTableFolder reports whether dir is laid out so. A folder edges of Parquet may also be part files of one table: it is one for each
// edge type where their names are divided by underscores, or a type that they name has a table.
func isTableFolder(fs vfs.FS, dir string) bool {
	nodes, _ := tablesIn(fs, fs.PathJoin(dir, "nodes"))
	edges, _ := tablesIn(fs, fs.PathJoin(dir, "edges"))
	return slices.ContainsFunc(edges, func(e tableFile) bool {
		src, _, dst, ok := relationParts(e.name)
		known := slices.ContainsFunc(nodes, func(n tableFile) bool { return n.name == src || n.name == dst })
		return ok && (known || !isParquet(fs, e.path) || strings.Contains(e.name, typedSeparator))
	})
}

// openTableFolder opens the folder, with further tables of nodes, TYPE=PATH. columns says of each of all tables of nodes, by type, what its
// columns are; none = as o says of all.
func openTableFolder(fs vfs.FS, dir string, o TextOptions, nodes []string, columns [][]string) (ingest.Source, error) {
	if o.IDs != "" && o.IDs != store.IDsStrings {
		return nil, fmt.Errorf("%w: ids of nodes of types are strings, TYPE:ID, not %s", ingest.ErrOptions, o.IDs)
	}
	o.IDs = store.IDsStrings
	s := &tableFolder{typedGraph: newTypedGraph("tables", fs, dir)}
	if err := s.list(); err != nil {
		return nil, err
	}
	var named []namedTable
	for _, n := range s.nodes {
		named = append(named, namedTable{path: n.path, kind: n.name})
	}
	more, _, err := namedTables(fs, nodes, nil)
	if err != nil {
		return nil, err
	}
	for _, n := range more {
		if n.kind == "" {
			return nil, fmt.Errorf("%w: table of nodes %s beside those of types, expected TYPE=%s", ingest.ErrOptions, n.path, n.path)
		}
		named = append(named, n)
	}
	if len(columns) > 0 && len(columns) != len(named) {
		return nil, fmt.Errorf("%w: %d lists of columns for %d tables of nodes, %q", ingest.ErrOptions, len(columns), len(named), named)
	}
	var types []string
	for k, n := range named {
		if types = append(types, n.kind); len(columns) > 0 {
			named[k].columns = columns[k]
		}
	}
	for _, e := range s.edges {
		types = append(types, e.src, e.dst)
	}
	if err := s.setTypes(dir, types, o.Like); err != nil {
		return nil, err
	}
	for _, t := range s.desc.NodeTypes {
		s.first[t.Name], s.count[t.Name] = 0, -1 // known to addEdges, which leaves ids that are strings alone
	}
	if err := s.openEdges(o); err != nil {
		return nil, err
	}
	if len(named) > 0 {
		if err := s.openTables(fs, named, o); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// list finds the tables, whose names must be told apart.
func (s *tableFolder) list() error {
	var others []string
	for _, part := range []struct {
		folder string
		tables *[]tableFile
	}{{"nodes", &s.nodes}, {"edges", &s.edges}} {
		tables, rest := tablesIn(s.fs, s.fs.PathJoin(s.dir, part.folder))
		for k, t := range tables {
			if k > 0 && tables[k-1].name == t.name {
				return ingest.Inputf(t.path, "a second table of what %s is of", tables[k-1].path)
			}
		}
		*part.tables, others = tables, append(others, rest...)
	}
	for k := range s.edges {
		e, ok := &s.edges[k], false
		if e.src, e.rel, e.dst, ok = relationParts(e.name); !ok {
			return ingest.Inputf(e.path, "a table of edges is called %q, expected SOURCE-NAME-DESTINATION or SOURCE%sNAME%sDESTINATION", e.name, typedSeparator, typedSeparator)
		}
		if strings.Contains(e.name, typedSeparator) {
			continue
		}
		for _, n := range s.nodes { // a type with hyphens, which the division would cut
			if n.name != e.src && strings.HasPrefix(e.src+"-"+e.rel, n.name+"-") || n.name != e.dst && strings.HasSuffix(e.rel+"-"+e.dst, "-"+n.name) {
				return ingest.Inputf(e.path, "type %q has a table, and %q is divided into %q, %q and %q: divide it by %s", n.name, e.name, e.src, e.rel, e.dst, typedSeparator)
			}
		}
	}
	if len(s.edges) == 0 {
		return ingest.Inputf(s.dir, "no table edges/SOURCE-NAME-DESTINATION.csv (.tsv, .txt, .parquet)")
	}
	for _, path := range others {
		s.desc.Notes = append(s.desc.Notes, path+" is not read: it is no table")
	}
	return nil
}

// setTypes makes the graph's nodes those of types, whose ids begin with them.
func (s *composed) setTypes(where string, types []string, like *store.Manifest) error {
	// Ids are in the order of their bytes, and so types in that of what ids begin with.
	types = slices.Clone(types)
	slices.SortFunc(types, func(a, b string) int { return cmp.Compare(ingest.PrefixOf(a), ingest.PrefixOf(b)) })
	types = slices.Compact(types)
	s.desc.NodeTypes, s.desc.Nodes, s.desc.IDs = nil, -1, store.IDsStrings
	s.desc.TypesByPrefix = len(types) > 1
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
		s.desc.NodeTypes = append(s.desc.NodeTypes, ingest.NodeType{Name: t, Count: -1})
	}
	return nil
}

// openEdges opens the tables of edges.
func (s *tableFolder) openEdges(o TextOptions) error {
	var relations []relationEdges
	for _, e := range s.edges {
		r, err := s.openRelation(&e, o)
		if err != nil {
			return err
		}
		relations = append(relations, r)
	}
	if o.Like != nil { // relations and columns of the store that the tables lack are those of none of their edges
		for _, r := range o.Like.Schema.Relations {
			s.desc.Relations = append(s.desc.Relations, r.Name)
		}
		for _, c := range o.Like.Columns {
			if c.Role.OnEdges() && c.Role != store.RoleRelation {
				s.desc.EdgeColumns = append(s.desc.EdgeColumns, ingest.ColumnSpec{Name: c.Name, Role: c.Role, Elem: c.Elem, Dim: c.Dim})
			}
		}
	}
	s.like = o.Like
	return s.addEdges(relations)
}

// openRelation opens a table of edges.
func (s *tableFolder) openRelation(e *tableFile, o TextOptions) (relationEdges, error) {
	r := relationEdges{where: e.path, name: strings.Join([]string{e.src, e.rel, e.dst}, ":"), src: e.src, dst: e.dst, edges: -1}
	o.ends = []string{e.src, e.dst}
	var specs []ingest.ColumnSpec
	var uses []ingest.ColumnUse
	related := false
	if isParquet(s.fs, e.path) {
		t, err := openParquetEdges(s.fs, e.path, o)
		if err != nil {
			return r, err
		}
		s.tableFiles(t.parquetTable)
		r.table, r.edges, specs, related = t.edges, t.rows, t.specs, t.related
		uses = columnUses(e.path, columnNames(t.cols), t.uses)
	} else {
		t, err := openEdgeList(s.fs, e.path, o)
		if err != nil {
			return r, err
		}
		s.file(e.path)
		r.table, specs, related, uses = t.Edges, t.desc.EdgeColumns, t.desc.HasRelation, t.desc.Uses
	}
	if related {
		return r, fmt.Errorf("%w: a field relation of %s, whose name says the relation", ingest.ErrOptions, e.path)
	}
	for _, spec := range specs {
		r.columns = append(r.columns, relationColumn{spec: spec, path: e.path})
	}
	r.table = typedEdges(r.table, e.src, e.dst)
	tellEnds(uses, e.src, e.dst)
	s.desc.Uses = append(s.desc.Uses, uses...)
	return r, nil
}
