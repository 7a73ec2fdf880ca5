package mini

import "github.com/gstore/gstore/store/buffer"

// gather is stage three: the rows (and relations) at the picked positions.
func (s *Sampler) gather(g Graph, blk *Block, from int) {
	dst := blk.Indices[from:]
	pos := s.pos[:len(dst)]
	if s.cfg.Places {
		copy(blk.Places[from:], pos)
	}
	if s.cfg.Weights {
		weights := blk.Weights[from:]
		for i, p := range pos {
			of := g.In
			if p < 0 {
				of, p = g.Out, ^p
			}
			weights[i] = of.Weights[p]
		}
	}
	if g.Out == nil {
		indices := g.In.Indices
		for i, p := range pos {
			dst[i] = int32(indices[p])
		}
		if blk.Relations != nil {
			rel := blk.Relations[from:]
			for i, p := range pos {
				rel[i] = g.In.Relations[p]
			}
		}
		return
	}
	for i, p := range pos {
		if p >= 0 {
			dst[i] = int32(g.In.Indices[p])
		} else {
			dst[i] = int32(g.Out.Indices[^p])
		}
	}
	if blk.Relations == nil {
		return
	}
	rel := blk.Relations[from:]
	for i, p := range pos {
		if p >= 0 {
			rel[i] = g.In.Relations[p]
		} else {
			rel[i] = g.Out.Relations[^p] + uint16(g.Relations)
		}
	}
}

// copyAll is stages two and three when every neighbour is taken: whole runs are copied.
func (s *Sampler) copyAll(a *buffer.Adjacency, blk *Block, from, n int) {
	dst := asRows(blk.Indices[from:])
	for _, span := range s.in[:n] {
		dst = dst[copy(dst, a.Indices[span.Begin:span.End]):]
	}
	if s.cfg.Weights {
		weights := blk.Weights[from:]
		for _, span := range s.in[:n] {
			weights = weights[copy(weights, a.Weights[span.Begin:span.End]):]
		}
	}
	if s.cfg.Places {
		places := blk.Places[from:]
		for _, span := range s.in[:n] {
			for i := range places[:span.End-span.Begin] {
				places[i] = span.Begin + int64(i)
			}
			places = places[span.End-span.Begin:]
		}
	}
	if blk.Relations == nil {
		return
	}
	rel := blk.Relations[from:]
	for _, span := range s.in[:n] {
		rel = rel[copy(rel, a.Relations[span.Begin:span.End]):]
	}
}

// extend lengthens s by n elements of unspecified contents.
func extend[T any](s []T, n int) []T {
	if len(s)+n <= cap(s) {
		return s[:len(s)+n]
	}
	return append(s, make([]T, n)...)
}
