// Package layouts opens the folders that other projects' downloads and tools leave behind: OGB's, GraphBolt's and
// MariusGNN's, and two of gstore's own for graphs of several types, of arrays (typed) and of tables.
//
// A layout says which file holds what. How a file is read it leaves to packages numpy, text, parquet and tables. Most
// layouts have types of nodes and edges, which a typedGraph puts together: files number the nodes of each type from 0,
// and edges of each type may have columns of their own.
package layouts

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
	"github.com/gstore/gstore/store/ingest/formats/text"
)

// typedGraph is what the formats of several types of nodes and edges share while they are opened. Files number the nodes of each type
// from 0; source ids count on from type to type.
type typedGraph struct {
	*parts.Source
	fs    vfs.FS
	dir   string
	first map[string]uint64 // source id of each type's node 0
	count map[string]int64
	// like is the store that the edges are added to; nil = none.
	like *store.Manifest
}

func newTypedGraph(format string, fs vfs.FS, dir string) *typedGraph {
	s := &typedGraph{Source: parts.New(format, dir), fs: fs, dir: dir, first: map[string]uint64{}, count: map[string]int64{}}
	s.Desc.NodeTypes, s.Desc.Nodes = nil, 0
	return s
}

// addType adds n nodes of a type; "" = the graph's nodes have one, without a name.
func (s *typedGraph) addType(where, name string, n int64) error {
	if _, twice := s.count[name]; twice {
		return ingest.Inputf(where, "node type %q stands there twice", name)
	}
	if n < 0 || n > 1<<62-s.Desc.Nodes {
		return ingest.Inputf(where, "num %d, expected a number of nodes", n)
	}
	s.first[name], s.count[name] = uint64(s.Desc.Nodes), n
	shown := name
	if shown == "" {
		shown = "node"
	}
	s.Desc.NodeTypes = append(s.Desc.NodeTypes, ingest.NodeType{Name: shown, Count: n})
	s.Desc.Nodes += n
	return nil
}

// nodeType resolves a type; "" where there is only one.
func (s *typedGraph) nodeType(where, name string) (first uint64, count int64, err error) {
	types := slices.Sorted(maps.Keys(s.count))
	if !slices.Contains(types, name) && name == "" && len(types) == 1 {
		name = types[0]
	}
	if !slices.Contains(types, name) {
		return 0, 0, ingest.Inputf(where, "node type %q, expected one of %q", name, types)
	}
	return s.first[name], s.count[name], nil
}

// typeColumn adds a column of the nodes of type t.
func (s *typedGraph) typeColumn(t, name string, role store.Role, elem blocks.ElemType, dim int64, file string, rows parts.Rows) {
	as := string(role)
	if role == store.RoleFeature {
		as = fmt.Sprintf("feature %s [%d]", name, dim)
	}
	s.AddColumn(ingest.ColumnSpec{Name: name, Role: role, Elem: elem, Dim: int(dim), First: s.first[t], Rows: s.count[t], NodeType: t}, rows)
	s.use(file, as)
}

// labelled is the column of labels; nil = there is none.
func (s *typedGraph) labelled() *ingest.ColumnSpec {
	for k, c := range s.Desc.NodeColumns {
		if c.Role == store.RoleLabel {
			return &s.Desc.NodeColumns[k]
		}
	}
	return nil
}

// Use tells people what a file became.
func (s *typedGraph) use(file, as string) {
	s.Desc.Uses = append(s.Desc.Uses, ingest.ColumnUse{File: s.fs.PathDir(file), Column: s.fs.PathBase(file), As: as})
}

