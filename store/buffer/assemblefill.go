package buffer

import "math/bits"

// filler is the state of one partition's assembly. The loops rely on what
// [blocks.Bucket.Check] established and on counting what they then fill, so no id leaves its array.
type filler struct {
	pos    []uint32 // by local row: while counting the degree, while filling where the next neighbour goes
	out    []uint32
	outRel []uint16 // nil if nobody asked

	// Of the last step's adjacency, if the partition was in it:
	old        []Span
	oldPos     []uint32 // by local row: the next old neighbour, from oldBegin
	oldBegin   int64
	oldIndices []uint32
	oldRel     []uint16
	table      []int32
	shift      uint
}

// rewind moves the cursors over old neighbours back to their beginning.
func (f *filler) rewind() {
	for r := range f.oldPos {
		f.oldPos[r] = uint32(f.old[r].Begin - f.oldBegin)
	}
}

// count adds a stream's edges to the degrees in pos.
func (f *filler) count(s *stream) {
	switch s.kind {
	case keptStream:
		f.countKept(s.last)
	case sortedStream:
		if k := s.bucket; k.Dst16 != nil {
			countSorted(k.Dst16, k.Starts, k.Edges, f.pos)
		} else {
			countSorted(k.Dst32, k.Starts, k.Edges, f.pos)
		}
	case scatteredStream:
		k := s.bucket
		switch {
		case s.noLoops && k.Src16 != nil:
			countNoLoops(k.Dst16, k.Src16, k.Starts, f.pos)
		case s.noLoops:
			countNoLoops(k.Dst32, k.Src32, k.Starts, f.pos)
		case k.Src16 != nil:
			countScattered(k.Src16, f.pos)
		default:
			countScattered(k.Src32, f.pos)
		}
	}
}

// fill appends a stream's neighbours to local rows lo … hi−1; a scattered
// stream takes all rows at once.
func (f *filler) fill(s *stream, lo, hi int) {
	if s.kind == keptStream {
		f.fillKept(s.last, lo, hi)
		return
	}
	switch k := s.bucket; {
	case k.Dst16 != nil && k.Src16 != nil:
		fillBucket(f, s, k.Dst16, k.Src16, hi)
	case k.Dst16 != nil:
		fillBucket(f, s, k.Dst16, k.Src32, hi)
	case k.Src16 != nil:
		fillBucket(f, s, k.Dst32, k.Src16, hi)
	default:
		fillBucket(f, s, k.Dst32, k.Src32, hi)
	}
}

func fillBucket[D, S uint16 | uint32](f *filler, s *stream, dst []D, src []S, hi int) {
	switch k := s.bucket; {
	case s.kind == sortedStream && f.outRel == nil:
		fillSorted(s, dst, src, k.Starts, uint32(hi), f.pos, f.out)
	case s.kind == sortedStream && k.rel8 != nil:
		fillSortedRel(s, dst, src, k.rel8, uint32(hi), f)
	case s.kind == sortedStream:
		fillSortedRel(s, dst, src, k.rel16, uint32(hi), f)
	case f.outRel == nil && !s.noLoops:
		fillScattered(dst, src, k.Starts, s.base, f.pos, f.out)
	case k.rel16 != nil:
		fillScatteredAny(s, dst, src, k.rel16, f)
	default:
		fillScatteredAny(s, dst, src, k.rel8, f)
	}
}

// countSorted adds the length of every run to its dst's degree.
func countSorted[D uint16 | uint32](dst []D, starts []uint64, edges int, degree []uint32) {
	run, prev := 0, 0
	for i, w := range starts {
		if i == 0 {
			w &= w - 1 // the first run begins at 0
		}
		for w != 0 {
			at := i<<6 + bits.TrailingZeros64(w)
			w &= w - 1
			degree[dst[run]] += uint32(at - prev)
			prev = at
			run++
		}
	}
	degree[dst[run]] += uint32(edges - prev)
}

// countScattered adds one to the degree of every src.
func countScattered[S uint16 | uint32](src []S, degree []uint32) {
	for _, v := range src {
		degree[v]++
	}
}

