package buffer

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/gstore/gstore/store"
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

// Small partitions of rows so wide that a page begins only every 1,024 of them take what their nodes take and have the
// right rows: some at a time, all of them, and with pinned ones.
func TestWideRowsOfSmallPartitions(t *testing.T) {
	const dim = 1001
	sizes := []int{33, 1, 40, 0, 64, 17, 37}
	for _, o := range []Options{
		{}, {Capacity: 1}, {Capacity: 2, Swap: 1}, {Capacity: 2, Pinned: []store.PartitionID{4}}, {Capacity: 3, RequestBytes: 65536},
	} {
		rng := rand.New(rand.NewPCG(5, 6))
		g := newToyGraph(rng, sizes, 500, 3, true)
		g.dim = dim
		s, err := g.write(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		o.Features, o.Labels, o.Threads, o.Split = []string{"x"}, true, 2, "train"
		it, err := newBuffer(context.Background(), s.m, s, o)
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for _, slot := range it.layout.slots {
			rows += int(slot.rows)
		}
		if most := len(it.layout.slots) * 64; rows > most {
			t.Errorf("capacity %d: %d slots have %d rows, expected at most %d",
				o.Capacity, len(it.layout.slots), rows, most)
		}
		if err := it.Start(randomPlan(rng, len(sizes), &o)); err != nil {
			t.Fatal(err)
		}
		steps := 0
		for ; it.Next(); steps++ {
			if err := g.check(it.MacroBatch(), &o); err != nil {
				t.Error(err)
			}
		}
		if err := it.Err(); err != nil || steps == 0 {
			t.Errorf("capacity %d: %d steps, %v", o.Capacity, steps, err)
		}
		if err := it.Close(); err != nil {
			t.Error(err)
		}
		s.close()
	}
}
