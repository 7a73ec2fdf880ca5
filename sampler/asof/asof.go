// Package asof samples what was known at a moment: of a graph whose nodes have times, such as the rows of a database, a seed's
// tree of neighbours at its moment has nodes of that time or before and no others.
//
// Every seed has a tree of its own: a node that two seeds reach stands in both trees, so that what one seed may know by its later moment
// reaches no other. Neither are nodes made distinct within a tree. Unlike the walk of package mini, which goes back in time edge by edge
// (mini.Sampler.SampleAt), all of a tree is looked at at the seed's moment, as in Fey and others, "Relational Deep Learning: Graph
// Representation Learning on Relational Databases" (ICML 2024), section 3.2.
//
// A [Graph] is for any number of readers, a [Sampler] for one goroutine.
package asof

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// Always is the time of a node that was always there.
const Always = math.MinInt64

// Graph is a graph in memory whose nodes have times.
type Graph struct {
	in, out   *buffer.Adjacency
	times     []int64 // by row
	relations int
}

// NewGraph takes a macro-batch that holds the whole graph in both directions with relations, of which there are so many, and the time of
// each of its rows. It puts each list of neighbours in order of relation, then of time, then as it was: the adjacencies are its own from
// here on.
func NewGraph(mb *buffer.MacroBatch, times []int64, relations, threads int) (*Graph, error) {
	g := &Graph{in: mb.In, out: mb.Out, times: times, relations: relations}
	if mb.Out == nil || mb.In.Relations == nil || len(times) < mb.Rows {
		return nil, fmt.Errorf("asof: expected both directions, relations and %d times, found %d times", mb.Rows, len(times))
	}
	if relations > math.MaxUint16/4 {
		return nil, fmt.Errorf("asof: %d relations, at most %d are possible", relations, math.MaxUint16/4)
	}
	var group panics.Group
	threads = max(1, threads)
	for _, a := range []*buffer.Adjacency{g.in, g.out} {
		for t := range threads {
			group.Go(func() {
				for row := t * a.Rows() / threads; row < (t+1)*a.Rows()/threads; row++ {
					g.sort(a, a.Span(uint32(row)))
				}
			})
		}
		group.Wait()
	}
	return g, nil
}

// sort puts a list in order.
func (g *Graph) sort(a *buffer.Adjacency, s buffer.Span) {
	rows, relations := a.Indices[s.Begin:s.End], a.Relations[s.Begin:s.End]
	before := func(i, j int) int {
		return cmp.Or(cmp.Compare(relations[i], relations[j]), cmp.Compare(g.times[rows[i]], g.times[rows[j]]), cmp.Compare(i, j))
	}
	sorted := true
	for i := 1; i < len(rows) && sorted; i++ {
		sorted = before(i-1, i) < 0
	}
	if sorted {
		return
	}
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, before)
	oldRows, oldRelations := slices.Clone(rows), slices.Clone(relations)
	for i, k := range order {
		rows[i], relations[i] = oldRows[k], oldRelations[k]
	}
}

// Known are the rows from which edges of a relation lead to a row and that were known at a moment, the earliest first. They are the graph's.
func (g *Graph) Known(row uint32, relation int, moment int64) []uint32 {
	return g.known(g.in, row, relation, moment)
}

// Referred is [Graph.Known] of the rows to which edges of a relation lead from a row.
func (g *Graph) Referred(row uint32, relation int, moment int64) []uint32 {
	return g.known(g.out, row, relation, moment)
}

func (g *Graph) known(a *buffer.Adjacency, row uint32, relation int, moment int64) []uint32 {
	span := a.Span(row)
	relations, rows := a.Relations[span.Begin:span.End], a.Indices[span.Begin:span.End]
	lo := sort.Search(len(relations), func(i int) bool { return int(relations[i]) >= relation })
	hi := sort.Search(len(relations), func(i int) bool { return int(relations[i]) > relation })
	rows = rows[lo:hi]
	return rows[:sort.Search(len(rows), func(i int) bool { return g.times[rows[i]] > moment })]
}

// Relations is how many relations the blocks of a [Sampler] have: those of the graph, their inverses, and the latest edges of each alone.
func (g *Graph) Relations() int { return 4 * g.relations }

// Time is the time of a row.
func (g *Graph) Time(row uint32) int64 { return g.times[row] }

// Orders of neighbours.
const (
	Latest  = "latest"  // the last ones that were known
	Uniform = "uniform" // any of those that were known, without replacement
)

// Config says what a [Sampler] draws.
type Config struct {
	// Fanouts are the neighbours of a node by each relation and direction, hop by hop from the seeds on.
	Fanouts []int
	Order   string // Latest (or "") or Uniform
	// Recent is how many of the latest neighbours from which edges lead to a node are listed a second time, by each relation, as a relation
	// of their own, numbered 2·relations higher: a mean over neighbours then has one over these beside it. 0: none.
	Recent int
	Seed   uint64
}

// Sampler draws trees.
type Sampler struct {
	g    *Graph
	cfg  Config
	key  keyed.Key
	pick []int64
}

