package edges

import (
	"bytes"
	"context"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/scratch"
	"github.com/gstore/gstore/store/internal/sorting"
)

// sortBuffers hold one unit while it is sorted and written, off the Go heap.
type sortBuffers struct {
	mem           []byte
	keys, scratch []uint64
	vals, valTemp []uint32 // with payload: which record a key is of
	payload       []byte
	chunk         []byte // one spilled chunk
	column        []byte // with payload: a column in edge order

	sorted     []uint64
	order      []uint32
	duplicates uint64
}

// sortBytes is what sorting takes for each record.
func sortBytes(payload int) int64 {
	if payload == 0 {
		return 16
	}
	return 16 + 8 + int64(payload) + int64(payload)
}

func newSortBuffers(records int64, payload, chunkBytes int) (*sortBuffers, error) {
	records = (records + 7) &^ 7
	mem, err := scratch.Alloc(records*sortBytes(payload) + int64(chunkBytes))
	if err != nil {
		return nil, err
	}
	b := &sortBuffers{mem: mem}
	take := func(n int64) []byte {
		part := mem[:n:n]
		mem = mem[n:]
		return part
	}
	b.keys, _ = blocks.View[uint64](take(8 * records))
	b.scratch, _ = blocks.View[uint64](take(8 * records))
	b.chunk = take(int64(chunkBytes))
	if payload > 0 {
		b.vals, _ = blocks.View[uint32](take(4 * records))
		b.valTemp, _ = blocks.View[uint32](take(4 * records))
		b.payload = take(records * int64(payload))
		b.column = take(records * int64(payload))
	}
	return b, nil
}

