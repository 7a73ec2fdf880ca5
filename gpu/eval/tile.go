package eval

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Tile is a run of consecutive partitions, and so of consecutive nodes: of a graph that has nodes at least one.
type Tile struct {
	Lo, Hi int    // partitions Lo ≤ p < Hi
	Base   uint64 // the first node
	Nodes  int
}

// tilesOf cuts the partitions into at most n runs of about equal numbers of nodes.
func tilesOf(parts []store.PartitionInfo, n int) (ts []Tile) {
	var total, done uint64
	for _, p := range parts {
		total += p.Nodes
	}
	for i := 0; i < len(parts); {
		t := Tile{Lo: i, Hi: i, Base: uint64(parts[i].First)}
		until := total * uint64(len(ts)+1) / uint64(n) // of the last one: all
		for t.Hi < len(parts) && (t.Nodes == 0 || parts[t.Hi].Nodes == 0 || done+parts[t.Hi].Nodes <= until) {
			t.Nodes += int(parts[t.Hi].Nodes)
			done += parts[t.Hi].Nodes
			t.Hi++
		}
		ts = append(ts, t)
		i = t.Hi
	}
	return ts
}

// csr is the edges from a source tile to a destination tile, by destination,
// in memory off the Go heap.
type csr struct {
	slab            *blockio.Slab
	indptr, indices []int32
	carried
	unlisted  []int32   // by destination: edges that [between].wants leaves out; nil if it leaves out none
	relations []uint16  // parallel to indices, where they are carried
	weights   []float32 // likewise
	features  []float32 // likewise, columns of them an edge
}

// carried is what every edge of a graph has in memory, as the model reads it. It is the graph's, and so the same for a tile without
// edges, whose slices are empty or nil.
type carried struct {
	hasRelations, hasWeights bool
	columns                  int // floats of features
}

// words is how many words of 4 bytes an edge takes, beside its relation.
func (c carried) words() int {
	n := 1 + c.columns
	if c.hasWeights {
		n++
	}
	return n
}

func (c *csr) free() {
	if c.slab != nil {
		_ = c.slab.Free() // anonymous memory; a failure only leaks it
	}
	*c = csr{}
}

// within returns the edges of c from n sources from position first on, which become position 0: in *slab, until it is used again.
// begins says where those of each destination begin, and is moved behind them.
func (c *csr) within(slab **blockio.Slab, begins []int32, first, n int) (p csr, err error) {
	nodes, stop := len(begins), int32(first+n)
	end := func(d int) int32 {
		own := c.indices[begins[d]:c.indptr[d+1]] // ascending
		k, _ := slices.BinarySearch(own, stop)
		return begins[d] + int32(k)
	}
	edges := 0
	for d := range begins {
		edges += int(end(d) - begins[d])
	}
	// As in build: positions, sources, weights, features, relations.
	words := nodes + 1 + edges*c.words()
	if err := spill.Grow(slab, int64(4*words+2*edges)); err != nil {
		return csr{}, err
	}
	all := asInt32((*slab).Bytes())
	p = csr{indptr: all[:nodes+1], indices: all[nodes+1 : nodes+1 : nodes+1+edges], carried: c.carried, unlisted: c.unlisted}
	rest := asFloat32((*slab).Bytes())[nodes+1+edges:]
	if c.hasWeights {
		p.weights, rest = rest[:0:edges], rest[edges:]
	}
	p.features = rest[: 0 : edges*c.columns]
	if c.hasRelations {
		relations, err := blocks.View[uint16]((*slab).Bytes()[4*words : 4*words+2*edges])
		if err != nil {
			return csr{}, err
		}
		p.relations = relations[:0]
	}
	p.indptr[0] = 0
	for d := range begins {
		lo, hi := begins[d], end(d)
		for _, s := range c.indices[lo:hi] {
			p.indices = append(p.indices, s-int32(first))
		}
		if c.hasWeights {
			p.weights = append(p.weights, c.weights[lo:hi]...)
		}
		if c.columns > 0 {
			p.features = append(p.features, c.features[int(lo)*c.columns:int(hi)*c.columns]...)
		}
		if c.hasRelations {
			p.relations = append(p.relations, c.relations[lo:hi]...)
		}
		p.indptr[d+1], begins[d] = int32(len(p.indices)), hi
	}
	return p, nil
}

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

