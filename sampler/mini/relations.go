package mini

import (
	"errors"
	"fmt"
	"math"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// byRelation draws of each relation's edges of a list as many as that relation's fanout: what [Config.RelationFanouts] asks for. A list
// is read whole, 2 bytes an edge, as its edges lie in the order of their other ends.
type byRelation struct {
	counts []int64  // of a list's edges, by relation; 0 between lists
	met    []uint16 // relations with counts
	ends   []int64  // parallel to met: where their edges end in at
	at     []int64  // positions of a list's edges, those of a relation together
}

// check says what of g is missing.
func (d *byRelation) check(g *Graph) error {
	for _, a := range g.adjacencies() {
		if len(a.Relations) < len(a.Indices) {
			return errors.New("mini: fanouts of relations: the macro-batch has no relations of edges")
		}
	}
	return nil
}

// picksByRelation is count and picks for [Config.RelationFanouts]: it returns how many edges the chunk's nodes get. A relation's draws
// of a node have a stream of their own, so that they are the same whatever the others' fanouts.
func (s *Sampler) picksByRelation(place keyed.Key, h, lo int, names []uint32, n int, g *Graph, blk *Block) (int, error) {
	first := int64(blk.Indptr[len(blk.Indptr)-1])
	s.pos = s.pos[:0]
	for i := range n {
		at := uint64(lo + i)
		if names != nil {
			at = uint64(names[i])
		}
		degree := s.in[i].End - s.in[i].Begin
		s.pos = s.relations.draw(place, at, g.In, s.in[i], &s.cfg, h, 0, s.pos, &s.large)
		if g.Out != nil {
			from := len(s.pos)
			s.pos = s.relations.draw(place, at, g.Out, s.out[i], &s.cfg, h, g.Relations, s.pos, &s.large)
			for j := range s.pos[from:] {
				s.pos[from+j] = ^s.pos[from+j]
			}
			degree += s.out[i].End - s.out[i].Begin
		}
		end := first + int64(len(s.pos))
		if end > math.MaxInt32 {
			return 0, fmt.Errorf("%w: over %d edges in one block; use smaller batches or fanouts", ErrTooLarge, math.MaxInt32)
		}
		blk.Indptr = append(blk.Indptr, int32(end))
		blk.Degrees = append(blk.Degrees, int32(min(degree, math.MaxInt32)))
	}
	return len(s.pos), nil
}

// draw appends to pos the positions drawn from a list of a for hop h. inverse is what is added to its relations.
func (d *byRelation) draw(place keyed.Key, at uint64, a *buffer.Adjacency, span buffer.Span, c *Config, h, inverse int, pos []int64, large *[]int64) []int64 {
	if span.Begin == span.End {
		return pos
	}
	relations := a.Relations[span.Begin:span.End]
	d.met, d.ends = d.met[:0], d.ends[:0]
	for _, r := range relations {
		if int(r) >= len(d.counts) {
			d.counts = append(d.counts, make([]int64, int(r)+1-len(d.counts))...)
		}
		if d.counts[r] == 0 {
			d.met = append(d.met, r)
		}
		d.counts[r]++
	}
	// Positions by relation: counts become where a relation's edges begin, then where they end.
	d.at = resize(d.at, len(relations))
	begin := int64(0)
	for _, r := range d.met {
		d.counts[r], begin = begin, begin+d.counts[r]
		d.ends = append(d.ends, begin)
	}
	for i, r := range relations {
		d.at[d.counts[r]] = span.Begin + int64(i)
		d.counts[r]++
	}
	begin = 0
	for i, r := range d.met {
		d.counts[r] = 0
		n := d.ends[i] - begin
		k := taken(n, c.relationFanout(h, int(r), inverse))
		if k == n {
			pos = append(pos, d.at[begin:d.ends[i]]...)
		} else {
			from := len(pos)
			pos = extend(pos, int(k))
			stream := place.With(uint64(int(r) + inverse)).Rand(at)
			pick(&stream, begin, n, pos[from:], large)
			for j := range pos[from:] {
				pos[from+j] = d.at[pos[from+j]]
			}
		}
		begin = d.ends[i]
	}
	return pos
}

// relationFanout is the fanout of a relation in hop h, 0 of one that is not drawn. inverse is what is added to relations of the direction.
func (c *Config) relationFanout(h, relation, inverse int) int {
	if c.Without != nil && relation+inverse < len(c.Without[h]) && c.Without[h][relation+inverse] {
		return 0
	}
	if of := c.RelationFanouts[h]; relation < len(of) {
		return of[relation]
	}
	return c.Fanouts[h]
}
