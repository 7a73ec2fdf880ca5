package serve

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/adjacency"
)

// mostNodes is how many nodes a request may name.
const mostNodes = 1000

// storeAnswer describes what is served.
type storeAnswer struct {
	Store      string           `json:"store"`
	Version    uint64           `json:"version" doc:"of the store; every answer says the version that it was made from"`
	Created    time.Time        `json:"created"`
	Nodes      uint64           `json:"nodes"`
	Edges      uint64           `json:"edges"`
	Undirected bool             `json:"undirected"`
	Task       string           `json:"task"`
	NodeTypes  []nodeTypeAnswer `json:"node_types"`
	Relations  []relationAnswer `json:"relations"`
	Columns    []columnAnswer   `json:"columns"`
	Classes    []string         `json:"classes,omitempty"`
	Models     []modelInfo      `json:"models"`
}

type nodeTypeAnswer struct {
	Name  string `json:"name"`
	Nodes uint64 `json:"nodes"`
}

type relationAnswer struct {
	Name  string `json:"name"`
	Edges uint64 `json:"edges"`
}

type columnAnswer struct {
	Name     string   `json:"name"`
	Role     string   `json:"role"`
	Type     string   `json:"type"`
	Dim      int      `json:"dim"`
	NodeType string   `json:"node_type,omitempty"`
	Elements []string `json:"elements,omitempty"`
}

func (s *server) describe(_ context.Context, x *state, _ *http.Request) (any, error) {
	m := x.st.Manifest()
	a := storeAnswer{Store: s.dir, Version: m.Version, Created: m.Created, Nodes: m.Nodes, Edges: m.Edges,
		Undirected: m.Schema.Undirected, Task: m.Task(),
		Classes: m.Schema.ClassNames, Models: []modelInfo{}, Relations: []relationAnswer{}, Columns: []columnAnswer{}}
	for _, t := range m.Schema.NodeTypes {
		a.NodeTypes = append(a.NodeTypes, nodeTypeAnswer{t.Name, t.Count})
	}
	for _, r := range m.Schema.Relations {
		a.Relations = append(a.Relations, relationAnswer{r.Name, r.Count})
	}
	for i := range m.Columns {
		c := &m.Columns[i]
		a.Columns = append(a.Columns, columnAnswer{c.Name, string(c.Role), c.Elem.String(), c.Dim, c.NodeType,
			c.Elements})
	}
	for _, name := range x.names {
		a.Models = append(a.Models, x.models[name].about())
	}
	return a, nil
}

// nodeAnswer is a node with its columns.
type nodeAnswer struct {
	ID      any            `json:"id"`
	Type    string         `json:"type,omitempty"`
	Degree  int64          `json:"degree" doc:"edges, in both directions"`
	Columns map[string]any `json:"columns" doc:"values as they were given: numbers, lists, objects by the names of elements; null: none"`
}

// nodesRequest asks for nodes; Columns nil: all columns of data.
type nodesRequest struct {
	IDs     []id     `json:"ids" doc:"at most 1000"`
	Columns []string `json:"columns" doc:"columns of nodes; left out: all of data"`
}

type nodesAnswer struct {
	Version uint64       `json:"version"`
	Nodes   []nodeAnswer `json:"nodes"`
}

// node answers GET /v1/nodes?id=…&column=….
func (s *server) node(ctx context.Context, x *state, r *http.Request) (any, error) {
	q, err := query(r, "id", "column")
	if err != nil {
		return nil, err
	}
	k := nodesRequest{Columns: q["column"]}
	for _, text := range q["id"] {
		k.IDs = append(k.IDs, id(text))
	}
	return s.lookUp(ctx, x, &k)
}

func (s *server) nodes(ctx context.Context, x *state, r *http.Request) (any, error) {
	var k nodesRequest
	if err := decode(r, &k); err != nil {
		return nil, err
	}
	return s.lookUp(ctx, x, &k)
}