// folderName refuses the name of a type, where types have folders, that is no name of one.
func folderName(where, name string) error {
	if !filepath.IsLocal(name) || name == "." || strings.ContainsAny(name, `/\`) {
		return ingest.Inputf(where, "a type is called %q, expected the name of a folder", name)
	}
	return nil
}

// relationEdges are edges of one type: ids that count from 0 in the types of their ends, and columns in the same order.
type relationEdges struct {
	where    string       // in messages
	name     string       // "" = edges have no types
	src, dst string       // types of nodes
	ends     *numpy.Array // nil = text
	form     numpy.EdgeForm
	text     string      // a file of lines "src,dst"
	table    parts.Edges // edges with their columns; nil = they are ends or text
	edges    int64       // how many there must be; −1 = any number
	columns  []numpy.EdgeColumn
}

// absentRow is the row of edges whose type lacks a column: 1 as weight, of times the least (the edge was always there), else zeros.
func absentRow(c *ingest.ColumnSpec) []byte {
	switch {
	case c.Role == store.RoleWeight:
		return blocks.Bytes([]float32{1})
	case slices.Contains(parts.TimeNames, c.Name) && c.Elem == blocks.Int64 && c.Dim == 1:
		return blocks.Bytes([]int64{math.MinInt64})
	}
	return make([]byte, c.RowBytes())
}

// hasRelation says whether edges have a relation. One between types of nodes is stored, too: models of relations want it.
func (s *typedGraph) hasRelation() bool {
	switch n := len(s.Desc.Relations); {
	case n > 1:
		return true
	case s.like != nil: // as the store has it
		return len(s.like.ColumnsOf(store.RoleRelation)) > 0
	default:
		return n == 1 && len(s.Desc.NodeTypes) > 1
	}
}

// addEdges adds the edges of all types and their columns. Edges of one type may stand in several entries.
func (s *typedGraph) addEdges(relations []relationEdges) error {
	if err := s.addEdgeColumns(relations); err != nil {
		return err
	}
	for _, r := range relations {
		if (r.name == "") != (relations[0].name == "") {
			return ingest.Inputf(r.where, "type %q beside type %q, expected one of all edges or of none", r.name, relations[0].name)
		}
		if r.name != "" && !slices.Contains(s.Desc.Relations, r.name) {
			s.Desc.Relations = append(s.Desc.Relations, r.name)
		}
	}
	s.Desc.HasRelation = s.hasRelation()
	s.Desc.Edges = 0
	for _, r := range relations {
		ids := &idsWithin{relation: -1}
		if s.Desc.HasRelation {
			ids.relation = slices.Index(s.Desc.Relations, r.name)
		}
		var err error
		if ids.srcFirst, ids.srcCount, err = s.nodeType(r.where, r.src); err != nil {
			return err
		}
		if ids.dstFirst, ids.dstCount, err = s.nodeType(r.where, r.dst); err != nil {
			return err
		}
		edges, n, err := s.relationStream(&r)
		if err != nil {
			return err
		}
		s.EdgeStreams = append(s.EdgeStreams, ids.wrap(edges))
		if n < 0 || s.Desc.Edges < 0 {
			s.Desc.Edges = -1
		} else {
			s.Desc.Edges += n
		}
	}
	return nil
}

// addEdgeColumns describes the columns of edges of any type, weights first. Columns of one name and form are one; where forms differ,
// each type has its own, called RELATION.NAME.
func (s *typedGraph) addEdgeColumns(relations []relationEdges) error {
	form := func(c *ingest.ColumnSpec) string { return fmt.Sprint(c.Role, c.Elem, c.Dim) }
	forms := map[string][]string{} // by name
	for _, r := range relations {
		for _, c := range r.columns {
			if f := form(&c.Spec); !slices.Contains(forms[c.Spec.Name], f) {
				forms[c.Spec.Name] = append(forms[c.Spec.Name], f)
			}
		}
	}
	for _, r := range relations {
		here := map[string]bool{}
		for k := range r.columns {
			c := &r.columns[k]
			if len(forms[c.Spec.Name]) > 1 && r.name != "" {
				c.Spec.Name = r.name + "." + c.Spec.Name
			}
			at := slices.IndexFunc(s.Desc.EdgeColumns, func(d ingest.ColumnSpec) bool { return d.Name == c.Spec.Name })
			switch {
			case here[c.Spec.Name]:
				return ingest.Inputf(c.Path, "a second column %q of %s", c.Spec.Name, r.where)
			case at >= 0 && form(&s.Desc.EdgeColumns[at]) != form(&c.Spec):
				return ingest.Inputf(c.Path, "column %q is %v [%d], expected %v [%d] as elsewhere", c.Spec.Name, c.Spec.Elem, c.Spec.Dim, s.Desc.EdgeColumns[at].Elem, s.Desc.EdgeColumns[at].Dim)
			case c.Spec.Dim == 0 || c.Spec.RowBytes() > numpy.RowBytesMax:
				return ingest.Inputf(c.Path, "%d elements a row, expected 1 or more, of at most %d bytes", c.Spec.Dim, numpy.RowBytesMax)
			case at < 0:
				s.Desc.EdgeColumns = append(s.Desc.EdgeColumns, c.Spec)
			}
			here[c.Spec.Name] = true
			if r.table != nil { // it has said what its columns are
				continue
			}
			as := c.Spec.Name
			if c.Spec.Role == store.RoleEdge && !slices.Contains(parts.TimeNames, c.Spec.Name) {
				as = fmt.Sprintf("edge feature %s [%d]", c.Spec.Name, c.Spec.Dim)
			}
			s.use(c.Path, as)
		}
	}
	slices.SortStableFunc(s.Desc.EdgeColumns, func(a, b ingest.ColumnSpec) int {
		switch {
		case a.Role == store.RoleWeight && b.Role != store.RoleWeight:
			return -1
		case b.Role == store.RoleWeight && a.Role != store.RoleWeight:
			return 1
		}
		return 0
	})
	return nil
}

// relationStream streams the edges of an entry with all columns that the graph's edges have, and their number if it is known.
func (s *typedGraph) relationStream(r *relationEdges) (edges parts.Edges, n int64, err error) {
	absent := make([][]byte, len(s.Desc.EdgeColumns)) // of columns that the entry lacks
	from := make([]int, len(absent))                  // among the entry's columns, as edges has them; −1 = it lacks the column
	var columns []numpy.EdgeColumn                    // in the order of the graph's
	placed := r.ends != nil                           // all can be read at any place
	for k := range s.Desc.EdgeColumns {
		spec := &s.Desc.EdgeColumns[k]
		at := slices.IndexFunc(r.columns, func(c numpy.EdgeColumn) bool { return c.Spec.Name == spec.Name })
		if from[k] = at; at < 0 {
			absent[k] = absentRow(spec)
			continue
		}
		if r.table != nil {
			continue
		}
		c := r.columns[at]
		from[k], columns = len(columns), append(columns, c)
		placed = placed && c.Array != nil && (!c.Array.Columns || c.Array.Dim() == 1)
	}
	n = r.edges
	if r.table != nil {
		return completed(r.table, from, absent), n, nil
	}
	if r.ends != nil {
		var at []numpy.EdgeColumn
		if placed {
			at = columns
		}
		if edges, n, err = numpy.EdgesBetween(r.ends, at, r.form); err != nil {
			return nil, 0, err
		}
		if r.edges >= 0 && n != r.edges {
			return nil, 0, ingest.Inputf(r.ends.Path, "%d edges, expected %d", n, r.edges)
		}
	} else {
		no := false
		list, err := text.OpenEdgeLines(s.fs, r.text, table.Options{Delimiter: ',', Header: &no, IDs: store.IDsDense})
		if err != nil {
			return nil, 0, err
		}
		edges = counted(list.Edges, r.edges, r.text)
	}
	for _, c := range columns {
		if c.Array != nil && n >= 0 && c.Array.Rows() != n {
			return nil, 0, ingest.Inputf(c.Path, "shape %v, expected %d rows (the number of edges)", c.Array.Shape, n)
		}
	}
	if !placed && len(columns) > 0 {
		edges = zipped(edges, columns)
	}
	return completed(edges, from, absent), n, nil
}
