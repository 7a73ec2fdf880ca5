package layouts

import (
	"slices"
	"strings"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
)

// pygPart is what a graph of one type has, or its nodes or its edges of a type.
type pygPart struct {
	name       string // of nodes, their type; of edges, source:relation:destination; "" of a graph of one type
	src, dst   string // of edges
	attributes *numpy.Dict
}

// called is an attribute in messages.
func (p *pygPart) called(name string) string {
	if p.name == "" {
		return name
	}
	return p.name + "." + name
}

// names are those of the attributes that are not None, in order.
func (p *pygPart) names() (names []string) {
	for i, k := range p.attributes.Keys {
		if name, ok := k.(string); ok && p.attributes.Values[i] != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// list names the attributes for messages; at most some.
func (p *pygPart) list() string {
	names := p.names()
	if len(names) == 0 {
		return "none"
	}
	if len(names) > 20 {
		names = append(names[:20:20], "…")
	}
	return strings.Join(names, ", ")
}

const noPyG = "no graph of PyTorch Geometric"

// pygParts are the parts of a graph. One of a single type of nodes has one of each, with the same attributes.
type pygParts struct{ nodes, edges []pygPart }

// pygDepth bounds how deep a graph may lie in what holds it.
const pygDepth = 6

// find takes the graph out of what a file holds.
func (p *pygParts) find(path string, v any, depth int) error {
	if depth > pygDepth {
		return ingest.Inputf(path, noPyG)
	}
	switch v := v.(type) {
	case []any: // (graph, slices, class) of an InMemoryDataset
		if len(v) > 0 {
			if len(v) > 1 {
				if n := pygGraphs(v[1], map[any]bool{}); n > 1 {
					return ingest.Inputf(path, "%d graphs, expected one: gstore trains on one graph that is larger than memory, not on many", n)
				}
			}
			return p.find(path, v[0], depth+1)
		}
	case *numpy.List:
		if len(v.Items) > 1 {
			return ingest.Inputf(path, "a list of %d, expected one graph", len(v.Items))
		} else if len(v.Items) == 1 {
			return p.find(path, v.Items[0], depth+1)
		}
	case *numpy.Object:
		state, _ := v.State.(*numpy.Dict)
		if state == nil {
			break
		}
		if own, ok := state.Get("_store").(*numpy.Object); ok {
			return p.find(path, mapping(own), depth+1)
		}
		if nodes, ok := state.Get("_node_store_dict").(*numpy.Dict); ok {
			edges, _ := state.Get("_edge_store_dict").(*numpy.Dict)
			return p.typed(path, nodes, edges)
		}
		return p.find(path, state, depth+1) // of a library before 2.0
	case *numpy.Dict:
		if v == nil {
			break
		}
		for _, x := range v.Values {
			if d, ok := x.(*numpy.Dict); ok && d.Get("edge_index") != nil {
				return p.typed(path, v, v)
			}
		}
		if v.Get("edge_index") != nil || v.Get("x") != nil || v.Get("adj_t") != nil {
			p.nodes, p.edges = []pygPart{{attributes: v}}, []pygPart{{attributes: v}}
			return nil
		}
		return ingest.Inputf(path, noPyG+": a dictionary of %s, expected edge_index", (&pygPart{attributes: v}).list())
	}
	return ingest.Inputf(path, noPyG+", such as torch.save(data, path) or a data set's processed/data.pt holds")
}

// mapping are the attributes that a storage of the library holds.
func mapping(o *numpy.Object) *numpy.Dict {
	state, _ := o.State.(*numpy.Dict)
	if state == nil {
		return nil
	}
	d, _ := state.Get("_mapping").(*numpy.Dict)
	return d
}

// pygGraphs is how many graphs the slices of a collated data set tell apart, each by the places where they begin and the last one ends;
// 0 = they do not say. Those of several types are dictionaries in a dictionary; seen are those that were looked at.
func pygGraphs(v any, seen map[any]bool) (n int64) {
	var values []any
	switch d := v.(type) {
	case *numpy.Dict:
		values = d.Values
	case *numpy.Object: // a dictionary with defaults
		values = d.Items.Values
	default:
		return 0
	}
	if seen[v] {
		return 0
	}
	seen[v] = true
	for _, x := range values {
		if places, ok := numpy.Length(x); ok {
			n = max(n, places-1)
		} else {
			n = max(n, pygGraphs(x, seen))
		}
	}
	return n
}

// typed takes the nodes and the edges of each type out of dictionaries, which may be one.
func (p *pygParts) typed(path string, nodes, edges *numpy.Dict) error {
	attributes := func(v any) *numpy.Dict {
		if o, ok := v.(*numpy.Object); ok {
			return mapping(o)
		}
		d, _ := v.(*numpy.Dict)
		return d
	}
	for i, key := range nodes.Keys {
		name, ok := key.(string)
		if d := attributes(nodes.Values[i]); ok && d != nil && name != "_global_store" {
			p.nodes = append(p.nodes, pygPart{name: name, attributes: d})
		}
	}
	if edges == nil {
		edges = &numpy.Dict{}
	}
	for i, key := range edges.Keys {
		ends, ok := key.([]any)
		d := attributes(edges.Values[i])
		if !ok || d == nil || d.Get("edge_index") == nil { // one whose edges were never set
			continue
		}
		var names []string
		for _, x := range ends {
			if name, ok := x.(string); ok {
				names = append(names, name)
			}
		}
		if len(names) != 3 {
			return ingest.Inputf(path, "edge type %v, expected source, relation, destination", key)
		}
		for _, end := range []string{names[0], names[2]} {
			if !slices.ContainsFunc(p.nodes, func(n pygPart) bool { return n.name == end }) {
				p.nodes = append(p.nodes, pygPart{name: end, attributes: &numpy.Dict{}})
			}
		}
		p.edges = append(p.edges, pygPart{name: strings.Join(names, ":"), src: names[0], dst: names[2], attributes: d})
	}
	if len(p.edges) == 0 {
		return ingest.Inputf(path, "nodes of %d types without edges", len(p.nodes))
	}
	return nil
}
