// Package coarse has the steps of a multilevel partitioning (METIS, section 3; Meyerhenke, Sanders and Schulz): a [Level]
// is a graph of weighted groups; label propagation clusters it into a smaller one, bisection divides the smallest, and
// passes refine the places of groups from level to level. A [Crew] does each on all threads, with the same result on any
// number of them.
package coarse

import (
	"sync/atomic"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/partitioner/graph"
)

// Level is a graph of a multilevel partitioner: the input's, or one whose nodes are groups of the finer level's nodes
// and whose edges are weighed by the edges between groups.
type Level struct {
	Nodes int
	Fine  graph.RandomAccess // the input; nil on coarser levels, which have all that follows
	lists [][]edge           // of listBlock nodes each, one after the other
	end   []uint32           // by node: where its list ends in its block
	size  []uint32           // by node: nodes of the input in it
	// parent is each node's group, the next coarser level's node; nil on the coarsest.
	Parent []uint32
}

// edge is a neighbour of a coarser level's node, and how many edges of the input lead there.
type edge struct{ to, weight uint32 }

const (
	EdgeBytes = 8
	listBlock = 64
)

// neighbours of node v of a coarser level.
func (l *Level) neighbours(v uint32) []edge {
	from, b := uint32(0), v/listBlock
	if v%listBlock != 0 {
		from = l.end[v-1]
	}
	return l.lists[b][from:l.end[v]]
}

// degree is the length of v's list.
func (l *Level) degree(v uint32) int {
	if l.Fine != nil {
		return l.Fine.Degree(v)
	}
	return len(l.neighbours(v))
}

// Weight is how many of the input's nodes v stands for.
func (l *Level) weight(v uint32) uint32 {
	if l.size == nil {
		return 1
	}
	return l.size[v]
}

// Entries is the number of list entries of a coarser level.
func (l *Level) Entries() uint64 {
	n := uint64(0)
	for _, b := range l.lists {
		n += uint64(len(b))
	}
	return n
}

// Cut is the weight of a coarser level's edges between partitions, from both their ends.
func (l *Level) Cut(part []blocks.PartitionID) uint64 {
	cut := uint64(0)
	for v := range part {
		for _, e := range l.neighbours(uint32(v)) {
			if part[e.to] != part[v] {
				cut += uint64(e.weight)
			}
		}
	}
	return cut
}

// Room is the memory that coarser levels may still take, counted in what they hold, not in slabs: whether
// a level fits does not depend on which worker built what. It is safe for concurrent use.
type Room struct{ Left atomic.Int64 }

// Take reports whether there is room for so many bytes more, and takes it.
func (r *Room) Take(bytes int64) bool { return r.Left.Add(-bytes) >= 0 }

// Arena hands out lists outside the Go heap, from slabs.
type Arena struct {
	slabs []*blockio.Slab
	free  []edge
	err   error
}

const arenaSlab = 1 << 20

// keep copies a list into the arena.
func (a *Arena) keep(list []edge) []edge {
	if len(list) == 0 || a.err != nil {
		return nil
	}
	if len(a.free) < len(list) {
		s, err := blockio.AllocSlab(max(arenaSlab, EdgeBytes*int64(len(list))), blockio.SlabOptions{Lazy: true})
		if err != nil {
			a.err = err
			return nil
		}
		a.slabs = append(a.slabs, s)
		b := s.Bytes()
		a.free = unsafe.Slice((*edge)(unsafe.Pointer(&b[0])), len(b)/EdgeBytes)
	}
	kept := a.free[:len(list):len(list)]
	a.free = a.free[len(list):]
	copy(kept, list)
	return kept
}

// Release forgets the lists.
func (a *Arena) Release() {
	for _, s := range a.slabs {
		_ = s.Free() // munmap of our own mapping: nothing a caller could do
	}
	*a = Arena{}
}

// Contract builds the graph of the groups that l.parent names; member has room for l's nodes. It is nil if there is no
// room for it.
func (c *Crew) Contract(l *Level, groups int, member []uint32, r *Room) (*Level, error) {
	if !r.Take(int64(groups) * (4*3 + 4*int64(len(c.Workers)))) {
		return nil, nil
	}
	up := &Level{Nodes: groups, end: make([]uint32, groups), size: make([]uint32, groups), lists: make([][]edge, (groups+listBlock-1)/listBlock)}
	end := make([]uint32, groups)
	for v, p := range l.Parent {
		up.size[p] += l.weight(uint32(v))
		end[p]++
	}
	sum := uint32(0)
	for p, n := range end {
		end[p] = sum
		sum += n
	}
	for v, p := range l.Parent { // end[p] is where p's next member goes, then where they end
		member[end[p]] = uint32(v)
		end[p]++
	}
	for _, w := range c.Workers {
		w.near = make([]uint32, groups)
	}
	var full atomic.Bool
	c.each(len(up.lists), func(w *Worker, b int) {
		if full.Load() {
			return
		}
		w.edges = w.edges[:0]
		for p := b * listBlock; p < min((b+1)*listBlock, groups); p++ {
			from := uint32(0)
			if p > 0 {
				from = end[p-1]
			}
			w.merge(l, uint32(p), member[from:end[p]])
			up.end[p] = uint32(len(w.edges))
		}
		if r.Take(EdgeBytes * int64(len(w.edges))) {
			up.lists[b] = w.Arena.keep(w.edges)
		} else {
			full.Store(true)
		}
	})
	for _, w := range c.Workers {
		w.near = nil
		if w.Arena.err != nil {
			return nil, w.Arena.err
		}
	}
	if full.Load() {
		return nil, nil
	}
	return up, nil
}

// merge appends the list of the group p of l's nodes to w.edges.
func (w *Worker) merge(l *Level, p uint32, members []uint32) {
	first, near, out := len(w.edges), w.near, w.edges
	near[p] = 1 // edges within the group are not listed
	for _, v := range members {
		if l.Fine != nil {
			w.list = l.Fine.Read(w.list, v)
			for _, u := range w.list {
				q := l.Parent[u]
				if near[q] == 0 {
					out = append(out, edge{to: q})
				}
				near[q]++
			}
			continue
		}
		for _, e := range l.neighbours(v) {
			q := l.Parent[e.to]
			if near[q] == 0 {
				out = append(out, edge{to: q})
			}
			near[q] += e.weight
		}
	}
	near[p] = 0
	for i := first; i < len(out); i++ {
		e := &out[i]
		e.weight, near[e.to] = near[e.to], 0
	}
	w.edges = out
}
