package zoo

import (
	"strconv"
	"strings"
)

// edgeList writes edges.tsv and, unless it would say nothing, nodes.tsv, with names of columns.
func (w *writer) edgeList() (flags []string) {
	g := w.g
	lines := []string{strings.Join(w.edgeFields("src", "dst", true), "\t")}
	for _, e := range g.Edges {
		lines = append(lines, strings.Join(w.edgeRow(e, g.Nodes[e.Src].ID, g.Nodes[e.Dst].ID, true), "\t"))
	}
	w.text("edges.tsv", lines)
	w.nodeTable("nodes.tsv", 0, "\t", func(v Node) string { return v.ID })
	return []string{"--ids", g.IDs}
}

// edgeFields names the columns of a table of edges.
func (w *writer) edgeFields(src, dst string, relation bool) []string {
	fields := []string{src, dst}
	if relation && len(w.g.Relations) > 0 {
		fields = append(fields, "relation")
	}
	if w.g.Weights {
		fields = append(fields, "weight")
	}
	if w.g.Times {
		fields = append(fields, "timestamp")
	}
	if w.g.EdgeDim == 1 {
		return append(fields, "e")
	}
	for k := range w.g.EdgeDim {
		fields = append(fields, "e."+strconv.Itoa(k))
	}
	return fields
}

func (w *writer) edgeRow(e Edge, src, dst string, relation bool) []string {
	row := []string{src, dst}
	if relation && len(w.g.Relations) > 0 {
		row = append(row, w.g.Relations[e.Relation].Name)
	}
	if w.g.Weights {
		row = append(row, text(e.Weight))
	}
	if w.g.Times {
		row = append(row, strconv.FormatInt(e.Time, 10))
	}
	for _, x := range e.Features {
		row = append(row, text(x))
	}
	return row
}

func text(x float32) string { return strconv.FormatFloat(float64(x), 'g', -1, 32) }

// nodeTable writes the nodes of a type.
func (w *writer) nodeTable(name string, kind int, between string, id func(Node) string) {
	g := w.g
	fields := []string{"id"}
	for _, c := range g.Columns {
		if c.Type != kind {
			continue
		}
		for k := range c.Width {
			fields = append(fields, c.Name+"."+strconv.Itoa(k))
		}
	}
	if g.Classes > 0 && kind == 0 {
		if g.Labels != "several" {
			fields = append(fields, "label")
		} else {
			for k := range g.Classes {
				fields = append(fields, "label."+strconv.Itoa(k))
			}
		}
		if g.Split {
			fields = append(fields, "split")
		}
	}
	lines := []string{strings.Join(fields, between)}
	for _, v := range g.Nodes {
		if v.Type != kind {
			continue
		}
		row := []string{id(v)}
		for _, x := range v.X {
			for _, number := range x {
				row = append(row, text(number))
			}
		}
		if g.Classes > 0 && kind == 0 {
			row = append(row, v.Said...)
			if g.Split {
				row = append(row, PartNames[v.Part])
			}
		}
		lines = append(lines, strings.Join(row, between))
	}
	w.text(name, lines)
}

// tables writes nodes/TYPE.csv and edges/SOURCE-NAME-DESTINATION.csv.
func (w *writer) tables() {
	g := w.g
	bare := func(v Node) string { return strings.TrimPrefix(v.ID, g.Types[v.Type]+":") }
	for k, name := range g.Types {
		w.nodeTable("nodes/"+name+".csv", k, ",", bare)
	}
	for r, relation := range g.Relations {
		lines := []string{strings.Join(w.edgeFields("src", "dst", false), ",")}
		for _, e := range g.Edges {
			if e.Relation == r {
				lines = append(lines, strings.Join(w.edgeRow(e, bare(g.Nodes[e.Src]), bare(g.Nodes[e.Dst]), false), ","))
			}
		}
		w.text("edges/"+g.Types[relation.Src]+"-"+relation.Name+"-"+g.Types[relation.Dst]+".csv", lines)
	}
}

// triples writes train.tsv and the lists. Only nodes that have an edge, in it or in a list, are there.
func (w *writer) triples() {
	lines := func(edges []Edge) (lines []string) {
		for _, e := range edges {
			lines = append(lines, strings.Join([]string{w.g.Nodes[e.Src].ID, w.g.Relations[e.Relation].Name, w.g.Nodes[e.Dst].ID}, "\t"))
		}
		return lines
	}
	w.text("train.tsv", lines(w.g.Edges))
	for _, l := range w.g.Lists {
		w.text(l.Name+".tsv", lines(l.Edges))
	}
}
