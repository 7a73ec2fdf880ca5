package zoo

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Content is what a store holds for its user: nodes with their columns by name, and edges, by external ids.
type Content struct {
	Nodes    map[string]*Row
	Edges    []string // a line each, sorted: source, destination, relation, weight, …
	Relation bool     // lines have the relation
}

// Row is what a node has.
type Row struct {
	Columns     map[string][]float32 // of columns that its type does not have: zeros
	Label, Part string               // "" = the store has none
}

// column names a column of nodes as the store does.
func (g *Graph) column(k int, format string) string {
	c := g.Columns[k]
	switch {
	case format == "tables":
		return g.Types[c.Type] + "." + c.Name
	case format == "typed":
		return g.Types[c.Type] + ".feat"
	}
	return c.Name
}

// Expected is what the store of a case's graph must hold, by the rules of its ingest. relation says whether edges have a relation there.
func (g *Graph) Expected(c Case, relation bool) *Content {
	out := &Content{Nodes: map[string]*Row{}, Relation: relation}
	for _, v := range g.Nodes {
		row := &Row{Columns: map[string][]float32{}}
		for k, column := range g.Columns {
			x := v.X[k]
			if x == nil && c.Is("normalize", "yes") {
				continue // the mean
			}
			if x == nil {
				x = make([]float32, column.Width)
			}
			row.Columns[g.column(k, c.Get("format"))] = x
		}
		if g.Classes > 0 {
			row.Label = g.labelOf(&v)
		}
		if g.Split {
			row.Part = cmp.Or(PartNames[v.Part], "none")
		}
		out.Nodes[v.ID] = row
	}
	typed := c.Is("format", "typed", "tables")
	for _, e := range g.kept(c) {
		out.Edges = append(out.Edges, g.line(e, c.Is("undirected", "yes"), relation, typed))
	}
	slices.Sort(out.Edges)
	return out
}

// labelOf is a node's label as export writes it, of several with blanks between them.
func (g *Graph) labelOf(v *Node) string {
	said := slices.Clone(v.Said)
	for k := range said {
		switch {
		case said[k] != "":
		case g.Labels == "numbers":
			said[k] = "NaN"
		default:
			said[k] = "-1"
		}
	}
	return strings.Join(said, " ")
}

// line is an edge as [Content] has it; of an undirected one the ends in order.
func (g *Graph) line(e Edge, undirected, relation, typed bool) string {
	src, dst := g.Nodes[e.Src].ID, g.Nodes[e.Dst].ID
	if undirected && src > dst {
		src, dst = dst, src
	}
	fields := []string{src, dst}
	if relation {
		name := "edge"
		if e.Relation != noRelation {
			r := g.Relations[e.Relation]
			if name = r.Name; typed {
				name = g.Types[r.Src] + ":" + r.Name + ":" + g.Types[r.Dst]
			}
		}
		fields = append(fields, name)
	}
	if g.Weights {
		fields = append(fields, text(e.Weight))
	}
	if g.Times {
		fields = append(fields, strconv.FormatInt(e.Time, 10))
	}
	for _, x := range e.Features {
		fields = append(fields, text(x))
	}
	return strings.Join(fields, "\t")
}

// noRelation is of edges of a graph whose input names none.
const noRelation = -1

// kept applies the rules for self loops and duplicates.
func (g *Graph) kept(c Case) (edges []Edge) {
	loops, dedup, undirected := c.Get("loops"), c.Get("dedup"), c.Is("undirected", "yes")
	if dedup == "default" {
		dedup = "no"
		if undirected {
			dedup = "relation"
		}
	}
	for _, e := range g.Edges {
		if e.Src != e.Dst || loops == "keep" {
			edges = append(edges, e)
		}
	}
	if loops == "add" {
		for v := range g.Nodes {
			edges = append(edges, Edge{Src: v, Dst: v, Relation: g.OfLoops, Features: make([]float32, g.EdgeDim)})
		}
	}
	if dedup == "no" {
		return edges
	}
	// Of equal edges that stays whose columns' bytes sort first.
	slices.SortStableFunc(edges, func(a, b Edge) int { return bytes.Compare(g.columnBytes(a), g.columnBytes(b)) })
	type key struct{ src, dst, relation int }
	seen := map[key]bool{}
	return slices.DeleteFunc(edges, func(e Edge) bool {
		k := key{e.Src, e.Dst, 0}
		if undirected {
			k.src, k.dst = min(e.Src, e.Dst), max(e.Src, e.Dst)
		}
		if dedup == "relation" {
			k.relation = e.Relation
		}
		again := seen[k]
		seen[k] = true
		return again
	})
}

