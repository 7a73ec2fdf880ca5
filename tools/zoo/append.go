package zoo

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
)

// append adds nodes and edges to the store and to what it is known to hold.
func (r *run) append() error {
	old := len(r.g.Nodes)
	more := *r.g
	more.Nodes = nil
	next := 0
	for _, v := range r.g.Nodes {
		if n, err := strconv.Atoi(v.ID); err == nil {
			next = max(next, n+1)
		}
	}
	for i, v := range r.g.Nodes[:min(3, old)] {
		v.ID, v.Part = strconv.Itoa(next+i), PartNone
		if r.g.IDs == "strings" {
			v.ID = "new" + strconv.Itoa(i)
		}
		more.Nodes = append(more.Nodes, v)
	}
	// New edges lead between old nodes and new ones: the graph has both, the table of nodes the new ones.
	all := *r.g
	all.Nodes, all.Edges = slices.Concat(r.g.Nodes, more.Nodes), nil
	s := &shaper{c: r.c, rng: r.c.rand(2), g: &all}
	for i := range more.Nodes {
		s.edge(old+i, i)
		s.edge(i, old+i)
		s.edge(old+i, old+i)
	}
	w := &writer{g: &all, dir: r.at("new"), files: map[string][]byte{}}
	w.edgeList()
	w.g = &more
	w.nodeTable("nodes.tsv", 0, "\t", func(v Node) string { return v.ID })
	if err := w.save(); err != nil {
		return err
	}
	if _, err := r.must("append", r.at("store"), r.at("new"), "--quiet"); err != nil {
		return err
	}
	// What is there stays where edges are equal, and of new ones that whose columns sort first.
	r.g.Nodes, r.g.Edges = all.Nodes, slices.Concat(r.g.Edges, all.Edges)
	r.fromGraph = true
	return errors.Join(r.holds("store"), os.RemoveAll(r.at("new")))
}

// take deletes a third of the edges, or gives them another weight: parallel ones become one then.
func (r *run) take(update bool) error {
	kept := r.g.kept(r.c)
	if len(kept) == 0 || !r.c.Is("format", "edgelist") || r.c.Is("loops", "add") { // the rules leave few such cases
		return nil
	}
	type key struct{ src, dst, relation int }
	of := func(e Edge) key {
		if r.c.Is("undirected", "yes") {
			return key{min(e.Src, e.Dst), max(e.Src, e.Dst), e.Relation}
		}
		return key{e.Src, e.Dst, e.Relation}
	}
	taken, some := map[key]bool{}, *r.g
	some.Edges = nil
	for i, e := range kept {
		if i%3 == 0 && !taken[of(e)] {
			taken[of(e)] = true
			e.Weight = 2.5
			e.Src, e.Dst = e.Dst, e.Src
			if !r.c.Is("undirected", "yes") { // else it is the same edge the other way around, too
				e.Src, e.Dst = e.Dst, e.Src
			}
			some.Edges = append(some.Edges, e)
		}
	}
	w := &writer{g: &some, dir: r.at("new"), files: map[string][]byte{}}
	w.edgeList()
	for name := range w.files {
		if !strings.HasPrefix(name, "edges.") {
			delete(w.files, name)
		}
	}
	if err := w.save(); err != nil {
		return err
	}
	how := "--delete"
	if update {
		how = "--update"
	}
	if _, err := r.must("append", r.at("store"), r.at("new"), how, "--quiet"); err != nil {
		return err
	}
	r.g.Edges = slices.DeleteFunc(kept, func(e Edge) bool { return taken[of(e)] })
	if update {
		r.g.Edges = append(r.g.Edges, some.Edges...)
	}
	r.fromGraph = true
	return errors.Join(r.holds("store"), os.RemoveAll(r.at("new")))
}

