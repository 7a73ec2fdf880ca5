package cache

import (
	"errors"
	"fmt"
)

// Tracker keeps the rows of the last batches: HyDRA's two vectors ("Dynamic Cross-batch Data Orchestration", section
// III-B). LocPt, where a row lies, is an array by row. ValPt, which batch had it last, is kept by place and not by row, as
// rows without a place need none: so a hit costs one random access to each, and eviction reads it in sequence.
//
// A new row takes the place of one that none of the last w batches had, w being as many batches as fit; where all had one,
// of any row that the batch itself does not need; else it has a place behind them, for this batch only.
//
// Invariants: loc[r] = p+1 exactly if owner[p] = r+1, for places p that are taken.
type Tracker struct {
	arrays
	loc    []uint32 // LocPt, by row: 1 + its place; 0: none
	used   []uint32 // ValPt, by 1 + place: the last batch that had its row; used[0] takes what misses write
	owner  []uint32 // by place: 1 + its row; 0: free
	places int
	batch  int      // places behind those
	fixed  int      // places 0 … fixed−1 are pinned
	fresh  int      // places from here on were never taken
	free   []uint32 // places that Drop gave back, a stack
	hand   int      // where the search for a victim goes on
	now    uint32   // the batch being admitted, from 1
	stats  Stats
}

// NewTracker makes a tracker of empty places. Of o count Rows, Places and Batch.
func NewTracker(o Options) (*Tracker, error) {
	rows, places := o.Rows, o.Places
	t := &Tracker{places: places, batch: o.batch()}
	var errs [4]error
	t.loc, errs[0] = array[uint32](&t.arrays, rows)
	t.used, errs[1] = array[uint32](&t.arrays, places+1)
	t.owner, errs[2] = array[uint32](&t.arrays, places)
	t.free, errs[3] = array[uint32](&t.arrays, places)
	t.free = t.free[:0]
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(fmt.Errorf("cache: tracker: %w", err), t.Close())
	}
	return t, nil
}

// Name returns "tracker".
func (t *Tracker) Name() string { return NameTracker }

// Window returns 0: a tracker looks back.
func (t *Tracker) Window() int { return 0 }

// Announce does nothing.
func (t *Tracker) Announce([]uint32) error { return nil }

// Stats returns the totals since the tracker was made.
func (t *Tracker) Stats() Stats { return t.stats }

// Pin puts distinct rows into places of their own, which they keep until Drop, and tells in tr what to send. The fixed
// region grows from place 0 on; rows that lay there lose their places. Rows beyond the places, and those pinned
// already, are left out.
func (t *Tracker) Pin(rows []uint32, tr *Transfer) error {
	tr.reset(0)
	for _, r := range rows {
		if int(r) >= len(t.loc) {
			return fmt.Errorf("cache: pin row %d of %d: %w", r, len(t.loc), ErrRow)
		}
		if t.fixed == t.places {
			break
		}
		p := uint32(t.fixed)
		at := t.loc[r]
		if at != 0 && int(at-1) < t.fixed {
			continue
		}
		t.fixed++
		if at == p+1 { // it lies there
			continue
		}
		if at != 0 { // it lies in the region that moves
			t.release(at - 1)
		}
		t.take(p)
		t.loc[r], t.owner[p] = p+1, r+1
		tr.Send, tr.To = append(tr.Send, r), append(tr.To, p)
		t.stats.Pinned++
	}
	t.hand = max(t.hand, t.fixed)
	return nil
}

// take frees place p of whatever row it holds and of the lists of free places.
func (t *Tracker) take(p uint32) {
	if int(p) == t.fresh {
		t.fresh++
		return
	}
	if o := t.owner[p]; o != 0 {
		t.loc[o-1], t.owner[p] = 0, 0
		return
	}
	for i := len(t.free) - 1; i >= 0; i-- { // Drop frees the fixed region from its end, so that its places lie on top
		if t.free[i] == p {
			t.free = append(t.free[:i], t.free[i+1:]...)
			return
		}
	}
}

// release frees a place of the region that moves.
func (t *Tracker) release(p uint32) {
	t.owner[p] = 0
	t.free = append(t.free, p)
}

