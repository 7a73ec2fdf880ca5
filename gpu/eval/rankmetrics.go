package eval

import "math"

// RankMetrics is how well a model answers (head, r, ?) and (?, r, tail) for the
// edges of a list, each against all nodes or a sample. A node that scores equal to the answer counts
// half. Filtered ranks, the plain names, leave out other nodes that are known to be right (Bordes et al., NIPS 2013,
// section 4.2); raw ranks do not. Against negatives that the data set gives, the two are the same.
type RankMetrics struct {
	Queries int64   `json:"queries"` // two an edge; one where negatives are shared
	MRR     float64 `json:"mrr"`     // mean of 1/rank
	Hits1   float64 `json:"hits1"`   // share of ranks ≤ 1
	Hits3   float64 `json:"hits3"`
	Hits10  float64 `json:"hits10"`

	RawMRR    float64 `json:"raw_mrr"`
	RawHits1  float64 `json:"raw_hits1"`
	RawHits3  float64 `json:"raw_hits3"`
	RawHits10 float64 `json:"raw_hits10"`

	Candidates uint64 `json:"candidates"`      // nodes that each answer was ranked against, itself included; of given negatives the most
	Given      bool   `json:"given,omitempty"` // the ranks are among the data set's own negatives

	// Shared says that all edges have the same ones: an edge has one rank then, and hits@K is as OGB's evaluator has it, for its K too.
	Shared  bool    `json:"shared,omitempty"`
	Hits20  float64 `json:"hits20,omitempty"`
	Hits50  float64 `json:"hits50,omitempty"`
	Hits100 float64 `json:"hits100,omitempty"`

	Detail *RankDetail `json:"detail,omitempty"` // see RankerOptions.Detail
}

// addShared counts an edge that above of the shared wrong answers score higher than, and equal the same: it hits K if it is above the K-th
// best of them, or they are fewer than K.
func (m *RankMetrics) addShared(above, equal int64) {
	m.Queries++
	rank := 1 + float64(above) + float64(equal)/2
	m.MRR, m.RawMRR = m.MRR+1/rank, m.RawMRR+1/rank
	for k, sums := range map[int64][]*float64{1: {&m.Hits1, &m.RawHits1}, 3: {&m.Hits3, &m.RawHits3}, 10: {&m.Hits10, &m.RawHits10}, 20: {&m.Hits20}, 50: {&m.Hits50}, 100: {&m.Hits100}} {
		for _, sum := range sums {
			if above+equal < k {
				*sum++
			}
		}
	}
}

// add counts one answer: the fields are sums until mean.
func (m *RankMetrics) add(filtered, raw float64) {
	m.Queries++
	for _, x := range []struct {
		rank                      float64
		mrr, hits1, hits3, hits10 *float64
	}{{filtered, &m.MRR, &m.Hits1, &m.Hits3, &m.Hits10}, {raw, &m.RawMRR, &m.RawHits1, &m.RawHits3, &m.RawHits10}} {
		*x.mrr += 1 / x.rank
		for _, h := range []struct {
			at  float64
			sum *float64
		}{{1, x.hits1}, {3, x.hits3}, {10, x.hits10}} {
			if x.rank <= h.at {
				*h.sum++
			}
		}
	}
}

func (m RankMetrics) mean() RankMetrics {
	n := float64(max(m.Queries, 1))
	for _, x := range []*float64{&m.MRR, &m.Hits1, &m.Hits3, &m.Hits10, &m.RawMRR, &m.RawHits1, &m.RawHits3, &m.RawHits10, &m.Hits20, &m.Hits50, &m.Hits100} {
		*x /= n
	}
	return m
}

// standing is how one answer compares with the candidates seen so far. What is not a number counts as higher.
type standing struct {
	score        float32
	above, equal int64 // that score higher, and the same; other known answers left out
	rawAbove     int64 // with them
	rawEqual     int64
}

// see compares scores of candidates, of which the answer itself, at own (−1: it is none of
// them), is left out, and known, ascending, from the filtered counts.
func (s *standing) see(scores []float32, own int, known []uint64, position func(uint64) int) {
	var above, equal int64
	for _, v := range scores {
		if !(v <= s.score) {
			above++
		}
		if v == s.score {
			equal++
		}
	}
	without := func(v float32) {
		if !(v <= s.score) {
			above--
		}
		if v == s.score {
			equal--
		}
	}
	if own >= 0 {
		without(scores[own])
	}
	s.rawAbove += above
	s.rawEqual += equal
	for _, k := range known {
		if at := position(k); at != own {
			without(scores[at])
		}
	}
	s.above += above
	s.equal += equal
}

// ranks returns the filtered and the raw rank among candidates nodes. An answer whose score
// is not a number comes last: a diverged model must not look good.
func (s *standing) ranks(candidates uint64) (filtered, raw float64) {
	if math.IsNaN(float64(s.score)) {
		return float64(candidates), float64(candidates)
	}
	return 1 + float64(s.above) + float64(s.equal)/2, 1 + float64(s.rawAbove) + float64(s.rawEqual)/2
}
