package eval

import (
	"math"
	"testing"
)

func TestStanding(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name          string
		scores        []float32
		answer        int
		known         []uint64 // others
		filtered, raw float64
	}{
		{"first", []float32{3, 1, 2}, 0, nil, 1, 1},
		{"last", []float32{3, 1, 2}, 1, nil, 3, 3},
		{"filtered", []float32{3, 1, 2}, 1, []uint64{0}, 2, 3},
		{"filtered below", []float32{3, 1, 2}, 2, []uint64{1}, 2, 2},
		{"the answer is known", []float32{3, 1, 2}, 1, []uint64{0, 1}, 2, 3},
		{"ties count half", []float32{5, 5, 5, 9}, 1, nil, 3, 3},
		{"a filtered tie", []float32{5, 5, 5, 9}, 1, []uint64{0}, 2.5, 3},
		{"all equal", []float32{0, 0, 0, 0, 0}, 4, nil, 3, 3},
		{"not a number is above", []float32{nan, 1}, 1, nil, 2, 2},
		{"a filtered one is not", []float32{nan, 1}, 1, []uint64{0}, 1, 2},
		{"an answer that is not a number is last", []float32{1, nan, 2}, 1, nil, 3, 3},
	} {
		for _, cut := range []int{0, 1, 2, len(c.scores)} { // in two blocks
			s := standing{score: c.scores[c.answer]}
			for _, at := range [][2]int{{0, cut}, {cut, len(c.scores)}} {
				var known []uint64
				for _, k := range c.known {
					if int(k) >= at[0] && int(k) < at[1] {
						known = append(known, k)
					}
				}
				own := c.answer - at[0]
				if own < 0 || c.answer >= at[1] {
					own = -1
				}
				s.see(c.scores[at[0]:at[1]], own, known, func(k uint64) int { return int(k) - at[0] })
			}
			if filtered, raw := s.ranks(uint64(len(c.scores))); filtered != c.filtered || raw != c.raw {
				t.Errorf("%s, cut at %d: ranks %v and %v, expected %v and %v", c.name, cut, filtered, raw, c.filtered, c.raw)
			}
		}
	}
	var m RankMetrics
	for _, r := range []float64{1, 1.5, 4, 20} {
		m.add(r, 2*r)
	}
	got := m.mean()
	want := RankMetrics{Queries: 4, MRR: (1 + 1/1.5 + .25 + .05) / 4, Hits1: .25, Hits3: .5, Hits10: .75,
		RawMRR: (1 + 1/1.5 + .25 + .05) / 8, RawHits1: 0, RawHits3: .5, RawHits10: .75}
	if math.Abs(got.MRR-want.MRR) > 1e-12 || math.Abs(got.RawMRR-want.RawMRR) > 1e-12 {
		t.Errorf("metrics %+v, expected %+v", got, want)
	}
	if got.MRR, got.RawMRR = want.MRR, want.RawMRR; got != want {
		t.Errorf("metrics %+v, expected %+v", got, want)
	}
}
