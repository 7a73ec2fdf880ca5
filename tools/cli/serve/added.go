package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/adjacency"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/grow"
	"github.com/gstore/gstore/store/ingest/source"
)

// newNode is a node that the store does not have. Features are by name: of a column, a list of numbers; or of a column of the table
// that the store was made of, a value as it would stand in the table, null where there is none.
type newNode struct {
	ID       id                         `json:"id"`
	Type     string                     `json:"type" doc:"one of the node types of a store of several"`
	Features map[string]json.RawMessage `json:"features" doc:"of a column: a list of numbers; of a column of the table that the store was made of: a value as it would stand there"`
}

// newEdge is an edge that the store does not have, from or to new nodes or between those that it has.
type newEdge struct {
	Src      id                         `json:"src" doc:"id of a node of the store, or of a new one"`
	Dst      id                         `json:"dst" doc:"id of a node of the store, or of a new one"`
	Relation string                     `json:"relation" doc:"left out: the only one"`
	Weight   *float32                   `json:"weight"`
	Features map[string]json.RawMessage `json:"features" doc:"of edges, that the model reads"`
}

// mostEdges is how many edges a request may add.
const mostEdges = 100_000

// added makes of a request what is added to the store.
func (x *state) added(ctx context.Context, m *nodeModel, k *predictRequest) (*eval.Added, error) {
	if len(k.Edges) > mostEdges {
		return nil, badf("%d edges are added, at most %d can be at a time", len(k.Edges), mostEdges)
	}
	number := map[id]store.NodeID{}
	for i, n := range k.New {
		if n.ID == "" {
			return nil, badf("new node %d has no id", i+1)
		}
		if _, twice := number[n.ID]; twice {
			return nil, badf("two new nodes have the id %q", n.ID)
		}
		number[n.ID] = store.NodeID(x.st.Manifest().Nodes + uint64(i))
	}
	if err := x.unknown(ctx, k.New); err != nil {
		return nil, err
	}
	a := &eval.Added{Nodes: len(k.New), Rows: map[string][]byte{}}
	if err := x.rows(ctx, k.New, a.Rows); err != nil {
		return nil, err
	}
	var ends []id
	for _, e := range k.Edges {
		for _, end := range []id{e.Src, e.Dst} {
			if _, isNew := number[end]; !isNew {
				ends = append(ends, end)
			}
		}
	}
	old, err := x.ids.nodes(ctx, ends)
	if err != nil {
		return nil, err
	}
	end := func(of id) store.NodeID {
		v, isNew := number[of]
		if !isNew {
			v, old = old[0], old[1:]
		}
		return v
	}
	for i := range k.Edges {
		e := &k.Edges[i]
		n := eval.AddedEdge{Weight: 1}
		n.Src, n.Dst = end(e.Src), end(e.Dst)
		if err := x.edge(m, e, &n); err != nil {
			return nil, fmt.Errorf("edge %d: %w", i+1, err)
		}
		a.Edges = append(a.Edges, n)
	}
	return a, x.byRules(a)
}

// byRules treats self loops and edges of the same ends as the ingest did: of those, the store's stays, or the first.
func (x *state) byRules(a *eval.Added) error {
	m := x.st.Manifest()
	loops, dedup := ingest.SelfLoops(m.Ingest["self_loops"]), ingest.DedupOf(m)
	if loops == ingest.SelfLoopsDrop || loops == ingest.SelfLoopsAdd {
		a.Edges = slices.DeleteFunc(a.Edges, func(e eval.AddedEdge) bool { return e.Src == e.Dst })
	}
	if loops == ingest.SelfLoopsAdd {
		for i := range a.Nodes {
			v := store.NodeID(m.Nodes + uint64(i))
			a.Edges = append(a.Edges, eval.AddedEdge{Src: v, Dst: v, Weight: 1})
		}
	}
	if dedup == ingest.DedupNo {
		return nil
	}
	key := func(src, dst store.NodeID, r store.RelationID) [3]uint64 {
		if m.Schema.Undirected && src > dst {
			src, dst = dst, src
		}
		if dedup == ingest.DedupPair {
			r = 0
		}
		return [3]uint64{uint64(src), uint64(dst), uint64(r)}
	}
	seen, read := map[[3]uint64]bool{}, map[store.NodeID]bool{}
	for _, e := range a.Edges {
		if v := e.Dst; uint64(max(e.Src, e.Dst)) < m.Nodes && !read[v] { // both are the store's
			read[v] = true
			err := x.lists.Each(v, func(k adjacency.Edge) bool {
				if !k.Out {
					seen[key(k.Node, v, k.Relation)] = true
				}
				return true
			})
			if err != nil {
				return err
			}
		}
	}
	a.Edges = slices.DeleteFunc(a.Edges, func(e eval.AddedEdge) bool {
		k := key(e.Src, e.Dst, e.Relation)
		twice := seen[k]
		seen[k] = true
		return twice
	})
	return nil
}

