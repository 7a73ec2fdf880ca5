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

// Hottest returns the count most visited rows, see [Hottest].
func (h *Hotness) Hottest(count int) []uint32 { return Hottest(h.visits, count) }

// Hottest returns the count most visited of what visits counts, most visited first, those visited equally often in ascending
// order; what was never visited not at all.
func Hottest(visits []uint32, count int) []uint32 {
	most := uint32(0)
	for _, v := range visits {
		most = max(most, v)
	}
	// How many rows have a count, counts beyond the last class together.
	const last = 1 << 16
	class := func(v uint32) uint32 { return min(v, last) }
	sizes := make([]int, class(most)+1)
	for _, v := range visits {
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
	for r, v := range visits {
		if c := class(v); int(c) >= least {
			rows[begin[c]] = uint32(r)
			begin[c]++
		}
	}
	if least < len(sizes) && most >= last { // the last class is of several counts
		slices.SortStableFunc(rows[:sizes[len(sizes)-1]], func(a, b uint32) int { return int(visits[b]) - int(visits[a]) })
	}
	return rows[:min(count, total)]
}

// presc keeps the hottest rows in places of their own for good, and in what is left the rows of the last batches. Places fill as
// batches come, no more at a time than a batch may have rows, so that no transfer is much larger than a batch's.
type presc struct {
	*Tracker
	hot  []uint32 // that have no place yet, hottest first
	pins Transfer // places taken and not filled
}

func newPreSC(o Options) (*presc, error) {
	t, err := NewTracker(o)
	return &presc{Tracker: t, hot: o.Hot}, err
}

// Name returns "presc".
func (p *presc) Name() string { return NamePreSC }

// Next admits a batch.
func (p *presc) Next(rows []uint32, t *Transfer) error {
	if len(p.pins.Send) == 0 && len(p.hot) > 0 {
		n := min(len(p.hot), max(1, p.batch))
		if err := p.Pin(p.hot[:n], &p.pins); err != nil {
			return err
		}
		p.hot = p.hot[n:]
	}
	if err := p.Tracker.Next(rows, t); err != nil || t.Direct { // which sends nothing: what was pinned is sent with the next one
		return err
	}
	t.Send, t.To = append(t.Send, p.pins.Send...), append(t.To, p.pins.To...)
	p.pins.Send, p.pins.To = p.pins.Send[:0], p.pins.To[:0]
	return nil
}

// Drop forgets rows, also as hot ones.
func (p *presc) Drop(lo, hi uint32) {
	gone := func(r uint32) bool { return r >= lo && r < hi }
	p.hot = slices.DeleteFunc(slices.Clone(p.hot), gone)
	kept := 0
	for i, r := range p.pins.Send {
		if !gone(r) {
			p.pins.Send[kept], p.pins.To[kept] = r, p.pins.To[i]
			kept++
		}
	}
	p.pins.Send, p.pins.To = p.pins.Send[:kept], p.pins.To[:kept]
	p.Tracker.Drop(lo, hi)
}
