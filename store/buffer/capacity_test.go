package buffer

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gstore/gstore/store"
)

// The capacity returned is double-buffered within the budget and the next one
// is not, for budgets from nothing to everything.
func TestMaxCapacity(t *testing.T) {
	g := newToyGraph(rand.New(rand.NewPCG(11, 12)), []int{300, 280, 310, 290, 300, 270, 305, 300}, 9000, 1, true)
	g.dim = 100
	s := writeToy(t, g)
	double := func(capacity int, budget int64) bool {
		it, err := newBuffer(t.Context(), s.m, s, Options{Capacity: capacity, MemoryBytes: budget, Features: []string{"x"}, Labels: true})
		if errors.Is(err, store.ErrBudget) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		if it.MemoryBytes() > budget {
			t.Errorf("%d bytes held, budget %d", it.MemoryBytes(), budget)
		}
		return len(it.layout.slots) >= min(2*capacity, len(g.sizes))
	}
	o := Options{Features: []string{"x"}, Labels: true}
	seen := map[int]bool{}
	for budget := int64(1 << 10); budget < 16<<20; budget += budget / 4 {
		o.MemoryBytes = budget
		c, err := maxCapacity(t.Context(), s.m, s, o)
		if errors.Is(err, store.ErrBudget) {
			if double(1, budget) {
				t.Errorf("%d bytes were refused, but one partition at a time fits", budget)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		seen[c] = true
		switch {
		case c == 0: // everything for the whole run
			it, err := newBuffer(t.Context(), s.m, s, o)
			if err != nil {
				t.Fatal(err)
			}
			it.Close()
		case c > 1 && !double(c, budget), c < len(g.sizes) && double(c+1, budget):
			t.Errorf("%d bytes: capacity %d", budget, c)
		}
	}
	if !seen[0] || !seen[1] || len(seen) < 4 {
		t.Errorf("capacities seen: %v", seen)
	}
	o.MemoryBytes = 0
	if c, err := maxCapacity(t.Context(), s.m, s, o); c != 0 || err != nil {
		t.Errorf("no budget: %d, %v", c, err)
	}
}

// A plan of disjoint sets reads every byte of the features once an epoch, and
// partitions that stay are not read again.
func TestBytesReadAreWhatChanged(t *testing.T) {
	g := newToyGraph(rand.New(rand.NewPCG(13, 14)), []int{300, 300, 300, 300}, 100, 1, false)
	s := writeToy(t, g)
	column := int64(4096 + 4096 + 4096) // x 3600, label 1200, split 300 bytes, in pages
	it, err := newBuffer(t.Context(), s.m, s, Options{Capacity: 2, Features: []string{"x"}, Labels: true, MemoryBytes: 64 << 20, AheadMax: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	run := func(sets ...[]store.PartitionID) Stats {
		t.Helper()
		var plan Plan
		for _, r := range sets {
			plan.Steps = append(plan.Steps, Step{Resident: r})
		}
		if err := it.Start(plan); err != nil {
			t.Fatal(err)
		}
		for it.Next() {
		}
		if err := it.Err(); err != nil {
			t.Fatal(err)
		}
		return it.Stats()
	}
	columns := func(st Stats) (n []int64) {
		for _, s := range st.Steps {
			n = append(n, (s.BytesRead-s.TopologyBytes)/column)
		}
		return n
	}
	for _, c := range []struct {
		sets [][]store.PartitionID
		want []int64
	}{
		{[][]store.PartitionID{{0, 1}, {0, 2}, {2, 3}}, []int64{2, 1, 1}},
		{[][]store.PartitionID{{2, 3}, {0, 1}}, []int64{0, 0}}, // four slots hold all four by now
		{[][]store.PartitionID{{0, 1}, {0, 1}}, []int64{0, 0}},
	} {
		st := run(c.sets...)
		if got := columns(st); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v partitions read, expected %v", c.sets, got, c.want)
		}
	}
	st := run([][]store.PartitionID{{0, 1}, {0, 1}}...)
	if st.BytesRead != 0 || st.Requests != 0 {
		t.Errorf("the same set again read %d bytes in %d requests", st.BytesRead, st.Requests)
	}
}