// unknown refuses new nodes that the store has.
func (x *state) unknown(ctx context.Context, nodes []newNode) error {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = string(n.ID)
	}
	known, err := x.ids.find(ctx, names)
	if err != nil {
		return err
	}
	for i, v := range known {
		if v != store.NoNode {
			return badf("the store has node %q already: name it in nodes, and its new edges in edges", names[i])
		}
	}
	return nil
}

// edge fills in what an edge carries.
func (x *state) edge(m *nodeModel, e *newEdge, n *eval.AddedEdge) error {
	st := x.st.Manifest()
	if e.Relation != "" || len(st.Schema.Relations) > 1 {
		r, err := st.Schema.RelationNamed(e.Relation)
		if err != nil {
			return badRequestOf(err)
		}
		n.Relation = r
	}
	if e.Weight != nil {
		if n.Weight = *e.Weight; len(st.ColumnsOf(store.RoleWeight)) == 0 {
			return badf("the store's edges have no weights")
		}
	}
	for name := range e.Features {
		if !slices.Contains(m.cp.Config.EdgeFeatures, name) {
			return badf("the model reads no feature %q of edges, but %q", name, m.cp.Config.EdgeFeatures)
		}
	}
	for _, name := range m.cp.Config.EdgeFeatures {
		c, err := st.Column(name)
		if err != nil {
			return err
		}
		row := make([]float32, c.Dim)
		if text, ok := e.Features[name]; ok {
			list, err := numbersOf(name, text, c.Dim)
			if err != nil {
				return err
			}
			for i, f := range list {
				row[i] = float32(f)
			}
		}
		n.Features = append(n.Features, row...)
	}
	return nil
}