// sortSources puts each destination's edges into the order of their sources, which those that are read along their
// direction have already. Edges of one source and relation carry the same message.
func (c *csr) sortSources() {
	for d := range len(c.indptr) - 1 {
		own := edgesOf{indices: c.indices[c.indptr[d]:c.indptr[d+1]]}
		switch {
		case slices.IsSorted(own.indices):
		case c.carried == carried{}:
			slices.Sort(own.indices)
		default:
			if own.carried = c.carried; c.hasRelations {
				own.relations = c.relations[c.indptr[d]:c.indptr[d+1]]
			}
			if c.hasWeights {
				own.weights = c.weights[c.indptr[d]:c.indptr[d+1]]
			}
			if c.columns > 0 {
				own.features = c.features[int(c.indptr[d])*c.columns : int(c.indptr[d+1])*c.columns]
			}
			sort.Stable(own)
		}
	}
}

// edgesOf are one destination's edges with relations, weights and features, or some of these, to be sorted without memory.
type edgesOf struct {
	carried
	indices           []int32
	relations         []uint16
	weights, features []float32
}

func (e edgesOf) Len() int           { return len(e.indices) }
func (e edgesOf) Less(i, j int) bool { return e.indices[i] < e.indices[j] }
func (e edgesOf) Swap(i, j int) {
	e.indices[i], e.indices[j] = e.indices[j], e.indices[i]
	if e.hasRelations {
		e.relations[i], e.relations[j] = e.relations[j], e.relations[i]
	}
	if e.hasWeights {
		e.weights[i], e.weights[j] = e.weights[j], e.weights[i]
	}
	for k := range e.columns {
		p, q := i*e.columns+k, j*e.columns+k
		e.features[p], e.features[q] = e.features[q], e.features[p]
	}
}

// carried is what edges keep of what is read of them: edges of one relation alone keep no relation.
func (b *edgeBuilder) carried() carried {
	return carried{hasRelations: b.relations > 0 && b.only == 0, hasWeights: b.weight != nil, columns: b.featureColumns()}
}

// mirrors reports whether stored edges are also read against their direction.
func (b *edgeBuilder) mirrors() bool { return b.undirected || b.inverse > 0 }

// selection is which messages are wanted; the zero value is all.
type selection struct {
	to    *nodeSet                // only those to its nodes; nil: all
	wants func(to, from int) bool // whether those between two partitions are; nil: all are
	left  func(d uint32)          // is told of those that are not, by their destination; nil: nobody is
	edges []int64                 // by the destinations' partition: how many there are, self loops of an undirected store twice; nil: not counted
}

// each calls fn for every message from Tile from to Tile to, by positions in
// the tiles, in an order that is fixed by the store.
func (b *edgeBuilder) each(ctx context.Context, from, to Tile, fn func(d, s uint32, e about)) error {
	return b.some(ctx, from, to, selection{}, fn)
}

