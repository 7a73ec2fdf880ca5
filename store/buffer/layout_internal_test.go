package buffer

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTopSum: the largest values are added up, however many of them are equal and in whatever order they come.
func TestTopSum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n, values := r.IntN(40), 1+r.Int64N(60)
		sum, others := newTopSum(n), []int64{}
		var always int64
		for range n {
			v := r.Int64N(values)
			if r.IntN(8) == 0 {
				sum.add(v, true)
				always += v
				continue
			}
			sum.add(v, false)
			others = append(others, v)
		}
		slices.Sort(others)
		slices.Reverse(others)
		for _, largest := range []int{r.IntN(n + 1), 0, n, r.IntN(n + 1)} {
			want := always
			for _, v := range others[:min(largest, len(others))] {
				want += v
			}
			if got := sum.sum(largest); got != want {
				t.Fatalf("the %d largest of %v and %d: %d, want %d", largest, others, always, got, want)
			}
		}
	}
}