// countNoLoops is countScattered without the edges from a node to itself. Both
// ends lie in one partition and have one width.
func countNoLoops[S uint16 | uint32](dst, src []S, starts []uint64, degree []uint32) {
	run := -1
	for e, v := range src {
		run += int(starts[e>>6] >> (e & 63) & 1)
		if v != dst[run] {
			degree[v]++
		}
	}
}

// fillSorted appends the src rows of the stream's edges to their dst, from its
// cursor to the first dst ≥ hi.
func fillSorted[D, S uint16 | uint32](s *stream, dst []D, src []S, starts []uint64, hi uint32, pos, out []uint32) {
	run, base := s.run, s.base
	e := s.edge
	for ; e < len(src); e++ {
		next := run + int(starts[e>>6]>>(e&63)&1)
		d := uint32(dst[next])
		if d >= hi {
			break
		}
		run = next
		p := pos[d]
		out[p] = base + uint32(src[e])
		pos[d] = p + 1
	}
	s.run, s.edge = run, e
}

// fillSortedRel is fillSorted that carries relations.
func fillSortedRel[D, S uint16 | uint32, R uint8 | uint16](s *stream, dst []D, src []S, rel []R, hi uint32, f *filler) {
	starts, run := s.bucket.Starts, s.run
	e := s.edge
	for ; e < len(src); e++ {
		next := run + int(starts[e>>6]>>(e&63)&1)
		d := uint32(dst[next])
		if d >= hi {
			break
		}
		run = next
		p := f.pos[d]
		f.out[p] = s.base + uint32(src[e])
		f.outRel[p] = uint16(rel[e])
		f.pos[d] = p + 1
	}
	s.run, s.edge = run, e
}

// fillScattered appends the dst row of every edge to its src.
func fillScattered[D, S uint16 | uint32](dst []D, src []S, starts []uint64, base uint32, pos, out []uint32) {
	run := -1
	for e, v := range src {
		run += int(starts[e>>6] >> (e & 63) & 1)
		p := pos[v]
		out[p] = base + uint32(dst[run])
		pos[v] = p + 1
	}
}

// fillScatteredAny is fillScattered with loops left out, relations carried, or both.
func fillScatteredAny[D, S uint16 | uint32, R uint8 | uint16](s *stream, dst []D, src []S, rel []R, f *filler) {
	starts, run := s.bucket.Starts, -1
	for e, v := range src {
		run += int(starts[e>>6] >> (e & 63) & 1)
		d := uint32(dst[run])
		if s.noLoops && d == uint32(v) {
			continue
		}
		p := f.pos[v]
		f.out[p] = s.base + d
		if f.outRel != nil {
			f.outRel[p] = uint16(rel[e])
		}
		f.pos[v] = p + 1
	}
}

// countKept adds to each row's degree its old neighbours up to partition last
// that are still resident, and moves the cursors past them.
func (f *filler) countKept(last int32) {
	for r := range f.pos {
		at, end := f.oldBegin+int64(f.oldPos[r]), f.old[r].End
		n := uint32(0)
		for at < end {
			p := f.table[f.oldIndices[at]>>f.shift]
			if p > last {
				break
			}
			at++
			if p >= 0 {
				n++
			}
		}
		f.pos[r] += n
		f.oldPos[r] = uint32(at - f.oldBegin)
	}
}

// fillKept copies the old neighbours that countKept counted, of rows lo … hi−1.
func (f *filler) fillKept(last int32, lo, hi int) {
	for r := lo; r < hi; r++ {
		at, end := f.oldBegin+int64(f.oldPos[r]), f.old[r].End
		to := f.pos[r]
		for at < end {
			v := f.oldIndices[at]
			p := f.table[v>>f.shift]
			if p > last {
				break
			}
			if p >= 0 {
				f.out[to] = v
				if f.outRel != nil {
					f.outRel[to] = f.oldRel[at]
				}
				to++
			}
			at++
		}
		f.pos[r] = to
		f.oldPos[r] = uint32(at - f.oldBegin)
	}
}

