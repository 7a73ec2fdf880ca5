package coarse

import (
	"context"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner/graph"
)

const (
	// Nodes of a batch decide from one state, in parallel, and move one after the other: a 64th of a level, so that
	// what a batch does not see of itself is little.
	batchShare = 64
	batchMax   = 1 << 13
	batchBlock = 1 << 8 // nodes that a worker takes at a time

	settledShare = 100     // a round that moves less than 1/100 of the nodes is the last
	listMost     = 1 << 15 // entries of a list that count: the group of such a node hardly depends on more
	alone        = ^uint32(0)
)

// batch is how many nodes of n decide at a time.
func batch(n int) int { return min(max(n/batchShare, 1), batchMax) }

// Clustering is the groups of one level while they grow.
type Clustering struct {
	Level  *Level
	Limit  uint32               // nodes of the input that a group may have
	Part   []blocks.PartitionID // nil, or groups stay within partitions
	Label  []uint32             // by node: its group, named by one of its first nodes
	Weight []uint32             // by group: nodes of the input in it
	Active [2][]uint64          // room for sets of nodes
	// open is, by partition, the group that takes nodes without neighbours: they would be coarse nodes each.
	open map[blocks.PartitionID]uint32
}

// Cluster joins k.l's nodes to groups, by rounds of size-constrained label propagation (Meyerhenke, Sanders, Schulz,
// SEA 2014): a node joins the group with most of its edges that has room. It leaves their numbers, ascending by
// the groups' first nodes, in label, and calls done after a round.
func (c *Crew) Cluster(ctx context.Context, k *Clustering, rounds int, done func(moved uint64)) (groups int, err error) {
	n := k.Level.Nodes
	for v := range n {
		k.Label[v], k.Weight[v] = uint32(v), k.Level.weight(uint32(v))
	}
	k.open = map[blocks.PartitionID]uint32{}
	target := make([]uint32, batch(n))
	var active []uint64 // nodes whose neighbours chose anew in the round before; nil: all
	for round := range rounds {
		moved := uint64(0)
		var next []uint64
		if round > 0 { // most of the nodes do in the first
			next = k.Active[round%2][:(n+63)/64]
			clear(next)
		}
		for first := 0; first < n; first += len(target) {
			m := min(len(target), n-first)
			c.each((m+batchBlock-1)/batchBlock, func(w *Worker, b int) {
				for i := b * batchBlock; i < min((b+1)*batchBlock, m); i++ {
					v := uint32(first + i)
					if active != nil && active[v/64]>>(v%64)&1 == 0 {
						target[i] = k.Label[v]
						continue
					}
					if target[i] = w.favourite(k, v); next != nil && target[i] != k.Label[v] {
						w.wake(k.Level, v, next)
					}
				}
			})
			for i, to := range target[:m] {
				if k.join(uint32(first+i), to) {
					moved++
				}
			}
			c.went(k.Level, m)
			if err := ctx.Err(); err != nil {
				return 0, err
			}
		}
		done(moved)
		active = next
		if moved <= uint64(n/settledShare) {
			break
		}
	}
	clear(k.Weight[:n]) // now 1 + a group's number, 0 where it has none yet
	for v, x := range k.Label[:n] {
		if k.Weight[x] == 0 {
			groups++
			k.Weight[x] = uint32(groups)
		}
		k.Label[v] = k.Weight[x] - 1
	}
	return groups, nil
}

// join moves v to a group, if that has room.
func (k *Clustering) join(v, to uint32) bool {
	own, size := k.Label[v], k.Level.weight(v)
	if to == alone {
		var p blocks.PartitionID
		if k.Part != nil {
			p = k.Part[v]
		}
		open, ok := k.open[p]
		if !ok || k.Weight[open]+size > k.Limit {
			k.open[p] = own
			return false
		}
		to = open
	}
	if to == own || k.Weight[to]+size > k.Limit {
		return false
	}
	k.Weight[own] -= size
	k.Weight[to] += size
	k.Label[v] = to
	return true
}

// favourite is the group that v would join: its own, or alone if it has no neighbours and no company.
func (w *Worker) favourite(k *Clustering, v uint32) uint32 {
	l, t, label, part := k.Level, &w.tally, k.Label, k.Part
	own, size := label[v], l.weight(v)
	if l.Fine != nil {
		w.list = l.Fine.Read(w.list, v)
		list := w.list[:min(len(w.list), listMost)]
		t.reset(len(list))
		n := 0
		for _, u := range list { // labels first: these loads do not wait for each other
			if part == nil || part[u] == part[v] {
				list[n] = label[u]
				n++
			}
		}
		for _, x := range list[:n] {
			t.add(x, 1)
		}
	} else {
		list := l.neighbours(v)
		list = list[:min(len(list), listMost)]
		t.reset(len(list))
		for _, e := range list {
			if part == nil || part[e.to] == part[v] {
				t.add(label[e.to], e.weight)
			}
		}
	}
	if len(t.used) == 0 {
		if l.degree(v) == 0 && k.Weight[own] == size {
			return alone
		}
		return own
	}
	best, score := own, uint32(0)
	for _, i := range t.used {
		s := t.slots[i]
		x := s.key - 1
		switch {
		case s.sum < score:
		case x == own:
			best, score = own, s.sum
		case k.Weight[x]+size > k.Limit:
		case s.sum > score || best != own && before(x, best, v):
			best, score = x, s.sum
		}
	}
	return best
}

// before breaks ties by a hash of both ids: by id alone, early groups would swallow the rest.
func before(x, y, v uint32) bool {
	return graph.Mix(uint64(x)^uint64(v)<<32) < graph.Mix(uint64(y)^uint64(v)<<32)
}
