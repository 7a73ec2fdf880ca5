package eval

import (
	"context"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// edgeBuilder builds csrs from a store's stripes.
type edgeBuilder struct {
	src        Source
	undirected bool
	parts      []store.PartitionInfo
	// relations, if they are read, is how many the store has; a larger id is corrupt. relation is the column that says
	// each edge's, nil in a store of one. inverse, of a directed store, reads edges against their direction too, as
	// relations that are inverse larger.
	relation  *store.ColumnInfo
	relations int
	inverse   uint16
	// only is one more than the relation whose edges alone count, which carry none then; 0: all do.
	only     int
	weight   *store.ColumnInfo   // the column of edges' weights to read, nil for none
	features []*store.ColumnInfo // the columns of edges' features to read

	stripe, types, weights []byte   // last read: reused buffers
	rows                   [][]byte // likewise, of features
	bytes                  int64    // read so far
}

// featureColumns is how many floats the features of an edge are.
func (b *edgeBuilder) featureColumns() (n int) {
	for _, c := range b.features {
		n += c.Dim
	}
	return n
}

// featuresOf sets row to the features of edge e of the stripe last read.
func (b *edgeBuilder) featuresOf(e int, row []float32) {
	for i, c := range b.features {
		size := c.RowBytes()
		c.Elem.Widen(row[:c.Dim], b.rows[i][e*size:(e+1)*size], c.Scale)
		row = row[c.Dim:]
	}
}

// between says which edges a csr has: from the nodes of one tile to those of another.
type between struct {
	from, to Tile     // of the sets' nodes, by their numbers
	of, into *nodeSet // sources and destinations
	wants    func(to, from int) bool
}

// places returns where a destination and a source are in the tiles, by their places among all nodes of the tiles' partitions, which
// each passes on.
func (x *between) places() (into, of func(v uint32) uint32) {
	place := func(s *nodeSet, t Tile) func(v uint32) uint32 {
		if s.all() {
			return func(v uint32) uint32 { return v }
		}
		base := uint64(s.parts[t.Lo].First)
		return func(v uint32) uint32 { return uint32(s.number(base+uint64(v)) - t.Base) }
	}
	return place(x.into, x.to), place(x.of, x.from)
}

// build collects the edges s → d with s in x.from and d in x.to; the edges of an
// undirected store count in both directions, a self loop once; inverse edges
// count like edges. Each stripe is read twice: to count and to fill. A
// destination's edges are in the order of their sources, whatever the tiles. Edges between partitions that x does not want are counted, not
// listed.
func (b *edgeBuilder) build(ctx context.Context, x between) (c csr, err error) {
	from, to := x.from, x.to
	into, of := x.places()
	some := selection{to: x.into, wants: x.wants}
	count, err := blockio.AllocSlab(int64(to.Nodes+1)*4, blockio.SlabOptions{})
	if err != nil {
		return csr{}, err
	}
	defer func() { _ = count.Free() }()
	next := asInt32(count.Bytes())[:to.Nodes+1]
	var edges int64
	if err := b.some(ctx, from, to, some, func(d, _ uint32, _ about) { next[into(d)+1]++; edges++ }); err != nil {
		return csr{}, err
	}
	if edges > math.MaxInt32 {
		return csr{}, fmt.Errorf("evaluation: %d edges between partitions %d–%d and %d–%d, at most %d fit a tile: give the evaluation less memory or the store more partitions", edges, from.Lo, from.Hi-1, to.Lo, to.Hi-1, math.MaxInt32)
	}
	for i := range to.Nodes {
		next[i+1] += next[i]
	}
	has := b.carried()
	words := int64(to.Nodes+1) + edges*int64(has.words())
	size := words * 4
	if has.hasRelations {
		size += 2 * edges
	}
	if x.wants != nil { // room for what is not listed, behind
		size = (size+3)&^3 + 4*int64(to.Nodes)
	}
	slab, err := blockio.AllocSlab(size, blockio.SlabOptions{})
	if err != nil {
		return csr{}, err
	}
	all := asInt32(slab.Bytes())
	c = csr{slab: slab, indptr: all[:to.Nodes+1], indices: all[to.Nodes+1 : int64(to.Nodes+1)+edges], carried: has}
	copy(c.indptr, next)
	if x.wants != nil {
		c.unlisted = asInt32(slab.Bytes()[size-4*int64(to.Nodes) : size])
		some.left = func(d uint32) { c.unlisted[into(d)]++ }
	}
	fill := func(d, s uint32, _ about) {
		c.indices[next[d]] = int32(of(s))
		next[d]++
	}
	plain := fill
	if has.hasRelations {
		c.relations, err = blocks.View[uint16](slab.Bytes()[4*words : 4*words+2*edges])
		fill = func(d, s uint32, e about) {
			c.relations[next[d]] = e.relation
			plain(d, s, e)
		}
	}
	if has.hasWeights {
		at := int64(to.Nodes+1) + edges
		c.weights = asFloat32(slab.Bytes()[4*at : 4*(at+edges)])
		inner := fill
		fill = func(d, s uint32, e about) {
			c.weights[next[d]] = e.weight
			inner(d, s, e)
		}
	}
	if columns := has.columns; columns > 0 {
		c.features = asFloat32(slab.Bytes()[4*(words-edges*int64(columns)) : 4*words])
		inner := fill
		fill = func(d, s uint32, e about) {
			b.featuresOf(e.edge, c.features[int(next[d])*columns:][:columns])
			inner(d, s, e)
		}
	}
	if err == nil {
		err = b.some(ctx, from, to, some, func(d, s uint32, e about) { fill(into(d), s, e) })
	}
	if err != nil {
		c.free()
	} else if b.mirrors() {
		c.sortSources()
	}
	return c, err
}

// carried is what edges keep of what is read of them: edges of one relation alone keep no relation.
func (b *edgeBuilder) carried() carried {
	return carried{hasRelations: b.relations > 0 && b.only == 0, hasWeights: b.weight != nil, columns: b.featureColumns()}
}

// mirrors reports whether stored edges are also read against their direction.
func (b *edgeBuilder) mirrors() bool { return b.undirected || b.inverse > 0 }
