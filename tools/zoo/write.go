package zoo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/npy"
)

// Input are the files of a graph, and the flags that ingest needs to read them.
type Input struct {
	Path  string
	Flags []string
}

// Write writes the graph to the new folder dir as a format has it: numpy, edgelist, typed, tables or triples.
func (g *Graph) Write(dir, format string) (Input, error) {
	w := &writer{g: g, dir: dir, files: map[string][]byte{}}
	in := Input{Path: dir}
	switch format {
	case "edgelist":
		in.Flags = w.edgeList()
	case "typed":
		w.typed()
	case "tables":
		w.tables()
	case "triples":
		w.triples()
	default:
		in.Flags = w.numpy()
	}
	return in, w.save()
}

type writer struct {
	g     *Graph
	dir   string
	files map[string][]byte
}

// save writes the files.
func (w *writer) save() error {
	for name, b := range w.files {
		path := filepath.Join(w.dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, b, 0o666)); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) ints(name string, x []int, shape ...uint64) {
	b := npy.Append(nil, blocks.Int64, false, shape...)
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	w.files[name] = b
}

func (w *writer) floats(name string, x []float32, shape ...uint64) {
	b := npy.Append(nil, blocks.Float32, false, shape...)
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	w.files[name] = b
}

func (w *writer) text(name string, lines []string) {
	w.files[name] = []byte(strings.Join(append(lines, ""), "\n"))
}

// numpy writes arrays by position, with node_ids beside them where ids are not dense.
func (w *writer) numpy() (flags []string) {
	g, n := w.g, uint64(len(w.g.Nodes))
	w.ends("edge_index.npy", g.Edges, 0, 0)
	if len(g.Relations) > 0 {
		var types []int
		var names []string
		for _, e := range g.Edges {
			types = append(types, e.Relation)
		}
		for _, r := range g.Relations {
			names = append(names, r.Name)
		}
		w.ints("edge_type.npy", types, uint64(len(types)))
		w.text("edge_types.txt", names)
	}
	w.edgeColumns("", g.Edges)
	switch {
	case g.IDs == "integers":
		var ids []int
		for _, v := range g.Nodes {
			ids = append(ids, s2i(v.ID))
		}
		w.ints("node_ids.npy", ids, n)
	case g.IDs == "strings":
		var ids []string
		for _, v := range g.Nodes {
			ids = append(ids, v.ID)
		}
		w.text("node_ids.txt", ids)
	case len(g.Columns) == 0 && g.Classes == 0:
		flags = []string{"--num-nodes", strconv.Itoa(len(g.Nodes))}
	}
	for c, column := range g.Columns {
		name := "node_feat.npy"
		if c > 0 {
			name = "node_" + column.Name + ".npy"
		}
		w.rows(name, c, 0)
	}
	w.labels("node_label.npy")
	w.parts()
	for _, l := range g.Lists {
		var triples []int
		if len(g.Relations) > 0 {
			for _, e := range l.Edges {
				triples = append(triples, e.Src, e.Relation, e.Dst)
			}
			w.ints("edges_"+l.Name+".npy", triples, uint64(len(l.Edges)), 3)
			continue
		}
		for _, e := range l.Edges {
			triples = append(triples, e.Src, e.Dst)
		}
		w.ints("edges_"+l.Name+".npy", triples, uint64(len(l.Edges)), 2)
	}
	return flags
}

// ends writes [2, E] numbers of nodes, counted from the first of the types at the ends.
func (w *writer) ends(name string, edges []Edge, src, dst int) {
	var ends []int
	for _, e := range edges {
		ends = append(ends, e.Src-w.first(src))
	}
	for _, e := range edges {
		ends = append(ends, e.Dst-w.first(dst))
	}
	w.ints(name, ends, 2, uint64(len(edges)))
}

// first is the number of a type's first node.
func (w *writer) first(kind int) (n int) {
	for _, v := range w.g.Nodes {
		if v.Type < kind {
			n++
		}
	}
	return n
}

func (w *writer) edgeColumns(folder string, edges []Edge) {
	var weights, features []float32
	var times []int
	for _, e := range edges {
		weights, times, features = append(weights, e.Weight), append(times, int(e.Time)), append(features, e.Features...)
	}
	n := uint64(len(edges))
	if w.g.Weights {
		w.floats(folder+"edge_weight.npy", weights, n)
	}
	if w.g.Times {
		w.ints(folder+"edge_time.npy", times, n)
	}
	if w.g.EdgeDim > 0 {
		w.floats(folder+"edge_e.npy", features, n, uint64(w.g.EdgeDim))
	}
}

// rows writes a column of the nodes of a type.
func (w *writer) rows(name string, c, kind int) {
	var x []float32
	n := uint64(0)
	for _, v := range w.g.Nodes {
		if v.Type == kind {
			x, n = append(x, v.X[c]...), n+1
		}
	}
	w.floats(name, x, n, uint64(w.g.Columns[c].Width))
}

func (w *writer) labels(name string) {
	if w.g.Classes == 0 {
		return
	}
	var labels []float32
	n := uint64(0)
	for _, v := range w.g.Nodes {
		if v.Type != 0 {
			continue
		}
		n++
		for _, said := range v.Said {
			x, err := strconv.ParseFloat(said, 32)
			if err != nil { // none
				x = math.NaN()
			}
			labels = append(labels, float32(x))
		}
	}
	shape := []uint64{n}
	if w.g.Labels == "several" {
		shape = append(shape, uint64(w.g.Classes))
	}
	w.floats(name, labels, shape...)
}

// parts writes split/*.npy; that of a part without nodes is left out.
func (w *writer) parts() {
	if !w.g.Split {
		return
	}
	for part := PartTrain; part <= PartTest; part++ {
		var nodes []int
		for i, v := range w.g.Nodes {
			if v.Part == part {
				nodes = append(nodes, i)
			}
		}
		if len(nodes) > 0 {
			w.ints("split/"+PartNames[part]+".npy", nodes, uint64(len(nodes)))
		}
	}
}

// typed writes folders of arrays for each type of nodes and edges.
func (w *writer) typed() {
	g := w.g
	types := make([]string, 0, len(g.Types))
	for k, name := range g.Types {
		types = append(types, name)
		for c, column := range g.Columns {
			if column.Type != k {
				continue
			}
			w.rows("nodes/"+name+"/feat.npy", c, k)
		}
	}
	w.labels("nodes/" + g.Types[0] + "/label.npy")
	w.text("node_types.txt", types)
	w.parts()
	counts := make([]string, len(g.Types))
	for k, name := range g.Types {
		counts[k] = fmt.Sprintf("%q: %d", name, w.first(k+1)-w.first(k))
	}
	w.files["meta.json"] = fmt.Appendf(nil, `{"node_types": {%s}}`, strings.Join(counts, ", "))
	for r, relation := range g.Relations {
		var edges []Edge
		for _, e := range g.Edges {
			if e.Relation == r {
				edges = append(edges, e)
			}
		}
		folder := fmt.Sprintf("edges/%s__%s__%s/", g.Types[relation.Src], relation.Name, g.Types[relation.Dst])
		w.ends(folder+"edge_index.npy", edges, relation.Src, relation.Dst)
		w.edgeColumns(folder, edges)
	}
}
