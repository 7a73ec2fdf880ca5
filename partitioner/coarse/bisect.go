package coarse

import (
	"context"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner/graph"
)

// Numbers of recursive bisection.
const (
	bisectRunsMax  = 2       // bisections of a graph, of which the best stays
	bisectWork     = 1 << 20 // entries that all bisections together may read, or as many as the input has
	bisectCoarsest = 120     // nodes at which halves are grown
	bisectTries    = 6       // halves grown there, of which the best stays
	bisectPatience = 100     // moves without gain that a pass of refinement tries
	bisectRounds   = 4       // passes of refinement a level
	bisectPair     = 40      // a pair of matched nodes is at most 1/40 of its graph
)

// Bisect places the nodes of a coarse level of a graph of so many entries in parts.
func Bisect(ctx context.Context, l *Level, entries uint64, partitions int, slack float64, seed uint64, part []blocks.PartitionID) error {
	g := &small{begin: make([]uint32, 1, l.Nodes+1), adj: make([]edge, 0, l.Entries()), size: l.size}
	node := make([]uint32, l.Nodes)
	for v := range node {
		node[v] = uint32(v)
		g.adj = append(g.adj, l.neighbours(uint32(v))...)
		g.begin = append(g.begin, uint32(len(g.adj)))
		g.total += uint64(l.size[v])
	}
	// Halves of halves are each a little too large: all together by the slack.
	depth := max(1, math.Log2(float64(partitions)))
	b := bisector{
		ctx: ctx, state: seed, slack: slack / depth,
		runs: min(max(int(min(float64(entries), bisectWork)/(depth*float64(len(g.adj)+1))), 1), bisectRunsMax),
	}
	b.recursive(g, node, 0, partitions, part)
	return ctx.Err()
}

// small is a weighted graph in memory: the coarsest level, or a part of it.
type small struct {
	begin []uint32 // one more than nodes
	adj   []edge
	size  []uint32 // by node
	total uint64   // sum of size
}

func (g *small) nodes() int { return len(g.size) }

func (g *small) list(v uint32) []edge { return g.adj[g.begin[v]:g.begin[v+1]] }

// bisector divides small graphs; all that is random comes from state.
type bisector struct {
	ctx   context.Context
	state uint64
	slack float64 // how much larger than its share a side may be, as a share of it
	runs  int     // bisections of a graph, of which the best stays
}

func (b *bisector) random(n int) int {
	b.state += 0x9e3779b97f4a7c15
	return int(graph.Mix(b.state) % uint64(n))
}

// recursive puts g's nodes into parts first … first+k−1 by bisecting it again and again (Karypis and Kumar 1998): part
// is by the nodes of the graph that node names.
func (b *bisector) recursive(g *small, node []uint32, first, k int, part []blocks.PartitionID) {
	if k == 1 || b.ctx.Err() != nil {
		for _, v := range node {
			part[v] = blocks.PartitionID(first)
		}
		return
	}
	left := k / 2
	share := float64(left) / float64(k)
	var side []uint8
	var least, leastOver uint64
	for range b.runs {
		x, cut, over := b.bisect(g, share)
		if side == nil || over < leastOver || over == leastOver && cut < least {
			side, least, leastOver = x, cut, over
		}
	}
	for s, parts := range [2][2]int{{first, left}, {first + left, k - left}} {
		sub, members := g.side(side, uint8(s), node)
		b.recursive(sub, members, parts[0], parts[1], part)
	}
}

// side is the graph that g's nodes of one side induce, and what node says of them.
func (g *small) side(side []uint8, s uint8, node []uint32) (*small, []uint32) {
	id := make([]uint32, g.nodes())
	n := uint32(0)
	for v, x := range side {
		if x == s {
			id[v] = n
			n++
		}
	}
	sub := &small{begin: make([]uint32, 1, n+1), size: make([]uint32, 0, n)}
	members := make([]uint32, 0, n)
	for v, x := range side {
		if x != s {
			continue
		}
		for _, e := range g.list(uint32(v)) {
			if side[e.to] == s {
				sub.adj = append(sub.adj, edge{id[e.to], e.weight})
			}
		}
		sub.begin = append(sub.begin, uint32(len(sub.adj)))
		sub.size = append(sub.size, g.size[v])
		sub.total += uint64(g.size[v])
		members = append(members, node[v])
	}
	return sub, members
}

