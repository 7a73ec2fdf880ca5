package store

// Where most of a partition's neighbours were resident in the last step too,
// its rows are made in one pass, row by row: what is kept is copied, what is new is
// put between. The gain is in I/O: kept buckets are neither read, checked nor staged.
// Of CPU time a copied edge takes as much as a decoded one, 4 ns (docs/benchmarks.md).

// mergeStreamsMax is how many new streams a partition may have and still be
// merged row by row: each costs a look at its cursor for every row.
const mergeStreamsMax = 4

// mergeable reports whether merge can do it: few new streams, and the
// scattered ones in a row, so that one hole a row holds them all.
func mergeable(streams []stream) bool {
	kept, fresh, holes := 0, 0, 0
	for i := range streams {
		switch streams[i].kind {
		case keptStream:
			kept++
			continue
		case scatteredStream:
			if i == 0 || streams[i-1].kind != scatteredStream {
				holes++
			}
		}
		fresh++
	}
	return kept > 0 && fresh <= mergeStreamsMax && holes <= 1
}

// merge fills all rows of a partition, whose spans begin at begin.

func (f *filler) merge(streams []stream, spans []Span, begin int64) {
	clear(f.pos)
	hole := -1 // index of the first scattered stream
	for i := range streams {
		if streams[i].kind == scatteredStream {
			f.count(&streams[i])
			if hole < 0 {
				hole = i
			}
		}
	}
	at := 0
	for r := range spans {
		from := at
		old, end := f.old[r].Begin, f.old[r].End
		for i := range streams {
			switch s := &streams[i]; s.kind {
			case keptStream:
				last := s.last
				for old < end {
					v := f.oldIndices[old]
					p := f.table[v>>f.shift]
					if p > last {
						break
					}
					if p >= 0 {
						f.out[at] = v
						if f.outRel != nil {
							f.outRel[at] = f.oldRel[old]
						}
						at++
					}
					old++
				}
			case sortedStream:
				at = f.mergeRun(s, uint32(r), at)
			case scatteredStream:
				if i == hole {
					n := f.pos[r]
					f.pos[r] = uint32(at)
					at += int(n)
				}
			}
		}
		spans[r] = Span{begin + int64(from), begin + int64(at)}
	}
	for i := range streams {
		if streams[i].kind == scatteredStream {
			f.fill(&streams[i], 0, len(spans))
		}
	}
}

// mergeRun copies the stream's run of dst row, if it has one, to out[at:] and
// returns where the next neighbour goes.
func (f *filler) mergeRun(s *stream, row uint32, at int) int {
	switch k := s.bucket; {
	case k.Dst16 != nil && k.Src16 != nil:
		return mergeRun(f, s, k.Dst16, k.Src16, row, at)
	case k.Dst16 != nil:
		return mergeRun(f, s, k.Dst16, k.Src32, row, at)
	case k.Src16 != nil:
		return mergeRun(f, s, k.Dst32, k.Src16, row, at)
	default:
		return mergeRun(f, s, k.Dst32, k.Src32, row, at)
	}
}

func mergeRun[D, S uint16 | uint32](f *filler, s *stream, dst []D, src []S, row uint32, at int) int {
	run := s.run + 1
	if run >= len(dst) || uint32(dst[run]) != row {
		return at
	}
	s.run = run
	e := s.edge
	for {
		f.out[at] = s.base + uint32(src[e])
		if f.outRel != nil {
			if s.bucket.rel8 != nil {
				f.outRel[at] = uint16(s.bucket.rel8[e])
			} else {
				f.outRel[at] = s.bucket.rel16[e]
			}
		}
		at++
		e++
		if e == len(src) || s.bucket.Starts[e>>6]>>(e&63)&1 != 0 {
			break
		}
	}
	s.edge = e
	return at
}