// carried is where a column's values beside the neighbours go.
type carried struct {
	// bucket returns what puts the value of edge e of the bucket to place at, keep what puts that of place e of the last step's
	// adjacency there.
	bucket func(k *newBucket) func(at uint32, e int)
	keep   func(at uint32, e int)
}

// carriedScalars are values of one element. values is a bucket's part of the column, old the last step's.
func carriedScalars[V any](out, old []V, values func(*newBucket) []V) carried {
	return carried{
		bucket: func(k *newBucket) func(uint32, int) {
			from := values(k)
			return func(at uint32, e int) { out[at] = from[e] }
		},
		keep: func(at uint32, e int) { out[at] = old[e] },
	}
}

// carriedWeights are weights, or of buckets that hold their codes those of values.
func carriedWeights(out, old, values []float32) carried {
	c := carriedScalars(out, old, func(k *newBucket) []float32 { return k.weights })
	plain := c.bucket
	c.bucket = func(k *newBucket) func(uint32, int) {
		if codes := k.codes; codes != nil {
			return func(at uint32, e int) { out[at] = values[codes[e]] }
		}
		return plain(k)
	}
	return c
}

// carriedRows are rows of dim elements, those of the columns side by side.
func carriedRows(out, old []float32, dim int, columns []*sourceColumn) carried {
	row := func(of []float32, k int) []float32 { return of[k*dim : (k+1)*dim] }
	return carried{
		bucket: func(k *newBucket) func(uint32, int) {
			return func(at uint32, e int) {
				to := row(out, int(at))
				for i, c := range columns {
					if f := &k.features[i]; f.values != nil {
						to[0] = f.values[f.rows[e]]
					} else {
						c.info.Elem.Widen(to[:c.info.Dim], f.rows[e*c.stride:(e+1)*c.stride], c.info.Scale)
					}
					to = to[c.info.Dim:]
				}
			}
		},
		keep: func(at uint32, e int) { copy(row(out, int(at)), row(old, e)) },
	}
}

// fillCarried puts a column's values beside the neighbours that fill put in place: it takes the ways of all streams
// again from the rows' first places.
func (f *filler) fillCarried(streams []stream, spans []Span, c carried) {
	for r := range f.pos {
		f.pos[r] = uint32(spans[r].Begin - spans[0].Begin)
	}
	if f.old != nil {
		f.rewind()
	}
	for i := range streams {
		s := &streams[i]
		if s.kind == keptStream {
			f.fillKeptCarried(s.last, c.keep)
			continue
		}
		switch k, put := s.bucket, c.bucket(s.bucket); {
		case k.Dst16 != nil && k.Src16 != nil:
			fillBucketCarried(f, s, k.Dst16, k.Src16, put)
		case k.Dst16 != nil:
			fillBucketCarried(f, s, k.Dst16, k.Src32, put)
		case k.Src16 != nil:
			fillBucketCarried(f, s, k.Dst32, k.Src16, put)
		default:
			fillBucketCarried(f, s, k.Dst32, k.Src32, put)
		}
	}
}

// fillBucketCarried appends a bucket's values to the rows that its edges were appended to.
func fillBucketCarried[D, S uint16 | uint32](f *filler, s *stream, dst []D, src []S, put func(at uint32, e int)) {
	starts, run := s.bucket.Starts, -1
	for e, v := range src {
		run += int(starts[e>>6] >> (e & 63) & 1)
		row := uint32(dst[run])
		if s.kind == scatteredStream {
			if s.noLoops && row == uint32(v) {
				continue
			}
			row = uint32(v)
		}
		put(f.pos[row], e)
		f.pos[row]++
	}
}

// fillKeptCarried is fillKept for the values beside the neighbours.
func (f *filler) fillKeptCarried(last int32, keep func(at uint32, e int)) {
	for r := range f.pos {
		at, end := f.oldBegin+int64(f.oldPos[r]), f.old[r].End
		for ; at < end; at++ {
			p := f.table[f.oldIndices[at]>>f.shift]
			if p > last {
				break
			}
			if p >= 0 {
				keep(f.pos[r], int(at))
				f.pos[r]++
			}
		}
		f.oldPos[r] = uint32(at - f.oldBegin)
	}
}
