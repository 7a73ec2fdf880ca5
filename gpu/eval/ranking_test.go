package eval

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/gstore/gstore/sampler/keyed"
)

// TestRanking compares with the definition over margins that are in the middle of their bins, equal ones among them: of either class as the rarer one.
func TestRanking(t *testing.T) {
	r := keyed.New(5).Rand(0)
	for _, rare := range []int32{0, 1} {
		k := newRanking()
		type node struct {
			class  int32
			margin float64
		}
		var nodes []node
		for i := range 3000 {
			n := node{1 - rare, (float64(r.Below(400)) + .5 - 200) / 64}
			if i%25 == 0 {
				n.class = rare
				n.margin += float64(2*rare-1) * 2 // found more often than not
			}
			nodes = append(nodes, n)
			k.add(n.class, float32(n.margin))
		}
		slices.SortFunc(nodes, func(a, b node) int { return int(2*rare-1) * cmp.Compare(b.margin, a.margin) })
		want, hits, all := 0., 0., 0.
		for i := 0; i < len(nodes); {
			end, found := i, 0.
			for ; end < len(nodes) && nodes[end].margin == nodes[i].margin; end++ {
				if nodes[end].class == rare {
					found++
				}
			}
			hits, all = hits+found, float64(end)
			want += found * hits / all
			i = end
		}
		want /= hits
		if got := k.AveragePrecision(); math.Abs(got-want) > 1e-12 || want < .2 || !k.Rare() {
			t.Errorf("class %d: average precision %v, expected %v; rare %v", rare, got, want, k.Rare())
		}
	}
	k := newRanking()
	if k.Rare() || k.AveragePrecision() != 0 || (*Ranking)(nil).Rare() {
		t.Error("no nodes have a rare class")
	}
	for _, m := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1e30, -1e30} {
		k.add(0, m)
		k.add(1, m)
	}
	if of := k.Nodes(); of != [2]int64{5, 5} || k.Rare() {
		t.Errorf("nodes %v", of)
	}
}