// Drop forgets the rows lo … hi−1, pinned ones too. Their places are free; those of the fixed region at its end are no
// longer part of it, others stay empty until all behind them are dropped.
func (t *Tracker) Drop(lo, hi uint32) {
	for r := lo; r < min(hi, uint32(len(t.loc))); r++ {
		at := t.loc[r]
		if at == 0 {
			continue
		}
		t.loc[r] = 0
		if p := at - 1; int(p) >= t.fixed {
			t.release(p)
		} else {
			t.owner[p] = 0
		}
	}
	for t.fixed > 0 && t.owner[t.fixed-1] == 0 {
		t.fixed--
		t.free = append(t.free, uint32(t.fixed))
	}
}

// Next admits a batch. It takes three passes, each of accesses that do not depend on each other, so that their cache misses
// overlap, and without branches on what they find.
func (t *Tracker) Next(rows []uint32, tr *Transfer) error {
	tr.reset(len(rows))
	t.now++
	// Where every row lies; those that lie nowhere are listed, by their numbers in the batch.
	missed := tr.Send[:len(rows)+1]
	n, loc, used, now, where := 0, t.loc, t.used, t.now, tr.Loc[:len(rows)]
	for k, r := range rows {
		if int(r) >= len(loc) {
			return fmt.Errorf("cache: row %d of %d: %w", r, len(loc), ErrRow)
		}
		p := loc[r]
		used[p] = now
		where[k] = p - 1
		missed[n] = uint32(k)
		miss := 0
		if p == 0 {
			miss = 1
		}
		n += miss
	}
	missed = missed[:n]
	taken := t.vacate(tr.To, n, now-min(now, uint32(max(1, t.places/max(1, len(rows))))))
	if n-len(taken) > t.batch {
		for _, p := range taken {
			t.owner[p] = 0
		}
		t.free = append(t.free, taken...)
		tr.Send, tr.Direct = tr.Send[:0], true
		t.stats.Misses += uint64(len(rows))
		return nil
	}
	t.stats.Hits += uint64(len(rows) - n)
	t.stats.Misses += uint64(n)
	tr.Send, tr.To = tr.Send[:n], tr.To[:n]
	for i, p := range taken {
		k := missed[i]
		r := rows[k]
		loc[r], t.owner[p] = p+1, r+1
		where[k], missed[i] = p, r
	}
	for i := len(taken); i < n; i++ { // not kept: a place behind the others
		k, p := missed[i], uint32(t.places+i-len(taken))
		where[k], missed[i], tr.To[i] = p, rows[k], p
	}
	return nil
}

// vacate returns, in the memory of taken, up to n places for rows of this batch: those that hold nothing, then those of rows that were last used
// before batch limit, then those of any row that this batch does not need.
func (t *Tracker) vacate(taken []uint32, n int, limit uint32) []uint32 {
	for f := len(t.free); f > 0 && len(taken) < n; f-- {
		t.used[t.free[f-1]+1] = t.now
		taken = append(taken, t.free[f-1])
		t.free = t.free[:f-1]
	}
	for ; t.fresh < t.places && len(taken) < n; t.fresh++ {
		t.used[t.fresh+1] = t.now
		taken = append(taken, uint32(t.fresh))
	}
	for _, limit := range [2]uint32{limit, t.now} {
		// The hand goes round once at most. What was taken before has no row of an older batch.
		for left := t.places - t.fixed; left > 0 && len(taken) < n; {
			if t.hand >= t.places {
				t.hand = t.fixed
			}
			look := min(left, n-len(taken), t.places-t.hand) // no more than that are found
			before := len(taken)
			taken = taken[:before+look]
			found := before
			for i, u := range t.used[t.hand+1 : t.hand+1+look] {
				taken[found] = uint32(t.hand + i)
				old := 0
				if u < limit {
					old = 1
				}
				found += old
			}
			taken = taken[:found]
			t.hand, left = t.hand+look, left-look
			for _, p := range taken[before:] {
				t.loc[t.owner[p]-1], t.used[p+1] = 0, t.now
			}
		}
	}
	return taken
}