// New makes a sampler of a graph.
func New(g *Graph, cfg Config) (*Sampler, error) {
	if len(cfg.Fanouts) == 0 || slices.Min(cfg.Fanouts) < 1 || cfg.Recent < 0 {
		return nil, fmt.Errorf("asof: fanouts %v and %d recent neighbours, expected fanouts of 1 or more", cfg.Fanouts, cfg.Recent)
	}
	if !slices.Contains([]string{"", Latest, Uniform}, cfg.Order) {
		return nil, fmt.Errorf("asof: order %q (known: %s, %s)", cfg.Order, Latest, Uniform)
	}
	return &Sampler{g: g, cfg: cfg, key: keyed.New(cfg.Seed)}, nil
}

// Sample draws the trees of seeds, rows of the graph which may be listed more than once, each as of its moment, into b: a seed's own
// row is there whatever its time. A block's sources are its destinations, then the other end of each edge in order of edges; b.Times has
// the moment of each of b.Input, its seed's. Draws hang on key's epoch and on number, the batch's.
func (s *Sampler) Sample(key mini.Key, number uint64, seeds []uint32, moments []int64, b *mini.Batch) error {
	if len(seeds) != len(moments) {
		return fmt.Errorf("asof: %d seeds with %d moments", len(seeds), len(moments))
	}
	hops := len(s.cfg.Fanouts)
	b.Key, b.Seeds, b.Input, b.Times = key, append(b.Seeds[:0], seeds...), append(b.Input[:0], seeds...), append(b.Times[:0], moments...)
	if cap(b.Blocks) < hops {
		b.Blocks = make([]mini.Block, hops)
	}
	b.Blocks = b.Blocks[:hops]
	place := s.key.With(uint64(key.Epoch)).With(number)
	for h, fanout := range s.cfg.Fanouts {
		k := &b.Blocks[hops-1-h]
		k.NumDst = len(b.Input)
		k.Indptr, k.Indices, k.Relations, k.Degrees = append(k.Indptr[:0], 0), k.Indices[:0], k.Relations[:0], k.Degrees[:0]
		for d := range k.NumDst {
			row, moment := b.Input[d], b.Times[d]
			// Draws are keyed by the destination's place, which is that of its tree's beginning in each hop: trees stand one after another.
			r := place.With(uint64(h)).Rand(uint64(d))
			degree := s.list(&r, s.g.in, 0, row, moment, fanout, s.cfg.Recent, k, b) + s.list(&r, s.g.out, s.g.relations, row, moment, fanout, 0, k, b)
			k.Degrees = append(k.Degrees, int32(min(degree, math.MaxInt32)))
			k.Indptr = append(k.Indptr, int32(len(k.Indices)))
			if len(b.Input) > math.MaxInt32/2 {
				return fmt.Errorf("asof: %w: over %d nodes in a batch", mini.ErrTooLarge, math.MaxInt32/2)
			}
		}
		k.NumSrc = len(b.Input)
	}
	return nil
}

// list adds to block k the edges of a row by the relations of a, which are numbered from first on, and returns how many were known.
func (s *Sampler) list(r *keyed.Rand, a *buffer.Adjacency, first int, row uint32, moment int64, fanout, recent int, k *mini.Block, b *mini.Batch) (known int64) {
	times, span := s.g.times, a.Span(row)
	for lo := span.Begin; lo < span.End; {
		relation := a.Relations[lo]
		hi := lo + int64(sort.Search(int(span.End-lo), func(i int) bool { return a.Relations[lo+int64(i)] > relation }))
		n := int64(sort.Search(int(hi-lo), func(i int) bool { return times[a.Indices[lo+int64(i)]] > moment }))
		known += n
		s.pick = s.pick[:0]
		switch take := min(n, int64(fanout)); {
		case s.cfg.Order != Uniform || take == n:
			for e := lo + n - 1; e >= lo+n-take; e-- {
				s.pick = append(s.pick, e)
			}
		default:
			s.floyd(r, lo, n, take)
		}
		as := uint16(first + int(relation))
		for i, e := range s.pick {
			at := int32(len(b.Input))
			b.Input, b.Times = append(b.Input, a.Indices[e]), append(b.Times, moment)
			k.Indices, k.Relations = append(k.Indices, at), append(k.Relations, as)
			if i < recent {
				k.Indices, k.Relations = append(k.Indices, at), append(k.Relations, as+uint16(2*s.g.relations))
			}
		}
		lo = hi
	}
	return known
}

// floyd picks take of n edges from lo on, the latest first (Bentley and Floyd, "A sample of brilliance", 1987).
func (s *Sampler) floyd(r *keyed.Rand, lo, n, take int64) {
	for i := range take {
		j := n - take + i
		e := lo + int64(r.Below(uint64(j)+1))
		if slices.Contains(s.pick, e) {
			e = lo + j
		}
		s.pick = append(s.pick, e)
	}
	slices.SortFunc(s.pick, func(a, b int64) int { return cmp.Compare(b, a) })
}
