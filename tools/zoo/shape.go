package zoo

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
)

// Parts of a split, as nodes have them.
const (
	PartNone = iota
	PartTrain
	PartValid
	PartTest
)

// PartNames are the names of the parts, by number.
var PartNames = [...]string{"", "train", "valid", "test"}

// Graph is the plain model of an input: what a user has before any rule of ingest.
type Graph struct {
	IDs       string // dense, integers, strings
	Types     []string
	Nodes     []Node // of several types: type by type
	Columns   []Column
	Relations []Relation // none: edges have no relation
	OfLoops   int        // the relation of loops that are added; noRelation: that of a graph whose input names none
	Classes   int        // of labels, 0: there are none
	Labels    string     // classes, numbers, or several a node
	Split     bool       // nodes have parts
	Edges     []Edge
	Lists     []List
	Weights   bool
	Times     bool
	EdgeDim   int // numbers of an edge's feature e
}

// Node is a node, by its external id.
type Node struct {
	ID    string
	Type  int
	X     [][]float32 // by column; nil: the node's type does not have it
	Label int         // −1 = none, else of classes the node's, of others 0
	Said  []string    // the label as files have it, an element each of several; "" = none
	Part  int
}

// Column is a feature of nodes of one type.
type Column struct {
	Name  string
	Type  int
	Width int
}

// Relation leads from nodes of one type to nodes of another.
type Relation struct {
	Name     string
	Src, Dst int // types
}

// Edge leads from node to node, by number.
type Edge struct {
	Src, Dst int
	Relation int
	Weight   float32
	Time     int64
	Features []float32
}

// List is a list of edges to predict, or of wrong answers.
type List struct {
	Name  string
	Edges []Edge
}

// shaper makes a graph of a case.
type shaper struct {
	c   Case
	rng *rand.Rand
	g   *Graph
}

// Shape makes the graph of a case's axes: the same case gives the same graph.
func Shape(c Case) *Graph {
	s := &shaper{c: c, rng: c.rand(1), g: &Graph{IDs: c.Get("ids"), Classes: s2i(c.Get("classes")), Labels: c.Get("labels"), EdgeDim: s2i(c.Get("edgefeatures"))}}
	s.g.Weights, s.g.Times = !c.Is("weights", "no"), !c.Is("times", "no")
	s.nodes()
	s.edges()
	s.lists()
	if c.Is("format", "triples") {
		s.drop()
	}
	if len(s.g.Edges) == 0 && c.Is("format", "edgelist", "tables") {
		s.g.EdgeDim = 0 // a table without rows has no values of it
	}
	s.g.OfLoops = s.ofLoops()
	return s.g
}

// ofLoops is the first relation of the input, of which added loops are: triples and edge lists have those alone that they name.
func (s *shaper) ofLoops() int {
	if !s.c.Is("format", "triples", "edgelist") {
		return 0
	}
	all := slices.Clone(s.g.Edges)
	for _, l := range s.g.Lists {
		all = append(all, l.Edges...)
	}
	if len(all) == 0 {
		return noRelation
	}
	return slices.MinFunc(all, func(a, b Edge) int { return a.Relation - b.Relation }).Relation
}

// drop leaves out nodes that no edge and no list names: triples have no others.
func (s *shaper) drop() {
	g := s.g
	named := map[int]bool{}
	all := [][]Edge{g.Edges}
	for _, l := range g.Lists {
		all = append(all, l.Edges)
	}
	for _, edges := range all {
		for _, e := range edges {
			named[e.Src], named[e.Dst] = true, true
		}
	}
	number := map[int]int{}
	var nodes []Node
	for i, v := range g.Nodes {
		if named[i] {
			number[i] = len(nodes)
			nodes = append(nodes, v)
		}
	}
	g.Nodes = nodes
	for _, edges := range all {
		for i := range edges {
			edges[i].Src, edges[i].Dst = number[edges[i].Src], number[edges[i].Dst]
		}
	}
}

// rand draws by what the graph is like.
func (c Case) rand(stream uint64) *rand.Rand {
	h := fnv.New64a()
	for _, a := range Axes[:slices.IndexFunc(Axes, func(a Axis) bool { return a.Name == "format" })] {
		_, _ = fmt.Fprint(h, a.Name, c.Get(a.Name), " ")
	}
	return rand.New(rand.NewPCG(h.Sum64(), stream))
}