// remove takes every third node out that does not train, with its edges.
func (r *run) remove() error {
	if !r.c.Is("format", "edgelist") || r.c.Is("loops", "add") || len(r.g.Types) > 1 { // the rules leave few such cases
		return nil
	}
	after := *r.g
	after.Nodes, after.Edges, after.Lists = nil, nil, nil
	number := make([]int, len(r.g.Nodes)) // of those that stay; −1: of others
	var gone strings.Builder
	gone.WriteString("id\n")
	for i, v := range r.g.Nodes {
		if i%3 == 1 && v.Part != PartTrain {
			number[i] = -1
			gone.WriteString(v.ID + "\n")
			continue
		}
		number[i] = len(after.Nodes)
		after.Nodes = append(after.Nodes, v)
	}
	stay := func(edges []Edge) (left []Edge) {
		for _, e := range edges {
			if e.Src, e.Dst = number[e.Src], number[e.Dst]; e.Src >= 0 && e.Dst >= 0 {
				left = append(left, e)
			}
		}
		return left
	}
	if len(after.Nodes) == len(r.g.Nodes) {
		return nil
	}
	after.Edges = stay(r.g.kept(r.c))
	for _, l := range r.g.Lists {
		after.Lists = append(after.Lists, List{l.Name, stay(l.Edges)})
	}
	w := &writer{g: &after, dir: r.at("new"), files: map[string][]byte{"gone.csv": []byte(gone.String())}}
	if err := w.save(); err != nil {
		return err
	}
	if _, err := r.must("append", r.at("store"), "--nodes", r.at("new/gone.csv"), "--delete", "--quiet"); err != nil {
		return err
	}
	if after.IDs == "dense" { // some are missing
		after.IDs = "integers"
	}
	r.g, r.fromGraph = &after, true
	return errors.Join(r.holds("store"), os.RemoveAll(r.at("new")))
}

// appendColumn adds a column of all nodes.
func (r *run) appendColumn() error {
	w := &writer{g: r.g, dir: r.at("new"), files: map[string][]byte{}}
	var x []float32
	for i := range r.g.Nodes {
		x = append(x, float32(i)/8, -float32(i))
	}
	w.floats("column.npy", x, uint64(len(r.g.Nodes)), 2)
	if err := w.save(); err != nil {
		return err
	}
	if _, err := r.must("append", r.at("store"), "--features", r.at("new/column.npy"), "--name", "added", "--quiet"); err != nil {
		return err
	}
	if r.g.IDs != "dense" || r.c.Is("format", "triples", "tables") {
		r.content = nil // rows are in an order of the store's
		return r.holds("store")
	}
	for i, v := range r.g.Nodes {
		r.content.Nodes[v.ID].Columns["added"] = []float32{float32(i) / 8, -float32(i)}
	}
	return r.holds("store")
}

// walks checks that each step of each walk goes along an edge, and that a walk ends where none leads on.
func (r *run) walks() error {
	args := []string{"walks", r.at("store"), r.at("walks.npy"), "--length", "5", "--per-node", "2", "--internal", "--threads", r.c.Get("threads"), "--quiet"}
	if _, err := r.budgeted(args...); err != nil {
		return err
	}
	what := []string{"export", r.at("store"), r.at("out"), "--format", "tsv", "--what", "graph,ids", "--quiet"}
	if _, err := r.must(what...); err != nil {
		return err
	}
	c, err := ReadContent(r.at("out"), r.c.Is("undirected", "yes"))
	if err != nil {
		return r.checked("walks", args, err)
	}
	if len(c.Nodes) == 0 {
		return nil // of a knowledge graph, whose export has no table of nodes
	}
	return r.checked("walks", args, r.alongEdges(c))
}

func (r *run) alongEdges(c *Content) error {
	number := map[string]int{}
	for id, row := range c.Nodes {
		number[id] = int(row.Columns["internal_id"][0])
	}
	next := make([]map[int]bool, len(c.Nodes))
	lead := func(a, b int) {
		if next[a] == nil {
			next[a] = map[int]bool{}
		}
		next[a][b] = true
	}
	for _, line := range c.Edges {
		f := strings.Split(line, "\t")
		lead(number[f[0]], number[f[1]])
		if r.c.Is("undirected", "yes") {
			lead(number[f[1]], number[f[0]])
		}
	}
	a, err := readInts(r.at("walks.npy"))
	if err != nil {
		return err
	}
	if len(a) != len(c.Nodes)*2*5 {
		return errorf("%d numbers, expected two walks of 5 from each of %d nodes", len(a), len(c.Nodes))
	}
	for k, v := range a {
		switch {
		case k%5 == 0:
			if v < 0 {
				return errorf("walk %d begins nowhere", k/5)
			}
		case a[k-1] < 0 && v >= 0:
			return errorf("walk %d goes on behind its end", k/5)
		case a[k-1] < 0:
		case v < 0 && len(next[a[k-1]]) > 0:
			return errorf("walk %d ends at node %d, from which edges lead", k/5, a[k-1])
		case v >= 0 && !next[a[k-1]][int(v)]:
			return errorf("walk %d goes from %d to %d: there is no such edge", k/5, a[k-1], v)
		}
	}
	return nil
}