// query are the parameters of a request, of which these are known.
func query(r *http.Request, known ...string) (map[string][]string, error) {
	q := r.URL.Query()
	for name := range q {
		if !slices.Contains(known, name) {
			return nil, badf("there is no parameter %q: expected some of %v", name, known)
		}
	}
	return q, nil
}

// checkIDs refuses none and too many.
func checkIDs(n int) error {
	switch {
	case n == 0:
		return badf("no node is named: expected ids")
	case n > mostNodes:
		return badf("%d nodes are named, at most %d can be asked for at a time", n, mostNodes)
	}
	return nil
}

// numberBytes is about what a number of an answer takes, as it is and as text; mostNumbers is how many an answer may have.
const (
	numberBytes = 48
	mostNumbers = 1 << 20
)

func (s *server) lookUp(ctx context.Context, x *state, k *nodesRequest) (any, error) {
	if err := checkIDs(len(k.IDs)); err != nil {
		return nil, err
	}
	m := x.st.Manifest()
	columns, err := columnsOf(m, k.Columns)
	if err != nil {
		return nil, err
	}
	numbers := 0
	for _, c := range columns {
		numbers += len(k.IDs) * max(c.Dim, 1)
	}
	if numbers > mostNumbers {
		return nil, badf("the answer would have %d numbers, at most %d are given at a time: ask for fewer nodes or columns", numbers, mostNumbers)
	}
	done, err := s.answers.carry(ctx, int64(numbers)*numberBytes)
	if err != nil {
		return nil, err
	}
	defer done()
	nodes, names, err := x.ids.known(ctx, k.IDs)
	if err != nil {
		return nil, err
	}
	a := nodesAnswer{Version: m.Version, Nodes: make([]nodeAnswer, len(nodes))}
	for i, v := range nodes {
		a.Nodes[i] = nodeAnswer{ID: names[i], Type: typeOf(m, v), Degree: x.lists.Degree(v), Columns: map[string]any{}}
	}
	for _, c := range columns {
		list, err := values(ctx, x.st, c, nodes)
		if err != nil {
			return nil, err
		}
		for i := range nodes {
			if hasRows(c, a.Nodes[i].Type) {
				a.Nodes[i].Columns[c.Name] = list[i]
			}
		}
	}
	return a, nil
}

// Directions of neighbours.
const (
	inEdges   = "in"
	outEdges  = "out"
	bothEdges = "both"
)

// neighborAnswer is an edge of a node.
type neighborAnswer struct {
	ID        any            `json:"id"`
	Type      string         `json:"type,omitempty"`
	Direction string         `json:"direction" doc:"in: the edge leads to the node that was asked for, out: from it, both: undirected"`
	Relation  string         `json:"relation,omitempty"`
	Weight    *float32       `json:"weight,omitempty"`
	Columns   map[string]any `json:"columns,omitempty" doc:"of edges, that are asked for"`
}

type neighborsAnswer struct {
	Version   uint64           `json:"version"`
	ID        any              `json:"id"`
	Edges     int              `json:"edges" doc:"how many there are of what was asked for"`
	Neighbors []neighborAnswer `json:"neighbors"`
}

// mostNeighbors is how many neighbours an answer may have.
const mostNeighbors = 10_000

// listedBytes is what an edge of a node takes while its edges are listed.
const listedBytes = 96

