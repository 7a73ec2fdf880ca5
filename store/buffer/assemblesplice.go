package buffer

// A partition that was resident in the last step keeps most of its neighbours:
// those in partitions that stay. Its rows are spliced: what stays is moved to its new
// place, what has left is dropped, and holes are left where the neighbours in new
// partitions belong, which are filled in from their buckets afterwards. A kept edge
// takes loads, stores and additions and no branch, so it costs a fraction of a
// decoded one (docs/design.md, "store/buffer").

// spliceHolesMax is how many runs of new partitions a step may have between
// those that stay and still be spliced; a step with more copies what it keeps stream by stream.
const spliceHolesMax = 3

// A neighbour's class is how many holes lie before its partition, 0 … spliceHolesMax,
// or classLeft. Up to some edge of a tile, one word holds 16-bit counts: of all that stays in
// the lowest, then of classes 0, 1 and 2; what is left of all is class 3.
const (
	classLeft  = spliceHolesMax + 1
	classBits  = 16
	classMask  = 1<<classBits - 1
	tableMask  = 7 // a class indexes an array of eight without a check
	spliceTile = 1024
	wildEdges  = 8 // copied at once where that many may be
)

// splicer is a thread's scratch: a tile of old rows that stays in the L1 cache.
type splicer struct {
	kept   [spliceTile + wildEdges]uint32 // neighbours that stay
	rel    [spliceTile]uint16             // their relations
	counts [2 * spliceTile]uint64         // before each old edge of the tile
}

// classify fills the table of classes for a step, tells each new partition's
// hole and returns the number of holes.
func (a *assembler) classify(s *scheduled) (holes int) {
	for g := range a.class {
		a.class[g] = classLeft
	}
	a.hole = a.hole[:0]
	for b := range s.resident {
		if !s.kept[b] {
			if b == 0 || s.kept[b-1] {
				holes++
			}
			a.hole = append(a.hole, holes-1)
			continue
		}
		a.hole = append(a.hole, -1)
		slot := a.layout.slots[s.slot[b]]
		for g := slot.base >> a.layout.shift; g < (slot.base+slot.rows)>>a.layout.shift; g++ {
			a.class[g] = uint8(min(holes, spliceHolesMax)) // of more holes nothing is spliced
		}
	}
	return holes
}

// splice fills all rows of a partition, whose spans begin at begin. holes[k] is
// scratch of one element a row for hole k.
func (f *filler) splice(p *splicer, streams []stream, class []uint8, holes [][]uint32, spans []Span, begin int64) {
	for k := range holes {
		clear(holes[k])
	}
	for i := range streams {
		if s := &streams[i]; s.kind != keptStream {
			f.pos = holes[s.hole]
			f.count(s)
		}
	}
	first := uint32(0) // of the tile's rows in f.out
	for lo := 0; lo < len(spans); {
		hi, from := lo+1, f.old[lo].Begin
		for hi < len(spans) && f.old[hi].End-from <= spliceTile {
			hi++
		}
		end := f.old[hi-1].End
		if end-from > spliceTile {
			first = f.moveRow(class, holes, lo, spans, begin, first)
		} else {
			p.keep(f, class, from, end)
			first = p.place(f, holes, lo, hi, spans, begin, first)
		}
		lo = hi
	}
	for i := range streams {
		if s := &streams[i]; s.kind != keptStream {
			f.pos = holes[s.hole]
			f.fill(s, 0, len(spans))
		}
	}
}

// keep collects what stays of the old edges [from, end), whose rows lie without gaps, and
// counts it by class.
func (p *splicer) keep(f *filler, class []uint8, from, end int64) {
	var one [tableMask + 1]uint64 // what a neighbour of each class adds
	for c := range classLeft {
		one[c] = 1
		if c < spliceHolesMax {
			one[c] |= 1 << (classBits * (c + 1))
		}
	}
	old := f.oldIndices[from:end]
	shift := f.shift & 31
	sum := uint64(0) // all that the loop carries: it must stay in a register
	for k, v := range old {
		p.kept[sum%spliceTile] = v // what has left is overwritten by the next
		sum += one[class[v>>shift]&tableMask]
		p.counts[(k+1)&(2*spliceTile-1)] = sum
	}
	if f.outRel == nil {
		return
	}
	for k, rel := range f.oldRel[from:end] {
		p.rel[p.counts[k]%spliceTile] = rel
	}
}

// place puts what keep collected of rows lo … hi−1 into place, replaces the
// counts in holes by where each hole begins, and sets the spans. It returns where
// the next row begins.
func (p *splicer) place(f *filler, holes [][]uint32, lo, hi int, spans []Span, begin int64, at uint32) uint32 {
	from := f.old[lo].Begin
	n, before := uint32(0), uint64(0)
	out, safe := f.out, len(f.out)-wildEdges // the last place for a wild copy
	if f.outRel != nil {
		safe = -1
	}
	for r := lo; r < hi; r++ {
		start := at
		sum := p.counts[f.old[r].End-from]
		row := sum - before
		before = sum
		rest := uint32(row & classMask)
		for _, counts := range holes {
			row >>= classBits
			stay := uint32(row & classMask)
			rest -= stay
			if stay <= wildEdges && int(at) <= safe {
				wild(out[at:], p.kept[n:])
			} else {
				p.copy(f, at, n, stay)
			}
			at, n = at+stay, n+stay
			wide := counts[r]
			counts[r] = at
			at += wide
		}
		if rest <= wildEdges && int(at) <= safe {
			wild(out[at:], p.kept[n:])
		} else {
			p.copy(f, at, n, rest)
		}
		at, n = at+rest, n+rest
		spans[r] = Span{begin + int64(start), begin + int64(at)}
	}
	return at
}

// wild copies a few neighbours by copying more: what lies behind them is not filled yet.
func wild(to, from []uint32) { *(*[wildEdges]uint32)(to) = *(*[wildEdges]uint32)(from) }

// copy moves n collected neighbours, and their relations, to f.out[at:].
func (p *splicer) copy(f *filler, at, from, n uint32) {
	copy(f.out[at:at+n], p.kept[from:from+n])
	if f.outRel != nil {
		copy(f.outRel[at:at+n], p.rel[from:from+n])
	}
}

// moveRow is keep and place for a row that is longer than a tile.
func (f *filler) moveRow(class []uint8, holes [][]uint32, r int, spans []Span, begin int64, at uint32) uint32 {
	start, last := at, uint8(0)
	skip := func(c uint8) { // passes the holes before class c
		for ; last < c; last++ {
			wide := holes[last][r]
			holes[last][r] = at
			at += wide
		}
	}
	for k := f.old[r].Begin; k < f.old[r].End; k++ {
		v := f.oldIndices[k]
		c := class[v>>f.shift]
		if c == classLeft {
			continue
		}
		skip(c)
		f.out[at] = v
		if f.outRel != nil {
			f.outRel[at] = f.oldRel[k]
		}
		at++
	}
	skip(uint8(len(holes)))
	spans[r] = Span{begin + int64(start), begin + int64(at)}
	return at
}
