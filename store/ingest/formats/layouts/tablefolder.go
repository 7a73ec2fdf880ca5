package layouts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/parquet"
	"github.com/gstore/gstore/store/ingest/formats/table"
	"github.com/gstore/gstore/store/ingest/formats/tables"
	"github.com/gstore/gstore/store/ingest/formats/text"
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
func tablesIn(fs vfs.FS, dir string) (found []tableFile, others []string) {
	entries, err := fs.List(dir)
	if err != nil {
		return nil, nil
	}
	slices.Sort(entries)
	for _, entry := range entries {
		path := fs.PathJoin(dir, entry)
		name, isTable := strings.CutSuffix(entry, ".parquet")
		for _, suffix := range tables.TextSuffixes {
			if base, ok := strings.CutSuffix(files.PlainName(entry), suffix); ok && files.IsFile(fs, path) {
				name, isTable = base, true
			}
		}
		switch {
		case strings.HasPrefix(entry, ".") || strings.HasPrefix(entry, "_"):
		case isTable && files.IsFile(fs, path) || tables.FindParquet(fs, path):
			found = append(found, tableFile{name: name, path: path})
		default:
			others = append(others, path)
		}
	}
	return found, others
}

// IsTables reports whether dir is laid out so. A folder edges of Parquet may also be part files of one table: it is one for each
// edge type where their names are divided by underscores, or a type that they name has a table.
func IsTables(fs vfs.FS, dir string) bool {
	nodes, _ := tablesIn(fs, fs.PathJoin(dir, "nodes"))
	edges, _ := tablesIn(fs, fs.PathJoin(dir, "edges"))
	return slices.ContainsFunc(edges, func(e tableFile) bool {
		src, _, dst, ok := relationParts(e.name)
		known := slices.ContainsFunc(nodes, func(n tableFile) bool { return n.name == src || n.name == dst })
		return ok && (known || !tables.IsParquet(fs, e.path) || strings.Contains(e.name, typedSeparator))
	})
}

// OpenTables opens the folder, with further tables of nodes, TYPE=PATH. columns says of each of all tables of nodes, by type, what its
// columns are; none = as o says of all.
func OpenTables(fs vfs.FS, dir string, o table.Options, nodes []string, columns [][]string) (ingest.Source, error) {
	if o.IDs != "" && o.IDs != store.IDsStrings {
		return nil, fmt.Errorf("%w: ids of nodes of types are strings, TYPE:ID, not %s", ingest.ErrOptions, o.IDs)
	}
	o.IDs = store.IDsStrings
	s := &tableFolder{typedGraph: newTypedGraph("tables", fs, dir)}
	if err := s.list(); err != nil {
		return nil, err
	}
	var named []tables.Named
	for _, n := range s.nodes {
		named = append(named, tables.Named{Path: n.path, Kind: n.name})
	}
	more, _, err := tables.NameTables(fs, nodes, nil)
	if err != nil {
		return nil, err
	}
	for _, n := range more {
		if n.Kind == "" {
			return nil, fmt.Errorf("%w: table of nodes %s beside those of types, expected TYPE=%s", ingest.ErrOptions, n.Path, n.Path)
		}
		named = append(named, n)
	}
	if len(columns) > 0 && len(columns) != len(named) {
		return nil, fmt.Errorf("%w: %d lists of columns for %d tables of nodes, %q", ingest.ErrOptions, len(columns), len(named), named)
	}
	for k := range named {
		if len(columns) > 0 {
			named[k].Columns = columns[k]
		}
	}
	return s, s.openTypes(o, named)
}

// openTypes opens the tables of edges and of nodes.
func (s *tableFolder) openTypes(o table.Options, named []tables.Named) error {
	var types []string
	for _, n := range named {
		types = append(types, n.Kind)
	}
	for _, e := range s.edges {
		types = append(types, e.src, e.dst)
	}
	if err := tables.SetTypes(s.Source, s.dir, types, o.Like); err != nil {
		return err
	}
	for _, t := range s.Desc.NodeTypes {
		s.first[t.Name], s.count[t.Name] = 0, -1 // known to addEdges, which leaves ids that are strings alone
	}
	if err := s.openEdges(o); err != nil || len(named) == 0 {
		return err
	}
	return tables.AddNodes(s.Source, s.fs, named, o)
}

// OpenBetween opens one table of edges between nodes of two types.
func OpenBetween(fs vfs.FS, path, src, rel, dst string, o table.Options) (ingest.Source, error) {
	o.IDs = store.IDsStrings
	s := &tableFolder{typedGraph: newTypedGraph("tables", fs, path), edges: []tableFile{{name: rel, path: path, src: src, rel: rel, dst: dst}}}
	return s, s.openTypes(o, nil)
}

// List finds the tables, whose names must be told apart.
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
		s.Desc.Notes = append(s.Desc.Notes, path+" is not read: it is no table")
	}
	return nil
}

// openEdges opens the tables of edges.
func (s *tableFolder) openEdges(o table.Options) error {
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
			s.Desc.Relations = append(s.Desc.Relations, r.Name)
		}
		for _, c := range o.Like.Columns {
			if c.Role.OnEdges() && c.Role != store.RoleRelation {
				s.Desc.EdgeColumns = append(s.Desc.EdgeColumns, ingest.ColumnSpec{Name: c.Name, Role: c.Role, Elem: c.Elem, Dim: c.Dim})
			}
		}
	}
	s.like = o.Like
	return s.addEdges(relations)
}

// openRelation opens a table of edges.
func (s *tableFolder) openRelation(e *tableFile, o table.Options) (relationEdges, error) {
	r := relationEdges{where: e.path, name: strings.Join([]string{e.src, e.rel, e.dst}, ":"), src: e.src, dst: e.dst, edges: -1}
	o = o.Between(e.src, e.dst)
	var specs []ingest.ColumnSpec
	var uses []ingest.ColumnUse
	related := false
	if tables.IsParquet(s.fs, e.path) {
		t, err := parquet.OpenEdges(s.fs, e.path, o)
		if err != nil {
			return r, err
		}
		s.AddFiles(t.Files()...)
		r.table, r.edges, specs, related = t.Stream, t.Rows, t.Specs, t.Related
		uses = table.ColumnUses(e.path, table.ColumnNames(t.Columns()), t.Uses)
	} else {
		t, err := text.OpenEdgeLines(s.fs, e.path, o)
		if err != nil {
			return r, err
		}
		s.AddFiles(e.path)
		r.table, specs, related, uses = t.Edges, t.Desc.EdgeColumns, t.Desc.HasRelation, t.Desc.Uses
	}
	if related {
		return r, fmt.Errorf("%w: a field relation of %s, whose name says the relation", ingest.ErrOptions, e.path)
	}
	for _, spec := range specs {
		r.columns = append(r.columns, numpy.EdgeColumn{Spec: spec, Path: e.path})
	}
	r.table = table.TypedEdges(r.table, e.src, e.dst)
	table.TellEnds(uses, e.src, e.dst)
	s.Desc.Uses = append(s.Desc.Uses, uses...)
	return r, nil
}
