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
	step := chunkStep(fanIn, fanOut)
	for lo := 0; lo < n; lo += step {
		hi := min(lo+step, n)
		s.load(*g, b.Input[lo:hi])
		s.cut(g.In.Times, s.in[:hi-lo], b.Times[lo:hi])
		if fanOut != 0 {
			s.cut(g.Out.Times, s.out[:hi-lo], b.Times[lo:hi])
		}
		edges, err := s.count(blk, fanIn, fanOut, hi-lo)
		if err != nil {
			return err
		}
		from := len(blk.Indices)
		blk.Indices = extend(blk.Indices, edges)
		if blk.Relations != nil {
			blk.Relations = extend(blk.Relations, edges)
		}
		if s.cfg.Sampler == Latest {
			s.lasts(hi-lo, fanIn, fanOut, edges)
		} else {
			s.picks(place, lo, nil, hi-lo, fanIn, fanOut, edges)
		}
		s.gather(*g, blk, from)
		for _, p := range s.pos[:edges] {
			t := int64(0)
			if p >= 0 {
				t = g.In.Times[p]
			} else {
				t = g.Out.Times[^p]
			}
			blk.Times = append(blk.Times, t)
		}
		if len(b.Input)+edges > math.MaxInt32 {
			return fmt.Errorf("%w: over %d sources", ErrTooLarge, math.MaxInt32)
		}
		local := blk.Indices[from:]
		at := int32(len(b.Input))
		b.Input = append(b.Input, asRows(local)...)
		b.Times = append(b.Times, blk.Times[from:]...)
		for i := range local {
			local[i] = at + int32(i)
		}
	}
	blk.NumSrc = len(b.Input)
	return nil
}

// search is a binary search for where a list reaches a moment.
type search struct {
	at         int32
	moment     int64
	left, size int64
}

// cut shortens spans, in order of time, to their edges strictly before each one's moment. All binary searches go a step
// together, so that their cache misses overlap.
func (s *Sampler) cut(times []int64, spans []buffer.Span, moments []int64) {
	open := s.searches[:0]
	for i, span := range spans {
		if span.Begin < span.End {
			open = append(open, search{at: int32(i), moment: moments[i], left: span.Begin, size: span.End - span.Begin})
		}
	}
	// Everything before left is before the moment; size edges are undecided.
	for len(open) > 0 {
		still := open[:0]
		for _, o := range open {
			half := o.size >> 1
			if times[o.left+half] < o.moment {
				o.left, o.size = o.left+half+1, o.size-half-1
			} else {
				o.size = half
			}
			if o.size > 0 {
				still = append(still, o)
			} else {
				spans[o.at].End = o.left
			}
		}
		open = still
	}
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
