package formats

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// typedGraph is what the formats of several types of nodes and edges share while they are opened. Files number the nodes of each type
// from 0; source ids count on from type to type.
type typedGraph struct {
	*composed
	fs    vfs.FS
	dir   string
	first map[string]uint64 // source id of each type's node 0
	count map[string]int64
	// like is the store that the edges are added to; nil = none.
	like *store.Manifest
}

func newTypedGraph(format string, fs vfs.FS, dir string) *typedGraph {
	s := &typedGraph{composed: newComposed(format, dir), fs: fs, dir: dir, first: map[string]uint64{}, count: map[string]int64{}}
	s.desc.NodeTypes, s.desc.Nodes = nil, 0
	return s
}

// addType adds n nodes of a type; "" = the graph's nodes have one, without a name.
func (s *typedGraph) addType(where, name string, n int64) error {
	if _, twice := s.count[name]; twice {
		return ingest.Inputf(where, "node type %q stands there twice", name)
	}
	if n < 0 || n > 1<<62-s.desc.Nodes {
		return ingest.Inputf(where, "num %d, expected a number of nodes", n)
	}
	s.first[name], s.count[name] = uint64(s.desc.Nodes), n
	shown := name
	if shown == "" {
		shown = "node"
	}
	s.desc.NodeTypes = append(s.desc.NodeTypes, ingest.NodeType{Name: shown, Count: n})
	s.desc.Nodes += n
	return nil
}

// nodeType resolves a type; "" where there is only one.
func (s *typedGraph) nodeType(where, name string) (first uint64, count int64, err error) {
	types := sortedKeys(s.count)
	if !slices.Contains(types, name) && name == "" && len(types) == 1 {
		name = types[0]
	}
	if !slices.Contains(types, name) {
		return 0, 0, ingest.Inputf(where, "node type %q, expected one of %q", name, types)
	}
	return s.first[name], s.count[name], nil
}

// typeColumn adds a column of the nodes of type t.
func (s *typedGraph) typeColumn(t, name string, role store.Role, elem blocks.ElemType, dim int64, file string, rows rowsFunc) {
	as := string(role)
	if role == store.RoleFeature {
		as = fmt.Sprintf("feature %s [%d]", name, dim)
	}
	s.column(ingest.ColumnSpec{Name: name, Role: role, Elem: elem, Dim: int(dim), First: s.first[t], Rows: s.count[t], NodeType: t}, rows)
	s.use(file, as)
}

// labelled is the column of labels; nil = there is none.
func (s *typedGraph) labelled() *ingest.ColumnSpec {
	for k, c := range s.desc.NodeColumns {
		if c.Role == store.RoleLabel {
			return &s.desc.NodeColumns[k]
		}
	}
	return nil
}

// use tells people what a file became.
func (s *typedGraph) use(file, as string) {
	s.desc.Uses = append(s.desc.Uses, ingest.ColumnUse{File: s.fs.PathDir(file), Column: s.fs.PathBase(file), As: as})
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
	where    string    // in messages
	name     string    // "" = edges have no types
	src, dst string    // types of nodes
	ends     *array    // [2, E] or [E, 2]; nil = text
	text     string    // a file of lines "src,dst"
	table    edgesFunc // edges with their columns; nil = they are ends or text
	edges    int64     // how many there must be; −1 = any number
	columns  []relationColumn
}

// relationColumn is a column of a type of edges.
type relationColumn struct {
	spec  ingest.ColumnSpec
	path  string
	array *array // nil = rows can only be read front to back
	rows  rowsFunc
}

// edgeArray is a column of an array. Its name says whether it is a weight, of one float32.
func edgeArray(name string, a *array) relationColumn {
	c := relationColumn{spec: ingest.ColumnSpec{Name: name, Role: store.RoleEdge, Elem: a.elem, Dim: int(a.dim())}, path: a.path, array: a, rows: arrayRows(a)}
	if slices.Contains(weightNames, name) && a.elem == blocks.Float32 && a.dim() == 1 {
		c.spec.Name, c.spec.Role = "weight", store.RoleWeight
	}
	return c
}

// absentRow is the row of edges whose type lacks a column: 1 as weight, of times the least (the edge was always there), else zeros.
func absentRow(c *ingest.ColumnSpec) []byte {
	switch {
	case c.Role == store.RoleWeight:
		return blocks.Bytes([]float32{1})
	case slices.Contains(timeNames, c.Name) && c.Elem == blocks.Int64 && c.Dim == 1:
		return blocks.Bytes([]int64{math.MinInt64})
	}
	return make([]byte, c.RowBytes())
}

