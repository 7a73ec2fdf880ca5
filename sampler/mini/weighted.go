package mini

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// weighted draws successively in proportion to weight, exactly, in one of three ways.
//
// Of a short list edges are drawn one after the other, each by a sum over what is left, and taken out.
//
// Of a long list edges are drawn with replacement, each in proportion to its weight by sums of the weights before it, until
// there are enough different ones. The different ones of independent draws, in the order of
// their first appearance, are a successive sample: each is drawn in proportion to weight among those that did not come
// yet. That is over after a fixed number of attempts, and what is missing is then drawn by a scan of the rest, which
// changes nothing in the law, as the rest of a successive sample is one of the rest.
//
// In a scan, which is for large fanouts too, every edge has the key E/w, E exponential with mean 1, and the smallest keys win
// (Efraimidis and Spirakis 2006, algorithm A; u^(1/w) there is exp(−E/w)).
//
// An edge whose weight is 0, negative or no number is drawn, uniformly, only where no other is left.
type weighted struct {
	removeUpTo int64 // lists up to so many times the fanout are short
	heap       smallest
	taken      []int64
	weights    []float64 // remove's: of the edges that are left
	long       []longList
	attempts   []attempt
	touched    float64
}

// longList is a list that is drawn from with replacement.
type longList struct {
	*list
	first, last int64 // of Adjacency.Sums that are of the row; none where last < first
	total       float64
	perWeight   float64 // edges
	got         int     // of out that are drawn
	attempts    int     // of this round
}

// attempt is a draw with replacement from a long list.
type attempt struct {
	lot  float64 // where in the sum of the list's weights
	from float64 // the sum of the weights before at
	at   int64   // of Sums the one that the lot may be behind; then the edge where the scan for the lot's begins
}

const (
	// weightedShort is what removeUpTo is.
	weightedShort = 5
	// weightedAhead attempts of a chunk are made at once at most, so that their cache misses overlap.
	weightedAhead = 4096
	// weightedRounds of attempts are made for a list before what is missing is scanned for.
	weightedRounds = 5
	// weightedWindow sums are compared with a lot at once.
	weightedWindow = 8
	// weightedFar sums are so many that a second guess pays.
	weightedFar = 64
	// weightedLeast stands for a weight of 0: far below every float32 above 0, and far above where E/w is infinite.
	weightedLeast = 1e-200
)

// check implements drawer.
func (d *weighted) check(g *Graph) error {
	if err := g.checkWeights(); err != nil {
		return fmt.Errorf("sampler %s: %w", Weighted, err)
	}
	return nil
}

// checkWeights refuses a graph whose edges have no weights.
func (g *Graph) checkWeights() error {
	for _, a := range g.adjacencies() {
		if len(a.Weights) < len(a.Indices) || len(a.Sums)*buffer.SumEdges < len(a.Indices) {
			return errors.New("the macro-batch has no weights")
		}
	}
	return nil
}

// draw implements drawer.
func (d *weighted) draw(_ keyed.Key, _ *Graph, a *buffer.Adjacency, lists []list) {
	d.loadShort(a, lists)
	d.long = d.long[:0]
	room := weightedAhead
	for i := range lists {
		l := &lists[i]
		k, n := len(l.out), l.span.End-l.span.Begin
		switch {
		case k > pickScanMax:
			d.scan(&l.r, a.Weights, l.span, l.out, 0)
			continue
		case n <= d.removeUpTo*int64(k):
			d.remove(&l.r, a.Weights, l.span, l.out)
			continue
		}
		long := longList{list: l}
		if room -= long.tries(); room < 0 && len(d.long) > 0 {
			d.drawLong(a)
			room = weightedAhead - long.tries()
		}
		d.long = append(d.long, long)
	}
	d.drawLong(a)
}

// loadShort loads the ends of short lists' weights.
func (d *weighted) loadShort(a *buffer.Adjacency, lists []list) {
	touched := 0.
	for i := range lists {
		l := &lists[i]
		if l.span.End-l.span.Begin <= d.removeUpTo*int64(len(l.out)) {
			touched += float64(a.Weights[l.span.Begin]) + float64(a.Weights[l.span.End-1])
		}
	}
	d.touched = touched
}