// s2i is a number that a value is.
func s2i(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err) // a programming error: an axis of numbers has none
	}
	return n
}

func (s *shaper) nodes() {
	n, types, width := s2i(s.c.Get("nodes")), s2i(s.c.Get("types")), s2i(s.c.Get("width"))
	s.g.Types = []string{"a", "b", "c"}[:types]
	for k := range s2i(s.c.Get("columns")) {
		w := width
		if k > 0 {
			w = 2 + width%6 // of one number alone a table would not keep the name
		}
		if s.c.Is("format", "typed") && k >= types || min(k, types-1) >= n {
			break // one has one feature of each type, and a type without nodes has none
		}
		s.g.Columns = append(s.g.Columns, Column{Name: string(rune('x' + k)), Type: min(k, types-1), Width: w})
	}
	inType := make([]int, types)
	for i := range n {
		v := Node{Label: -1, Type: i * types / n}
		switch {
		case s.g.IDs == "integers":
			v.ID = strconv.Itoa(i*i*7 + 3)
		case s.g.IDs == "strings":
			v.ID = fmt.Sprintf("n%dé", i)
		default:
			v.ID = strconv.Itoa(i)
		}
		if s.c.Is("format", "tables") {
			v.ID = fmt.Sprintf("%s:k%d", s.g.Types[v.Type], inType[v.Type])
		}
		inType[v.Type]++
		for _, c := range s.g.Columns {
			var row []float32
			if c.Type == v.Type {
				for range c.Width {
					row = append(row, s.value(s.c.Get("values")))
				}
			}
			v.X = append(v.X, row)
		}
		if s.g.Classes > 0 {
			s.label(&v, i)
		}
		s.g.Nodes = append(s.g.Nodes, v)
	}
	s.split()
}

// label gives a node its label; of numbers and several labels a seventh has none.
func (s *shaper) label(v *Node, i int) {
	known := v.Type == 0 && (s.g.Labels == "classes" || i%7 != 6)
	switch s.g.Labels {
	case "classes":
		if known {
			v.Label = s.rng.IntN(s.g.Classes)
		}
		v.Said = []string{strconv.Itoa(v.Label)}
	case "numbers":
		if v.Said = []string{""}; known {
			v.Label, v.Said[0] = 0, text(float32(s.rng.IntN(4000)-2000)/4)
		}
	default:
		v.Said = make([]string, s.g.Classes)
		for k := range v.Said {
			if known {
				v.Label, v.Said[k] = 0, strconv.Itoa(s.rng.IntN(3)/2)
			}
		}
	}
}

// value is a number that is not NaN, plain or extreme.
func (s *shaper) value(kind string) float32 {
	x := s.rng.NormFloat64()
	switch kind {
	case "zero":
		return 0
	case "large":
		return float32(x * 1e30)
	case "tiny":
		return float32(x * 1e-39) // below the least normal number
	case "words":
		if s.rng.IntN(48) > 0 {
			return 0
		}
	}
	return float32(x)
}

// split gives labelled nodes their parts. Every class that there can be has a training node, where there are enough.
func (s *shaper) split() {
	kind, first := s.c.Get("split"), true
	if kind == "none" || s.g.Classes == 0 {
		return
	}
	s.g.Split = true
	for i := range s.g.Nodes {
		v := &s.g.Nodes[i]
		if v.Label < 0 {
			continue
		}
		v.Part = []int{PartTrain, PartTrain, PartValid, PartTest, PartNone}[i%5]
		switch {
		case kind == "notrain" && v.Part == PartTrain, kind == "novalid" && v.Part == PartValid, kind == "notest" && v.Part == PartTest:
			v.Part = PartNone
		case kind == "one" && v.Part == PartTrain && !first:
			v.Part = PartNone
		}
		first = first && v.Part != PartTrain
	}
}

