package partitioner

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner/coarse"
	"github.com/gstore/gstore/partitioner/graph"
)

// Tuned on debdeps, Cora, a block model of 1 M nodes and an R-MAT graph (docs/benchmarks.md, "Partitioning").
const (
	groupsPerPart    = 7       // the largest group is 1/7 of a partition
	levelShrinkMin   = 0.8     // a level with more of the last one's nodes than this is not worth it
	coarseSettled    = 2000    // a pass that moves less than 1/2000 of the nodes is the last
	coarsePasses     = 4       // over each coarse level
	bisectEntriesMax = 1 << 21 // a coarsest level with more entries is placed by FENNEL
	startsMax        = 3       // first placements, of which the best stays
	startWork        = 1 << 19 // entries of the first coarser level that all of them may read
	bisectEntryBytes = 5 * coarse.EdgeBytes
	levelsPassesMin  = 3 // one to grow groups, one to contract them, one to refine
)

// multilevel is FENNEL on levels of coarser graphs: groups grow by label propagation, the coarsest graph is bisected
// recursively, and every level is refined by FENNEL's score, down to the nodes. A second cycle grows groups within
// the partitions of the first. Every coarser graph is in memory.
//
// At most o.Passes times are all lists of the input read, or those that may have changed.
type multilevel struct {
	ctx    context.Context
	o      Options
	g      graph.RandomAccess
	c      *coarse.Crew
	part   []blocks.PartitionID
	label  []uint32 // memory for the input's groups
	weight []uint32
	member []uint32
	active [2][]uint64
	refine float64 // weight of balance
	full   float64 // FENNEL's
	limit  uint32
	pass   int
}

// multilevelNodeBytes is what a node takes besides its partition, and multilevelBytes what small graphs do.
const (
	multilevelNodeBytes = 13
	multilevelBytes     = 4 << 20
)

// levels places all nodes in part, from o.Initial if that is given. It reports whether coarser graphs fit the memory: if
// not, part is as it was.
func (r *restreamer) levels(g graph.RandomAccess, part []blocks.PartitionID, memory int64) (fits bool, err error) {
	n := int(g.Nodes())
	var a graph.Arrays
	defer a.Free()
	words := func() []uint64 {
		b := a.Bytes(8 * int64((n+63)/64))
		if b == nil {
			return nil
		}
		return unsafe.Slice((*uint64)(unsafe.Pointer(&b[0])), len(b)/8)
	}
	m := &multilevel{
		ctx: r.ctx, o: r.o, g: g, c: coarse.NewCrew(r.o.Threads), part: part, full: r.full, refine: r.refine * r.full, limit: r.o.limit(uint64(n)),
		label: a.Uint32s(n), weight: a.Uint32s(n), member: a.Uint32s(n), active: [2][]uint64{words(), words()},
	}
	if a.Err != nil {
		return false, a.Err
	}
	m.c.Read = r.o.Reading
	// A cycle's readings: half of them grow groups, one contracts, the rest refines.
	cycles, placed := 2, r.o.Initial != nil
	if r.o.Passes < 2*levelsPassesMin {
		cycles = 1
	}
	for cycle := range cycles {
		settled, fits, err := m.cycle(cycle+1, r.o.Passes/cycles, placed, memory)
		r.pass = m.pass
		for _, w := range m.c.Workers {
			w.Arena.Release()
		}
		if err != nil {
			return false, fmt.Errorf("%s pass %d: %w", r.o.Method, m.pass, err)
		}
		if !fits {
			return placed && r.o.Initial == nil, nil // a first cycle stands without a second
		}
		if placed = true; settled {
			break
		}
	}
	return true, nil
}

// tell reports a reading of the input's lists.
func (m *multilevel) tell(cycle, level int, moved uint64, cutRate, largest float64) {
	m.pass++
	if m.o.Progress != nil {
		m.o.Progress(Pass{Method: m.o.Method, Pass: m.pass, Level: level, Cycle: cycle, Edges: m.g.Entries() / 2, Moved: moved, CutRate: cutRate, Largest: largest})
	}
}

// cycle coarsens, within the partitions of part if nodes are placed, and refines. It is settled if the input's own nodes stay
// where their groups were put.
func (m *multilevel) cycle(cycle, passes int, placed bool, memory int64) (settled, fits bool, err error) {
	n, rounds := int(m.g.Nodes()), passes/2
	var space coarse.Room
	space.Left.Store(math.MaxInt64)
	if m.o.MemoryBytes > 0 {
		space.Left.Store(memory)
	}
	levels, part, err := m.coarsen(cycle, rounds, placed, &space)
	if err != nil || levels == nil {
		return false, false, err
	}
	top := len(levels) - 1
	switch {
	case placed:
		part, err = m.refineLevels(levels, part)
	case top == 0:
		part, err = m.part, m.initial(levels[top], 0, m.part, &space)
	default:
		part, err = m.start(levels, &space)
	}
	if err != nil {
		return false, false, err
	}
	if top > 0 {
		for v, p := range levels[0].Parent {
			m.part[v] = part[p]
		}
	}
	left := passes - rounds - 1
	s := m.c.Place(levels[0], m.part, m.o.Partitions, m.limit, uint64(n))
	var active []uint64
	for i := range left {
		next := m.active[i%2]
		clear(next)
		if err := m.c.Pass(m.ctx, s, m.refine, active, next); err != nil {
			return false, false, err
		}
		m.tell(cycle, 0, s.Moved, 1-float64(s.Kept.Load())/max(float64(m.g.Entries()), 1), s.Largest())
		if s.Moved <= uint64(n/coarseSettled) {
			return i == 0, true, nil
		}
		active = next
	}
	return false, true, nil
}