// remove draws out successively from the list.
func (d *weighted) remove(r *keyed.Rand, weights []float32, span buffer.Span, out []int64) {
	left := resize(d.weights, int(span.End-span.Begin))
	d.weights = left
	for i, w := range weights[span.Begin:span.End] {
		left[i] = float64(w)
	}
	// total is the sum of left, from which weights were taken out since it was exact.
	total, exact := 0., math.Inf(1)
	for j := 0; j < len(out); {
		if total < exact*0x1p-10 { // most of its digits are gone
			total = 0
			for _, w := range left {
				total += w
			}
			if exact = total; total == 0 {
				d.scan(r, weights, span, out, j)
				return
			}
		}
		lot, i := r.Float64()*total, 0
		for sum := left[0]; sum <= lot; sum += left[i] {
			if i++; i == len(left) {
				break
			}
		}
		if i == len(left) { // by rounding: another lot, of the exact total
			total = 0
			continue
		}
		out[j] = span.Begin + int64(i)
		j++
		total -= left[i]
		left[i] = 0
	}
}

// tries is how many draws with replacement are made for what is missing: of a list that is not much longer some are repeats.
func (l *longList) tries() int {
	k := len(l.out) - l.got
	return k + int(2*int64(k)*int64(len(l.out))/(l.span.End-l.span.Begin))
}

// drawLong draws from d.long, in rounds of stages whose loads do not depend on each other.
func (d *weighted) drawLong(a *buffer.Adjacency) {
	d.sum(a)
	for range weightedRounds {
		if len(d.long) == 0 {
			return
		}
		d.guess(a)
		d.search(a)
		d.keep(a)
	}
	for i := range d.long {
		l := &d.long[i]
		d.scan(&l.r, a.Weights, l.span, l.out, l.got)
	}
	d.long = d.long[:0]
}

// sum finds the totals of d.long. Lists without one are left to the scan.
func (d *weighted) sum(a *buffer.Adjacency) {
	touched := 0.
	for i := range d.long {
		l := &d.long[i]
		// Sums first … last are of the row, but for the edges before the first, which it has none of.
		l.first, l.last = (l.span.Begin+buffer.SumEdges-1)/buffer.SumEdges, (l.span.End-1)/buffer.SumEdges
		if l.last >= l.first {
			l.total = a.Sums[l.last]
		}
		touched += float64(a.Weights[l.span.End-1])
	}
	d.touched = touched // so that the loads are made, for the loop below
	long := d.long[:0]
	for _, l := range d.long {
		for _, w := range a.Weights[max(l.span.Begin, l.last*buffer.SumEdges):l.span.End] {
			l.total += float64(w)
		}
		if !(l.total > 0) {
			d.scan(&l.r, a.Weights, l.span, l.out, 0)
			continue
		}
		l.perWeight = float64(l.span.End-l.span.Begin) / l.total
		long = append(long, l)
	}
	d.long = long
}

// guess draws the lots of a round, and guesses where each one's window of sums begins: were all weights the same, it were there.
func (d *weighted) guess(a *buffer.Adjacency) {
	d.attempts = d.attempts[:0]
	for i := range d.long {
		l := &d.long[i]
		l.attempts = l.tries()
		for range l.attempts {
			lot := l.r.Float64() * l.total
			d.attempts = append(d.attempts, attempt{lot: lot, at: l.window((l.span.Begin + int64(lot*l.perWeight)) / buffer.SumEdges)})
		}
	}
	d.load(a, 0)
	at := 0
	for i := range d.long {
		l := &d.long[i]
		tries := d.attempts[at : at+l.attempts]
		at += l.attempts
		if l.last-l.first < weightedFar {
			continue
		}
		for i := range tries { // guess again from the sum there
			t := &tries[i]
			t.at = l.window(t.at + int64((t.lot-t.from)*l.perWeight)/buffer.SumEdges)
		}
	}
	d.load(a, weightedFar)
}

// window is where the window of sums around number at begins.
func (l *longList) window(at int64) int64 {
	return max(min(at-weightedWindow/2, l.last+1-weightedWindow), l.first)
}

// load loads the ends of the windows of lists of more than far sums. There is nothing to it but loads, of which as many are under way
// as the processor can have.
func (d *weighted) load(a *buffer.Adjacency, far int64) {
	at, touched := 0, 0.
	for i := range d.long {
		l := &d.long[i]
		tries := d.attempts[at : at+l.attempts]
		at += l.attempts
		if l.last-l.first < far {
			continue
		}
		end := min(weightedWindow-1, l.last-l.first)
		for i := range tries {
			t := &tries[i]
			t.from = a.Sums[t.at]
			touched += a.Sums[t.at+end]
		}
	}
	d.touched = touched
}