// numbersOf reads a list of dim numbers, or one.
func numbersOf(name string, text json.RawMessage, dim int) (list []float64, err error) {
	if len(text) > 0 && text[0] != '[' && dim == 1 {
		list = make([]float64, 1)
		err = json.Unmarshal(text, &list[0])
	} else {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || len(list) != dim {
		return nil, badf("feature %q: expected a list of %d numbers", name, dim)
	}
	return list, nil
}

// rows reads the features of new nodes into the store's columns, and their types.
func (x *state) rows(ctx context.Context, nodes []newNode, columns map[string][]byte) error {
	m := x.st.Manifest()
	byType := map[string][]int{} // nodes
	types := make([]byte, 0, 4*len(nodes))
	for i, n := range nodes {
		t := 0
		if len(m.Schema.NodeTypes) > 1 {
			t = slices.IndexFunc(m.Schema.NodeTypes, func(t store.NodeType) bool { return t.Name == n.Type })
			if t < 0 {
				return badf("new node %q: type %q, expected one of the store's: GET %s lists them", n.ID, n.Type,
					pathStore)
			}
		} else if n.Type != "" && n.Type != m.Schema.NodeTypes[0].Name {
			return badf("new node %q: the store's nodes have one type", n.ID)
		}
		types = binary.LittleEndian.AppendUint32(types, uint32(t)+1)
		byType[n.Type] = append(byType[n.Type], i)
	}
	columns[store.TypeColumn] = types
	for _, kind := range slices.Sorted(maps.Keys(byType)) {
		if err := x.rowsOf(ctx, kind, nodes, byType[kind], columns); err != nil {
			return err
		}
	}
	return nil
}

// rowsOf reads those of one type.
func (x *state) rowsOf(ctx context.Context, kind string, nodes []newNode, of []int, columns map[string][]byte) error {
	m := x.st.Manifest()
	env := source.Env{Threads: 1, MemoryBytes: 16 << 20, ScratchDir: "/", FS: vfs.NewMem()}
	put := func(c *store.ColumnInfo, rows []byte) {
		size := c.RowBytes()
		if columns[c.Name] == nil {
			columns[c.Name] = bytes.Repeat(ingest.MissingRow(c), len(nodes))
		}
		for k, i := range of {
			copy(columns[c.Name][i*size:(i+1)*size], rows[k*size:])
		}
	}
	var cells []string // names of columns of a table
	vectors := map[string]bool{}
	for _, i := range of {
		for name, text := range nodes[i].Features {
			c, err := x.feature(kind, name)
			isList := len(text) > 0 && text[0] == '['
			switch {
			case err != nil && isList:
				return badf("new node %q: the store has no feature column %q: GET %s lists them", nodes[i].ID, name,
					pathStore)
			case err == nil && (isList || c.Elements == nil):
				vectors[c.Name] = true
			case !slices.Contains(cells, name):
				cells = append(cells, name)
			}
		}
	}
	for _, column := range slices.Sorted(maps.Keys(vectors)) {
		c, err := m.Column(column)
		if err != nil {
			return err
		}
		rows := make([]float64, 0, len(of)*c.Dim)
		for _, i := range of {
			text, given := nodes[i].Features[column]
			if short, ok := nodes[i].Features[short(kind, column)]; ok {
				text, given = short, true
			}
			list := make([]float64, c.Dim)
			if s := c.Standard; s != nil && !given { // of which 0 is left
				copy(list, s.Mean)
			}
			if given {
				if list, err = numbersOf(column, text, c.Dim); err != nil {
					return fmt.Errorf("new node %q: %w", nodes[i].ID, err)
				}
			}
			rows = append(rows, list...)
		}
		b, err := grow.SliceRows(ctx, m, column, rows, env)
		if err != nil {
			return err
		}
		put(c, b)
	}
	if len(cells) == 0 {
		return nil
	}
	slices.Sort(cells)
	all, err := x.table(ctx, kind, nodes, of, cells, env)
	if err != nil {
		return err
	}
	for name, rows := range all {
		c, err := m.Column(name)
		if err != nil {
			return err
		}
		put(c, rows)
	}
	return nil
}

// short is a column's name without its type.
func short(kind, column string) string {
	if n := len(kind) + 1; kind != "" && len(column) > n && column[:n] == kind+"." {
		return column[n:]
	}
	return column
}

// feature is a feature column by its name, of a type also without it.
func (x *state) feature(kind, name string) (*store.ColumnInfo, error) {
	m := x.st.Manifest()
	c, err := m.Column(name)
	if err != nil && kind != "" {
		c, err = m.Column(kind + "." + name)
	}
	if err == nil && (c.Role != store.RoleFeature || c.Derived != "") {
		return nil, badf("column %q is no feature", name)
	}
	return c, err
}

// table reads nodes as a table of the kind that the store was made of, as gstore append would.
func (x *state) table(ctx context.Context, kind string, nodes []newNode, of []int, cells []string,
	env source.Env) (map[string][]byte, error) {
	m := x.st.Manifest()
	if m.DatabaseSchema() != "" {
		return nil, badf("the store is a database's: new rows are added by gstore append, features of new nodes are lists of a column's numbers")
	}
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	lines := [][]string{append([]string{"id"}, cells...)}
	for k, i := range of {
		line := []string{strconv.Itoa(k)}
		for _, name := range cells {
			field, err := cell(nodes[i].Features[name])
			if err != nil {
				return nil, badf("new node %q, feature %q: %v", nodes[i].ID, name, err)
			}
			line = append(line, field)
		}
		lines = append(lines, line)
	}
	if err := w.WriteAll(lines); err != nil {
		return nil, err
	}
	file := "/nodes.csv"
	f, err := env.FS.Create(file, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(text.Bytes()); err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	header := true
	fo := formats.Options{FS: env.FS, Store: x.st, Nodes: []string{file},
		Text: formats.TextOptions{Like: m, LikeTypes: x.types, Delimiter: ',', Header: &header}}
	if kind != "" {
		fo.Nodes[0] = kind + "=" + file
	}
	if fo.Text.IDs = store.IDsIntegers; m.IDs.Kind == store.IDsStrings {
		fo.Text.IDs = store.IDsStrings
	}
	src, err := formats.OpenNodes(fo)
	if err != nil {
		return nil, err
	}
	rows, err := grow.NewRows(ctx, m, src, len(of), env)
	return rows, errors.Join(err, src.Close())
}

// cell is a JSON value as a table has it.
func cell(text json.RawMessage) (string, error) {
	if len(text) == 0 || string(text) == "null" {
		return "", nil
	}
	switch text[0] {
	case '"':
		var s string
		err := json.Unmarshal(text, &s)
		return s, err
	case 't':
		return "1", nil
	case 'f':
		return "0", nil
	case '{', '[':
		return "", fmt.Errorf("expected a number, a text, true, false or null")
	}
	return string(text), nil
}
