package buffer

import (
	"context"
	"math/rand/v2"
	"testing"
)

// Buckets between partitions whose ids take 16 bits and 32, in every combination, are assembled whatever they carry.
func TestNarrowAndWidePartitions(t *testing.T) {
	sizes := []int{66_000, 300}
	for _, o := range []Options{{}, {Both: true, Relations: true}} {
		rng := rand.New(rand.NewPCG(3, 4))
		g := newToyGraph(rng, sizes, 3000, 3, false)
		s, err := g.write(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		o.Features, o.Labels, o.Threads = []string{"x"}, true, 2
		it, err := newBuffer(context.Background(), s.m, s, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := it.Start(randomPlan(rng, len(sizes), &o)); err != nil {
			t.Fatal(err)
		}
		for it.Next() {
			if err := g.check(it.MacroBatch(), &o); err != nil {
				t.Error(err)
			}
		}
		if err := it.Err(); err != nil {
			t.Error(err)
		}
		if err := it.Close(); err != nil {
			t.Error(err)
		}
		s.close()
	}
}
