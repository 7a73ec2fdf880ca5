package cache

import (
	"fmt"
	"slices"
)

// Hotness is GNNLab's presampling metric PreSC#K (survey of GNN training
// systems, feature caching): how often each row was an input over K presampled
// epochs.
type Hotness struct {
	arrays
	visits []uint32
}

// NewHotness counts visits to rows below rows: 4 bytes each.
func NewHotness(rows int) (*Hotness, error) {
	h := &Hotness{}
	if err := h.reserve(4*int64(rows) + arrayAlign); err != nil {
		return nil, fmt.Errorf("cache: hotness: %w", err)
	}
	h.visits = array[uint32](&h.arrays, rows)
	return h, nil
}

// Observe counts one batch's input rows.
func (h *Hotness) Observe(input []uint32) {
	for _, r := range input {
		h.visits[r]++
	}
}

// Visits are the counts, by row.
func (h *Hotness) Visits() []uint32 { return h.visits }

// Hottest returns the count most visited rows, most visited first, rows visited equally often in ascending order;
// never-visited rows not at all.
func (h *Hotness) Hottest(count int) []uint32 {
	most := uint32(0)
	for _, v := range h.visits {
		most = max(most, v)
	}
	// How many rows have a count, counts beyond the last class together.
	const last = 1 << 16
	class := func(v uint32) uint32 { return min(v, last) }
	sizes := make([]int, class(most)+1)
	for _, v := range h.visits {
		sizes[class(v)]++
	}
	// Where a class begins among the hottest: classes from the hottest down to the first that is not needed whole.
	begin, total := make([]int, len(sizes)), 0
	least := len(sizes)
	for least > 1 && total < count {
		least--
		begin[least] = total
		total += sizes[least]
	}
	rows := make([]uint32, total)
	for r, v := range h.visits {
		if c := class(v); int(c) >= least {
			rows[begin[c]] = uint32(r)
			begin[c]++
		}
	}
	if least < len(sizes) && most >= last { // the last class is of several counts
		slices.SortStableFunc(rows[:sizes[len(sizes)-1]], func(a, b uint32) int { return int(h.visits[b]) - int(h.visits[a]) })
	}
	return rows[:min(count, total)]
}
