package partitioner

import (
	"context"

	"github.com/gstore/gstore/blocks"
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

// clustering is the groups of one level while they grow.
type clustering struct {
	l      *level
	limit  uint32               // nodes of the input that a group may have
	part   []blocks.PartitionID // nil, or groups stay within partitions
	label  []uint32             // by node: its group, named by one of its first nodes
	weight []uint32             // by group: nodes of the input in it
	active [2][]uint64          // room for sets of nodes
	// open is, by partition, the group that takes nodes without neighbours: they would be coarse nodes each.
	open map[blocks.PartitionID]uint32
}

// cluster joins k.l's nodes to groups, by rounds of size-constrained label propagation (Meyerhenke, Sanders, Schulz,
// SEA 2014): a node joins the group with most of its edges that has room. It leaves their numbers, ascending by
// the groups' first nodes, in label, and calls done after a round.
func (c *crew) cluster(ctx context.Context, k *clustering, rounds int, done func(moved uint64)) (groups int, err error) {
	n := k.l.nodes
	for v := range n {
		k.label[v], k.weight[v] = uint32(v), k.l.weight(uint32(v))
	}
	k.open = map[blocks.PartitionID]uint32{}
	target := make([]uint32, batch(n))
	var active []uint64 // nodes whose neighbours chose anew in the round before; nil: all
	for round := range rounds {
		moved := uint64(0)
		var next []uint64
		if round > 0 { // most of the nodes do in the first
			next = k.active[round%2][:(n+63)/64]
			clear(next)
		}
		for first := 0; first < n; first += len(target) {
			m := min(len(target), n-first)
			c.each((m+batchBlock-1)/batchBlock, func(w *worker, b int) {
				for i := b * batchBlock; i < min((b+1)*batchBlock, m); i++ {
					v := uint32(first + i)
					if active != nil && active[v/64]>>(v%64)&1 == 0 {
						target[i] = k.label[v]
						continue
					}
					if target[i] = w.favourite(k, v); next != nil && target[i] != k.label[v] {
						w.wake(k.l, v, next)
					}
				}
			})
			for i, to := range target[:m] {
				if k.join(uint32(first+i), to) {
					moved++
				}
			}
			c.went(k.l, m)
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
	clear(k.weight[:n]) // now 1 + a group's number, 0 where it has none yet
	for v, x := range k.label[:n] {
		if k.weight[x] == 0 {
			groups++
			k.weight[x] = uint32(groups)
		}
		k.label[v] = k.weight[x] - 1
	}
	return groups, nil
}

// join moves v to a group, if that has room.
func (k *clustering) join(v, to uint32) bool {
	own, size := k.label[v], k.l.weight(v)
	if to == alone {
		var p blocks.PartitionID
		if k.part != nil {
			p = k.part[v]
		}
		open, ok := k.open[p]
		if !ok || k.weight[open]+size > k.limit {
			k.open[p] = own
			return false
		}
		to = open
	}
	if to == own || k.weight[to]+size > k.limit {
		return false
	}
	k.weight[own] -= size
	k.weight[to] += size
	k.label[v] = to
	return true
}

// favourite is the group that v would join: its own, or alone if it has no neighbours and no company.
func (w *worker) favourite(k *clustering, v uint32) uint32 {
	l, t, label, part := k.l, &w.tally, k.label, k.part
	own, size := label[v], l.weight(v)
	if l.fine != nil {
		w.list = l.fine.Read(w.list, v)
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
		if l.degree(v) == 0 && k.weight[own] == size {
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
		case k.weight[x]+size > k.limit:
		case s.sum > score || best != own && before(x, best, v):
			best, score = x, s.sum
		}
	}
	return best
}

// before breaks ties by a hash of both ids: by id alone, early groups would swallow the rest.
func before(x, y, v uint32) bool {
	return mix(uint64(x)^uint64(v)<<32) < mix(uint64(y)^uint64(v)<<32)
}