func (s *shaper) edges() {
	g, n := s.g, len(s.g.Nodes)
	for r := range s2i(s.c.Get("relations")) {
		g.Relations = append(g.Relations, Relation{Name: "r" + strconv.Itoa(r), Src: r % len(g.Types), Dst: (r + 1) % len(g.Types)})
	}
	if len(g.Relations) == 0 && (len(g.Types) > 1 || s.c.Is("format", "typed", "tables")) {
		g.Relations = []Relation{{Name: "to", Src: 0, Dst: len(g.Types) - 1}}
	}
	switch s.c.Get("edges") {
	case "none":
	case "one":
		s.edge(0, n-1)
	case "loops":
		for v := range n {
			s.edge(v, v)
			if v%3 == 0 {
				s.edge(v, s.rng.IntN(n))
			}
		}
	case "parallel":
		for range n {
			src, dst := s.rng.IntN(n), s.rng.IntN(n)
			for range 1 + s.rng.IntN(4) {
				s.edge(src, dst)
			}
		}
	case "hub":
		for v := range n {
			s.edge(v, 0)
			s.edge(0, v)
		}
	case "path":
		for v := range n - 1 {
			s.edge(v, v+1)
		}
	case "isolated": // the second half has no edges
		for range 2 * n {
			s.edge(s.rng.IntN((n+1)/2), s.rng.IntN((n+1)/2))
		}
	default:
		for range 4 * n {
			s.edge(s.rng.IntN(n), s.rng.IntN(n))
		}
	}
}

// edge adds an edge between nodes, or, of several types, between such of its relation's types that stand as far in them.
func (s *shaper) edge(src, dst int) {
	if e := s.drawn(src, dst); e.Src >= 0 && e.Dst >= 0 {
		s.g.Edges = append(s.g.Edges, e)
	}
}

func (s *shaper) drawn(src, dst int) Edge {
	g := s.g
	e := Edge{Src: src, Dst: dst, Weight: 1}
	if len(g.Relations) > 0 {
		e.Relation = s.rng.IntN(len(g.Relations))
		r := g.Relations[e.Relation]
		e.Src, e.Dst = s.ofType(src, r.Src), s.ofType(dst, r.Dst)
	}
	if g.Weights {
		e.Weight = float32(math.Abs(s.rng.NormFloat64())) + .01
		switch kind := s.c.Get("weights"); {
		case kind == "zero" && s.rng.IntN(3) > 0:
			e.Weight = 0
		case kind == "negative" && s.rng.IntN(3) == 0:
			e.Weight = -e.Weight
		}
	}
	if g.Times {
		e.Time = 1_000_000_000
		if s.c.Is("times", "yes") {
			e.Time += s.rng.Int64N(1_000_000)
		}
	}
	for range g.EdgeDim {
		e.Features = append(e.Features, s.value("normal"))
	}
	return e
}

// ofType is a node of a type: of n nodes the one that stands where node v does among all.
func (s *shaper) ofType(v, kind int) int {
	first := slices.IndexFunc(s.g.Nodes, func(n Node) bool { return n.Type == kind })
	count := 0
	for _, n := range s.g.Nodes {
		if n.Type == kind {
			count++
		}
	}
	if count == 0 { // fewer nodes than types
		return -1
	}
	return first + v*count/len(s.g.Nodes)
}

// lists takes no edges out of the graph: validation and test edges are further ones.
func (s *shaper) lists() {
	n := len(s.g.Nodes)
	some := func(name string, count int) {
		l := List{Name: name}
		for range count {
			e := s.drawn(s.rng.IntN(n), s.rng.IntN(n))
			e.Weight, e.Time, e.Features = 0, 0, nil
			if e.Src >= 0 && e.Dst >= 0 {
				l.Edges = append(l.Edges, e)
			}
		}
		s.g.Lists = append(s.g.Lists, l)
	}
	kind := s.c.Get("lists")
	if kind == "no" {
		return
	}
	if kind != "novalid" {
		some("valid", 1+n/5)
	}
	if kind != "notest" {
		some("test", 1+n/7)
	}
	switch kind {
	case "given": // three for each edge, with its source
		for _, l := range slices.Clone(s.g.Lists) {
			wrong := List{Name: l.Name + "_negatives"}
			for _, e := range l.Edges {
				for range 3 {
					wrong.Edges = append(wrong.Edges, Edge{Src: e.Src, Dst: s.rng.IntN(n), Relation: e.Relation})
				}
			}
			s.g.Lists = append(s.g.Lists, wrong)
		}
	case "shared":
		some("valid_edge_neg", 2+n/4)
		some("test_edge_neg", 2+n/4)
	}
}
