package mini

import (
	"fmt"
	"math"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// SampleAt draws the batch named key for seeds at moments: rows of g, which may be listed more than once, and for each
// the time at which it is looked at. Of a seed's edges only those with a time strictly before are drawn from, and of a node that
// an edge led to only those before that edge: a walk goes back in time (TGAT, Xu and others, "Inductive Representation Learning
// on Temporal Graphs", ICLR 2020, section 3). Edges of the moment itself are its future.
//
// A node that is met twice may be looked at at two moments, so that the nodes met are not made distinct: a block's sources
// are its destinations, then the other end of each edge in the order of edges. b.Times has the moment of each of b.Input. Degrees count edges
// before the moment.
//
// It is for [Config.Sampler] Temporal and Latest, of which the second lists a node's edges from the last one back. Lists must be
// in order of time ([buffer.Options.Times]). Errors are those of Sample; seeds are not [ErrSeeds] for being listed twice.
func (s *Sampler) SampleAt(key Key, g Graph, seeds []uint32, times []int64, b *Batch) error {
	if !s.cfg.timed() {
		return fmt.Errorf("mini: sampler %q draws for seeds without times", s.cfg.Sampler)
	}
	if len(times) != len(seeds) {
		return fmt.Errorf("%w: %d seeds with %d times", ErrSeeds, len(seeds), len(times))
	}
	for _, a := range g.adjacencies() {
		if len(a.Times) < len(a.Indices) {
			return fmt.Errorf("mini: sampler %s: the macro-batch has no times", s.cfg.Sampler)
		}
	}
	if err := checkRows(&g, seeds); err != nil {
		return err
	}
	layers := len(s.cfg.Fanouts)
	b.reset(key, layers)
	b.Seeds = append(b.Seeds, seeds...)
	b.Input = append(b.Input, seeds...)
	b.Times = append(b.Times, times...)
	s.past, s.pastOut = s.past[:0], s.pastOut[:0]
	place := key.in(s.run)
	for h := range layers {
		if err := s.hopAt(place.With(uint64(h)), h, &g, b, &b.Blocks[layers-1-h]); err != nil {
			return fmt.Errorf("hop %d: %w", h, err)
		}
	}
	return nil
}

// hopAt is hop at the moments of b.Input, which it extends by a source an edge.
func (s *Sampler) hopAt(place keyed.Key, h int, g *Graph, b *Batch, blk *Block) error {
	n := len(b.Input)
	blk.reset(n, g.In.Relations != nil)
	blk.Times = blk.Times[:0]
	fanIn, fanOut := s.fanouts(g, h)
	s.thresholdIn, s.thresholdOut = math.MaxInt64, math.MaxInt64
	step := chunkStep(fanIn, fanOut)
	for lo := 0; lo < n; lo += step {
		hi := min(lo+step, n)
		s.loadPast(g, b, lo, hi)
		edges, err := s.count(blk, fanIn, fanOut, hi-lo)
		if err != nil {
			return err
		}
		if len(b.Input)+edges > math.MaxInt32 {
			return fmt.Errorf("%w: over %d sources", ErrTooLarge, math.MaxInt32)
		}
		from, at := len(blk.Indices), len(b.Input)
		blk.Indices = extend(blk.Indices, edges)
		blk.Times = extend(blk.Times, edges)
		if blk.Relations != nil {
			blk.Relations = extend(blk.Relations, edges)
		}
		if s.cfg.Sampler == Latest {
			s.lasts(hi-lo, fanIn, fanOut, edges)
		} else {
			s.picks(place, lo, nil, hi-lo, fanIn, fanOut, edges)
		}
		s.gather(*g, blk, from)
		local, when := blk.Indices[from:], blk.Times[from:]
		for i, p := range s.pos[:edges] {
			if p >= 0 {
				when[i] = g.In.Times[p]
			} else {
				when[i] = g.Out.Times[^p]
			}
		}
		b.Input = append(b.Input, asRows(local)...)
		b.Times = append(b.Times, when...)
		for i := range local {
			local[i] = int32(at + i)
		}
	}
	blk.NumSrc = len(b.Input)
	return nil
}

// loadPast is load for b.Input[lo:hi], of each list the edges before its moment. They are the same in every hop, so that
// only those of inputs that the hop before added are searched for.
func (s *Sampler) loadPast(g *Graph, b *Batch, lo, hi int) {
	if known := len(s.past); known < hi {
		s.past = s.pastOf(g.In, b, known, hi, s.past)
		if g.Out != nil {
			s.pastOut = s.pastOf(g.Out, b, known, hi, s.pastOut)
		}
	}
	s.in = s.past[lo:hi]
	if g.Out != nil {
		s.out = s.pastOut[lo:hi]
	}
}

// pastOf appends to spans those of b.Input[lo:hi] in a.
func (s *Sampler) pastOf(a *buffer.Adjacency, b *Batch, lo, hi int, spans []buffer.Span) []buffer.Span {
	spans = extend(spans, hi-lo)
	spansOf(a, b.Input[lo:hi], spans[lo:])
	s.cut(a.Times, spans[lo:], b.Times[lo:hi])
	return spans
}

// search is a search for where a list in order of time reaches a moment: at left, or at most size edges behind it.
type search struct {
	span        *buffer.Span
	moment      int64
	left, size  int64
	guess       int64   // where the moment may be
	first, last int64   // times of the list's ends, then of the window around guess
	perTime     float64 // edges, between the ends
}

// Of cut.
const (
	cutWindow = 8  // edges are compared with a moment at once
	cutReach  = 32 // edges beside a window are where a moment is likely that is not in it
	cutPause  = 15 // chunks are searched by halves after one whose times come unevenly
)

// cut shortens spans, in order of time, to their edges strictly before each one's moment. Where times come about evenly a list's
// place is guessed from its ends, and again from the time there (interpolation search; Yao and Yao, "The complexity of searching an
// ordered random table", FOCS 1976); what is left, or all where times come unevenly, is searched by halves. A step is made for all
// lists together, so that their cache misses overlap, and without branches that hang on times.
func (s *Sampler) cut(times []int64, spans []buffer.Span, moments []int64) {
	open := s.searches[:0]
	for i := range spans {
		span := &spans[i]
		if n := span.End - span.Begin; n > cutWindow {
			open = append(open, search{span: span, moment: moments[i], left: span.Begin, size: n})
			continue
		}
		n := int64(0)
		for _, t := range times[span.Begin:span.End] {
			n += isBefore(t, moments[i])
		}
		span.End = span.Begin + n
	}
	if s.cutPause == 0 {
		all := len(open)
		if open = interpolate(times, open); len(open) > all/2 {
			s.cutPause = cutPause
		}
	} else {
		s.cutPause--
	}
	s.halve(times, open)
}

// interpolate ends the searches whose places it guesses, and returns the others with what is left to search.
func interpolate(times []int64, open []search) []search {
	for i := range open {
		o := &open[i]
		o.first, o.last = times[o.left], times[o.left+o.size-1]
	}
	still := open[:0]
	for _, o := range open {
		switch {
		case o.first >= o.moment:
			o.span.End = o.span.Begin
		case o.last < o.moment:
		default:
			// Differences are unsigned: times may be further apart than an int64 says.
			o.perTime = float64(o.size-1) / float64(uint64(o.last)-uint64(o.first))
			o.guess = min(o.left+int64(float64(uint64(o.moment)-uint64(o.first))*o.perTime), o.span.End-1)
			o.first = times[o.guess]
			still = append(still, o)
		}
	}
	for i := range still {
		o := &still[i]
		if o.first <= o.moment {
			o.guess += int64(float64(uint64(o.moment)-uint64(o.first)) * o.perTime)
		} else {
			o.guess -= int64(float64(uint64(o.first)-uint64(o.moment)) * o.perTime)
		}
		o.guess = max(min(o.guess-cutWindow/2, o.span.End-cutWindow), o.left)
		o.first, o.last = times[o.guess], times[o.guess+cutWindow-1]
	}
	open, still = still, still[:0]
	for _, o := range open {
		switch {
		case o.first >= o.moment: // the moment is at the window's begin or before
			near := max(o.guess-cutReach, o.left)
			o.size = o.guess - o.left
			if times[near] < o.moment {
				o.left, o.size = near, o.guess-near
			}
		case o.last < o.moment: // behind the window
			far := min(o.guess+cutWindow+cutReach, o.span.End) - 1
			o.left, o.size = o.guess+cutWindow, o.span.End-o.guess-cutWindow
			if times[far] >= o.moment {
				o.size = far - o.left
			}
		default:
			o.span.End = o.guess + countBefore(times, o.guess, o.moment)
			continue
		}
		still = append(still, o)
	}
	return still
}

// halve ends all searches, of lists of more than cutWindow edges.
func (s *Sampler) halve(times []int64, open []search) {
	left := s.left[:0]
	for i := range open {
		if open[i].size > cutWindow {
			left = append(left, int32(i))
		}
	}
	s.left = left
	for len(left) > 0 {
		n := int64(0)
		for _, i := range left {
			o := &open[i]
			half := o.size >> 1
			o.left += half & -isBefore(times[o.left+half-1], o.moment)
			o.size -= half
			left[n] = i
			n += isBefore(cutWindow, o.size)
		}
		left = left[:n]
	}
	for i := range open {
		o := &open[i]
		from := min(o.left, o.span.End-cutWindow)
		o.span.End = from + countBefore(times, from, o.moment)
	}
}

// isBefore returns 1 where t is before moment, and 0 elsewhere, without a branch: whether it is, nobody can guess.
func isBefore(t, moment int64) (n int64) {
	if t < moment {
		n = 1
	}
	return n
}

// countBefore counts the times before moment of the cutWindow ones from number from on.
func countBefore(times []int64, from, moment int64) int64 {
	w := (*[cutWindow]int64)(times[from:])
	return isBefore(w[0], moment) + isBefore(w[1], moment) + isBefore(w[2], moment) + isBefore(w[3], moment) +
		isBefore(w[4], moment) + isBefore(w[5], moment) + isBefore(w[6], moment) + isBefore(w[7], moment)
}

// lasts is picks for the last edges of each span, from its end back.
func (s *Sampler) lasts(n, fanIn, fanOut, edges int) {
	s.pos = resize(s.pos, edges)
	pos := s.pos
	for i := range n {
		span := s.in[i]
		k := taken(span.End-span.Begin, fanIn)
		for j := range pos[:k] {
			pos[j] = span.End - 1 - int64(j)
		}
		pos = pos[k:]
		if fanOut == 0 {
			continue
		}
		span = s.out[i]
		k = taken(span.End-span.Begin, fanOut)
		for j := range pos[:k] {
			pos[j] = ^(span.End - 1 - int64(j))
		}
		pos = pos[k:]
	}
}