func (g *Graph) columnBytes(e Edge) (b []byte) {
	if len(g.Relations) > 1 {
		b = append(b, byte(e.Relation))
	}
	if g.Weights {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(e.Weight))
	}
	if g.Times {
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Time))
	}
	for _, x := range e.Features {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// ReadContent reads what gstore export --format tsv wrote.
func ReadContent(dir string, undirected bool) (*Content, error) {
	out := &Content{Nodes: map[string]*Row{}}
	add := func(row []string) {
		if undirected && row[0] > row[1] {
			row[0], row[1] = row[1], row[0]
		}
		out.Edges = append(out.Edges, strings.Join(row, "\t"))
	}
	edges := filepath.Join(dir, "edges.tsv")
	if _, err := os.Stat(edges); errors.Is(err, os.ErrNotExist) { // a knowledge graph's edges have no line of names
		out.Relation = true
		err := readLines(filepath.Join(dir, "train.tsv"), func(row []string) error {
			if len(row) != 3 {
				return errorf("%d fields of a triple", len(row))
			}
			add([]string{row[0], row[2], row[1]})
			return nil
		})
		slices.Sort(out.Edges)
		return out, err
	}
	var head []string
	err := readLines(edges, func(row []string) error {
		if head == nil {
			head = row
			out.Relation = slices.Contains(head, "relation")
			return nil
		}
		add(inOrder(head, row))
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(out.Edges)
	nodes := filepath.Join(dir, "nodes.tsv")
	if _, err := os.Stat(nodes); errors.Is(err, os.ErrNotExist) {
		return out, nil // of ids alone
	}
	return out, out.readNodes(nodes)
}

// inOrder moves the fields of an edge to where [Graph.line] has them.
func inOrder(head, row []string) (out []string) {
	known := []string{"src", "dst", "relation", "weight", "timestamp", "time"}
	for _, name := range known {
		if i := slices.Index(head, name); i >= 0 {
			out = append(out, row[i])
		}
	}
	for i, name := range head {
		if !slices.Contains(known, name) {
			out = append(out, row[i])
		}
	}
	return out
}

// readNodes reads a table of nodes.
func (c *Content) readNodes(path string) error {
	var head []string
	return readLines(path, func(fields []string) error {
		if head == nil {
			head = slices.Clone(fields)
			return nil
		}
		if len(fields) != len(head) {
			return errorf("%s: %d fields below %d names", path, len(fields), len(head))
		}
		row := &Row{Columns: map[string][]float32{}}
		for k, name := range head {
			switch name {
			case "id":
				c.Nodes[strings.Clone(fields[k])] = row
			case "label":
				row.Label = strings.Clone(fields[k])
			case "label." + strconv.Itoa(k-slices.Index(head, "label.0")):
				row.Label = strings.TrimSpace(row.Label + " " + fields[k])
			case "split":
				row.Part = strings.Clone(fields[k])
			default:
				x, err := strconv.ParseFloat(fields[k], 64)
				if err != nil {
					return errorf("%s: %s: %w", path, name, err)
				}
				if i := strings.LastIndexByte(name, '.'); i > 0 && strings.Trim(name[i+1:], "0123456789") == "" {
					name = name[:i]
				}
				row.Columns[name] = append(row.Columns[name], float32(x))
			}
		}
		return nil
	})
}

// readLines reads lines of fields between tabs.
func readLines(path string, line func(fields []string) error) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		if err := line(strings.Split(lines.Text(), "\t")); err != nil {
			return err
		}
	}
	return lines.Err()
}

// Same compares a store's content with what is expected; near is how far a number may lie from its own, in parts of the largest of its
// column. any: of edges that are equal in their ends another one may have stayed.
func (c *Content) Same(want *Content, near float64, any bool) error {
	if len(c.Nodes) != len(want.Nodes) && c.Nodes != nil {
		return errorf("%d nodes, expected %d", len(c.Nodes), len(want.Nodes))
	}
	largest := map[string]float64{}
	for _, row := range want.Nodes {
		for name, x := range row.Columns {
			for _, v := range x {
				largest[name] = max(largest[name], math.Abs(float64(v)))
			}
		}
	}
	for id, row := range want.Nodes {
		got, ok := c.Nodes[id]
		if !ok {
			return errorf("node %q is missing", id)
		}
		if got.Label != row.Label || got.Part != row.Part {
			return errorf("node %q: label %q, split %q, expected %q, %q", id, got.Label, got.Part, row.Label, row.Part)
		}
		for name, x := range row.Columns {
			if len(got.Columns[name]) != len(x) {
				return errorf("node %q: %s has %d numbers, expected %d", id, name, len(got.Columns[name]), len(x))
			}
			for k, v := range got.Columns[name] {
				if v != x[k] && !(math.Abs(float64(v)-float64(x[k])) <= near*largest[name]) {
					return errorf("node %q: %s.%d is %v, expected %v", id, name, k, v, x[k])
				}
			}
		}
	}
	if len(c.Edges) != len(want.Edges) {
		return errorf("%d edges, expected %d", len(c.Edges), len(want.Edges))
	}
	for i, e := range c.Edges {
		if e != want.Edges[i] && !any {
			return errorf("edge %q, expected %q", e, want.Edges[i])
		}
	}
	return nil
}
