package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The capacity returned is double-buffered within the budget and the next one
// is not, for budgets from nothing to everything.
func TestMaxCapacity(t *testing.T) {
	g := newToyGraph(rand.New(rand.NewPCG(11, 12)), []int{300, 280, 310, 290, 300, 270, 305, 300}, 9000, 1, true)
	g.dim = 100
	s := writeToy(t, g)
	double := func(capacity int, budget int64) bool {
		it, err := newMacroBatches(t.Context(), s.m, s, MacroOptions{Capacity: capacity, MemoryBytes: budget, Features: []string{"x"}, Labels: true})
		if errors.Is(err, ErrBudget) {
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
	o := MacroOptions{Features: []string{"x"}, Labels: true}
	seen := map[int]bool{}
	for budget := int64(1 << 10); budget < 16<<20; budget += budget / 4 {
		o.MemoryBytes = budget
		c, err := maxCapacity(t.Context(), s.m, s, o)
		if errors.Is(err, ErrBudget) {
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
			it, err := newMacroBatches(t.Context(), s.m, s, o)
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
	it, err := newMacroBatches(t.Context(), s.m, s, MacroOptions{Capacity: 2, Features: []string{"x"}, Labels: true, MemoryBytes: 64 << 20, AheadMax: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	run := func(sets ...[]PartitionID) MacroStats {
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
	columns := func(st MacroStats) (n []int64) {
		for _, s := range st.Steps {
			n = append(n, (s.BytesRead-s.TopologyBytes)/column)
		}
		return n
	}
	for _, c := range []struct {
		sets [][]PartitionID
		want []int64
	}{
		{[][]PartitionID{{0, 1}, {0, 2}, {2, 3}}, []int64{2, 1, 1}},
		{[][]PartitionID{{2, 3}, {0, 1}}, []int64{0, 0}}, // four slots hold all four by now
		{[][]PartitionID{{0, 1}, {0, 1}}, []int64{0, 0}},
	} {
		st := run(c.sets...)
		if got := columns(st); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v partitions read, expected %v", c.sets, got, c.want)
		}
	}
	st := run([][]PartitionID{{0, 1}, {0, 1}}...)
	if st.BytesRead != 0 || st.Requests != 0 {
		t.Errorf("the same set again read %d bytes in %d requests", st.BytesRead, st.Requests)
	}
}

// What a MetricsWriter writes, ReadMetrics reads back.
func TestMetricsRoundTrip(t *testing.T) {
	g := newToyGraph(rand.New(rand.NewPCG(15, 16)), []int{300, 300, 300, 300}, 1000, 1, false)
	s := writeToy(t, g)
	it, err := newMacroBatches(t.Context(), s.m, s, MacroOptions{Capacity: 1, Features: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	var b bytes.Buffer
	w := NewMetricsWriter(&b)
	var bytesRead int64
	for range 2 {
		if err := it.Start(hanoiPlan(4, 1)); err != nil {
			t.Fatal(err)
		}
		for it.Next() {
		}
		st := it.Stats()
		bytesRead += st.BytesRead
		if err := w.Epoch(st); err != nil {
			t.Fatal(err)
		}
	}
	if it.BytesRead() != bytesRead {
		t.Errorf("BytesRead is %d, epochs add up to %d", it.BytesRead(), bytesRead)
	}
	if err := w.Event(map[string]any{"event": "summary", "note": 1}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	m, err := ReadMetrics(strings.NewReader(text + `{"event":"st`)) // a run that was killed
	if err != nil {
		t.Fatal(err)
	}
	var steps, epochs int64
	last := 0.0
	for _, s := range m.Steps {
		steps += s.BytesRead
		if s.Begin < last || s.End < s.Begin || s.Ready > s.Begin {
			t.Errorf("step %d: ready %v, begin %v, end %v after %v", s.Step, s.Ready, s.Begin, s.End, last)
		}
		last = s.End
	}
	for _, e := range m.Epochs {
		epochs += e.BytesRead
	}
	if len(m.Steps) != 8 || len(m.Epochs) != 2 || steps != bytesRead || epochs != bytesRead {
		t.Errorf("%d steps of %d bytes, %d epochs of %d, expected 8 and 2 of %d", len(m.Steps), steps, len(m.Epochs), epochs, bytesRead)
	}
	if _, err := ReadMetrics(strings.NewReader("no json\n" + text)); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a bad first line: %v", err)
	}
}
