package cache

import (
	"errors"
	"fmt"
)

// ErrDirect says that a batch of rows that change has more of them than there are places.
var ErrDirect = errors.New("more rows that change than places")

// written is a policy of rows that batches change where they lie, such as learned embeddings: a row that loses its place, or is
// sent to another one, goes back first. The policy beneath knows nothing of that. What a batch needs is, in this order, copies
// of Back from their places and of Send to theirs.
type written struct {
	Policy
	arrays
	where []uint32 // by row: 1 + the place that it was sent to last, unless another row was since; 0: none
	held  []uint32 // by place: 1 + the row that was sent there last; 0: none
	dirty []uint8  // by place: 1 if its row is newer there
	swept int      // places that a flush has been through, between its pieces
	stats Stats
}

// Written makes p, a policy of empty places with such options, one of rows that batches change, which closes p.
func Written(p Policy, o Options) (Policy, error) {
	w := &written{Policy: p}
	if err := w.reserve(writtenBytes(o)); err != nil {
		return nil, errors.Join(fmt.Errorf("cache: rows that change: %w", err), p.Close())
	}
	w.where = array[uint32](&w.arrays, o.Rows)
	w.held, w.dirty = array[uint32](&w.arrays, o.Places+o.batch()), array[uint8](&w.arrays, o.Places+o.batch())
	return w, nil
}

// writtenBytes is what its books take.
func writtenBytes(o Options) int64 {
	return 4*int64(o.Rows) + 5*(int64(o.Places)+int64(o.batch())) + 3*arrayAlign
}

// Close frees the books.
func (w *written) Close() error { return errors.Join(w.arrays.Close(), w.Policy.Close()) }

// Next admits a batch, all of whose rows change.
func (w *written) Next(rows []uint32, t *Transfer) error {
	if err := w.Policy.Next(rows, t); err != nil {
		return err
	}
	if t.Direct { // rows that lie in places would be older there
		return fmt.Errorf("cache: a batch of %d rows in %d places: %w", len(rows), len(w.held), ErrDirect)
	}
	t.Back, t.From = t.Back[:0], t.From[:0]
	for i, p := range t.To {
		if before := w.where[t.Send[i]]; before > 0 { // the policy forgot that it is there
			w.leave(before-1, t)
		}
		w.leave(p, t)
		w.held[p], w.where[t.Send[i]] = 1+t.Send[i], 1+p
	}
	for _, p := range t.Loc {
		w.dirty[p] = 1
	}
	w.stats.Changed += uint64(len(rows))
	return nil
}

// leave has a place's row go.
func (w *written) leave(p uint32, t *Transfer) {
	if row := w.held[p]; row > 0 {
		w.back(p, t)
		w.held[p], w.where[row-1] = 0, 0
	}
}

// back sends a place's row back if it is newer there.
func (w *written) back(p uint32, t *Transfer) {
	if w.dirty[p] == 0 {
		return
	}
	w.dirty[p] = 0
	t.Back, t.From = append(t.Back, w.held[p]-1), append(t.From, p)
	w.stats.Returned++
}

// Flush implements [Flusher].
func (w *written) Flush(t *Transfer, most int) (more bool) {
	t.Back, t.From = t.Back[:0], t.From[:0]
	for ; w.swept < len(w.held); w.swept++ {
		if len(t.Back) == most {
			return true
		}
		w.back(uint32(w.swept), t)
	}
	w.swept = 0
	return false
}

// Drop forgets rows lo … hi−1, which were flushed.
func (w *written) Drop(lo, hi uint32) {
	w.Policy.Drop(lo, hi)
	for r := lo; r < min(hi, uint32(len(w.where))); r++ {
		if p := w.where[r]; p > 0 {
			w.where[r], w.held[p-1], w.dirty[p-1] = 0, 0, 0
		}
	}
}

// Stats counts what goes back too.
func (w *written) Stats() Stats {
	s := w.Policy.Stats()
	s.Changed, s.Returned = w.stats.Changed, w.stats.Returned
	return s
}

// Flusher is a policy of rows that batches change ([Options].Written).
type Flusher interface {
	// Flush lists rows that are newer in their places, most of them at the most: Back and From of t. They stay where they are. It
	// is called, and nothing else, as long as it returns that there are more.
	Flush(t *Transfer, most int) (more bool)
}

// Flush is [Flusher.Flush] of a policy; nothing where batches change no rows.
func Flush(p Policy, t *Transfer, most int) (more bool) {
	t.Back, t.From = t.Back[:0], t.From[:0]
	if f, ok := p.(Flusher); ok {
		more = f.Flush(t, most)
	}
	return more
}
