package partitioner

import "math"

// mixture is the classes of a group of nodes.
type mixture struct {
	labels []uint32 // that it has
	count  []uint32 // by class: how many nodes of it; zero between groups
}

// placeMixed is choose and move for a group of several classes that is in own: the price of a
// partition is that of each class for its members (equation 4.2 summed over them), so that a
// community moves as a whole to where its labels are few.
func (s *streamer) placeMixed(own uint32, members []uint32, touched int) uint32 {
	m := &s.group
	m.labels = m.labels[:0]
	for _, v := range members {
		l := uint32(s.classes[v])
		if m.count[l] == 0 {
			m.labels = append(m.labels, l)
		}
		m.count[l]++
	}
	best := s.chooseMixed(own, uint32(len(members)), touched)
	for _, l := range m.labels {
		if best != own {
			s.move(own, best, int(l), m.count[l])
		}
		m.count[l] = 0
	}
	return best
}

func (s *streamer) chooseMixed(own, w uint32, touched int) uint32 {
	near, scale := s.near, float32(w)
	room := s.limit - min(w, s.limit)
	best, score, kept := uint32(s.k), float32(math.Inf(-1)), uint32(0)
	if int(own) < s.k && s.size[own] <= s.limit { // judged as if the group were not there
		price := scale * s.sizePrice(s.size[own]-w)
		for _, l := range s.group.labels {
			n := s.group.count[l]
			price += float32(n) * s.labelPrice(int(l), s.fewest[l].Count[own]-n)
		}
		best, kept = own, near[own]
		score = float32(kept) - price
	}
	for _, p := range s.touched[:touched] {
		c := near[p]
		near[p] = 0
		if p == own || int(p) >= s.k || s.size[p] > room {
			continue
		}
		x := float32(c) - s.mixedPrice(p, scale)
		if x > score || x == score && p < best && best != own {
			best, score, kept = p, x, c
		}
	}
	for _, l := range s.group.labels {
		p := s.fewest[l].Lowest()
		if p == own || s.size[p] > room {
			continue
		}
		if x := -s.mixedPrice(p, scale); x > score {
			best, score, kept = p, x, 0
		}
	}
	if int(best) >= s.k { // every candidate was full; another is not
		best, kept = s.roomiest(), 0
	}
	s.kept += uint64(kept)
	return best
}

// mixedPrice is the balancing term of partition p for the group, of scale nodes.
func (s *streamer) mixedPrice(p uint32, scale float32) float32 {
	price := scale * s.sizeCost[p]
	for _, l := range s.group.labels {
		price += float32(s.group.count[l]) * s.cost[int(l)*s.k+int(p)]
	}
	return price
}
