package mini

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks/race"
)

// windowSets are the probabilities of sets of k of n positions, drawn uniformly from threshold that follow a random one, round the end.
func windowSets(n, threshold, k int) map[uint64]float64 {
	out := map[uint64]float64{}
	for begin := range n {
		var window []uint64
		for set := range uint64(1) << threshold {
			if bits.OnesCount64(set) != k {
				continue
			}
			var at uint64
			for i := range threshold {
				at |= set >> i & 1 << ((begin + i) % n)
			}
			window = append(window, at)
		}
		for _, set := range window {
			out[set] += 1 / float64(n*len(window))
		}
	}
	return out
}

// TestPrunedDrawsAreExact: sets of neighbours come up as often as the definition of [Prune] says; so each neighbour is equally likely.
func TestPrunedDrawsAreExact(t *testing.T) {
	const rows, n = 1000, 7
	g := shared(rows, make([]float32, n), nil)
	for i, c := range []struct {
		fanout, threshold int
		prune             Prune
		trials            int
	}{
		{2, 4, Prune{Alpha: .5, Beta: 1, Degree: 3}, 1_000_000}, // 1.5 + 2, rounded up
		{2, 5, Prune{Alpha: 1, Beta: 1, Degree: 3}, 100_000},
		{3, 3, Prune{Beta: .1}, 100_000}, // at least the fanout
		{2, 7, Prune{Alpha: 1, Beta: 1, Degree: 9}, 100_000},
	} {
		for _, sampler := range []string{Uniform, Dense} {
			s, err := New(Config{Fanouts: []int{c.fanout}, Sampler: sampler, Prune: c.prune, Seed: uint64(i)})
			if err != nil {
				t.Fatal(err)
			}
			counts, pruned := make([]float64, 1<<n), int64(0)
			trials := c.trials / race.Every(20)
			var b Batch
			for batch := range trials / rows {
				if err := s.Sample(Key{Batch: batch}, g, numbers(rows), &b); err != nil {
					t.Fatal(err)
				}
				setsOf(&b, rows, counts)
				pruned += b.Pruned
			}
			p := windowSets(n, c.threshold, c.fanout)
			chiSquare(t, fmt.Sprint(sampler, c), counts, p, float64(trials))
			if want := int64(trials * (n - c.threshold)); pruned != want || b.Listed != rows*n {
				t.Errorf("%s %v: %d edges were left out, expected %d", sampler, c, pruned, want)
			}
			each := make([]float64, n)
			for set, q := range p {
				for i := range n {
					each[i] += q * float64(set>>i&1)
				}
			}
			for _, q := range each {
				if math.Abs(q-float64(c.fanout)/n) > 1e-12 {
					t.Errorf("%v: a neighbour is drawn with probability %v, expected %d of %d", c, q, c.fanout, n)
				}
			}
		}
	}
}

// TestPruneLongLists: of long lists, by large fanouts and in both directions, different neighbours are drawn, all within the threshold.
func TestPruneLongLists(t *testing.T) {
	const n = 3000
	g := shared(1, make([]float32, n), nil)
	g.Out = g.In
	for _, fanout := range []int{1, 30, 200, n - 1, All} {
		s, err := New(Config{Fanouts: []int{fanout}, Prune: Prune{Alpha: 1, Beta: 1, Degree: 50}})
		if err != nil {
			t.Fatal(err)
		}
		var b Batch
		if err := s.Sample(Key{}, g, []uint32{0}, &b); err != nil {
			t.Fatal(err)
		}
		k, drawn := &b.Blocks[0], fanout
		threshold := min(fanout+50, n)
		if fanout == All {
			drawn, threshold = n, n
		}
		if b.Pruned != int64(2*(n-threshold)) || len(k.Indices) != 2*drawn {
			t.Fatalf("fanout %d: %d drawn, %d left out", fanout, len(k.Indices), b.Pruned)
		}
		for _, half := range [][]int32{k.Indices[:drawn], k.Indices[drawn:]} {
			var at []int
			for _, i := range half {
				at = append(at, int(b.Input[i]))
			}
			slices.Sort(at)
			if len(slices.Compact(slices.Clone(at))) != drawn {
				t.Fatalf("fanout %d: a neighbour is drawn twice", fanout)
			}
			// The longest stretch without any, round the end, is at least what was left out.
			gap := at[0] + n - at[drawn-1] - 1
			for i := 1; i < drawn; i++ {
				gap = max(gap, at[i]-at[i-1]-1)
			}
			if gap < n-threshold {
				t.Errorf("fanout %d: at most %d neighbours in a row are not drawn, expected %d", fanout, gap, n-threshold)
			}
		}
	}
}

func TestPruneRefuses(t *testing.T) {
	for i, c := range []Config{{Sampler: Labor, Prune: Prune{Alpha: 1}}, {Prune: Prune{Alpha: -1}}, {Prune: Prune{Beta: math.NaN()}}, {Prune: Prune{Degree: math.Inf(1)}},
		{RelationFanouts: [][]int{{1}}, Prune: Prune{Alpha: 1}}} {
		c.Fanouts = []int{1}
		if _, err := New(c); err == nil {
			t.Errorf("%d: %+v is taken", i, c)
		}
	}
}

// TestParsePrune: two numbers that prune something.
func TestParsePrune(t *testing.T) {
	if p, err := ParsePrune("1, .5"); p != (Prune{Alpha: 1, Beta: .5}) || err != nil {
		t.Errorf("%+v, %v", p, err)
	}
	for _, text := range []string{"", "1", "0,0", "1,-1", "NaN,1", "1,Inf", "1,1,1"} {
		if p, err := ParsePrune(text); err == nil {
			t.Errorf("%q is %+v", text, p)
		}
	}
}
