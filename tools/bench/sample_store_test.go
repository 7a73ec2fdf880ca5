package bench

import (
	"slices"
	"testing"
)

// TestSampleStore: rounds go on through epochs, each of other batches, and what is sampled is the same on any number of threads.
func TestSampleStore(t *testing.T) {
	s := smallStore(t)
	const rounds, batches = 4, 15 // of 20 batches an epoch
	measure := func(threads int) (edges []int64) {
		err := SampleStore(t.Context(), s, threads, SampleOptions{Fanouts: []int{4, 3}, BatchSize: 100, Rounds: rounds, Batches: batches, Seed: 1}, func(r SampleRound) {
			// A seed has at most 4 edges, and it and each of its 4 neighbours 3 more.
			if r.Batches != batches || r.Inputs <= 100*batches || r.SampledEdges > 100*batches*(4+5*3) || r.Seconds <= 0 {
				t.Errorf("%d threads: %+v", threads, r)
			}
			edges = append(edges, r.SampledEdges)
		})
		if err != nil {
			t.Fatal(err)
		}
		return edges
	}
	one := measure(1)
	if len(one) != rounds || len(slices.Compact(slices.Sorted(slices.Values(one)))) == 1 {
		t.Errorf("%d rounds of %v edges, expected %d that differ", len(one), one, rounds)
	}
	if three := measure(3); !slices.Equal(one, three) {
		t.Errorf("one thread sampled %v edges, three %v", one, three)
	}
}
