package buffer

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store"
)

// Assembly makes the adjacency over resident rows from edge buckets by counting
// and copying, without a sort: the neighbours of a row are, bucket after
// bucket, runs that are already in order. Three streams feed the
// rows of a partition:
//
//   - sorted: bucket (i, j) feeds the in-neighbours of j in its own order;
//   - scattered: bucket (j, k) feeds the out-neighbours of j (or, mirrored, the
//     in-neighbours where the graph is undirected): a counting sort by src;
//   - kept: neighbours in partitions that were resident in the last step too are
//     copied from its adjacency; their buckets are neither read nor decoded.
//
// A partition's edges begin where the directories say that those before it
// end, so partitions are assembled in parallel and the result does not depend
// on the number of threads. Beside the result, assembly needs the bytes of the
// new buckets (at most 4.2 bytes an edge) and 8 bytes a node of one partition
// and thread.
type assembler struct {
	src     *source
	buf     *memory
	layout  *layout
	threads int

	topology *topologyPlan // of the step
	staging  []byte        // where it lies
	buckets  [][]newBucket // of the partition that a thread works at
	table    []int32       // granule of rows → partition kept there, −1 = none
}

// newBucket is a bucket that was read for this step.
type newBucket struct {
	blocks.Bucket
	rel8     []uint8
	rel16    []uint16
	weights  []float32
	codes    []byte // of weights, instead of them
	times    []int64
	features []bucketFeature // of source.edgeFeatures
}

// bucketFeature is a bucket's part of a column of features.
type bucketFeature struct {
	rows   []byte
	values []float32 // which rows are codes of; nil = none
}

type streamKind uint8

const (
	sortedStream streamKind = iota
	scatteredStream
	keptStream
)

// stream feeds a partition's rows with neighbours in one partition, or in
// several if they are kept.
type stream struct {
	kind    streamKind
	bucket  *newBucket
	base    uint32 // first row of the neighbours' partition
	noLoops bool   // leave out edges from a node to itself: the sorted stream has them
	last    int32  // kept: the last partition of the group
	run     int    // cursor of a sorted stream
	edge    int
}

// assembleStats is what one assembly did.
type assembleStats struct {
	edges    int64 // of the directions made together
	newEdges int64 // decoded from buckets; the others were copied
}

// assemble fills frame s.frame from what t staged and the last step's frame.
func (a *assembler) assemble(ctx context.Context, s *scheduled, t *topologyPlan, staging []byte, last int) (assembleStats, error) {
	var st assembleStats
	var err error
	a.topology, a.staging = t, staging
	if st.newEdges, err = a.check(ctx, s); err != nil {
		return st, err
	}
	n := len(s.resident)
	for k := range a.table {
		a.table[k] = -1
	}
	for b, p := range s.resident {
		if s.kept[b] {
			slot := a.layout.slots[s.slot[b]]
			for g := slot.base >> a.layout.shift; g < (slot.base+slot.rows)>>a.layout.shift; g++ {
				a.table[g] = int32(p.ID)
			}
		}
	}
	for dir := range a.buf.directions {
		to := a.buf.adjacency(s.frame, dir)
		var from *Adjacency
		if slices.Contains(s.kept, true) {
			from = a.buf.adjacency(last, dir)
		}
		begin := make([]int64, n+1)
		for b := range n {
			begin[b+1] = begin[b] + a.regionEdges(s, dir, b)
		}
		if begin[n] > int64(len(to.Indices)) {
			return st, fmt.Errorf("%w: step %d of epoch %d has %d edges, the buffer has room for %d", store.ErrInvalid, s.index, s.epoch, begin[n], len(to.Indices))
		}
		a.clearAbsent(s, to)
		order := make([]int, n)
		for b := range order {
			order[b] = b
		}
		slices.SortStableFunc(order, func(x, y int) int {
			return cmp.Compare(begin[y+1]-begin[y], begin[x+1]-begin[x])
		})
		err := a.parallel(ctx, n, func(worker, k int) error {
			b := order[k]
			return a.partition(s, dir, b, to, from, begin[b], begin[b+1], worker)
		})
		if err != nil {
			return st, err
		}
		st.edges += begin[n]
	}
	return st, nil
}

// check opens and checks the step's new buckets, and returns how many edges they have.
func (a *assembler) check(ctx context.Context, s *scheduled) (edges int64, err error) {
	var sum atomic.Int64
	err = a.parallel(ctx, len(s.resident), func(_, b int) error {
		for c := range s.resident {
			k, err := a.open(s, b, c, true)
			if err != nil {
				return err
			}
			sum.Add(int64(k.Edges))
		}
		return nil
	})
	return sum.Load(), err
}

