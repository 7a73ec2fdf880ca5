package cache

import (
	"cmp"
	"slices"
)

// Hotness is GNNLab's presampling metric PreSC#K (survey of GNN training
// systems, feature caching): how often each row was an input over K presampled
// epochs.
type Hotness struct {
	visits []uint32
}

// NewHotness counts visits to the rows of a macro-batch of rows rows.
func NewHotness(rows int) *Hotness { return &Hotness{visits: make([]uint32, rows)} }

// Observe counts one batch's input rows.
func (h *Hotness) Observe(input []uint32) {
	for _, r := range input {
		h.visits[r]++
	}
}

// Visits returns how often a row was observed.
func (h *Hotness) Visits(row uint32) uint32 { return h.visits[row] }

// Hottest returns the count most visited rows, most visited first, rows
// visited equally often in ascending order; never-visited rows not at all.
func (h *Hotness) Hottest(count int) []uint32 {
	var rows []uint32
	for r, v := range h.visits {
		if v > 0 {
			rows = append(rows, uint32(r))
		}
	}
	slices.SortStableFunc(rows, func(a, b uint32) int { return cmp.Compare(h.visits[b], h.visits[a]) })
	return rows[:min(count, len(rows))]
}
