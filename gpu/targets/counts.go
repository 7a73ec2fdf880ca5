package targets

import (
	"math"
	"sort"

	"github.com/gstore/gstore/sampler/asof"
	"github.com/gstore/gstore/store"
)

// What means over neighbours do not tell is how many there are (Xu and others, "How Powerful are Graph Neural Networks?", 2019, section 5.2), nor
// could they where only some are sampled. So the model reads how many rows refer to each row of a tree, by each relation, and of a seed
// how many refer to those, too.

// spans are the days before a moment within which rows are counted, beside all that were known.
var spans = [...]int64{30, 91, 365}

// knots are where the columns of a count of all rows begin and end: column k rises from 0 to 1 between knots k and k+1, so that a model tells
// small counts apart (Gorishniy and others, "On Embeddings for Numerical Features in Tabular Deep Learning", 2022, section 3.2).
var knots = [...]float64{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128}

// throughMost bounds the rows that refer to a seed, the latest, of which those that refer to them are counted.
const throughMost = 256

// tally counts rows: all that were known at a moment, and those within each of [spans] before it.
type tally [1 + len(spans)]int

// tallyColumns are the numbers that a model reads of a tally.
const tallyColumns = len(knots) - 1 + len(tally{})

// add counts the rows that refer to a row by a relation.
func (n *tally) add(g *asof.Graph, row uint32, relation int, moment int64) {
	known := g.Known(row, relation, moment)
	n[0] += len(known)
	for k, days := range spans {
		begin := max(moment, asof.Always+days*86400) - days*86400
		n[1+k] += len(known) - sort.Search(len(known), func(i int) bool { return g.Time(known[i]) > begin })
	}
}

// append appends the columns: of all rows by [knots], then ln(1+n)/4 of all and of those within each span.
func (n *tally) append(out []float32) []float32 {
	for k := range knots[1:] {
		out = append(out, float32(min(max((float64(n[0])-knots[k])/(knots[k+1]-knots[k]), 0), 1)))
	}
	for _, n := range n {
		out = append(out, float32(math.Log1p(float64(n))/4))
	}
	return out
}

// countedMost bounds the relations, and the pairs of them, by which rows are counted: those behind the first are not. Each is [tallyColumns] of
// an encoder's input.
const countedMost = 64

// countRelations says which relations are counted: by type those that refer to its rows, and of seeds of a table pairs of one that refers
// to them and one that refers to its rows.
func (d *data) countRelations(m *store.Manifest, table string) {
	d.counted = make([][]int, len(d.names))
	for r := range m.Schema.Relations {
		if _, to, ok := m.Schema.Ends(store.RelationID(r)); ok && len(d.counted[to]) < countedMost {
			d.counted[to] = append(d.counted[to], r)
		}
	}
	for r := range m.Schema.Relations {
		from, to, ok := m.Schema.Ends(store.RelationID(r))
		if !ok || d.names[to] != table {
			continue
		}
		for _, s := range d.counted[from][:min(len(d.counted[from]), countedMost-len(d.through))] {
			d.through = append(d.through, [2]int{r, s})
		}
	}
}

// countColumns are the numbers that are read of how many rows refer to a row of a type.
func (d *data) countColumns(kind int) int {
	if d.counted == nil {
		return 0
	}
	return len(d.counted[kind]) * tallyColumns
}

// appendCounts appends the columns of how many rows refer to a row of a type, by each relation.
func (d *data) appendCounts(out []float32, kind int, row uint32, moment int64) []float32 {
	if d.counted == nil {
		return out
	}
	for _, r := range d.counted[kind] {
		var n tally
		n.add(d.graph, row, r, moment)
		out = n.append(out)
	}
	return out
}

// throughColumns are the numbers that are read of how many rows refer to those that refer to a seed.
func (d *data) throughColumns() int { return len(d.through) * tallyColumns }

// appendThrough appends the columns of how many rows refer to those that refer to a seed, by each pair of relations.
func (d *data) appendThrough(out []float32, row uint32, moment int64) []float32 {
	for _, pair := range d.through {
		var n tally
		known := d.graph.Known(row, pair[0], moment)
		for _, by := range known[max(len(known)-throughMost, 0):] {
			n.add(d.graph, by, pair[1], moment)
		}
		out = n.append(out)
	}
	return out
}