// hasRelation says whether edges have a relation. One between types of nodes is stored, too: models of relations want it.
func (s *typedGraph) hasRelation() bool {
	switch n := len(s.desc.Relations); {
	case n > 1:
		return true
	case s.like != nil: // as the store has it
		return len(s.like.ColumnsOf(store.RoleRelation)) > 0
	default:
		return n == 1 && len(s.desc.NodeTypes) > 1
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
		if r.name != "" && !slices.Contains(s.desc.Relations, r.name) {
			s.desc.Relations = append(s.desc.Relations, r.name)
		}
	}
	s.desc.HasRelation = s.hasRelation()
	s.desc.Edges = 0
	for _, r := range relations {
		ids := &idsWithin{relation: -1}
		if s.desc.HasRelation {
			ids.relation = slices.Index(s.desc.Relations, r.name)
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
		s.edges = append(s.edges, ids.wrap(edges))
		if n < 0 || s.desc.Edges < 0 {
			s.desc.Edges = -1
		} else {
			s.desc.Edges += n
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
			if f := form(&c.spec); !slices.Contains(forms[c.spec.Name], f) {
				forms[c.spec.Name] = append(forms[c.spec.Name], f)
			}
		}
	}
	for _, r := range relations {
		here := map[string]bool{}
		for k := range r.columns {
			c := &r.columns[k]
			if len(forms[c.spec.Name]) > 1 && r.name != "" {
				c.spec.Name = r.name + "." + c.spec.Name
			}
			at := slices.IndexFunc(s.desc.EdgeColumns, func(d ingest.ColumnSpec) bool { return d.Name == c.spec.Name })
			switch {
			case here[c.spec.Name]:
				return ingest.Inputf(c.path, "a second column %q of %s", c.spec.Name, r.where)
			case at >= 0 && form(&s.desc.EdgeColumns[at]) != form(&c.spec):
				return ingest.Inputf(c.path, "column %q is %v [%d], expected %v [%d] as elsewhere", c.spec.Name, c.spec.Elem, c.spec.Dim, s.desc.EdgeColumns[at].Elem, s.desc.EdgeColumns[at].Dim)
			case c.spec.Dim == 0 || c.spec.RowBytes() > rowBytesMax:
				return ingest.Inputf(c.path, "%d elements a row, expected 1 or more, of at most %d bytes", c.spec.Dim, rowBytesMax)
			case at < 0:
				s.desc.EdgeColumns = append(s.desc.EdgeColumns, c.spec)
			}
			here[c.spec.Name] = true
			if r.table != nil { // it has said what its columns are
				continue
			}
			as := c.spec.Name
			if c.spec.Role == store.RoleEdge && !slices.Contains(timeNames, c.spec.Name) {
				as = fmt.Sprintf("edge feature %s [%d]", c.spec.Name, c.spec.Dim)
			}
			s.use(c.path, as)
		}
	}
	slices.SortStableFunc(s.desc.EdgeColumns, func(a, b ingest.ColumnSpec) int {
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
func (s *typedGraph) relationStream(r *relationEdges) (edges edgesFunc, n int64, err error) {
	absent := make([][]byte, len(s.desc.EdgeColumns)) // of columns that the entry lacks
	from := make([]int, len(absent))                  // among the entry's columns, as edges has them; −1 = it lacks the column
	var columns []relationColumn                      // in the order of the graph's
	placed := r.ends != nil                           // all can be read at any place
	for k := range s.desc.EdgeColumns {
		spec := &s.desc.EdgeColumns[k]
		at := slices.IndexFunc(r.columns, func(c relationColumn) bool { return c.spec.Name == spec.Name })
		if from[k] = at; at < 0 {
			absent[k] = absentRow(spec)
			continue
		}
		if r.table != nil {
			continue
		}
		c := r.columns[at]
		from[k], columns = len(columns), append(columns, c)
		placed = placed && c.array != nil && (!c.array.columns || c.array.dim() == 1)
	}
	n = r.edges
	if r.table != nil {
		return completed(r.table, from, absent), n, nil
	}
	if r.ends != nil {
		a := &numpyFolder{fs: s.fs, edges: r.ends}
		if err := a.checkEdges(); err != nil {
			return nil, 0, err
		}
		if n = a.desc.Edges; r.edges >= 0 && n != r.edges {
			return nil, 0, ingest.Inputf(r.ends.path, "%d edges, expected %d", n, r.edges)
		}
		if placed {
			for _, c := range columns {
				a.edgeColumns = append(a.edgeColumns, c.array)
			}
		}
		edges = a.Edges
	} else {
		no := false
		list, err := openEdgeList(s.fs, r.text, TextOptions{Delimiter: ',', Header: &no, IDs: store.IDsDense})
		if err != nil {
			return nil, 0, err
		}
		edges = counted(list.Edges, r.edges, r.text)
	}
	for _, c := range columns {
		if c.array != nil && n >= 0 && c.array.rows() != n {
			return nil, 0, ingest.Inputf(c.path, "shape %v, expected %d rows (the number of edges)", c.array.shape, n)
		}
	}
	if !placed && len(columns) > 0 {
		edges = zipped(edges, columns)
	}
	return completed(edges, from, absent), n, nil
}