// coarsen returns the levels, the input first, and where the coarsest's nodes are if the input's are placed. nil: they do
// not fit.
func (m *multilevel) coarsen(cycle, rounds int, placed bool, space *coarse.Room) (levels []*coarse.Level, part []blocks.PartitionID, err error) {
	n := int(m.g.Nodes())
	limit := uint32(max(float64(n)/float64(m.o.Partitions)/groupsPerPart, 1))
	levels = []*coarse.Level{{Nodes: n, Fine: m.g}}
	if placed {
		part = m.part
	}
	for limit > 1 {
		l := levels[len(levels)-1]
		k := &coarse.Clustering{Level: l, Limit: limit, Part: part, Label: m.label, Weight: m.weight, Active: m.active}
		done := func(moved uint64) { m.tell(cycle, 1, moved, -1, 0) }
		if l.Fine == nil {
			if !space.Take(8 * int64(l.Nodes)) {
				return nil, nil, nil
			}
			k.Label, k.Weight, done = make([]uint32, l.Nodes), make([]uint32, l.Nodes), func(uint64) {}
		}
		groups, err := m.c.Cluster(m.ctx, k, max(rounds, 1), done)
		if err != nil {
			return nil, nil, err
		}
		if float64(groups) > levelShrinkMin*float64(l.Nodes) && l.Fine == nil || groups == l.Nodes {
			break
		}
		l.Parent = k.Label
		up, err := m.c.Contract(l, groups, m.member, space)
		if err != nil || up == nil {
			return nil, nil, err
		}
		if l.Fine != nil {
			m.tell(cycle, 1, 0, -1, 0)
		}
		if placed {
			part = make([]blocks.PartitionID, groups)
			for v, p := range l.Parent {
				part[p] = k.Part[v]
			}
		}
		levels = append(levels, up)
	}
	return levels, part, nil
}

// start places the coarsest level's nodes and refines down to the first coarser level, of which it returns the partitions. Where
// that is little work it is done from several seeds, and the smallest cut stays.
func (m *multilevel) start(levels []*coarse.Level, space *coarse.Room) (best []blocks.PartitionID, err error) {
	coarsest, first := levels[len(levels)-1], levels[1]
	least := uint64(0)
	for i := range min(max(startWork/int(first.Entries()+1), 1), startsMax) {
		part := make([]blocks.PartitionID, coarsest.Nodes)
		if err := m.initial(coarsest, uint64(i), part, space); err != nil {
			return nil, err
		}
		if part, err = m.refineLevels(levels, part); err != nil {
			return nil, err
		}
		if cut := first.Cut(part); best == nil || cut < least {
			best, least = part, cut
		}
	}
	return best, nil
}

// refineLevels refines from the coarsest level, whose nodes are in part, to the first coarser one, of which it returns the
// partitions.
func (m *multilevel) refineLevels(levels []*coarse.Level, part []blocks.PartitionID) ([]blocks.PartitionID, error) {
	for i := len(levels) - 1; i > 0; i-- {
		if err := m.refineCoarse(levels[i], part); err != nil {
			return nil, err
		}
		if i > 1 {
			finer := make([]blocks.PartitionID, levels[i-1].Nodes)
			for v, p := range levels[i-1].Parent {
				finer[v] = part[p]
			}
			part = finer
		}
	}
	return part, nil
}

// initial places the coarsest level's nodes: by recursive bisection, or by FENNEL with little weight of balance at first, so
// that groups gather before balance splits them.
func (m *multilevel) initial(l *coarse.Level, seed uint64, part []blocks.PartitionID, space *coarse.Room) error {
	e := l.Entries()
	if bytes := int64(e) * bisectEntryBytes; l.Fine == nil && e <= bisectEntriesMax && space.Take(bytes) {
		defer space.Take(-bytes)
		return coarse.Bisect(m.ctx, l, m.g.Entries(), m.o.Partitions, m.o.Slack, graph.Mix(m.o.Seed)+seed, part)
	}
	for v := range part {
		part[v] = blocks.PartitionID(m.o.Partitions)
	}
	s := m.c.Place(l, part, m.o.Partitions, m.limit, m.g.Nodes())
	for i := range DefaultPasses {
		if err := m.c.Pass(m.ctx, s, anneal(i, DefaultPasses)*m.full, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// refineCoarse lets a coarse level's nodes choose until few move.
func (m *multilevel) refineCoarse(l *coarse.Level, part []blocks.PartitionID) error {
	s := m.c.Place(l, part, m.o.Partitions, m.limit, m.g.Nodes())
	var active []uint64
	for i := range coarsePasses {
		next := m.active[i%2][:(l.Nodes+63)/64]
		clear(next)
		if err := m.c.Pass(m.ctx, s, m.refine, active, next); err != nil {
			return err
		}
		if s.Moved <= m.g.Nodes()/coarseSettled {
			break
		}
		active = next
	}
	return nil
}
