package partitioner

import (
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner/coarse"
	"github.com/gstore/gstore/partitioner/graph"
)

// streamer assigns nodes one after the other by FENNEL's score (Tsourakakis
// et al., WSDM'14) with the label-wise balance of the HANOI thesis (section
// 4.3.2, equation 4.2 and Algorithm 2):
//
//	score(v, i) = |N(v) ∩ V_i| − weight·(λ·(|V_i^ℓ| / target_ℓ)^½ + (1−λ)·(|V_i| / target)^½)
//
// ℓ is v's class and target_ℓ = |V^ℓ|/k, so that weight is the balancing term of
// a partition that has exactly its share, whatever the class: FENNEL's γ = 3/2
// with α = √k·|E|/|V|^1.5 is weight = 3/2·|E|/|V|. λ = 1 is equation 4.2; with
// one class that is FENNEL.
//
// Only the partitions of v's neighbours, v's own and the one with the fewest
// nodes of class ℓ can win (neighbour-guided search), so that a pass takes
// O(entries + nodes·log k). A partition at its limit takes nobody, and one beyond a limit
// that was lowered keeps nobody who comes by.
//
// Invariants between calls: size and fewest agree with part, cost and
// sizeCost with them; near is all zero.
type streamer struct {
	part    []blocks.PartitionID // by node; k = not placed yet
	k       int
	classes []uint16 // by node; nil = all are of class 0
	limit   uint32   // the most nodes a partition may have
	most    []uint32 // by class: the most nodes of it that a partition may have
	lambda  float64

	size     []uint32            // nodes of partition i
	fewest   []coarse.Tournament // by class: nodes of that class in partition i
	target   []float64           // by class: nodes of that class / k
	whole    float64             // nodes / k
	cost     []float32           // cost[ℓ·k+i]: the first balancing term
	sizeCost []float32           // the second
	weight   float64
	near     []uint32 // near[i]: neighbours of the current node in partition i
	touched  []uint32 // the partitions with near > 0, and room for one more entry
	group    mixture  // the group being placed, where there are classes
	moved    uint64   // nodes that changed partition since setWeight
	kept     uint64   // neighbours in the chosen partition, summed since setWeight
}

// streamerBytes is what a streamer takes besides part and classes.
func streamerBytes(k, classes int) int64 {
	return int64(classes)*(coarse.TournamentBytes(k)+8*int64(k)+20) + 16*int64(k) // with the counts of labelDivergence
}

// newStreamer starts from part, whose values are < k, or k where a node is
// not placed; count has the nodes of each class.
func newStreamer(part []blocks.PartitionID, k int, classes []uint16, count []uint64, limit uint32, lambda float64) *streamer {
	s := &streamer{
		part: part, k: k, classes: classes, limit: limit, lambda: lambda,
		size:     make([]uint32, k),
		fewest:   make([]coarse.Tournament, len(count)),
		target:   make([]float64, len(count)),
		most:     make([]uint32, len(count)),
		whole:    max(float64(len(part)), 1) / float64(k),
		cost:     make([]float32, k*len(count)),
		sizeCost: make([]float32, k),
		near:     make([]uint32, k+1),
		touched:  make([]uint32, k+2),
		group:    mixture{count: make([]uint32, len(count))},
	}
	for l, n := range count {
		s.fewest[l] = coarse.NewTournament(k)
		s.target[l] = max(float64(n), 1) / float64(k)
		s.most[l] = math.MaxUint32
	}
	for v, p := range part {
		if int(p) < k {
			s.size[p]++
			s.fewest[s.class(uint32(v))].Count[p]++
		}
	}
	for l := range s.fewest {
		s.fewest[l].Rebuild()
	}
	return s
}

func (s *streamer) class(v uint32) int {
	if s.classes == nil {
		return 0
	}
	return int(s.classes[v])
}

// setWeight starts a pass with a weight of balance.
func (s *streamer) setWeight(w float64) {
	s.weight, s.moved, s.kept = w, 0, 0
	for l := range s.fewest {
		for p := range s.k {
			s.cost[l*s.k+p] = s.labelPrice(l, s.fewest[l].Count[p])
		}
	}
	for p, n := range s.size {
		s.sizeCost[p] = s.sizePrice(n)
	}
}

func (s *streamer) labelPrice(l int, count uint32) float32 {
	return float32(s.weight * s.lambda * math.Sqrt(float64(count)/s.target[l]))
}

