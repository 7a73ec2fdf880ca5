package partitioner

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gstore/gstore/partitioner/graph"
)

// Weights of balance and, for gap's groups, numbers of levels; tuned on debdeps, Cora and a 1 M-node block model.
const (
	weightMin       = 0.5 // a graph with hardly an edge is still balanced
	refineWeight    = 0.2 // of FENNEL's weight, once partitions have taken shape
	labelWeight     = 0.3 // of it in gap's refinement: more balances labels better and keeps fewer edges
	labelWeightMax  = 1.2 // of it where labels would break their bound
	refinePasses    = 4
	groupGrowth     = 4  // a level's groups are at most this much larger than the last one's
	groupsPerTarget = 14 // the largest group is 1/14 of a partition
)

// anneal is the share of FENNEL's weight of balance in pass i of n: little at first, so that
// groups gather before balance splits them.
func anneal(i, n int) float64 {
	if n == 1 {
		return 0.5
	}
	return 0.2 + 0.5*float64(i)/float64(n-1)
}

// restreamer runs the passes of fennel and gap.
type restreamer struct {
	ctx  context.Context
	g    graph.Graph
	o    Options
	s    *streamer
	full float64 // FENNEL's weight: 3/2·|E|/|V|
	// refine is the share of it once partitions have taken shape.
	refine float64
	pass   int
}

// restream is FENNEL, or GAP with o.Classes, refined over several passes
// (thesis section 4.3.2, Algorithm 2, whose input is the assignment to refine).
func restream(ctx context.Context, g graph.Graph, o Options) (*Assignment, error) {
	nodes := g.Nodes()
	var classes []uint16
	count := []uint64{nodes}
	if o.Method == MethodGAP {
		classes, count = o.Classes, classCounts(o.Classes)
	}
	access, _ := g.(graph.RandomAccess)
	need := o.Need(nodes)
	flat := need.Stream
	if access != nil && o.Order != OrderNatural {
		flat += 4*int64(nodes) + 4*int64(bitWords(int(nodes)))
	}
	fits := func(n int64) bool { return o.MemoryBytes == 0 || n <= o.MemoryBytes }
	if !fits(flat) {
		return nil, fmt.Errorf("%w: %s over %d nodes and %d partitions needs %d bytes besides the graph, the budget has %d",
			ErrBudget, o.Method, nodes, o.Partitions, flat, o.MemoryBytes)
	}
	r := &restreamer{ctx: ctx, g: g, o: o, refine: refineWeight, full: max(0.75*float64(g.Entries())/max(float64(nodes), 1), weightMin)}
	part := newPart(nodes, &o)
	done := &Assignment{part: part, partitions: o.Partitions}
	leveled := !o.Flat && access != nil && fits(need.Array) && (o.Passes == 0 || o.Passes >= levelsPassesMin)
	if leveled {
		r.o.Passes = cmp.Or(o.Passes, DefaultLevelPasses)
		var err error
		if leveled, err = r.levels(access, part, o.MemoryBytes-need.Array); err != nil || leveled && classes == nil {
			return done, err
		}
	}
	r.o.Passes = max(cmp.Or(o.Passes, DefaultPasses)-r.pass, 1) // coarser graphs that did not fit took some
	r.s = newStreamer(part, o.Partitions, classes, count, o.limit(nodes), o.LabelShare)
	bound, err := r.labelBound()
	if err != nil {
		return nil, err
	}
	if leveled { // gap refines fennel's partitions, whole groups first
		err = r.leveledLabels(access, bound)
	} else {
		err = r.flat(access)
	}
	if err == nil {
		err = r.boundLabels(access, bound)
	}
	return done, err
}

// classCounts has one entry a class, up to the largest.
func classCounts(classes []uint16) []uint64 {
	var count []uint64
	for _, c := range classes {
		for int(c) >= len(count) {
			count = append(count, 0)
		}
		count[c]++
	}
	return count
}

