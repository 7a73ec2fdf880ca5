package simulate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/grow"
)

// graph is the plain model of a version: nodes by external id, edges as a multiset. Nothing in it is internal
// to a store.
type graph struct {
	ids        store.IDKind
	undirected bool
	dedup      ingest.Dedup // as it takes effect: never ""
	loops      ingest.SelfLoops
	relations  int  // r0, r1, …
	weighted   bool // edges have weights
	typed      bool // nodes are of the types of kinds
	names      []string
	made       int // nodes that were ever there
	nodes      map[string]*node
	edges      []edge // after the rules
	lists      map[string][]edge
	extra      []column // appended columns
	hop        bool     // x.hop1 is there
}

const dim = 3 // of feature x

// kinds are the types of nodes where there are several. Those of the first have x, labels and splits, those of the second y, and those
// of the last numbers for vectors that are learned; appended ones of the last have what both others have, so that the store can't know
// of what type they are.
var kinds = []string{"a", "b", "c"}

type node struct {
	kind   int    // in kinds; 0 where there is one type
	number uint32 // of c: among those that were ingested, from 1; 0 = appended
	x      [dim]float32
	y      float32
	label  int32
	split  uint8
	more   map[string][]float32 // rows of appended columns; none = zeros
}

// has reports whether the node's type has a column.
func (n *node) has(column string) bool {
	switch column {
	case "x", "label":
		return n.nodeType() < 2
	case "y":
		return n.nodeType()%2 == 0
	case "c.node":
		return n.number > 0
	}
	return true
}

// nodeType is what column node_type says: 0 of nodes that were appended with columns of two types.
func (n *node) nodeType() uint32 {
	if n.kind == len(kinds)-1 && n.number == 0 {
		return 0
	}
	return uint32(n.kind) + 1
}

type edge struct {
	src, dst string
	relation int
	weight   float32
}

type column struct {
	name string
	role store.Role
	dim  int
}

func (g *graph) clone() *graph {
	c := *g
	c.names, c.edges, c.extra = slices.Clone(g.names), slices.Clone(g.edges), slices.Clone(g.extra)
	c.nodes = map[string]*node{}
	for name, n := range g.nodes {
		copied := *n
		copied.more = maps.Clone(n.more)
		c.nodes[name] = &copied
	}
	return &c
}

// add applies the rules of ingest to new nodes and edges. Self loops of new nodes are added where the rule says so.
func (g *graph) add(names []string, nodes []*node, edges []edge) {
	for i, name := range names {
		g.names = append(g.names, name)
		g.nodes[name] = nodes[i]
	}
	g.made += len(names)
	old := len(g.edges)
	for _, e := range edges {
		if e.src != e.dst || g.loops == ingest.SelfLoopsKeep {
			g.edges = append(g.edges, e)
		}
	}
	if g.loops == ingest.SelfLoopsAdd {
		for _, name := range names {
			g.edges = append(g.edges, edge{src: name, dst: name})
		}
	}
	if g.dedup == ingest.DedupNo {
		return
	}
	// Of equal edges the one that is there stays, of new ones that whose column bytes sort first.
	columns := func(e edge) []byte {
		return binary.LittleEndian.AppendUint32([]byte{byte(e.relation)}, math.Float32bits(e.weight))
	}
	slices.SortStableFunc(g.edges[old:], func(a, b edge) int { return bytes.Compare(columns(a), columns(b)) })
	seen := map[edge]bool{}
	g.edges = slices.DeleteFunc(g.edges, func(e edge) bool {
		key := edge{src: e.src, dst: e.dst}
		if g.undirected {
			key.src, key.dst = min(e.src, e.dst), max(e.src, e.dst)
		}
		if g.dedup == ingest.DedupRelation {
			key.relation = e.relation
		}
		again := seen[key]
		seen[key] = true
		return again
	})
}

// remove takes nodes out, with their edges. Ids that were dense have gaps then.
func (g *graph) remove(gone map[string]bool) {
	touches := func(e edge) bool { return gone[e.src] || gone[e.dst] }
	g.names = slices.DeleteFunc(g.names, func(name string) bool { return gone[name] })
	g.edges = slices.DeleteFunc(g.edges, touches)
	lists := maps.Clone(g.lists)
	for name, l := range lists {
		lists[name] = slices.DeleteFunc(slices.Clone(l), touches)
	}
	g.lists = lists
	for name := range gone {
		delete(g.nodes, name)
	}
	if g.hop = false; g.ids == store.IDsDense {
		g.ids = store.IDsIntegers
	}
}