func (s *streamer) sizePrice(size uint32) float32 {
	if s.lambda == 1 {
		return 0
	}
	return float32(s.weight * (1 - s.lambda) * math.Sqrt(float64(size)/s.whole))
}

// Place decides node v's partition from its neighbours'.
func (s *streamer) place(v uint32, neighbours []uint32) {
	n := s.gather(neighbours, 0)
	own := uint32(s.part[v])
	if best := s.choose(own, s.class(v), 1, n); best != own {
		s.move(own, best, s.class(v), 1)
		s.part[v] = blocks.PartitionID(best)
	}
}

// placeGroup decides one partition for nodes that stay together and are
// together now: a node of the coarser graph in which a group is one.
func (s *streamer) placeGroup(g graph.RandomAccess, members []uint32) {
	if len(members) == 1 {
		s.place(members[0], g.Neighbours(members[0]))
		return
	}
	own := uint32(s.part[members[0]])
	for _, v := range members { // edges within the group pull nowhere
		s.part[v] = blocks.PartitionID(s.k)
	}
	n := 0
	for _, v := range members {
		n = s.gather(g.Neighbours(v), n)
	}
	var best uint32
	if s.classes == nil {
		if best = s.choose(own, 0, uint32(len(members)), n); best != own {
			s.move(own, best, 0, uint32(len(members)))
		}
	} else {
		best = s.placeMixed(own, members, n)
	}
	for _, v := range members {
		s.part[v] = blocks.PartitionID(best)
	}
}

// gather counts neighbours by partition, n of which were touched before.
func (s *streamer) gather(neighbours []uint32, n int) int {
	near, touched, part := s.near, s.touched, s.part
	for _, u := range neighbours {
		p := uint32(part[u])
		c := near[p]
		touched[n] = p
		near[p] = c + 1
		if c == 0 {
			n++
		}
	}
	return n
}

// choose returns the best partition for w nodes of class l that are in own (k if
// nowhere), and clears what gather counted.
func (s *streamer) choose(own uint32, l int, w uint32, touched int) uint32 {
	near, cost, sizeCost := s.near, s.cost[l*s.k:(l+1)*s.k], s.sizeCost
	room := s.limit - min(w, s.limit) // a partition of at most that size takes the group
	scale := float32(w)
	best, score, kept := uint32(s.k), float32(math.Inf(-1)), uint32(0)
	count, most := s.fewest[l].Count, s.most[l]-min(w, s.most[l])
	if int(own) < s.k && s.size[own] <= s.limit && count[own] <= s.most[l] { // judged as if the group were not there
		price := s.labelPrice(l, s.fewest[l].Count[own]-w) + s.sizePrice(s.size[own]-w)
		best, kept = own, near[own]
		score = float32(kept) - scale*price
	}
	for _, p := range s.touched[:touched] {
		c := near[p]
		near[p] = 0
		if p == own || int(p) >= s.k {
			continue
		}
		x := float32(c) - scale*(cost[p]+sizeCost[p])
		// A tie goes to where the group is, then to the lower partition.
		if (x > score || x == score && p < best && best != own) && s.size[p] <= room && count[p] <= most {
			best, score, kept = p, x, c
		}
	}
	if p := s.fewest[l].Lowest(); p != own && s.size[p] <= room && -scale*(cost[p]+sizeCost[p]) > score {
		best, kept = p, 0
	}
	if int(best) >= s.k { // every candidate was full; another is not
		best, kept = s.roomiest(), 0
	}
	s.kept += uint64(kept)
	return best
}

func (s *streamer) move(from, to uint32, l int, w uint32) {
	s.moved += uint64(w)
	if int(from) < s.k {
		s.size[from] -= w
		s.fewest[l].Add(from, -int32(w))
		s.cost[l*s.k+int(from)] = s.labelPrice(l, s.fewest[l].Count[from])
		s.sizeCost[from] = s.sizePrice(s.size[from])
	}
	s.size[to] += w
	s.fewest[l].Add(to, int32(w))
	s.cost[l*s.k+int(to)] = s.labelPrice(l, s.fewest[l].Count[to])
	s.sizeCost[to] = s.sizePrice(s.size[to])
}

// roomiest is the smallest partition of all classes together; rare.
func (s *streamer) roomiest() uint32 {
	best := uint32(0)
	for p, n := range s.size {
		if n < s.size[best] {
			best = uint32(p)
		}
	}
	return best
}

// Largest is the size of the largest partition.
func (s *streamer) largest() uint32 {
	var m uint32
	for _, n := range s.size {
		m = max(m, n)
	}
	return m
}
