package coarse

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/gstore/gstore/blocks"
)

// Placement is a level's nodes in partitions, by the score of [streamer] without classes: nodes of a batch decide
// from one state, in parallel, and move one after the other, so that the outcome is the same for any number of threads.
//
// Invariants between batches: fewest agrees with part, cost with fewest; every worker's near is all zero.
type Placement struct {
	l      *Level
	part   []blocks.PartitionID // by node; k = not placed yet
	k      int
	limit  uint32 // the most nodes of the input that a partition may have
	fewest Tournament
	cost   []float32 // by partition: the balancing term
	whole  float64   // nodes of the input / k
	weight float64
	Moved  uint64 // nodes of the input that changed partition in this pass
	// kept is the list entries that lead to the node's own partition, as nodes saw them when they chose.
	Kept   atomic.Int64
	target []uint32
}

// forced marks the target of a node whose partition is beyond the limit.
const forced = 1 << 31

// Place takes the partitions of l's nodes from part, in which it leaves them.
func (c *Crew) Place(l *Level, part []blocks.PartitionID, k int, limit uint32, nodes uint64) *Placement {
	s := &Placement{
		l: l, part: part, k: k, limit: limit, fewest: NewTournament(k), cost: make([]float32, k),
		whole: max(float64(nodes), 1) / float64(k), target: make([]uint32, batch(l.Nodes)),
	}
	for v, p := range part {
		if int(p) < k {
			s.fewest.Count[p] += l.weight(uint32(v))
		}
	}
	s.fewest.Rebuild()
	for _, w := range c.Workers {
		if len(w.near) != k+1 {
			w.near, w.touched = make([]uint32, k+1), make([]uint32, k+2)
		}
	}
	return s
}

func (s *Placement) price(n uint32) float32 {
	return float32(s.weight * math.Sqrt(float64(n)/s.whole))
}

// Pass lets every node choose once, or those that are in active if it is not nil; nodes with a neighbour that
// chose anew are put into next.
func (c *Crew) Pass(ctx context.Context, s *Placement, weight float64, active, next []uint64) error {
	s.weight, s.Moved = weight, 0
	if active == nil {
		s.Kept.Store(0)
	}
	for p, n := range s.fewest.Count {
		s.cost[p] = s.price(n)
	}
	n := s.l.Nodes
	for first := 0; first < n; first += len(s.target) {
		m := min(len(s.target), n-first)
		c.each((m+batchBlock-1)/batchBlock, func(w *Worker, b int) {
			kept := int64(0)
			for i := b * batchBlock; i < min((b+1)*batchBlock, m); i++ {
				v := uint32(first + i)
				if active != nil && active[v/64]>>(v%64)&1 == 0 {
					s.target[i] = uint32(s.part[v])
					continue
				}
				to, near, before := s.choose(w, v)
				if s.target[i] = to; active == nil {
					kept += int64(near)
				} else { // what a node gains, its neighbours gain
					kept += 2 * (int64(near) - int64(before))
				}
				if next != nil && to != uint32(s.part[v]) {
					w.wake(s.l, v, next)
				}
			}
			s.Kept.Add(kept)
		})
		for i, to := range s.target[:m] {
			s.move(uint32(first+i), to)
		}
		c.went(s.l, m)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// choose is the best partition for v, k for the one with the fewest nodes, and the weight of v's edges to it and to where v is.
func (s *Placement) choose(w *Worker, v uint32) (to, kept, before uint32) {
	near, touched, n := w.near, w.touched, 0
	if s.l.Fine != nil {
		w.list = s.l.Fine.Read(w.list, v)
		for i, u := range w.list { // partitions first: these loads do not wait for each other
			w.list[i] = uint32(s.part[u])
		}
		for _, p := range w.list {
			c := near[p]
			touched[n] = p
			near[p] = c + 1
			if c == 0 {
				n++
			}
		}
	} else {
		for _, e := range s.l.neighbours(v) {
			p := uint32(s.part[e.to])
			c := near[p]
			touched[n] = p
			near[p] = c + e.weight
			if c == 0 {
				n++
			}
		}
	}
	own, size := uint32(s.part[v]), s.l.weight(v)
	count, room, scale := s.fewest.Count, s.limit-min(size, s.limit), float32(size)
	best, score, flag := uint32(s.k), float32(math.Inf(-1)), uint32(0)
	if int(own) < s.k {
		before = near[own]
	}
	switch {
	case int(own) == s.k:
	case count[own] > s.limit:
		flag = forced
	default: // judged as if v were not there
		best, kept = own, before
		score = float32(kept) - scale*s.price(count[own]-size)
	}
	for _, p := range touched[:n] {
		c := near[p]
		near[p] = 0
		if p == own || int(p) == s.k || count[p] > room {
			continue
		}
		// A tie goes to where v is, then to the lower partition.
		if x := float32(c) - scale*s.cost[p]; x > score || x == score && p < best && best != own {
			best, score, kept = p, x, c
		}
	}
	if p := s.fewest.Lowest(); p != own && count[p] <= room && -scale*s.cost[p] > score {
		best, kept = uint32(s.k), 0
	}
	return best | flag, kept, before
}

// move puts v into its target if that still has room; one that must leave goes where there are the fewest.
func (s *Placement) move(v, to uint32) {
	own, size, count := uint32(s.part[v]), s.l.weight(v), s.fewest.Count
	placed := int(own) < s.k
	if to == own && placed || to&forced != 0 && count[own] <= s.limit {
		return
	}
	to &^= forced
	if int(to) == s.k || count[to]+size > s.limit {
		stays := placed && count[own] <= s.limit
		if int(to) < s.k && stays {
			return
		}
		if to = s.fewest.Lowest(); to == own || stays && count[to]+size > s.limit {
			return
		}
	}
	s.Moved += uint64(size)
	if placed {
		s.fewest.Add(own, -int32(size))
		s.cost[own] = s.price(count[own])
	}
	s.fewest.Add(to, int32(size))
	s.cost[to] = s.price(count[to])
	s.part[v] = blocks.PartitionID(to)
}

// Largest is the size of the largest partition over the mean.
func (s *Placement) Largest() float64 {
	m := uint32(0)
	for _, n := range s.fewest.Count {
		m = max(m, n)
	}
	return float64(m) / s.whole
}

// wake puts v's neighbours into a set.
func (w *Worker) wake(l *Level, v uint32, set []uint64) {
	if l.Fine != nil {
		w.list = l.Fine.Read(w.list, v)
		for _, u := range w.list {
			wake(set, u)
		}
		return
	}
	for _, e := range l.neighbours(v) {
		wake(set, e.to)
	}
}

func wake(set []uint64, v uint32) {
	word, bit := &set[v/64], uint64(1)<<(v%64)
	if atomic.LoadUint64(word)&bit == 0 {
		atomic.OrUint64(word, bit)
	}
}
