package nn

import (
	"slices"

	"github.com/gstore/gstore/gpu"
)

// Grouper sorts a graph's edges by relation within each destination and gives
// them their [gpu.EdgeGroups]. It owns what the graph's tensors then refer to, so it serves
// one graph at a time; memory is reused. The zero value is ready.
type Grouper struct {
	// ByRelation also orders the groups by relation ([gpu.EdgeGroups].Order).
	ByRelation bool
	// Single makes each edge a group of its own, in the order of the edges: a destination's messages are then added up one by one in that
	// order, so that their sum has the same bits wherever the edges are cut.
	Single bool
	// Pairs is how many relations there are, where [gpu.EdgeGroups].Pairs are asked for; 0: they are not. With sources it
	// makes less than 2³¹.
	Pairs int
	// More lists, in ascending order, relations of which a destination has a group though it may have no edge; nil: none.
	More func(d int) []uint16

	indptr, indices []int32 // the graph's
	groups          []int32 // where each group's edges begin
	relations, dst  []int32 // of each group
	of, places      []int32
	order           []uint64 // of a destination's edges: relation, place
	ranks           []int32  // of each group in sorted
	pairs           []int32  // of each edge
	dstPairs        []uint32 // of each group
	sorted, sortDst []uint32 // groups by relation, and their destinations
}

// Groupers returns one for each of n graphs of a model of this description.
func (c *Config) Groupers(n int) []Grouper {
	kind := c.Kind()
	k := Grouper{ByRelation: kind.ByRelation, Single: kind.EachEdge}
	if kind.EachRelation {
		k.Pairs = c.Relations
	}
	return slices.Repeat([]Grouper{k}, n)
}

// Group sets g's edges and their groups from host memory: destination d has
// sources indices[indptr[d]:indptr[d+1]], relations lie in the same places.
// indptr may begin anywhere. The order of edges of one relation stays.
func (k *Grouper) Group(q *gpu.Queue, a *gpu.Arena, g *gpu.Graph, indptr, indices []int32, relations []uint16) {
	k.indices, k.relations, k.dst = k.indices[:0], k.relations[:0], k.dst[:0]
	k.indptr, k.groups, k.of = append(k.indptr[:0], 0), k.groups[:0], append(k.of[:0], 0)
	for d := range len(indptr) - 1 {
		k.order = k.order[:0]
		for e := indptr[d]; e < indptr[d+1]; e++ {
			k.order = append(k.order, uint64(relations[e])<<32|uint64(e))
		}
		if !k.Single {
			slices.Sort(k.order)
		}
		var more []uint16
		if k.More != nil {
			more = k.More(d)
		}
		for i, o := range k.order {
			if r := uint16(o >> 32); i == 0 || k.Single || r != uint16(k.order[i-1]>>32) {
				for ; len(more) > 0 && more[0] <= r; more = more[1:] {
					if more[0] < r {
						k.begin(more[0], d)
					}
				}
				k.begin(r, d)
			}
			k.indices = append(k.indices, indices[uint32(o)])
		}
		for _, r := range more {
			k.begin(r, d)
		}
		k.indptr, k.of = append(k.indptr, int32(len(k.indices))), append(k.of, int32(len(k.relations)))
	}
	k.groups = append(k.groups, int32(len(k.indices)))
	for i := len(k.places); i < len(k.groups); i++ {
		k.places = append(k.places, int32(i))
	}
	g.Indptr, g.Indices = a.Int32s(q, k.indptr), a.Int32s(q, k.indices)
	g.Groups = &gpu.EdgeGroups{Indptr: a.Int32s(q, k.groups), Relations: a.Int32s(q, k.relations), Dst: a.Int32s(q, k.dst),
		DstIndptr: a.Int32s(q, k.of), Places: a.Int32s(q, k.places[:len(k.groups)])}
	if k.Pairs > 0 {
		k.pair()
		g.Groups.Pairs, g.Groups.DstPairs = a.Int32s(q, k.pairs), a.Uint32s(q, k.dstPairs)
	}
	if k.ByRelation {
		g.Groups.Bounds = k.sort()
		g.Groups.Order, g.Groups.OrderDst, g.Groups.Ranks = a.Uint32s(q, k.sorted), a.Uint32s(q, k.sortDst), a.Int32s(q, k.ranks)
	}
}

// begin begins a group of a destination.
func (k *Grouper) begin(relation uint16, d int) {
	k.groups, k.relations, k.dst = append(k.groups, int32(len(k.indices))), append(k.relations, int32(relation)), append(k.dst, int32(d))
}

// pair numbers nodes as ends of a relation.
func (k *Grouper) pair() {
	k.pairs, k.dstPairs = k.pairs[:0], k.dstPairs[:0]
	for i, r := range k.relations {
		for _, s := range k.indices[k.groups[i]:k.groups[i+1]] {
			k.pairs = append(k.pairs, s*int32(k.Pairs)+r)
		}
		k.dstPairs = append(k.dstPairs, uint32(k.dst[i])*uint32(k.Pairs)+uint32(r))
	}
}

// sort orders the groups by relation, by counting, and returns where each relation's begin.
func (k *Grouper) sort() []int {
	bounds := []int{0}
	for _, r := range k.relations {
		for len(bounds) < int(r)+2 {
			bounds = append(bounds, 0)
		}
		bounds[r+1]++
	}
	for r := 1; r < len(bounds); r++ {
		bounds[r] += bounds[r-1]
	}
	next, n := slices.Clone(bounds), len(k.relations)
	k.sorted, k.sortDst, k.ranks = slices.Grow(k.sorted[:0], n)[:n], slices.Grow(k.sortDst[:0], n)[:n], slices.Grow(k.ranks[:0], n)[:n]
	for i, r := range k.relations {
		at := next[r]
		next[r]++
		k.sorted[at], k.sortDst[at], k.ranks[i] = uint32(i), uint32(k.dst[i]), int32(at)
	}
	return bounds
}

// Groups returns the relations and destinations of the groups made last.
func (k *Grouper) Groups() (relations, dst []int32) { return k.relations, k.dst }