// take deletes edges that equal given ones in ends and relation, or puts these in their place, and returns how many went.
func (g *graph) take(given []edge, change grow.Change) (gone int) {
	key := func(e edge) edge {
		k := edge{src: e.src, dst: e.dst, relation: e.relation}
		if g.undirected {
			k.src, k.dst = min(e.src, e.dst), max(e.src, e.dst)
		}
		if change == grow.Update && g.dedup == ingest.DedupPair {
			k.relation = 0
		}
		return k
	}
	taken, fresh := map[edge]bool{}, *g
	fresh.names, fresh.edges = nil, nil
	fresh.add(nil, nil, given) // by the rules
	if change == grow.Delete {
		fresh.edges = slices.DeleteFunc(slices.Clone(given), func(e edge) bool { return e.src == e.dst && g.loops != ingest.SelfLoopsKeep })
	}
	for _, e := range fresh.edges {
		taken[key(e)] = true
	}
	was := len(g.edges)
	g.edges = slices.DeleteFunc(g.edges, func(e edge) bool { return taken[key(e)] })
	gone = was - len(g.edges)
	if change == grow.Update {
		g.edges = append(g.edges, fresh.edges...)
	}
	return gone
}

// lines are the graph as sorted text, in the form of [read].
func (g *graph) lines() []string {
	var lines []string
	for _, e := range g.edges {
		lines = append(lines, g.edgeLine("edge", e))
	}
	for name, n := range g.nodes {
		b := fmt.Appendf(nil, "node %s", name)
		if g.typed { // columns by name
			b = appendRow(b, "c.node", float32(n.number))
		}
		b = appendRow(b, "label", float32(n.label))
		for _, c := range g.extra {
			row := n.more[c.name]
			if row == nil {
				row = make([]float32, c.dim)
			}
			b = appendRow(b, c.name, row...)
		}
		if g.typed {
			b = appendRow(b, store.TypeColumn, float32(n.nodeType()))
		}
		b = appendRow(b, "split", float32(n.split))
		b = appendRow(b, "x", n.x[:]...)
		if g.typed {
			b = appendRow(b, "y", n.y)
		}
		lines = append(lines, string(b))
	}
	for name, list := range g.lists {
		for k, e := range list {
			lines = append(lines, listLine(name, k, e.src, e.relation, e.dst))
		}
	}
	slices.Sort(lines)
	return lines
}

func listLine(name string, k int, src string, relation int, dst string) string {
	return fmt.Sprintf("list %s %d: %s r%d %s", name, k, src, relation, dst)
}

func appendRow(b []byte, name string, row ...float32) []byte {
	b = append(append(b, ' '), name...)
	for _, v := range row {
		b = strconv.AppendFloat(append(b, ' '), float64(v), 'g', -1, 64)
	}
	return b
}

func (g *graph) edgeLine(what string, e edge) string {
	if g.undirected && e.src > e.dst {
		e.src, e.dst = e.dst, e.src
	}
	line := what + " " + e.src + " " + e.dst
	if g.relations > 1 {
		line += " r" + strconv.Itoa(e.relation)
	}
	if g.weighted {
		line += " " + strconv.FormatFloat(float64(e.weight), 'g', -1, 64)
	}
	return line
}

// means are the plain means of x over neighbours, those at the other end of stored edges into a node (out of it too, if
// the graph is undirected), an edge counting once.
func (g *graph) means() map[string][dim]float32 {
	sums, counts := map[string][dim]float32{}, map[string]float32{}
	count := func(dst, src string) {
		sum := sums[dst]
		for d, v := range g.nodes[src].x {
			sum[d] += v
		}
		sums[dst] = sum
		counts[dst]++
	}
	for _, e := range g.edges {
		count(e.dst, e.src)
		if g.undirected && e.src != e.dst {
			count(e.src, e.dst)
		}
	}
	for name, sum := range sums {
		for d := range sum {
			sum[d] /= counts[name]
		}
		sums[name] = sum
	}
	return sums
}
