package mini

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// Names of [Config.Sampler]. All but Pinsage draw of a node's edges, without replacement, and take a list whole that is no longer than
// the fanout.
const (
	// Uniform draws every set of neighbours equally likely (GraphSAGE, Hamilton, Ying and Leskovec, NeurIPS 2017).
	Uniform = "uniform"
	// Weighted draws edges one after the other in proportion to their weights among those that are left (Efraimidis
	// and Spirakis, "Weighted random sampling with a reservoir", Information Processing Letters 97, 2006).
	Weighted = "weighted"
	// Labor draws for every node what Uniform would, and for the nodes of a batch together fewer different neighbours:
	// those that carry the smallest of random numbers that all of them share (LABOR-0 by sequential Poisson sampling, Balin and
	// Çatalyürek, "Layer-Neighbor Sampling", NeurIPS 2023, section 3.2 and appendix A.3).
	Labor = "labor"
	// Dense draws a node's neighbours once a batch, by the fanout of the hop that it is met at, and uses them in every layer:
	// only nodes that the hop before met first are drawn for (DENSE, Waleffe and others, "MariusGNN", EuroSys 2023, section
	// 4.1, algorithm 1). Batches are [Batch.Nested].
	Dense = "dense"
	// Pinsage takes for a node's neighbours the nodes that short random walks from it visit most (PinSage, Ying and others, "Graph
	// Convolutional Neural Networks for Web-Scale Recommender Systems", KDD 2018, section 3.2), as [Config.Walks] says: fanouts are how
	// many. They need not be adjacent to it. [Block.Visits] has their importance.
	Pinsage = "pinsage"
	// Temporal draws uniformly among the edges that were before the moment at which a node is looked at.
	Temporal = "temporal"
	// Latest takes the last of these.
	Latest = "latest"
)

// Samplers lists the names that draw for seeds without times.
func Samplers() []string { return []string{Uniform, Weighted, Labor, Dense, Pinsage} }

// TimedSamplers lists the names that draw for seeds at moments, by [Sampler.SampleAt].
func TimedSamplers() []string { return []string{Temporal, Latest} }

// drawer is what the samplers differ in: how a part of a node's edges is drawn.
type drawer interface {
	// check says what of g is missing that draw reads.
	check(g *Graph) error
	// draw fills in lists of a, one of g's directions. place is the hop's.
	draw(place keyed.Key, g *Graph, a *buffer.Adjacency, lists []list)
}

// list is a row's edges of which some are to be drawn: len(out) different positions of span, which has more.
type list struct {
	span buffer.Span
	out  []int64
	r    keyed.Rand // the row's own stream
}

// newDrawer returns the drawer called name; nil: the sampler makes the draws itself.
func newDrawer(name string) (drawer, error) {
	switch name {
	case "", Uniform, Dense, Pinsage, Temporal, Latest:
		return nil, nil
	case Weighted:
		return &weighted{removeUpTo: weightedShort}, nil
	case Labor:
		return &labor{}, nil
	}
	return nil, fmt.Errorf("option Sampler is %q: known are %s", name, strings.Join(slices.Concat(Samplers(), TimedSamplers()), ", "))
}

// timed reports whether seeds have moments.
func (c *Config) timed() bool { return slices.Contains(TimedSamplers(), c.Sampler) }

// adjacencies are those of g that there are.
func (g *Graph) adjacencies() []*buffer.Adjacency {
	if g.Out == nil {
		return []*buffer.Adjacency{g.In}
	}
	return []*buffer.Adjacency{g.In, g.Out}
}

// picksBy is picks for a drawer, of s.graph. All lists of a chunk and direction are drawn from together.
func (s *Sampler) picksBy(place keyed.Key, lo, hi, fanIn, fanOut, edges int) {
	s.pos = resize(s.pos, edges)
	s.fanIn = fanIn
	s.drawFrom(place, s.graph.In, s.in[:hi-lo], s.out, lo, fanIn, fanOut)
	if fanOut == 0 {
		return
	}
	s.drawFrom(place.With(1), s.graph.Out, s.out[:hi-lo], nil, lo, fanOut, 0)
	pos := s.pos
	for i, span := range s.in[:hi-lo] {
		pos = pos[taken(span.End-span.Begin, fanIn):]
		n := taken(s.out[i].End-s.out[i].Begin, fanOut)
		for j := range pos[:n] {
			pos[j] = ^pos[j]
		}
		pos = pos[n:]
	}
}

// drawFrom draws from spans of one direction. Of a node's places in s.pos those of In come first: others are Out's spans, nil when
// these are drawn from.
func (s *Sampler) drawFrom(place keyed.Key, a *buffer.Adjacency, spans, others []buffer.Span, lo, fanout, otherFanout int) {
	s.lists = s.lists[:0]
	pos := s.pos
	for i, span := range spans {
		if others == nil { // Out: In's places lie before
			pos = pos[taken(s.in[i].End-s.in[i].Begin, s.fanIn):]
		}
		n := span.End - span.Begin
		k := taken(n, fanout)
		if k == n {
			for j := range pos[:n] {
				pos[j] = span.Begin + int64(j)
			}
		} else {
			s.lists = append(s.lists, list{span: span, out: pos[:k], r: place.Rand(uint64(lo + i))})
		}
		pos = pos[k:]
		if others != nil && otherFanout != 0 {
			pos = pos[taken(others[i].End-others[i].Begin, otherFanout):]
		}
	}
	s.drawer.draw(place, &s.graph, a, s.lists)
}

// smallest keeps the k positions with the smallest keys of those that are offered: a heap with the largest on top.
type smallest struct {
	keys []float64
	pos  []int64
	n    int
}

// begin empties it for k positions, which go to out.
func (h *smallest) begin(out []int64) {
	h.keys, h.pos, h.n = resize(h.keys, len(out)), out, 0
}

// full reports whether k were offered.
func (h *smallest) full() bool { return h.n == len(h.pos) }

// worst is the largest key that is kept.
func (h *smallest) worst() float64 { return h.keys[0] }

// offer keeps p, in the place of the worst one where it is full; the caller has seen that key is smaller than that.
func (h *smallest) offer(key float64, p int64) {
	keys, pos := h.keys, h.pos
	if h.n < len(pos) { // sift up
		i := h.n
		h.n++
		for i > 0 {
			up := (i - 1) / 2
			if keys[up] >= key {
				break
			}
			keys[i], pos[i] = keys[up], pos[up]
			i = up
		}
		keys[i], pos[i] = key, p
		return
	}
	i := 0 // sift down from the top
	for {
		c := 2*i + 1
		if c >= len(pos) {
			break
		}
		if c+1 < len(pos) && keys[c+1] > keys[c] {
			c++
		}
		if keys[c] <= key {
			break
		}
		keys[i], pos[i] = keys[c], pos[c]
		i = c
	}
	keys[i], pos[i] = key, p
}
