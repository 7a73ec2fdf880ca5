package mini

import (
	"fmt"
	"math"
	"math/bits"
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
	lot      [weightedAhead]float64 // of the attempts: where in the sum of weights
	left     [weightedAhead]int64   // the first of Sums that may be above
	size     [weightedAhead]int64   // how many may be
	at       [weightedAhead]int64   // where the scan for the edge begins
	from     [weightedAhead]float64 // the sum of the weights before
	weight   [weightedAhead]float32
}

const (
	// weightedScan: an attempt costs as much as some edges of a scan.
	weightedScan = 16
	// weightedAhead attempts are made at once at most, so that their cache misses overlap.
	weightedAhead = 32
	// weightedTries a pick and weightedTriesMin more are attempted.
	weightedTries    = 4
	weightedTriesMin = 32
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
func (d *weighted) draw(_ keyed.Key, r *keyed.Rand, _ *Graph, a *buffer.Adjacency, _ uint32, span buffer.Span, out []int64) {
	got := 0
	if n := span.End - span.Begin; len(out) <= pickScanMax && n > d.scanUpTo*int64(len(out)) {
		got = d.attempt(r, a, span, out)
	}
	if got < len(out) {
		d.scan(r, a.Weights, span, out, got)
	}
}

// attempt draws positions with replacement and writes the different ones to out; it returns how many.
func (d *weighted) attempt(r *keyed.Rand, a *buffer.Adjacency, span buffer.Span, out []int64) int {
	// Sums first … last are of the row, but for the edges before the first, which it has none of.
	first, last := (span.Begin+buffer.SumEdges-1)/buffer.SumEdges, (span.End-1)/buffer.SumEdges
	total, from := 0., span.Begin
	if last >= first {
		total, from = a.Sums[last], last*buffer.SumEdges
	}
	for _, w := range a.Weights[from:span.End] {
		total += buffer.Weight(w)
	}
	if !(total > 0) {
		return 0
	}
	var seen uint64 // one bit of each position, as in pick
	got := 0
	for tries := weightedTries*len(out) + weightedTriesMin; tries > 0; {
		m := min(weightedAhead, len(out)-got+(len(out)-got)/4+1)
		tries -= m
		for i := range m {
			d.lot[i], d.left[i], d.size[i] = r.Float64()*total, first, last+1-first
		}
		// All binary searches for the last sum that is not above go a step together.
		for range bits.Len64(uint64(max(last+1-first, 0))) {
			for i := range m {
				n := d.size[i]
				if n == 0 {
					continue
				}
				half := n >> 1
				if a.Sums[d.left[i]+half] <= d.lot[i] {
					d.left[i], d.size[i] = d.left[i]+half+1, n-half-1
				} else {
					d.size[i] = half
				}
			}
		}
		// What the scans read is loaded before the first of them, whose branches nobody can foretell.
		for i := range m {
			d.at[i], d.from[i] = span.Begin, 0
			if d.left[i] > first {
				d.at[i], d.from[i] = (d.left[i]-1)*buffer.SumEdges, a.Sums[d.left[i]-1]
			}
			d.weight[i] = a.Weights[d.at[i]]
		}
		for i := range m {
			sum, p := d.from[i]+buffer.Weight(d.weight[i]), d.at[i]
			end := min(d.left[i]*buffer.SumEdges, span.End)
			for sum <= d.lot[i] && p < end {
				if p++; p < end {
					sum += buffer.Weight(a.Weights[p])
				}
			}
			if p == end { // by rounding; another attempt
				continue
			}
			if bit := uint64(1) << (p & 63); seen&bit == 0 {
				seen |= bit
			} else if slices.Contains(out[:got], p) {
				continue
			}
			out[got] = p
			if got++; got == len(out) {
				return got
			}
		}
	}
	return got
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