// Bisect divides g in two, the first side with a share of the sizes: by levels of matched pairs, the halves grown on the
// coarsest and refined on each. It returns the cut, and by how much a side is too large.
func (b *bisector) bisect(g *small, share float64) (side []uint8, cut, over uint64) {
	if g.nodes() > bisectCoarsest {
		parent, groups := b.match(g)
		if float64(groups) < 0.95*float64(g.nodes()) {
			up, _, _ := b.bisect(g.contract(parent, groups), share)
			side = make([]uint8, g.nodes())
			for v, p := range parent {
				side[v] = up[p]
			}
			cut, over = b.refine(g, side, share)
			return side, cut, over
		}
	}
	for range bisectTries {
		x := b.grow(g, share)
		c, o := b.refine(g, x, share)
		if side == nil || o < over || o == over && c < cut {
			side, cut, over = x, c, o
		}
	}
	return side, cut, over
}

// match pairs each node with the unmatched neighbour of most edges; nodes that find none are paired
// with others that had the same favourite.
func (b *bisector) match(g *small) (parent []uint32, groups int) {
	n := g.nodes()
	const none = ^uint32(0)
	parent = slices.Repeat([]uint32{none}, n)
	waiting := slices.Repeat([]uint32{none}, n) // by favourite: who had none
	limit := uint32(max(g.total/bisectPair, 1))
	p := graph.NewPermutation(uint64(n), uint64(b.random(math.MaxInt64)))
	for i := range n {
		v := uint32(p.At(uint64(i)))
		if parent[v] != none {
			continue
		}
		best, weight := none, uint32(0)
		favourite, most := none, uint32(0)
		for _, e := range g.list(v) {
			if e.weight > most {
				favourite, most = e.to, e.weight
			}
			if parent[e.to] == none && e.weight > weight && g.size[v]+g.size[e.to] <= limit {
				best, weight = e.to, e.weight
			}
		}
		if best == none {
			if favourite == none {
				favourite = v
			} else if u := waiting[favourite]; u != none && parent[u] == none && g.size[v]+g.size[u] <= limit {
				best = u
				waiting[favourite] = none
			} else {
				waiting[favourite] = v
				continue
			}
		}
		parent[v] = uint32(groups)
		if best != none {
			parent[best] = uint32(groups)
		}
		groups++
	}
	for v := range parent {
		if parent[v] == none {
			parent[v] = uint32(groups)
			groups++
		}
	}
	return parent, groups
}

func (g *small) contract(parent []uint32, groups int) *small {
	up := &small{begin: make([]uint32, 1, groups+1), size: make([]uint32, groups), total: g.total}
	begin, member := make([]uint32, groups+1), make([]uint32, g.nodes())
	for v, p := range parent {
		up.size[p] += g.size[v]
		begin[p+1]++
	}
	for p := range groups {
		begin[p+1] += begin[p]
	}
	next := slices.Clone(begin)
	for v, p := range parent {
		member[next[p]] = uint32(v)
		next[p]++
	}
	near := make([]uint32, groups)
	for p := range uint32(groups) {
		from := len(up.adj)
		near[p] = 1
		for _, v := range member[begin[p]:begin[p+1]] {
			for _, e := range g.list(v) {
				q := parent[e.to]
				if near[q] == 0 {
					up.adj = append(up.adj, edge{to: q})
				}
				near[q] += e.weight
			}
		}
		near[p] = 0
		for i := from; i < len(up.adj); i++ {
			e := &up.adj[i]
			e.weight, near[e.to] = near[e.to], 0
		}
		up.begin = append(up.begin, uint32(len(up.adj)))
	}
	return up
}

// grow puts nodes around a random one into the first side until it has its share: always the node that adds
// least to the cut.
func (b *bisector) grow(g *small, share float64) []uint8 {
	n := g.nodes()
	side := slices.Repeat([]uint8{1}, n)
	want, have := uint64(share*float64(g.total)), uint64(0)
	gain := make([]int64, n)
	for v := range gain {
		for _, e := range g.list(uint32(v)) {
			gain[v] -= int64(e.weight)
		}
	}
	q := new(gains)
	for have < want {
		if len(*q) == 0 {
			v := b.random(n)
			for side[v] == 0 {
				v = (v + 1) % n
			}
			q.push(candidate{uint32(v), gain[v]})
		}
		c := q.pop()
		if side[c.node] == 0 || c.gain != gain[c.node] {
			continue
		}
		if size := uint64(g.size[c.node]); have+size > want && have+size-want > want-have && have > 0 {
			if len(*q) == 0 {
				break
			}
			continue
		}
		side[c.node] = 0
		have += uint64(g.size[c.node])
		for _, e := range g.list(c.node) {
			if side[e.to] == 1 {
				gain[e.to] += 2 * int64(e.weight)
				q.push(candidate{e.to, gain[e.to]})
			}
		}
	}
	return side
}

