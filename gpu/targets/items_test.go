package targets

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// TestItemLossGradients: the gradient of the loss over items is its slope, what is not known has none, and a row without a right item says nothing.
func TestItemLossGradients(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	scores := make([]float32, 6)
	for i := range scores {
		scores[i] = float32(rng.NormFloat64())
	}
	scores[4] = float32(math.Inf(-1))
	right := []int{1, 3}
	of := func(i int, by float32) float64 {
		s := slices.Clone(scores)
		s[i] += by
		return softmaxLoss(s, right, 1)
	}
	grads := slices.Clone(scores)
	softmaxLoss(grads, right, 1)
	for i, g := range grads {
		const step = 1. / 64
		if slope := (of(i, step) - of(i, -step)) / (2 * step); i != 4 && math.Abs(slope-float64(g)) > 1e-3 || i == 4 && g != 0 {
			t.Errorf("item %d: gradient %v, slope %v", i, g, slope)
		}
	}
	if loss := softmaxLoss(grads, nil, 1); loss != 0 || slices.ContainsFunc(grads, func(g float32) bool { return g != 0 }) {
		t.Errorf("nothing is right: loss %v, gradients %v", loss, grads)
	}
}

// TestItemScores: MAP@k and recall are those of the definition: precisions at hits over the most hits that are possible.
func TestItemScores(t *testing.T) {
	k := kind{name: database.Recommendation, top: 3}
	s := k.scoreItems([][]uint32{{5, 7, 9, 1}, {2, 3, 4}, {}}, [][]uint32{{7, 1, 9}, {4}, {8}})
	if want := ((1./2+2./3)/3 + 1./3) / 3; math.Abs(s.MAP-want) > 1e-12 || math.Abs(s.Recall-(2./3+1)/3) > 1e-12 {
		t.Errorf("%+v, expected MAP %v", s, want)
	}
	best := []scored(nil)
	for i, x := range []float32{1, 3, 2, 3, 0} {
		best = keepBest(best, scored{uint32(i), x}, 3)
	}
	if want := []scored{{1, 3}, {3, 3}, {2, 2}}; !slices.Equal(best, want) {
		t.Errorf("the best are %v, expected %v", best, want)
	}
}

// TestWays: the shortest ways of references from one table to another, forwards and back, all of them.
func TestWays(t *testing.T) {
	m := &store.Manifest{}
	for _, n := range []string{"customers", "orders", "lines", "products", "alone"} {
		m.Schema.NodeTypes = append(m.Schema.NodeTypes, store.NodeType{Name: n})
	}
	for _, r := range []string{"orders:c:customers", "lines:o:orders", "lines:p:products", "lines:also:products", "customers:friend:customers"} {
		m.Schema.Relations = append(m.Schema.Relations, store.Relation{Name: r})
	}
	for _, c := range []struct {
		from, to string
		want     [][]step
	}{
		{"customers", "products", [][]step{{{0, true}, {1, true}, {2, false}}, {{0, true}, {1, true}, {3, false}}}},
		{"customers", "customers", [][]step{{{4, false}}, {{4, true}}}},
		{"customers", "alone", nil},
	} {
		got := ways(m, c.from, c.to)
		if !slices.EqualFunc(got, c.want, slices.Equal[[]step]) {
			t.Errorf("%s to %s: %v, expected %v", c.from, c.to, got, c.want)
		}
	}
}
