package eval

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

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