// refine moves nodes between the sides (Fiduccia and Mattheyses 1982): a pass moves the best node, even at a loss, each
// once, and keeps the best of the states it went through. It returns the cut, and by how much a side is too large.
func (b *bisector) refine(g *small, side []uint8, share float64) (cut, over uint64) {
	n := g.nodes()
	gain := make([]int64, n)
	locked := make([]bool, n)
	var size [2]uint64
	for v, s := range side {
		size[s] += uint64(g.size[v])
	}
	limit := [2]uint64{uint64(share * float64(g.total) * (1 + b.slack)), uint64((1 - share) * float64(g.total) * (1 + b.slack))}
	tooLarge := func() uint64 {
		return max(size[0], limit[0]) - limit[0] + max(size[1], limit[1]) - limit[1]
	}
	for round := 0; round < bisectRounds; round++ {
		var q [2]gains // by the side that nodes leave
		cut = 0
		for v := range gain {
			gain[v], locked[v] = 0, false
			border := false
			for _, e := range g.list(uint32(v)) {
				if side[e.to] != side[v] {
					gain[v] += int64(e.weight)
					cut += uint64(e.weight)
					border = true
				} else {
					gain[v] -= int64(e.weight)
				}
			}
			if border || size[side[v]] > limit[side[v]] {
				q[side[v]] = append(q[side[v]], candidate{uint32(v), gain[v]})
			}
		}
		cut /= 2
		q[0].order()
		q[1].order()
		var moved []uint32
		bestLen, bestCut, bestOver := 0, cut, tooLarge()
		firstCut, firstOver := bestCut, bestOver
		for len(moved)-bestLen < bisectPatience {
			// The side to leave: one that is too large, else that of the better node.
			for s := range q {
				for len(q[s]) > 0 {
					c := q[s][0]
					if locked[c.node] || side[c.node] != uint8(s) || gain[c.node] != c.gain {
						q[s].pop()
						continue
					}
					break
				}
			}
			from := -1
			switch {
			case size[0] > limit[0]:
				from = 0
			case size[1] > limit[1]:
				from = 1
			case len(q[0]) == 0:
				from = 1
			case len(q[1]) == 0 || q[0][0].gain > q[1][0].gain:
				from = 0
			case q[0][0].gain < q[1][0].gain:
				from = 1
			case float64(size[0])*float64(limit[1]) >= float64(size[1])*float64(limit[0]):
				from = 0
			default:
				from = 1
			}
			if len(q[from]) == 0 {
				break
			}
			c := q[from].pop()
			v, to := c.node, uint8(1-from)
			w := uint64(g.size[v])
			if size[to]+w > limit[to] && size[from] <= limit[from] {
				locked[v] = true // it has no room there
				continue
			}
			side[v], locked[v] = to, true
			size[from] -= w
			size[to] += w
			cut = uint64(int64(cut) - c.gain)
			moved = append(moved, v)
			for _, e := range g.list(v) {
				u := e.to
				if side[u] == to {
					gain[u] -= 2 * int64(e.weight)
				} else {
					gain[u] += 2 * int64(e.weight)
				}
				if !locked[u] {
					q[side[u]].push(candidate{u, gain[u]})
				}
			}
			if o := tooLarge(); o < bestOver || o == bestOver && cut < bestCut {
				bestLen, bestCut, bestOver = len(moved), cut, o
			}
		}
		for _, v := range moved[bestLen:] {
			s := side[v]
			side[v] = 1 - s
			size[s] -= uint64(g.size[v])
			size[1-s] += uint64(g.size[v])
		}
		cut, over = bestCut, bestOver
		if bestCut == firstCut && bestOver == firstOver {
			break
		}
	}
	return cut, over
}

// candidate is a node and what the cut loses by its move, as it was when it was queued.
type candidate struct {
	node uint32
	gain int64
}

// gains is a heap of candidates, the best first.
type gains []candidate

func (c candidate) before(d candidate) bool {
	return c.gain > d.gain || c.gain == d.gain && c.node < d.node
}

func (q gains) down(i int) {
	c := q[i]
	for {
		j := 2*i + 1
		if j >= len(q) {
			break
		}
		if j+1 < len(q) && q[j+1].before(q[j]) {
			j++
		}
		if !q[j].before(c) {
			break
		}
		q[i] = q[j]
		i = j
	}
	q[i] = c
}

func (q gains) order() {
	for i := len(q)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

func (q *gains) push(c candidate) {
	*q = append(*q, c)
	h, i := *q, len(*q)-1
	for i > 0 && c.before(h[(i-1)/2]) {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = c
}

func (q *gains) pop() candidate {
	h := *q
	c, last := h[0], len(h)-1
	h[0] = h[last]
	*q = h[:last]
	if last > 0 {
		(*q).down(0)
	}
	return c
}