// search finds for each lot of a round the last sum that is not above it, and loads the weights behind that.
func (d *weighted) search(a *buffer.Adjacency) {
	at := 0
	for i := range d.long {
		l := &d.long[i]
		tries := d.attempts[at : at+l.attempts]
		at += l.attempts
		for i := range tries {
			t := &tries[i]
			behind := l.behind(a.Sums, t) // the number of sums up to the one, from first on
			t.at, t.from = l.span.Begin, 0
			if behind > 0 {
				t.at = (l.first + behind - 1) * buffer.SumEdges
				t.from = a.Sums[l.first+behind-1]
			}
		}
	}
	touched := float32(0)
	for i := range d.attempts {
		touched += a.Weights[d.attempts[i].at]
	}
	d.touched = float64(touched)
}

// behind counts the row's sums that are not above the lot of t, whose at is where a window of sums begins.
func (l *longList) behind(sums []float64, t *attempt) (n int64) {
	if l.last-l.first < weightedWindow {
		for k := l.first; k <= l.last; k++ {
			n += notAbove(sums[k], t.lot)
		}
		return n
	}
	w := (*[weightedWindow]float64)(sums[t.at:])
	n = notAbove(w[0], t.lot) + notAbove(w[1], t.lot) + notAbove(w[2], t.lot) + notAbove(w[3], t.lot) +
		notAbove(w[4], t.lot) + notAbove(w[5], t.lot) + notAbove(w[6], t.lot) + notAbove(w[7], t.lot)
	if (n > 0 || t.at == l.first) && (n < weightedWindow || t.at+weightedWindow-1 == l.last) {
		return t.at - l.first + n
	}
	// The lot is outside of the window.
	lo, hi := l.first, t.at
	if n > 0 {
		lo, hi = t.at+weightedWindow, l.last+1
	}
	for size := hi - lo; size > 0; {
		half := (size + 1) >> 1
		lo += half & -notAbove(sums[lo+half-1], t.lot)
		size -= half
	}
	return lo - l.first
}

// notAbove returns 1 where sum ≤ lot, and 0 elsewhere, without a branch: whether it is, nobody can guess.
func notAbove(sum, lot float64) (n int64) {
	if sum <= lot {
		n = 1
	}
	return n
}

// keep writes the different edges of a round's attempts to the lists' out until there are enough, and keeps in d.long those that lack
// some.
func (d *weighted) keep(a *buffer.Adjacency) {
	long := d.long[:0]
	at := 0
	for _, l := range d.long {
		var seen uint64 // one bit of each position, as in pick
		for _, p := range l.out[:l.got] {
			seen |= 1 << (p & 63)
		}
		for _, t := range d.attempts[at : at+l.attempts] {
			p := t.edge(a.Weights)
			if p >= l.span.End { // by rounding
				continue
			}
			if bit := uint64(1) << (p & 63); seen&bit == 0 {
				seen |= bit
			} else if slices.Contains(l.out[:l.got], p) {
				continue
			}
			l.out[l.got] = p
			if l.got++; l.got == len(l.out) {
				break
			}
		}
		at += l.attempts
		if l.got < len(l.out) {
			long = append(long, l)
		}
	}
	d.long = long
}

// edge returns the edge that the lot falls on, of the SumEdges from t.at on; the one behind them where it falls on none.
func (t *attempt) edge(weights []float32) int64 {
	var room [buffer.SumEdges]float32
	if t.at+buffer.SumEdges > int64(len(weights)) {
		copy(room[:], weights[t.at:])
		weights = room[:]
	} else {
		weights = weights[t.at:]
	}
	// First the four edges among which it falls, then the one of them: sums that do not wait for each other, and no branch that
	// nobody can guess.
	w := (*[buffer.SumEdges]float32)(weights)
	var from [4]float64
	from[0] = t.from
	from[1] = t.from + four(w[0], w[1], w[2], w[3])
	from[2] = from[1] + four(w[4], w[5], w[6], w[7])
	from[3] = from[2] + four(w[8], w[9], w[10], w[11])
	n := notAbove(from[1], t.lot) + notAbove(from[2], t.lot) + notAbove(from[3], t.lot)
	v := (*[4]float32)(w[4*(n&3):])
	s0 := from[n&3] + float64(v[0])
	s1 := s0 + float64(v[1])
	s2 := s1 + float64(v[2])
	s3 := s2 + float64(v[3])
	return t.at + 4*n + notAbove(s0, t.lot) + notAbove(s1, t.lot) + notAbove(s2, t.lot) + notAbove(s3, t.lot)
}

// four is the sum of four weights.
func four(a, b, c, d float32) float64 { return (float64(a) + float64(b)) + (float64(c) + float64(d)) }

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
		w := max(float64(weights[p]), weightedLeast)
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