// open opens the bucket of the edges from resident partition c into b, and checks what it holds if it is asked to; one
// without edges where the last step's adjacency has them. A list of all opened ones would take 300 bytes for each pair of
// partitions, 75 MiB where a store has 512, and opening one again takes no longer than making that list did.
func (a *assembler) open(s *scheduled, b, c int, check bool) (k newBucket, err error) {
	p, i := int(s.resident[b].ID), int(s.resident[c].ID)
	d := &a.src.dirs[p]
	if s.kept[b] && s.kept[c] || d.BucketEdges(i) == 0 {
		return k, nil
	}
	from, to := d.Range(i, i+1)
	k.Bucket, err = d.Bucket(i, a.topology.stripes[b].find(a.staging, from, to))
	if err == nil && check {
		err = k.Check()
	}
	if err != nil {
		return k, a.topology.stripes[b].x.locate(err)
	}
	for n, col := range a.src.carried {
		w := col.rowBytes(p)
		at := &a.topology.columns[n][b]
		raw := at.find(a.staging, int64(d.FirstEdge(i))*w, int64(d.FirstEdge(i+1))*w)
		if err := k.carry(a.src, n, raw, col.coded(p), check); err != nil {
			return k, at.x.locate(err)
		}
	}
	return k, nil
}

// carry sets the bucket's part of column n of those that go beside the neighbours.
func (k *newBucket) carry(src *source, n int, raw []byte, coded, check bool) (err error) {
	col := src.carried[n]
	if check && coded && len(raw) > 0 && int(slices.Max(raw)) >= len(col.info.Values) {
		return fmt.Errorf("%w: code %d in a column of %d values", blocks.ErrCorrupt, slices.Max(raw), len(col.info.Values))
	}
	switch {
	case n >= len(src.carried)-len(src.edgeFeatures):
		f := bucketFeature{rows: raw}
		if coded {
			f.values = col.info.Values
		}
		k.features = append(k.features, f)
	case coded:
		k.codes = raw
	case col == src.weight:
		k.weights, err = blocks.View[float32](raw)
	case col == src.time:
		k.times, err = blocks.View[int64](raw)
	case col.stride == 1:
		k.rel8 = raw
	default:
		k.rel16, err = blocks.View[uint16](raw)
	}
	return err
}

// regionEdges returns how many edges resident partition b's rows have room for in
// direction dir: exactly what they get, but for loops of undirected graphs.
func (a *assembler) regionEdges(s *scheduled, dir, b int) int64 {
	j := int(s.resident[b].ID)
	var n uint64
	for _, r := range s.resident {
		i := int(r.ID)
		if dir == 0 {
			n += a.src.dirs[j].BucketEdges(i)
		}
		if dir == 1 || a.src.m.Schema.Undirected {
			n += a.src.dirs[i].BucketEdges(j)
		}
	}
	return int64(n)
}

// clearAbsent empties the spans of all slots that the step does not use, and
// of the rows after a partition's last node.
func (a *assembler) clearAbsent(s *scheduled, to *Adjacency) {
	row := 0
	byBase := slices.Clone(s.resident)
	slices.SortFunc(byBase, func(x, y ResidentPartition) int { return cmp.Compare(x.Base, y.Base) })
	for _, p := range byBase {
		clear(to.Spans[row:p.Base])
		row = int(p.Base + p.Nodes)
	}
	clear(to.Spans[row:])
}