// neighbors answers GET /v1/neighbors?id=…: a page of a node's edges, in an order that does not change.
func (s *server) neighbors(ctx context.Context, x *state, r *http.Request) (any, error) {
	q, err := query(r, "id", "direction", "relation", "column", "limit", "offset")
	if err != nil {
		return nil, err
	}
	one := func(name, or string) string {
		if v := q[name]; len(v) > 0 {
			return v[0]
		}
		return or
	}
	number := func(name string, or, most int) (int, error) {
		n, err := strconv.Atoi(one(name, strconv.Itoa(or)))
		if err != nil || n < 0 || n > most {
			return 0, badf("%s %q: expected 0 to %d", name, one(name, ""), most)
		}
		return n, nil
	}
	limit, err := number("limit", 100, mostNeighbors)
	if err != nil {
		return nil, err
	}
	offset, err := number("offset", 0, 1<<31-1)
	if err != nil {
		return nil, err
	}
	m := x.st.Manifest()
	direction, relation := one("direction", bothEdges), -1
	if !slices.Contains([]string{inEdges, outEdges, bothEdges}, direction) {
		return nil, badf("direction %q: expected %s, %s or %s", direction, inEdges, outEdges, bothEdges)
	}
	if name := one("relation", ""); name != "" {
		found, err := m.Schema.RelationNamed(name)
		if err != nil {
			return nil, badRequestOf(err)
		}
		relation = int(found)
	}
	if len(q["id"]) != 1 {
		return nil, badf("%d ids: expected one", len(q["id"]))
	}
	nodes, err := x.ids.nodes(ctx, []id{id(q["id"][0])})
	if err != nil {
		return nil, err
	}
	done, err := s.answers.carry(ctx, x.lists.Degree(nodes[0])*listedBytes)
	if err != nil {
		return nil, err
	}
	defer done()
	edges, err := x.lists.Edges(nil, nodes[0])
	if err != nil {
		return nil, err
	}
	edges = slices.DeleteFunc(edges, func(e adjacency.Edge) bool {
		return relation >= 0 && int(e.Relation) != relation || !m.Schema.Undirected && (direction == inEdges && e.Out || direction == outEdges && !e.Out)
	})
	a := neighborsAnswer{Version: m.Version, Edges: len(edges), Neighbors: []neighborAnswer{}}
	edges = edges[min(offset, len(edges)):]
	edges = edges[:min(limit, len(edges))]
	for _, e := range edges {
		nodes = append(nodes, e.Node)
	}
	names, err := x.ids.names(ctx, nodes)
	if err != nil {
		return nil, err
	}
	columns, err := x.edgeColumns(ctx, q["column"], edges)
	if err != nil {
		return nil, err
	}
	weighs := len(m.ColumnsOf(store.RoleWeight)) > 0
	a.ID = names[0]
	for i, e := range edges {
		n := neighborAnswer{ID: names[i+1], Type: typeOf(m, e.Node), Direction: inEdges,
			Relation: relationName(m, e.Relation)}
		switch {
		case m.Schema.Undirected:
			n.Direction = bothEdges
		case e.Out:
			n.Direction = outEdges
		}
		if weighs {
			w := e.Weight
			n.Weight = &w
		}
		for name, list := range columns {
			if n.Columns == nil {
				n.Columns = map[string]any{}
			}
			n.Columns[name] = list[i]
		}
		a.Neighbors = append(a.Neighbors, n)
	}
	return a, nil
}

// edgeColumns are values of columns of edges, by name and edge.
func (x *state) edgeColumns(ctx context.Context, names []string, edges []adjacency.Edge) (map[string][]any, error) {
	all := map[string][]any{}
	for _, name := range names {
		c, err := x.st.Manifest().Column(name)
		switch {
		case err != nil:
			return nil, err
		case c.Role != store.RoleEdge:
			return nil, badf("column %q has no values of edges beside their relations and weights", name)
		}
		at := make([]store.EdgeRow, len(edges))
		for i, e := range edges {
			at[i] = store.EdgeRow{Partition: e.Partition, Row: e.Row}
		}
		rows, err := x.st.EdgeRows(ctx, name, at, nil)
		if err != nil {
			return nil, err
		}
		for i, size := 0, c.RowBytes(); i < len(edges); i++ {
			all[name] = append(all[name], row2json(c, rows[i*size:(i+1)*size]))
		}
	}
	return all, nil
}
