package train

import (
	"sort"
	"unsafe"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/sampler/negative"
	"github.com/gstore/gstore/store"
)

// examples are the edges of a macro-batch that its step trains, those of Step.Buckets: runs
// of neighbours in the adjacency, not copies of edges. Edge k is found by bisection. They are numbered
// by destination's partition and internal id, whatever slots the partitions lie in.
type examples struct {
	in   *store.Adjacency
	runs []run
	n    uint64
}

// run is neighbours Indices[begin:…] of one destination, up to the next run's first.
type run struct {
	first uint64 // number of its first edge
	begin int64
	dst   uint32
}

func newExamples(mb *store.MacroBatch) *examples {
	x := &examples{in: mb.In}
	trained := make(map[store.Bucket]bool, len(mb.Step.Buckets))
	for _, b := range mb.Step.Buckets {
		trained[b] = true
	}
	all := len(trained) == len(mb.Partitions)*len(mb.Partitions)
	add := func(begin, end int64, dst uint32) {
		if end > begin {
			x.runs = append(x.runs, run{x.n, begin, dst})
			x.n += uint64(end - begin)
		}
	}
	for _, to := range mb.Partitions {
		for dst := to.Base; dst < to.Base+to.Nodes; dst++ {
			span := mb.In.Spans[dst]
			if all {
				add(span.Begin, span.End, dst)
				continue
			}
			for k := span.Begin; k < span.End; {
				from := partitionOf(mb.Partitions, mb.In.Indices[k])
				begin := k
				for k++; k < span.End && mb.In.Indices[k]-from.Base < from.Nodes; k++ {
				}
				if trained[store.Bucket{Src: from.ID, Dst: to.ID}] {
					add(begin, k, dst)
				}
			}
		}
	}
	return x
}

func partitionOf(ps []store.ResidentPartition, row uint32) store.ResidentPartition {
	for _, p := range ps {
		if row-p.Base < p.Nodes { // rows below Base wrap around
			return p
		}
	}
	return store.ResidentPartition{Base: row, Nodes: 1} // not in the macro-batch: an edge of no bucket
}

// edge returns edge k < n.
func (x *examples) edge(k uint64) (src, dst uint32, relation uint16) {
	i := sort.Search(len(x.runs), func(i int) bool { return x.runs[i].first > k }) - 1
	r := &x.runs[i]
	at := r.begin + int64(k-r.first)
	if x.in.Relations != nil {
		relation = x.in.Relations[at]
	}
	return x.in.Indices[at], r.dst, relation
}

// linkSource makes the batches of a pass over a macro-batch's examples, in an order keyed
// by (seed, epoch, step, pass). Safe for concurrent use.
type linkSource struct {
	x         *examples
	order     keyed.Permutation
	size      int
	relations int
	key       mini.Key
	negatives *negative.Sampler
	perChunk  int
	chunks    int
	pool      *negative.Pool
	hide      bool // leave a batch's edges out of its neighbourhoods
}

// linkExtra is what a batch holds beyond its seeds; see nn.LinkBatch.
type linkExtra struct {
	table     mini.Table
	edges     int
	rows      []uint32 // first of the macro-batch, then of the batch's seeds
	relations []uint32
	chunks    []int
	mask      []uint32
	negatives []uint32
}

// Batches implements [mini.SeedSource].
func (s *linkSource) Batches() int { return int((s.x.n + uint64(s.size) - 1) / uint64(s.size)) }

// Seeds implements [mini.SeedSource]: the distinct nodes among a batch's ends and negatives.
func (s *linkSource) Seeds(i int, dst []uint32, batch *mini.Batch) ([]uint32, error) {
	e, ok := batch.Extra.(*linkExtra)
	if !ok {
		e = &linkExtra{}
		batch.Extra = e
	}
	lo := uint64(i) * uint64(s.size)
	n := int(min(uint64(s.size), s.x.n-lo))
	e.edges = n
	e.rows = resize(e.rows, 4*n)
	e.relations = resize(e.relations, 2*n)
	heads, tails := e.rows[:n], e.rows[n:2*n]
	for k := range n {
		var r uint16
		heads[k], tails[k], r = s.x.edge(s.order.At(lo + uint64(k)))
		e.relations[k], e.relations[n+k] = uint32(r), uint32(int(r)+s.relations)
	}
	copy(e.rows[2*n:3*n], tails) // the answers to (head, r, ?) …
	copy(e.rows[3*n:4*n], heads) // … and to (tail, r⁻¹, ?)
	e.chunks, e.mask = e.chunks[:0], e.mask[:0]
	key := s.key
	key.Batch = i
	for side, ends := range [][]uint32{negative.Tail: tails, negative.Head: heads} {
		e.negatives = s.negatives.Sample(e.negatives, s.pool, key, negative.Side(side))
		for c := range s.chunks {
			_, hi := s.negatives.Chunk(c, n)
			e.chunks = append(e.chunks, side*n+hi)
			s.negatives.Mask(ends, e.negatives, c, func(edge, k int) {
				e.mask = append(e.mask, uint32((side*n+edge)*(1+s.perChunk)+1+k))
			})
		}
		e.rows = append(e.rows, e.negatives...)
	}
	e.table.Reset()
	return e.table.Map(dst[:0], e.rows, int32s(e.rows)), nil
}

// Finish implements [mini.Finisher]: where hide is set, the batch's edges are taken out of
// the neighbourhoods of their ends: from the tail's incoming and from the
// head's outgoing edges. In a graph of one relation, whose blocks do not tell
// directions apart, an edge the other way round goes with it.
func (s *linkSource) Finish(b *mini.Batch) error {
	if !s.hide || len(b.Blocks) == 0 {
		return nil
	}
	e, k := b.Extra.(*linkExtra), &b.Blocks[len(b.Blocks)-1]
	n := e.edges
	hide := func(dst, src uint32, relation uint32) {
		for at := k.Indptr[dst]; at < k.Indptr[dst+1]; at++ {
			if k.Indices[at] == int32(src) && (k.Relations == nil || uint32(k.Relations[at]) == relation) {
				k.Indices[at] = mini.Removed
			}
		}
	}
	for i := range n { // a batch's rows number its seeds, which are the block's destinations
		head, tail := e.rows[i], e.rows[n+i]
		hide(tail, head, e.relations[i])
		hide(head, tail, e.relations[n+i])
	}
	k.Compact()
	return nil
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
