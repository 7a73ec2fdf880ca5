package link

import (
	"slices"
	"unsafe"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/sampler/negative"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// examples are the edges of a macro-batch that its step trains, those of Step.Buckets and of a relation, numbered
// by destination's partition and internal id, whatever slots the partitions lie in. No edge is copied: of every so
// many it is known where in the adjacency they are, and others are found by walking on from there.
type examples struct {
	in         *buffer.Adjacency
	partitions []buffer.ResidentPartition
	trained    []bool // [source × destination], by position in partitions; nil: all
	relation   int    // whose edges are trained; −1: all
	every      uint64 // edges from one place to the next
	places     []place
	n          uint64
}

// place is an edge in the adjacency.
type place struct {
	at  int64  // its neighbour's, in Indices
	dst uint32 // its row
	to  uint32 // that row's partition, by position
}

// placesMax bounds the memory of places, 1 MiB: an entry for each edge of a small step, one for 900 of them where
// 60 million are resident.
const placesMax = 1 << 16

// newExamples looks at the edges of mb, of one relation or, with −1, of all, once and keeps at most so many places, in the room of an
// earlier step's, which may be nil.
func newExamples(mb *buffer.MacroBatch, relation int, room []place, most uint64) *examples {
	x := &examples{in: mb.In, partitions: mb.Partitions, places: room[:0], relation: relation}
	if mb.In.Relations == nil { // there is one
		x.relation = -1
	}
	n, edges := len(mb.Partitions), uint64(0)
	for _, to := range mb.Partitions {
		for _, span := range mb.In.Spans[to.Base : to.Base+to.Nodes] {
			edges += uint64(span.End - span.Begin)
		}
	}
	x.every = max(1, (edges+most-1)/most)
	x.places = slices.Grow(x.places, int((edges+x.every-1)/x.every))
	if len(mb.Step.Buckets) < n*n {
		x.trained = make([]bool, n*n)
		position := make(map[store.PartitionID]int, n)
		for i, p := range mb.Partitions {
			position[p.ID] = i
		}
		for _, b := range mb.Step.Buckets {
			x.trained[position[b.Src]*n+position[b.Dst]] = true
		}
	}
	x.walk(place{at: -1}, func(p place, end int64) bool {
		for k := (x.n + x.every - 1) / x.every * x.every; k < x.n+uint64(end-p.at); k += x.every {
			x.places = append(x.places, place{p.at + int64(k-x.n), p.dst, p.to})
		}
		x.n += uint64(end - p.at)
		return true
	})
	return x
}

// walk calls f with trained edges in order until it returns false: with the first of edges that lie
// next to each other and lead to one row, and where they end. It begins at from, or with the first edge of all if from.at is −1.
func (x *examples) walk(from place, f func(p place, end int64) bool) {
	for to := from.to; int(to) < len(x.partitions); to++ {
		p := x.partitions[to]
		dst := p.Base
		if from.at >= 0 {
			dst = from.dst
		}
		for ; dst < p.Base+p.Nodes; dst++ {
			span := x.in.Spans[dst]
			if from.at >= 0 {
				span.Begin, from.at = from.at, -1
			}
			for span.Begin < span.End {
				end, trained := x.run(span.Begin, span.End, to)
				if trained && !f(place{span.Begin, dst, to}, end) {
					return
				}
				span.Begin = end
			}
		}
	}
}

// run returns where the edges from the source partition of the first one end, before end, and whether they are trained: of a relation
// those that are alike in whether they are of it.
func (x *examples) run(begin, end int64, to uint32) (int64, bool) {
	if x.relation >= 0 {
		wanted := int(x.in.Relations[begin]) == x.relation
		k := begin + 1
		for k < end && (int(x.in.Relations[k]) == x.relation) == wanted {
			k++
		}
		if end = k; !wanted {
			return end, false
		}
	}
	if x.trained == nil {
		return end, true
	}
	row := x.in.Indices[begin]
	for i, p := range x.partitions {
		if row-p.Base >= p.Nodes { // rows below Base wrap around
			continue
		}
		k := begin + 1
		for k < end && x.in.Indices[k]-p.Base < p.Nodes {
			k++
		}
		return k, x.trained[i*len(x.partitions)+int(to)]
	}
	return begin + 1, false // not in the macro-batch: an edge of no bucket
}

// edge returns edge k < n.
func (x *examples) edge(k uint64) (src, dst uint32, relation uint16) {
	left := int64(k % x.every)
	x.walk(x.places[k/x.every], func(p place, end int64) bool {
		if left >= end-p.at {
			left -= end - p.at
			return true
		}
		at := p.at + left
		if x.in.Relations != nil {
			relation = x.in.Relations[at]
		}
		src, dst = x.in.Indices[at], p.dst
		return false
	})
	return src, dst, relation
}

// source makes the batches of a pass over a macro-batch's examples, in an order keyed
// by (seed, epoch, step, pass). Safe for concurrent use.
type source struct {
	mini.Share
	x         *examples
	order     keyed.Permutation
	size      int
	relations int
	key       mini.Key
	negatives *negative.Sampler
	perChunk  int
	answers   *answers
	hide      bool                                // leave a batch's edges out of its neighbourhoods
	kept      keyed.Key                           // draws those that stay all the same, with the batch's number
	keep      float64                             // their share
	absent    *absent                             // numbers the rows that are sampled from; nil: they are the macro-batch's
	finish    func(b *mini.Batch, e *Edges) error // of [LoaderOptions]; nil: nothing
}

// Edges are a mini-batch's examples, as places among its Seeds: each edge is asked for by its tail and by its head, and the
// edges of a chunk share the wrong answers. They are the batch's, and valid as long.
type Edges struct {
	Heads, Tails []uint32    // by edge
	Relations    []uint32    // by edge
	Negatives    [2][]uint32 // by [negative.Side], chunk by chunk, all of one length
	Order        [2][]uint32 // by side: the edges in the order in which its chunks take them
	Ends         [2][]int    // by side and chunk: where its edges end, in that order
	// Mask names wrong answers that are the right one: (side × edges + place in the side's order) × negatives of a chunk + negative.
	Mask []int64
	// Extra is what [LoaderOptions].Finish makes of the batch, kept from one use of its memory to the next.
	Extra any
}

// EdgesOf returns the examples of a [Loader]'s batch.
func EdgesOf(b *mini.Batch) *Edges { return &b.Extra.(*batchExtra).view }

// batchExtra is what a batch holds beyond its seeds; see nn.LinkBatch.
type batchExtra struct {
	view      Edges // of what follows
	table     mini.Table
	edges     int
	heads     []uint32 // by edge, rows of the macro-batch
	tails     []uint32
	kinds     []uint32
	sides     [2]division
	rows      []uint32 // of questions: first of the macro-batch, then of the batch's seeds
	relations []uint32
	chunks    []int
	mask      []uint32
	// Of a batch whose input is partly absent: where its inputs went, rows of the resident ones, nodes of the others.
	position         []int32
	resident, absent []uint32
}

// Batches implements [mini.SeedSource].
func (s *source) Batches() int { return s.Of(s.x.n, s.size) }

// Seeds implements [mini.SeedSource]: the distinct nodes among a batch's ends and negatives, by rows of the macro-batch, with
// absent by internal ids.
func (s *source) Seeds(i int, dst []uint32, batch *mini.Batch) ([]uint32, error) {
	e, ok := batch.Extra.(*batchExtra)
	if !ok {
		e = &batchExtra{}
		batch.Extra = e
	}
	lo, hi := s.Range(i, s.x.n, s.size)
	n := int(hi - lo)
	e.edges = n
	e.heads, e.tails, e.kinds = resize(e.heads, n), resize(e.tails, n), resize(e.kinds, n)
	for k := range n {
		var r uint16
		e.heads[k], e.tails[k], r = s.x.edge(s.order.At(lo + uint64(k)))
		e.kinds[k] = uint32(r)
	}
	e.rows, e.relations = resize(e.rows, 4*n), resize(e.relations, 2*n)
	e.chunks, e.mask = e.chunks[:0], e.mask[:0]
	key := s.key
	key.Batch = s.Number(i)
	// (head, r, ?), whose answer is the tail, and (tail, r⁻¹, ?), whose answer is the head.
	for side, known := range [][]uint32{negative.Tail: e.heads, negative.Head: e.tails} {
		wanted := [][]uint32{negative.Tail: e.tails, negative.Head: e.heads}[side]
		d, first := &e.sides[side], side*n
		s.answers.divide(d, side, known)
		right := e.rows[2*n+first:][:n]
		for at, k := range d.order {
			e.rows[first+at], right[at] = known[k], wanted[k]
			e.relations[first+at] = e.kinds[k] + uint32(side*s.relations)
		}
		begin := 0
		for c, end := range d.ends {
			drawn := len(e.rows)
			other := d.pools[c]
			if s.answers.mixed {
				other = s.answers.whole[side]
			}
			e.rows = s.negatives.Sample(e.rows, d.pools[c], other, key, negative.Side(side), c)
			e.chunks = append(e.chunks, first+end)
			negative.Mask(right[begin:end], e.rows[drawn:], func(at, k int) {
				e.mask = append(e.mask, uint32((first+begin+at)*(1+s.perChunk)+1+k))
			})
			begin = end
		}
	}
	if s.absent != nil {
		for i, row := range e.rows {
			e.rows[i] = s.absent.nodes[row]
		}
	}
	e.table.Reset()
	return e.table.Map(dst[:0], e.rows, int32s(e.rows)), nil
}

// Finish implements [mini.Finisher]: where hide is set, the batch's edges are taken out of
// the neighbourhoods of their ends: from the tail's incoming and from the
// head's outgoing edges. In a graph of one relation, whose blocks do not tell
// directions apart, an edge the other way round goes with it. With absent, resident inputs are put first.
func (s *source) Finish(b *mini.Batch) error {
	if e := b.Extra.(*batchExtra); len(b.Blocks) > 0 {
		if s.hide {
			for i := range b.Blocks {
				s.hideEdges(b.Key, e, &b.Blocks[i])
			}
		}
		if s.absent != nil {
			s.absent.divide(b, e)
		}
	}
	if s.finish == nil {
		return nil
	}
	return s.finish(b, s.view(b))
}

// view fills in the batch's Edges.
func (s *source) view(b *mini.Batch) *Edges {
	e := b.Extra.(*batchExtra)
	n, v := e.edges, &e.view
	v.Heads, v.Tails, v.Relations = resize(v.Heads, n), resize(v.Tails, n), e.kinds
	each := (len(e.rows) - 4*n) / 2
	for side := range v.Order {
		v.Order[side], v.Ends[side] = e.sides[side].order, e.sides[side].ends
		v.Negatives[side] = e.rows[4*n+side*each:][:each]
	}
	for at, k := range v.Order[negative.Tail] { // e.heads and e.tails are rows of the macro-batch
		v.Heads[k], v.Tails[k] = e.rows[at], e.rows[2*n+at]
	}
	v.Mask = v.Mask[:0]
	for _, k := range e.mask { // the model counts the right answer before the wrong ones
		query, k := int64(k)/int64(1+s.perChunk), int64(k)%int64(1+s.perChunk)
		v.Mask = append(v.Mask, query*int64(s.perChunk)+k-1)
	}
	return v
}

// hideEdges takes a batch's edges, but for the share that stays, out of one of its blocks.
func (s *source) hideEdges(key mini.Key, e *batchExtra, k *mini.Block) {
	n, kept := e.edges, s.kept.With(uint64(key.Batch))
	hide := func(dst, src uint32, relation uint32) {
		for at := k.Indptr[dst]; at < k.Indptr[dst+1]; at++ {
			if k.Indices[at] == int32(src) && (k.Relations == nil || uint32(k.Relations[at]) == relation) {
				k.Indices[at] = mini.Removed
			}
		}
	}
	for side := range e.sides {
		for at, edge := range e.sides[side].order {
			if r := kept.Rand(uint64(edge)); r.Float64() < s.keep { // both ways, on every hop
				continue
			}
			i := side*n + at // a batch's rows number its seeds, which are the first destinations of every block
			hide(e.rows[2*n+i], e.rows[i], e.relations[i])
		}
	}
	k.Compact()
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}

func int32s(x []uint32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}
