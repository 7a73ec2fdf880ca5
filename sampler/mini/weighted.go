package mini

import (
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// weighted draws successively in proportion to weight, exactly, in one of two ways.
//
// A short list is scanned: every edge has the key E/w, E exponential with mean 1, and the smallest keys win (Efraimidis and
// Spirakis 2006, algorithm A; u^(1/w) there is exp(−E/w)).
//
// Of a long list edges are drawn with replacement, each in proportion to its weight by sums of the weights before it, until
// there are enough different ones. The different ones of independent draws, in the order of
// their first appearance, are a successive sample: each is drawn in proportion to weight among those that did not come
// yet. That is over after a fixed number of attempts, and what is missing is then drawn by a scan of the rest, which
// changes nothing in the law, as the rest of a successive sample is one of the rest.
//
// An edge whose weight is 0, negative or no number is drawn, uniformly, only where no other is left.
type weighted struct {
	scanUpTo int64 // lists up to so many times the fanout are scanned
	heap     smallest
	taken    []int64
	long     []longList
	attempts []attempt
	open     []int32
	touched  float32
}

// longList is a list that is drawn from with replacement.
type longList struct {
	*list
	first, last int64 // of Adjacency.Sums that are of the row
	total       float64
}

// attempt is a draw with replacement from a long list.
type attempt struct {
	lot        float64 // where in the sum of the list's weights
	left, size int64   // the first of Sums that may be above it, and how many may be
	from       float64 // the sum of the weights before at
	at         int64   // where the scan for the edge begins, in the end the edge
	weight     float32 // of the edge at at
}

const (
	// weightedScan: an attempt costs as much as some edges of a scan.
	weightedScan = 4
	// weightedAhead attempts of a chunk are made at once at most, so that their cache misses overlap.
	weightedAhead = 4096
	// weightedRounds of further attempts are made for a list before what is missing is scanned for.
	weightedRounds = 4
	// weightedLeast stands for a weight of 0: far below every float32 above 0, and far above where E/w is infinite.
	weightedLeast = 1e-200
)

// check implements drawer.
func (d *weighted) check(g *Graph) error {
	for _, a := range g.adjacencies() {
		if len(a.Weights) < len(a.Indices) || len(a.Sums)*buffer.SumEdges < len(a.Indices) {
			return fmt.Errorf("sampler %s: the macro-batch has no weights", Weighted)
		}
	}
	return nil
}

// draw implements drawer.
func (d *weighted) draw(_ keyed.Key, _ *Graph, a *buffer.Adjacency, lists []list) {
	d.long = d.long[:0]
	room := weightedAhead
	for i := range lists {
		l := &lists[i]
		if k := len(l.out); k > pickScanMax || l.span.End-l.span.Begin <= d.scanUpTo*int64(k) {
			d.scan(&l.r, a.Weights, l.span, l.out, 0)
			continue
		}
		if room -= tries(len(l.out)); room < 0 && len(d.long) > 0 {
			d.drawLong(a)
			room = weightedAhead - tries(len(l.out))
		}
		d.long = append(d.long, longList{list: l})
	}
	d.drawLong(a)
}

// tries is how many draws with replacement are made at first for k different ones.
func tries(k int) int { return k + k/4 + 1 }

// drawLong draws from d.long, in stages whose loads do not depend on each other.
func (d *weighted) drawLong(a *buffer.Adjacency) {
	d.sum(a)
	d.attempts = d.attempts[:0]
	for i := range d.long {
		l := &d.long[i]
		for range tries(len(l.out)) {
			d.attempts = append(d.attempts, attempt{lot: l.r.Float64() * l.total, left: l.first, size: max(l.last+1-l.first, 0)})
		}
	}
	d.search(a)
	at := 0
	for i := range d.long {
		l := &d.long[i]
		m := tries(len(l.out))
		got := d.keep(a, l, d.attempts[at:at+m], 0)
		at += m
		if got < len(l.out) {
			d.attempts = d.again(a, l, got, d.attempts)
		}
	}
	d.long = d.long[:0]
}

// sum finds the totals of d.long.
func (d *weighted) sum(a *buffer.Adjacency) {
	touched := float32(0)
	for i := range d.long {
		l := &d.long[i]
		// Sums first … last are of the row, but for the edges before the first, which it has none of.
		l.first, l.last = (l.span.Begin+buffer.SumEdges-1)/buffer.SumEdges, (l.span.End-1)/buffer.SumEdges
		if l.last >= l.first {
			l.total = a.Sums[l.last]
		}
		touched += a.Weights[l.span.End-1]
	}
	d.touched = touched // so that the loads are made, for the loop below
	for i := range d.long {
		l := &d.long[i]
		from := l.span.Begin
		if l.last >= l.first {
			from = l.last * buffer.SumEdges
		}
		for _, w := range a.Weights[from:l.span.End] {
			l.total += buffer.Weight(w)
		}
	}
}

// search finds for all attempts where the scan for the edge begins: the last sum that is not above the lot. All binary searches go
// a step together.
func (d *weighted) search(a *buffer.Adjacency) {
	open := d.open[:0]
	for i := range d.attempts {
		if d.attempts[i].size > 0 {
			open = append(open, int32(i))
		}
	}
	d.open = open
	for len(open) > 0 {
		still := open[:0]
		for _, i := range open {
			t := &d.attempts[i]
			half := t.size >> 1
			if a.Sums[t.left+half] <= t.lot {
				t.left, t.size = t.left+half+1, t.size-half-1
			} else {
				t.size = half
			}
			if t.size > 0 {
				still = append(still, i)
			}
		}
		open = still
	}
	at := 0
	for i := range d.long {
		l := &d.long[i]
		for range tries(len(l.out)) {
			d.place(a, l, &d.attempts[at])
			at++
		}
	}
}

// place loads what the scan of an attempt begins with.
func (d *weighted) place(a *buffer.Adjacency, l *longList, t *attempt) {
	t.at, t.from = l.span.Begin, 0
	if t.left > l.first {
		t.at, t.from = (t.left-1)*buffer.SumEdges, a.Sums[t.left-1]
	}
	t.weight = a.Weights[t.at]
}

// keep writes the different edges of attempts to l.out[got:] until there are enough, and returns how many there are.
func (d *weighted) keep(a *buffer.Adjacency, l *longList, attempts []attempt, got int) int {
	if !(l.total > 0) {
		return got
	}
	var seen uint64 // one bit of each position, as in pick
	for _, p := range l.out[:got] {
		seen |= 1 << (p & 63)
	}
	for i := range attempts {
		t := &attempts[i]
		sum, p := t.from+buffer.Weight(t.weight), t.at
		end := min(t.left*buffer.SumEdges, l.span.End)
		for sum <= t.lot && p < end {
			if p++; p < end {
				sum += buffer.Weight(a.Weights[p])
			}
		}
		if p == end { // by rounding; another attempt
			continue
		}
		if bit := uint64(1) << (p & 63); seen&bit == 0 {
			seen |= bit
		} else if slices.Contains(l.out[:got], p) {
			continue
		}
		l.out[got] = p
		if got++; got == len(l.out) {
			break
		}
	}
	return got
}

// again makes further attempts for a list of which got edges are drawn, and then scans for what is missing. room is memory to use beyond its length.
func (d *weighted) again(a *buffer.Adjacency, l *longList, got int, room []attempt) []attempt {
	n := len(room)
	for range weightedRounds {
		room = room[:n]
		for range tries(len(l.out) - got) {
			t := attempt{lot: l.r.Float64() * l.total, left: l.first, size: max(l.last+1-l.first, 0)}
			for t.size > 0 {
				half := t.size >> 1
				if a.Sums[t.left+half] <= t.lot {
					t.left, t.size = t.left+half+1, t.size-half-1
				} else {
					t.size = half
				}
			}
			d.place(a, l, &t)
			room = append(room, t)
		}
		if got = d.keep(a, l, room[n:], got); got == len(l.out) {
			return room[:n]
		}
	}
	d.scan(&l.r, a.Weights, l.span, l.out, got)
	return room[:n]
}

// scan draws out[got:] from the list without out[:got].
func (d *weighted) scan(r *keyed.Rand, weights []float32, span buffer.Span, out []int64, got int) {
	d.taken = append(d.taken[:0], out[:got]...)
	slices.Sort(d.taken)
	taken := d.taken
	h := &d.heap
	h.begin(out[got:])
	for p := span.Begin; p < span.End; p++ {
		if len(taken) > 0 && taken[0] == p {
			taken = taken[1:]
			continue
		}
		w := max(buffer.Weight(weights[p]), weightedLeast)
		u := 1 - r.Float64() // (0, 1]
		// −log u ≥ 1−u: most edges lose without a logarithm.
		if h.full() && 1-u >= h.worst()*w {
			continue
		}
		if key := -math.Log(u) / w; !h.full() || key < h.worst() {
			h.offer(key, p)
		}
	}
}
