package cache

import (
	"errors"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
)

// ErrCapacity says that a batch has more distinct rows than the slab has places.
var ErrCapacity = errors.New("cache: batch exceeds the slab")

// absent marks a row that the slab does not hold.
const absent = ^uint32(0)

// Tracker keeps the two vectors of HyDRA ("Dynamic Cross-batch Data
// Orchestration"): ValPt, which rows the last batches had (a roaring bitmap a
// batch: long-lived, and clustered by partition), and LocPt, where each row
// lies in the device's slab (a dense array over macro-batch rows, because a
// probe of it is ten times cheaper than an intersection of bitmaps; docs/limits.md,
// Bitmaps).
//
// Invariants: LocPt[r] = p exactly if row r lies in place p; every place is
// either free or holds one row; a row of the window's batches is held.
type Tracker struct {
	loc    []uint32          // LocPt, by row; absent if not held
	free   []uint32          // places that hold nothing, a stack
	window []*roaring.Bitmap // ValPt of the last batches, oldest first
	places int
	stats  Stats
}

// Transfer is what one batch needs: once row Send[i] has been copied to place
// To[i] for every i, the batch's row k lies in place Loc[k]. The slices belong
// to the caller and are reused by the next call with the same Transfer.
type Transfer struct {
	Loc  []uint32 // parallel to the batch's rows
	Send []uint32 // rows that the slab lacked, in batch order
	To   []uint32 // their places, parallel to Send
}

// Stats counts rows over a tracker's life.
type Stats struct {
	Hits   uint64 // rows found in the slab
	Misses uint64 // rows sent
}

// BytesSaved is the bytes that hits did not move, at rowBytes bytes a row.
func (s Stats) BytesSaved(rowBytes int) uint64 { return s.Hits * uint64(rowBytes) }

// BytesMoved is the bytes sent for misses, at rowBytes bytes a row.
func (s Stats) BytesMoved(rowBytes int) uint64 { return s.Misses * uint64(rowBytes) }

// NewTracker makes a tracker of an empty slab with the given number of places
// for macro-batches of up to rows rows.
func NewTracker(rows, places int) *Tracker {
	t := &Tracker{loc: make([]uint32, rows), places: places, free: make([]uint32, 0, places)}
	t.Reset()
	return t
}

// Reset empties the slab's books: rows of a new macro-batch mean other nodes.
func (t *Tracker) Reset() {
	for i := range t.loc {
		t.loc[i] = absent
	}
	t.free = t.free[:0]
	for p := t.places; p > 0; p-- {
		t.free = append(t.free, uint32(p-1))
	}
	t.window = t.window[:0]
}

// Next admits a batch: rows are its distinct input rows. Rows of earlier
// batches stay as long as there are places; the oldest batch's go first. The
// error wraps [ErrCapacity] if the batch alone does not fit; after any error
// nothing has changed.
func (t *Tracker) Next(rows []uint32, tr *Transfer) error {
	if len(rows) > t.places {
		return fmt.Errorf("%w: %d rows, %d places", ErrCapacity, len(rows), t.places)
	}
	misses := 0
	for _, r := range rows {
		if int(r) >= len(t.loc) {
			return fmt.Errorf("cache: row %d outside the macro-batch's %d rows", r, len(t.loc))
		}
		if t.loc[r] == absent {
			misses++
		}
	}
	current := roaring.BitmapOf(rows...)
	if distinct := current.GetCardinality(); distinct != uint64(len(rows)) {
		return fmt.Errorf("cache: a batch of %d rows names only %d distinct ones", len(rows), distinct)
	}
	for len(t.free) < misses {
		t.evictOldest(current)
	}
	tr.Loc, tr.Send, tr.To = tr.Loc[:0], tr.Send[:0], tr.To[:0]
	for _, r := range rows {
		p := t.loc[r]
		if p == absent {
			p = t.free[len(t.free)-1]
			t.free = t.free[:len(t.free)-1]
			t.loc[r] = p
			tr.Send = append(tr.Send, r)
			tr.To = append(tr.To, p)
		}
		tr.Loc = append(tr.Loc, p)
	}
	t.window = append(t.window, current)
	t.stats.Hits += uint64(len(rows) - misses)
	t.stats.Misses += uint64(misses)
	return nil
}

// evictOldest drops the oldest batch's rows that neither a later batch nor the
// one being admitted has.
func (t *Tracker) evictOldest(current *roaring.Bitmap) {
	gone := t.window[0]
	t.window = t.window[1:]
	gone.AndNot(current)
	for _, later := range t.window {
		gone.AndNot(later)
	}
	for it := gone.Iterator(); it.HasNext(); {
		r := it.Next()
		t.free = append(t.free, t.loc[r])
		t.loc[r] = absent
	}
}

// Held returns how many rows the slab holds.
func (t *Tracker) Held() int { return t.places - len(t.free) }

// Stats returns the totals since the tracker was made.
func (t *Tracker) Stats() Stats { return t.stats }