// run makes one pass: visit places what it visits.
func (r *restreamer) run(cycle, level int, weight float64, visit func() error) error {
	r.pass++
	r.s.setWeight(weight * r.full)
	if err := visit(); err != nil {
		return fmt.Errorf("%s pass %d: %w", r.o.Method, r.pass, err)
	}
	if r.o.Progress != nil {
		r.o.Progress(Pass{
			Method: r.o.Method, Pass: r.pass, Level: level, Cycle: cycle, Edges: r.g.Entries() / 2, Moved: r.s.moved,
			CutRate: 1 - float64(r.s.kept)/max(float64(r.g.Entries()), 1),
			Largest: float64(r.s.largest()) / r.s.whole,
		})
	}
	return nil
}

// settled reports whether another pass would change next to nothing.
func (r *restreamer) settled() bool { return r.s.moved <= r.g.Nodes()/2000 }

// flat places single nodes, o.Passes times. FENNEL's own weight comes first; when
// partitions have taken shape, less of it lets nodes follow their neighbours, up to the limit.
func (r *restreamer) flat(access graph.RandomAccess) error {
	var a graph.Arrays
	defer a.Free()
	visit, err := r.singles(&a, access)
	if err != nil {
		return err
	}
	for i := range r.o.Passes {
		weight := 1.0
		if r.o.Method == MethodFennel && i >= (r.o.Passes+1)/2 {
			weight = 0.5
		}
		if err := r.run(1, 0, weight, visit); err != nil {
			return err
		}
		if r.settled() && weight < 1 {
			break
		}
	}
	return nil
}

// readStep is how many nodes a pass in a given order tells of at a time.
const readStep = 1 << 12

// singles returns a pass over single nodes in the order asked for.
func (r *restreamer) singles(a *graph.Arrays, access graph.RandomAccess) (visit func() error, err error) {
	if access == nil || r.o.Order == OrderNatural {
		return r.streamPass, nil
	}
	n := int(r.g.Nodes())
	order, scratch := a.Uint32s(n), a.Uint32s(bitWords(n))
	if a.Err != nil {
		return nil, a.Err
	}
	first, gone := r.o.Order == OrderBFS, 0
	place := func(nodes []uint32, l *graph.Lists) {
		for i, v := range nodes {
			r.s.place(v, l.Of(i))
		}
		if gone += len(nodes); gone >= readStep {
			r.o.read(gone)
			gone = 0
		}
	}
	if !first {
		r.o.Order.fill(access, r.o.Seed, order, scratch)
	}
	return func() error {
		if first { // the first pass goes breadth-first, the others in the order that it found
			first = false
			return breadthFirst(r.ctx, access, order, scratch, place)
		}
		return inOrder(r.ctx, access, order, place)
	}, nil
}

func (r *restreamer) streamPass() error {
	stream, err := r.g.Stream(r.ctx)
	if err != nil {
		return err
	}
	for stream.Next() {
		c := stream.Chunk()
		for i := range c.Len() {
			r.s.place(c.First+uint32(i), c.Neighbours(i))
		}
		r.o.read(c.Len())
	}
	if err := stream.Err(); err != nil {
		_ = stream.Close()
		return err
	}
	return stream.Close()
}

// groupedLabels places groups of nodes that lie within partitions, then the smaller groups that they are made of,
// down to single nodes.
func (r *restreamer) groupedLabels(g graph.RandomAccess, cycle int) error {
	var a graph.Arrays
	defer a.Free()
	n := g.Nodes()
	order := withSpare(&a, int(n))
	h := newHierarchy(&a, g, order)
	if a.Err != nil {
		return a.Err
	}
	r.o.Order.fill(g, r.o.Seed, order, h.spareOrder)
	largest := float64(n) / float64(r.o.Partitions) / groupsPerTarget
	groups := int(n)
	for size := float64(groupGrowth); ; size *= groupGrowth {
		limit := uint32(min(size, largest))
		if limit < 2 {
			break
		}
		got, err := h.grow(r.ctx, limit, r.s.part)
		if err != nil {
			return err
		}
		if size >= largest || float64(got) > 0.95*float64(groups) {
			break
		}
		groups = got
	}
	for level := h.top; level >= 0; level-- {
		for range refinePasses {
			err := r.run(cycle, level, r.refine, func() error {
				return h.groups(r.ctx, level, func(members []uint32) { r.s.placeGroup(g, members) })
			})
			if err != nil {
				return err
			}
			if r.settled() {
				break
			}
		}
	}
	return nil
}