// sortUnit loads a unit, sorts it, and drops duplicates.
func (s *Scatter) sortUnit(b *sortBuffers, u unit) error {
	width := s.Shards.payload
	shift := 2*s.Layout.LocalBits + s.Layout.InlineBits
	n := 0
	err := s.Shards.Read(u.shard, b.chunk, func(keys []uint64, payload []byte) error {
		if u.to == 0 {
			copy(b.keys[n:], keys)
			copy(b.payload[n*width:], payload)
			n += len(keys)
			return nil
		}
		for i, key := range keys {
			if bucket := key >> shift; bucket >= u.from && bucket < u.to {
				b.keys[n] = key
				copy(b.payload[n*width:(n+1)*width], payload[i*width:])
				n++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	keyBits := s.Layout.groupBits + s.Layout.partBits + shift
	if width == 0 {
		b.sorted = sorting.Radix(b.keys[:n], b.scratch, 0, keyBits)
		b.duplicates = 0
		if s.Rules.Drop {
			before := len(b.sorted)
			b.sorted = s.dedupKeys(b.sorted)
			b.duplicates = uint64(before - len(b.sorted))
		}
		return nil
	}
	for i := range n {
		b.vals[i] = uint32(i)
	}
	b.sorted, b.order = sorting.RadixWith(b.keys[:n], b.scratch, b.vals[:n], b.valTemp, 0, keyBits)
	s.orderTies(b, width)
	return nil
}

// dedupKeys drops keys equal in ends and, as the rule says, in relation. Their payload rides in them: the relation
// on top, other columns below it, so that of equal edges the one whose column bytes sort first stays.
func (s *Scatter) dedupKeys(keys []uint64) []uint64 {
	columns := s.Layout.InlineBits - min(s.Layout.InlineBits, uint(8*s.Rules.equalBytes()))
	return slices.CompactFunc(keys, func(a, b uint64) bool { return a>>columns == b>>columns })
}

// orderTies puts records of equal key in the order of their payload bytes, so
// that the result does not depend on arrival, and drops duplicates.
func (s *Scatter) orderTies(b *sortBuffers, width int) {
	row := func(v uint32) []byte { return b.payload[int(v)*width : (int(v)+1)*width] }
	rel := s.Rules.equalBytes()
	keys, order, out := b.sorted, b.order, 0
	for i := 0; i < len(keys); {
		j := i + 1
		for j < len(keys) && keys[j] == keys[i] {
			j++
		}
		if j > i+1 {
			slices.SortFunc(order[i:j], func(x, y uint32) int { return bytes.Compare(row(x), row(y)) })
		}
		for k := i; k < j; k++ {
			if s.Rules.Drop && k > i && bytes.Equal(row(order[k])[:rel], row(order[out-1])[:rel]) {
				continue
			}
			keys[out], order[out] = keys[k], order[k]
			out++
		}
		i = j
	}
	b.duplicates = uint64(len(keys) - out)
	b.sorted, b.order = keys[:out], order[:out]
}

// Write sorts the shards and writes the edge files: threads goroutines sort
// units ahead, one writes them in order. memory bounds the buffers.
func (s *Scatter) Write(ctx context.Context, f *Files, memory int64, threads int, done func(n int64)) (*Counts, error) {
	width := s.Shards.payload
	// Fewer units under way when memory is short: each may then be larger.
	shardMax := int64(0)
	for k := range s.Shards.Lists {
		shardMax = max(shardMax, s.Shards.Lists[k].Records)
	}
	sets, capacity := threads+1, int64(0)
	for ; ; sets-- {
		capacity = min((memory/int64(sets)-int64(s.Shards.ChunkBytes))/sortBytes(width), 1<<31)
		if capacity >= shardMax || sets == 1 {
			break
		}
	}
	units, err := s.planUnits(max(capacity, 1<<10))
	if err != nil {
		return nil, err
	}
	largest := int64(0)
	for _, u := range units {
		largest = max(largest, u.records)
	}
	sets = min(sets, len(units))
	free := make(chan *sortBuffers, sets)
	for range sets {
		b, err := newSortBuffers(largest, width, s.Shards.ChunkBytes)
		if err != nil {
			return nil, err
		}
		defer scratch.Free(b.mem)
		free <- b
	}
	g, ctx := panics.WithContext(ctx)
	results := make(chan chan *sortBuffers, sets)
	g.Go(func() error {
		defer close(results)
		for _, u := range units {
			var b *sortBuffers
			select {
			case b = <-free:
			case <-ctx.Done():
				return ctx.Err()
			}
			r := make(chan *sortBuffers, 1)
			g.Go(func() error {
				defer close(r)
				if err := s.sortUnit(b, u); err != nil {
					return err
				}
				r <- b
				return nil
			})
			results <- r // has room: there are no more units under way than buffers
		}
		return nil
	})
	w := newEdgeWriter(s, f)
	g.Go(func() error {
		k := 0
		for r := range results {
			b, ok := <-r
			if !ok {
				return ctx.Err() // the sorter's error comes from the group
			}
			if err := w.unit(units[k], b); err != nil {
				return err
			}
			k++
			done(int64(len(b.sorted)) + int64(b.duplicates))
			free <- b
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return w.finish()
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return &w.counts, nil
}

// edgeWriter turns sorted units into files. Where edges are appended to a store
// (s.old), rows without new edges are left out, and the others begin with what they hold there.
type edgeWriter struct {
	s       *Scatter
	f       *Files
	enc     *blocks.StripeEncoder
	stripe  int  // the last stripe begun; −1 before the first
	open    bool // whether it is
	counts  Counts
	columns [][]byte // of a bucket, in the order of Files.all
	merged  bucketMerge
}

func newEdgeWriter(s *Scatter, f *Files) *edgeWriter {
	return &edgeWriter{s: s, f: f, enc: blocks.NewStripeEncoder(f.Topology, s.Layout.Sizes), stripe: -1,
		counts: Counts{Rows: make([]uint64, s.Layout.Partitions()), Written: make([]bool, s.Layout.Partitions()), Relations: make([]uint64, max(1, s.Rules.Relations)), RelationsGone: make([]uint64, max(1, s.Rules.Relations))}}
}

// advance closes the open stripe and writes empty ones until stripe is open.
func (w *edgeWriter) advance(stripe int) error {
	for w.stripe < stripe {
		if err := w.endRow(); err != nil {
			return err
		}
		w.stripe++
		if w.s.Old != nil { // rows between that are in the store stay as they are
			w.stripe = max(w.stripe, min(stripe, w.s.Old.partitions))
		}
		if w.stripe == len(w.s.Layout.Sizes) {
			return nil
		}
		for _, f := range w.f.All() {
			if err := f.Begin(uint64(w.stripe)); err != nil {
				return err
			}
		}
		if err := w.enc.Begin(store.PartitionID(w.stripe)); err != nil {
			return err
		}
		w.open = true
		if w.s.Old != nil {
			if err := w.s.Old.begin(w.stripe); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *edgeWriter) endRow() error {
	if !w.open {
		return nil
	}
	w.open = false
	if w.s.Old != nil {
		if err := w.copyOld(len(w.s.Layout.Sizes)); err != nil {
			return err
		}
	}
	edges, err := w.enc.End()
	if err != nil {
		return err
	}
	w.counts.Rows[w.stripe], w.counts.Written[w.stripe] = edges, true
	w.counts.Stored += edges
	for _, f := range w.f.All() {
		if err := f.End(edges); err != nil {
			return err
		}
	}
	return nil
}

func (w *edgeWriter) finish() error { return w.advance(len(w.s.Layout.Sizes)) }

// unit writes one unit's buckets.
func (w *edgeWriter) unit(u unit, b *sortBuffers) error {
	l := w.s.Layout
	w.counts.Duplicates += b.duplicates
	keys := b.sorted
	lb, inline := l.LocalBits, l.InlineBits
	shift := 2*lb + inline
	mask := uint64(1)<<lb - 1
	for i := 0; i < len(keys); {
		bucket := keys[i] >> shift
		j := i + bucketEnd(keys[i:], bucket, shift)
		group, src := bucket>>l.partBits, store.PartitionID(bucket&(1<<l.partBits-1))
		if err := w.advance(u.shard<<l.groupBits + int(group)); err != nil {
			return err
		}
		run := keys[i:j]
		w.extract(b, run, i, j)
		for k, key := range run {
			key >>= inline
			run[k] = key>>lb&mask<<32 | key&mask
		}
		columns := w.columns
		var err error
		if w.s.Old != nil {
			run, columns, err = w.mergeOld(int(src), run)
		} else {
			w.countRelations(columns, len(run))
		}
		if err == nil && len(run) > 0 {
			err = w.bucket(src, run, columns)
		}
		if err != nil {
			return err
		}
		i = j
	}
	return nil
}

// bucketEnd returns how many of the sorted keys are of the bucket.
func bucketEnd(keys []uint64, bucket uint64, shift uint) int {
	for n, k := range keys {
		if k>>shift != bucket {
			return n
		}
	}
	return len(keys)
}

// bucket writes a bucket: sorted keys, and the rows of each column.
func (w *edgeWriter) bucket(src store.PartitionID, keys []uint64, columns [][]byte) error {
	for c, f := range w.f.All()[1:] {
		if _, err := f.Write(columns[c]); err != nil {
			return err
		}
	}
	return w.enc.Bucket(src, keys)
}

// extract collects the columns of records i ≤ k < j, whose keys are run, in w.columns.
func (w *edgeWriter) extract(b *sortBuffers, run []uint64, i, j int) {
	r := &w.s.Rules
	at, c := 0, 0
	put := func(n int) {
		if c == len(w.columns) {
			w.columns = append(w.columns, nil)
		}
		out := w.columns[c][:0]
		if w.s.Layout.InlineBits > 0 {
			for _, key := range run {
				for k := range n {
					out = append(out, byte(key>>(w.s.Layout.InlineBits-8*uint(at+k+1))))
				}
			}
		} else {
			width := w.s.Shards.payload
			for _, v := range b.order[i:j] {
				out = append(out, b.payload[int(v)*width+at:int(v)*width+at+n]...)
			}
		}
		w.columns[c] = out
		at += n
		c++
	}
	if n := r.RelationBytes(); n > 0 {
		put(n)
	}
	for k := range r.Columns {
		put(r.Columns[k].RowBytes())
	}
}

// countRelations counts n edges, of the relations of the first column if there are any.
func (w *edgeWriter) countRelations(columns [][]byte, n int) {
	width := w.s.Rules.RelationBytes()
	var relations []byte
	if width > 0 {
		relations = columns[0]
	}
	countRelations(w.counts.Relations, relations, n, width)
}

// countRelations adds n edges to counts, of the first relation where none are told, else of relations, each of so many bytes.
func countRelations(counts []uint64, relations []byte, n, width int) {
	if width == 0 {
		counts[0] += uint64(n)
		return
	}
	for k := 0; k < n*width; k += width {
		counts[relationAt(relations[k:], width)]++
	}
}

// relationAt decodes a relation of so many bytes.
func relationAt(b []byte, width int) uint32 {
	if width == 2 {
		return uint32(b[0]) | uint32(b[1])<<8
	}
	return uint32(b[0])
}
