package walk

import (
	"slices"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// piece draws walks that take each step together.
type piece struct {
	w     *Walks
	lanes []lane
	sums  []float64 // biased's
}

// lane is a walk.
type lane struct {
	r      keyed.Rand
	row    uint32
	before uint32      // the row before it
	span   buffer.Span // of row's edges
	was    buffer.Span // of before's
	to     int         // where its next node goes
}

func newPiece(w *Walks) *piece { return &piece{w: w, lanes: make([]lane, 0, pieceWalks)} }

// draw writes the walks from number first on that fit in dst.
func (p *piece) draw(first uint64, dst []int64) {
	w, length := p.w, p.w.o.Length
	lanes := p.lanes[:len(dst)/length]
	for i := range lanes {
		row := w.rows[(first+uint64(i))%uint64(len(w.rows))]
		lanes[i] = lane{r: w.key.Rand(first + uint64(i)), row: row, to: i*length + 1}
		dst[i*length] = w.nameOf(row)
	}
	for step := 1; step < length && len(lanes) > 0; step++ {
		for i := range lanes { // loads that do not wait for each other
			l := &lanes[i]
			l.was, l.span = l.span, w.graph.Span(l.row)
		}
		open := lanes[:0]
		for _, l := range lanes {
			if l.span.Begin == l.span.End {
				for i := range length - step {
					dst[l.to+i] = None
				}
				continue
			}
			var row uint32
			if step == 1 || w.highest == w.lowest {
				row = p.any(&l)
			} else {
				row = p.biased(&l)
			}
			dst[l.to] = w.nameOf(row)
			l.before, l.row, l.to = l.row, row, l.to+1
			open = append(open, l)
		}
		lanes = open
	}
}

// nameOf is what a row's node is called.
func (w *Walks) nameOf(row uint32) int64 {
	if w.names == nil {
		return int64(w.keys[row])
	}
	return w.names[row]
}

// any draws one of the edges, each as likely.
func (p *piece) any(l *lane) uint32 {
	return p.w.graph.Indices[l.span.Begin+int64(l.r.Below(uint64(l.span.End-l.span.Begin)))]
}

// biased draws an edge by what it counts: one that is drawn uniformly is kept with a probability in proportion to that (rejection sampling),
// most often without looking at the node before. Where an edge that is kept is rare the rest of the law is that of the first draw,
// so that it may be computed, after some tries.
func (p *piece) biased(l *lane) uint32 {
	w := p.w
	for range w.tries {
		row := p.any(l)
		lot := l.r.Float64() * w.highest
		if lot < w.lowest || lot < w.counts(l, row) {
			return row
		}
	}
	edges := w.graph.Indices[l.span.Begin:l.span.End]
	p.sums = slices.Grow(p.sums[:0], len(edges))
	sum := 0.
	for _, row := range edges {
		sum += w.counts(l, row)
		p.sums = append(p.sums, sum)
	}
	lot := l.r.Float64() * sum
	i, exact := slices.BinarySearch(p.sums, lot)
	if exact { // edge i begins behind it
		i++
	}
	return edges[min(i, len(edges)-1)]
}

// counts is how much an edge to row counts.
func (w *Walks) counts(l *lane, row uint32) float64 {
	switch {
	case row == l.before:
		return w.back
	case w.leadsTo(l.was, row):
		return 1
	}
	return w.away
}

// scanMax edges of a list are compared one by one: they lie in a few cache lines, while a binary search reads a key of each that it looks at.
const scanMax = 32

// leadsTo reports whether one of the edges of span, in the order of their ends' keys, leads to row.
func (w *Walks) leadsTo(span buffer.Span, row uint32) bool {
	edges := w.graph.Indices[span.Begin:span.End]
	if len(edges) <= scanMax {
		return slices.Contains(edges, row)
	}
	_, found := slices.BinarySearchFunc(edges, w.keys[row], func(e, key uint32) int { return int(int64(w.keys[e]) - int64(key)) })
	return found
}