// streams lists what feeds the rows of resident partition b, in the order of neighbours. Their buckets are the worker's.
func (a *assembler) streams(s *scheduled, dir, b, worker int) ([]stream, error) {
	n := len(s.resident)
	undirected := a.src.m.Schema.Undirected
	buckets := slices.Grow(a.buckets[worker][:0], 2*n) // which streams point to
	defer func() { a.buckets[worker] = buckets }()
	var out []stream
	feed := func(b, c int, x stream) error {
		k, err := a.open(s, b, c, false)
		if err == nil && k.Edges > 0 {
			buckets = append(buckets, k)
			x.bucket = &buckets[len(buckets)-1]
			out = append(out, x)
		}
		return err
	}
	for c := range n {
		if s.kept[b] && s.kept[c] {
			if k := len(out); k > 0 && out[k-1].kind == keptStream {
				out[k-1].last = int32(s.resident[c].ID)
			} else {
				out = append(out, stream{kind: keptStream, last: int32(s.resident[c].ID)})
			}
			continue
		}
		base := s.resident[c].Base
		if dir == 0 {
			if err := feed(b, c, stream{kind: sortedStream, base: base, run: -1}); err != nil {
				return nil, err
			}
		}
		if dir == 1 || undirected {
			if err := feed(c, b, stream{kind: scatteredStream, base: base, noLoops: undirected && b == c}); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// scratchArrays of one element a node is what a thread works with: cursors into the
// new and the old rows.
const scratchArrays = 2

// tileEdges is about how many edges of a partition are filled from all sorted
// streams before the next: 256 KiB of result, which stays in the L2 cache while each
// stream adds its few edges to every row.
const tileEdges = 64 << 10

// partition fills the rows of resident partition b: Indices[begin:end].
func (a *assembler) partition(s *scheduled, dir, b int, to, from *Adjacency, begin, end int64, worker int) error {
	// Cursors count from begin and have 32 bits.
	if end-begin > math.MaxUint32 {
		return fmt.Errorf("%w: partition %d has %d resident edges, most %d", store.ErrInvalid, s.resident[b].ID, end-begin, uint32(math.MaxUint32))
	}
	rows, base := int(s.resident[b].Nodes), s.resident[b].Base
	scratch := func(k int) []uint32 {
		n := a.layout.nodesMax + 1
		return elements[uint32](a.buf, a.buf.scratch)[(worker*scratchArrays+k)*n:][:rows]
	}
	f := filler{
		pos:   scratch(0),
		out:   to.Indices[begin:end],
		table: a.table,
		shift: a.layout.shift,
	}
	if a.src.relation != nil { // else all are of relation 0, as the memory begins
		f.outRel = to.Relations[begin:end]
	}
	// Neighbours in partitions that stay come from the last step's rows of b, wherever these lay in Indices: oldPos counts
	// from the first of them.
	streams, err := a.streams(s, dir, b, worker)
	if err != nil {
		return err
	}
	if from != nil && s.kept[b] && rows > 0 {
		f.old = from.Spans[base : int(base)+rows]
		f.oldIndices = from.Indices
		f.oldRel = from.Relations
		f.oldPos = scratch(1)
		f.oldBegin = f.old[0].Begin
		f.rewind()
	}
	// First pass: pos[r] becomes the degree of local row r over all streams.
	clear(f.pos)
	for k := range streams {
		f.count(&streams[k])
	}
	// A prefix sum turns degrees into places: pos[r] is now where row r's next neighbour goes. The span is the room, which
	// fillers use up exactly, since they walk the edges that were counted.
	spans := to.Spans[base : int(base)+rows]
	at := uint32(0)
	for r, n := range f.pos {
		f.pos[r] = at
		spans[r] = Span{begin + int64(at), begin + int64(at) + int64(n)}
		at += n
	}
	// Counting moved the cursors over the old neighbours.
	if f.old != nil {
		f.rewind()
	}
	// Second pass. Streams stand in the order of neighbours. Those before the first scattered one know where a row's edges
	// are and take the rows tile by tile; a scattered one jumps between rows and takes them all, so it, and whatever comes
	// after it, waits until the others are through.
	tiled := 0
	for tiled < len(streams) && streams[tiled].kind != scatteredStream {
		tiled++
	}
	step := rows // of a tile, so that it has about tileEdges edges
	if int(at) > tileEdges {
		step = max(1, int(int64(rows)*tileEdges/int64(at)))
	}
	for lo := 0; lo < rows && tiled > 0; lo += step {
		for k := range streams[:tiled] {
			f.fill(&streams[k], lo, min(rows, lo+step))
		}
	}
	for k := range streams[tiled:] {
		f.fill(&streams[tiled+k], 0, rows)
	}
	// Weights, times and features take the same ways once more, each on its own: most runs carry none.
	if from == nil {
		from = &Adjacency{}
	}
	if to.Weights != nil {
		f.fillCarried(streams, spans, carriedWeights(to.Weights[begin:end], from.Weights, a.src.weight.info.Values))
	}
	if to.Times != nil {
		f.fillCarried(streams, spans, carriedScalars(to.Times[begin:end], nil, func(k *newBucket) []int64 { return k.times }))
	}
	if dim := int64(to.FeatureDim); dim > 0 {
		f.fillCarried(streams, spans, carriedRows(to.Features[begin*dim:end*dim], from.Features, to.FeatureDim, a.src.edgeFeatures))
	}
	return nil
}

// parallel runs f(worker, 0 … n−1) on up to a.threads goroutines and returns
// the error of the smallest index that failed.
func (a *assembler) parallel(ctx context.Context, n int, f func(worker, k int) error) error {
	if a.threads <= 1 || n <= 1 {
		for k := range n {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := f(0, k); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, n)
	var next atomic.Int64
	var wg panics.Group
	for w := range min(a.threads, n) {
		wg.Go(func() {
			for {
				k := int(next.Add(1) - 1)
				if k >= n || ctx.Err() != nil {
					return
				}
				if errs[k] = f(w, k); errs[k] != nil {
					next.Store(int64(n))
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