// some is each for the messages that x selects. Positions are among all nodes of the tiles' partitions.
func (b *edgeBuilder) some(ctx context.Context, from, to Tile, x selection, fn func(d, s uint32, e about)) error {
	if b.only > 0 {
		all := fn
		fn = func(d, s uint32, e about) {
			if int(e.relation) == b.only-1 {
				all(d, s, e)
			}
		}
	}
	if x.to == nil {
		x.to = &nodeSet{parts: b.parts}
	}
	for j := range b.parts {
		inTo := to.Lo <= j && j < to.Hi && (x.to.all() || x.to.in(j) > 0)
		mirror := b.mirrors() && from.Lo <= j && j < from.Hi
		if !inTo && !mirror {
			continue
		}
		stripe, err := b.read(ctx, j)
		if err != nil {
			return err
		}
		if inTo {
			err = b.forwards(&stripe, j, from, to, x, fn)
		}
		if mirror && err == nil {
			err = b.backwards(&stripe, j, from, to, x, fn)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read reads stripe j and what its edges carry.
func (b *edgeBuilder) read(ctx context.Context, j int) (blocks.Stripe, error) {
	stripe, buf, err := b.src.ReadStripe(ctx, store.PartitionID(j), b.stripe)
	if err != nil {
		return stripe, err
	}
	b.stripe = buf
	b.bytes += int64(len(buf))
	if err := b.readTypes(ctx, j, stripe.Edges()); err != nil {
		return stripe, err
	}
	if b.weights, err = b.values(ctx, b.weight, j, stripe.Edges(), b.weights); err != nil {
		return stripe, err
	}
	for i, c := range b.features {
		if b.rows[i], err = b.values(ctx, c, j, stripe.Edges(), b.rows[i]); err != nil {
			return stripe, err
		}
	}
	return stripe, nil
}

// offset is where partition p begins among the nodes of the partitions from lo on.
func (b *edgeBuilder) offset(lo, p int) uint32 {
	return uint32(b.parts[p].First - b.parts[lo].First)
}

// taker is fn, or what is told of edges to partition to from partition from instead.
func (x *selection) taker(to, from int, fn func(d, s uint32, e about)) func(d, s uint32, e about) {
	switch {
	case x.wants == nil || x.wants(to, from):
		return fn
	case x.left == nil:
		return nil
	}
	return func(d, _ uint32, _ about) { x.left(d) }
}

// forwards calls fn for the messages along the edges of stripe j, which is of Tile to.
func (b *edgeBuilder) forwards(stripe *blocks.Stripe, j int, from, to Tile, x selection, fn func(d, s uint32, e about)) error {
	base := b.offset(to.Lo, j)
	for i := from.Lo; i < from.Hi; i++ {
		off, take := b.offset(from.Lo, i), x.taker(j, i, fn)
		if take == nil {
			continue
		}
		keep := kept{of: x.to, first: uint64(b.parts[j].First)}
		n, err := b.bucket(stripe, i, keep, func(d, s uint32, e about) { take(base+d, off+s, e) })
		if err != nil {
			return err
		}
		if x.edges != nil {
			x.edges[j] += n
		}
	}
	return nil
}

// backwards calls fn for the messages against the edges of stripe j, which is of Tile from.
func (b *edgeBuilder) backwards(stripe *blocks.Stripe, j int, from, to Tile, x selection, fn func(d, s uint32, e about)) error {
	base := b.offset(from.Lo, j)
	for i := to.Lo; i < to.Hi; i++ {
		take := x.taker(i, j, fn)
		if take == nil || !x.to.all() && x.to.in(i) == 0 {
			continue
		}
		off := b.offset(to.Lo, i)
		keep := kept{of: x.to, first: uint64(b.parts[i].First), sources: true}
		n, err := b.bucket(stripe, i, keep, func(d, s uint32, e about) {
			if i != j || d != s || b.inverse > 0 {
				e.relation += b.inverse
				take(off+s, base+d, e)
			}
		})
		if err != nil {
			return err
		}
		if x.edges != nil {
			x.edges[i] += n
		}
	}
	return nil
}

// readTypes reads the relations of stripe j's edges, if they are wanted.
func (b *edgeBuilder) readTypes(ctx context.Context, j int, edges uint64) (err error) {
	if b.types, err = b.values(ctx, b.relation, j, edges, b.types); err != nil || b.relation == nil {
		return err
	}
	for e := range edges {
		if r := b.typeOf(int(e)); int(r) >= b.relations {
			return fmt.Errorf("evaluation: %w: edge %d of stripe %d has relation %d, the store has %d", blocks.ErrCorrupt, e, j, r, b.relations)
		}
	}
	return nil
}

// values reads a column's values of stripe j's edges to dst; a column of nil is not read.
func (b *edgeBuilder) values(ctx context.Context, c *store.ColumnInfo, j int, edges uint64, dst []byte) ([]byte, error) {
	if c == nil {
		return nil, nil
	}
	dst, err := b.src.ReadColumn(ctx, c.Name, store.PartitionID(j), dst)
	if err != nil {
		return nil, err
	}
	stored, err := b.src.ColumnBytes(c.Name, store.PartitionID(j))
	if err != nil {
		return nil, err
	}
	b.bytes += stored
	if want := edges * uint64(c.RowBytes()); uint64(len(dst)) != want {
		return nil, fmt.Errorf("evaluation: column %s of stripe %d has %d bytes, expected %d", c.Name, j, len(dst), want)
	}
	return dst, nil
}

// about is what an edge carries.
type about struct {
	relation uint16  // 0 if none are read
	weight   float32 // as it counts ([buffer.Weight]); 0 if none are read
	edge     int     // its number in the stripe
}

// aboutOf returns what edge e of the stripe last read carries.
func (b *edgeBuilder) aboutOf(e int) (a about) {
	a.relation, a.edge = b.typeOf(e), e
	if b.weight != nil {
		a.weight = float32(buffer.Weight(math.Float32frombits(binary.LittleEndian.Uint32(b.weights[4*e:]))))
	}
	return a
}

// typeOf returns the relation of edge e of the stripe last read.
func (b *edgeBuilder) typeOf(e int) uint16 {
	switch {
	case b.relation == nil:
		return 0
	case b.relation.Elem == blocks.Uint8:
		return uint16(b.types[e])
	}
	return binary.LittleEndian.Uint16(b.types[2*e:])
}

// kept is which edges of a bucket are passed on: those to, or with sources from, nodes of a set. first is the first node of their partition.
type kept struct {
	of      *nodeSet
	first   uint64
	sources bool
}

// bucket calls fn(dst, src, what the edge carries) for the edges of bucket i of a stripe that are kept, and returns how many there are.
func (b *edgeBuilder) bucket(stripe *blocks.Stripe, i int, keep kept, fn func(d, s uint32, e about)) (int64, error) {
	k, err := stripe.Bucket(i)
	if err != nil || k.Edges == 0 {
		return 0, err
	}
	first := int(stripe.FirstEdge(i))
	carried := func(e int) about { return b.aboutOf(first + e) }
	switch {
	case k.Dst16 != nil && k.Src16 != nil:
		return runs(k.Starts, k.Dst16, k.Src16, keep, carried, fn), nil
	case k.Dst16 != nil:
		return runs(k.Starts, k.Dst16, k.Src32, keep, carried, fn), nil
	case k.Src16 != nil:
		return runs(k.Starts, k.Dst32, k.Src16, keep, carried, fn), nil
	}
	return runs(k.Starts, k.Dst32, k.Src32, keep, carried, fn), nil
}

func runs[D, S uint16 | uint32](starts []uint64, dst []D, src []S, keep kept, carried func(e int) about, fn func(d, s uint32, e about)) int64 {
	r, words, n := -1, keep.of.words, int64(0)
	if words == nil {
		for e, s := range src {
			r += int(starts[e/64] >> (e % 64) & 1)
			fn(uint32(dst[r]), uint32(s), carried(e))
		}
		return int64(len(src))
	}
	for e, s := range src {
		r += int(starts[e/64] >> (e % 64) & 1)
		v := keep.first + uint64(dst[r])
		if keep.sources {
			v = keep.first + uint64(s)
		}
		if words[v/64]>>(v%64)&1 > 0 {
			fn(uint32(dst[r]), uint32(s), carried(e))
			n++
		}
	}
	return n
}

func asInt32(b []byte) []int32 {
	if len(b) < 4 {
		return nil
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(&b[0])), len(b)/4)
}
