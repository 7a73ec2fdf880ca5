package cache

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Tracker keeps the rows of the last batches: HyDRA's two vectors ("Dynamic Cross-batch Data Orchestration", section
// III-B). LocPt, where a row lies, is an array by row. ValPt, which batch had it last, is kept by place and not by row, as
// rows without a place need none: a byte each, which a fast cache holds, and eviction reads eight of them at a time.
//
// A new row takes the place of one that none of the last w batches had, w being as many batches as fit, at most
// stampsKept; where all had one, of any row that the batch itself does not need; else it has a place behind them, for
// this batch only.
//
// A row is held exactly if owner[loc[row]] = 1 + row: what LocPt says of a row that lost its place is left as it is, so that
// eviction writes nothing at random.
type Tracker struct {
	arrays
	loc    []uint32 // LocPt, by row: 1 + the place that it had last; 0: none
	used   []uint8  // ValPt, by 1 + place: the stamp of the last batch that had its row; used[0] takes what misses write
	owner  []uint32 // by 1 + place: 1 + its row; 0: free, as owner[0]
	places int
	batch  int      // places behind those
	fixed  int      // places 0 … fixed−1 are pinned
	fresh  int      // places from here on were never taken
	free   []uint32 // places that Drop gave back, a stack
	hand   int      // where the search for a victim goes on
	now    uint8    // stamp of the batch being admitted, 1 … stampMax
	stats  Stats
}

// Stamps are batches' numbers in seven bits: eight are compared in one word. When they run out all sink by half of
// them, older ones to 0, so that the last stampsKept batches are always told apart.
const (
	stampMax   = 127
	stampsKept = 63
)

// NewTracker makes a tracker of empty places. Of o count Rows, Places and Batch.
func NewTracker(o Options) (*Tracker, error) {
	rows, places := o.Rows, o.Places
	t := &Tracker{places: places, batch: o.batch()}
	if err := t.reserve(trackerBytes(o)); err != nil {
		return nil, fmt.Errorf("cache: tracker: %w", err)
	}
	t.loc = array[uint32](&t.arrays, rows)
	t.owner = array[uint32](&t.arrays, places+1)
	t.free = array[uint32](&t.arrays, places)[:0]
	t.used = array[uint8](&t.arrays, places+1)
	return t, nil
}

// trackerBytes is what a tracker's books take.
func trackerBytes(o Options) int64 {
	return 4*int64(o.Rows) + 9*(int64(o.Places)+1) + 4*arrayAlign
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
		at := t.at(r)
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
		t.loc[r], t.owner[p+1] = p+1, r+1
		tr.Send, tr.To = append(tr.Send, r), append(tr.To, p)
		t.stats.Pinned++
	}
	t.hand = max(t.hand, t.fixed)
	return nil
}

// at is 1 + the place of a row, 0 where it is not held.
func (t *Tracker) at(r uint32) uint32 {
	if p := t.loc[r]; t.owner[p] == r+1 {
		return p
	}
	return 0
}

// take frees place p of whatever row it holds and of the lists of free places.
func (t *Tracker) take(p uint32) {
	if int(p) == t.fresh {
		t.fresh++
		return
	}
	if t.owner[p+1] != 0 {
		t.owner[p+1] = 0
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
	t.owner[p+1] = 0
	t.free = append(t.free, p)
}

// Drop forgets the rows lo … hi−1, pinned ones too. Their places are free; those of the fixed region at its end are no
// longer part of it, others stay empty until all behind them are dropped.
func (t *Tracker) Drop(lo, hi uint32) {
	for r := lo; r < min(hi, uint32(len(t.loc))); r++ {
		at := t.at(r)
		if at == 0 {
			continue
		}
		if p := at - 1; int(p) >= t.fixed {
			t.release(p)
		} else {
			t.owner[at] = 0
		}
	}
	for t.fixed > 0 && t.owner[t.fixed] == 0 {
		t.fixed--
		t.free = append(t.free, uint32(t.fixed))
	}
}

// Next admits a batch. It takes three passes, each of accesses that do not depend on each other, so that their cache misses
// overlap, and without branches on what they find.
func (t *Tracker) Next(rows []uint32, tr *Transfer) error {
	tr.reset(len(rows))
	t.stamp()
	// Where every row lies; those that lie nowhere are listed, by their numbers in the batch.
	missed := tr.Send[:len(rows)+1]
	n, loc, used, owner, now, where := 0, t.loc, t.used, t.owner, t.now, tr.Loc[:len(rows)]
	for k, r := range rows {
		if int(r) >= len(loc) {
			return fmt.Errorf("cache: row %d of %d: %w", r, len(loc), ErrRow)
		}
		p := loc[r]
		other := owner[p] ^ (r + 1)
		miss := (other | -other) >> 31 // rows are below 2³¹−1
		used[p&(miss-1)] = now
		where[k] = p - 1
		missed[n] = uint32(k)
		n += int(miss)
	}
	missed = missed[:n]
	w := min(max(1, t.places/max(1, len(rows))), stampsKept)
	taken := t.vacate(tr.To, n, now-min(now, uint8(w)))
	if n-len(taken) > t.batch {
		for _, p := range taken {
			owner[p+1] = 0
		}
		t.free = append(t.free, taken...)
		tr.Send, tr.Direct = tr.Send[:0], true
		t.stats.Misses += uint64(len(rows))
		return nil
	}
	t.stats.Hits += uint64(len(rows) - n)
	t.stats.Misses += uint64(n)
	tr.Send, tr.To = tr.Send[:n], tr.To[:n]
	for i, k := range missed[:len(taken)] {
		p, r := taken[i], rows[k]
		loc[r], owner[p+1] = p+1, r+1
		where[k], missed[i] = p, r
	}
	for i := len(taken); i < n; i++ { // not kept: a place behind the others
		k, p := missed[i], uint32(t.places+i-len(taken))
		where[k], missed[i], tr.To[i] = p, rows[k], p
	}
	return nil
}

// stamp gives the coming batch its stamp.
func (t *Tracker) stamp() {
	if t.now++; t.now <= stampMax {
		return
	}
	const sunk = stampMax - stampsKept
	for i, u := range t.used {
		t.used[i] = u - min(u, sunk)
	}
	t.now -= sunk
}

// vacate returns, in the memory of taken, up to n places for rows of this batch: those that hold nothing, then those of rows that were last used
// before the batch with stamp limit, then those of any row that this batch does not need. Whose rows they were is left to the caller.
func (t *Tracker) vacate(taken []uint32, n int, limit uint8) []uint32 {
	for f := len(t.free); f > 0 && len(taken) < n; f-- {
		t.used[t.free[f-1]+1] = t.now
		taken = append(taken, t.free[f-1])
		t.free = t.free[:f-1]
	}
	for ; t.fresh < t.places && len(taken) < n; t.fresh++ {
		t.used[t.fresh+1] = t.now
		taken = append(taken, uint32(t.fresh))
	}
	for _, limit := range [2]uint8{limit, t.now} {
		// The hand goes round once at most. What was taken before has this batch's stamp.
		for left := t.places - t.fixed; left > 0 && len(taken) < n; {
			if t.hand >= t.places {
				t.hand = t.fixed
			}
			look := min(left, t.places-t.hand)
			var looked int
			taken, looked = t.older(taken, n, t.used[t.hand+1:t.hand+1+look], limit)
			t.hand, left = t.hand+looked, left-looked
		}
	}
	return taken
}

// older appends the places of the bytes of used, which begin with the hand's, that are below limit, until there are n, and gives them
// this batch's stamp. It returns how many bytes it looked at.
func (t *Tracker) older(taken []uint32, n int, used []uint8, limit uint8) ([]uint32, int) {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	base, at := uint32(t.hand), 0
	limits, now := uint64(limit)*ones, uint64(t.now)*ones
	for ; at+8 <= len(used) && len(taken)+8 <= n; at += 8 { // no more than n are found
		x := binary.LittleEndian.Uint64(used[at:])
		old := ^((x | high) - limits) & high // of seven bits each: no byte borrows from the next
		if old == 0 {
			continue
		}
		whole := old >> 7 * 255
		binary.LittleEndian.PutUint64(used[at:], x&^whole|now&whole)
		// The numbers of the old bytes, with the others' behind them, which are overwritten.
		order, p := oldFirst[old>>7*0x0102040810204080>>56], base+uint32(at)
		found := len(taken)
		w := taken[found : found+8]
		w[0], w[1], w[2], w[3] = p+uint32(order&255), p+uint32(order>>8&255), p+uint32(order>>16&255), p+uint32(order>>24&255)
		w[4], w[5], w[6], w[7] = p+uint32(order>>32&255), p+uint32(order>>40&255), p+uint32(order>>48&255), p+uint32(order>>56)
		taken = taken[:found+bits.OnesCount64(old)]
	}
	for ; at < len(used) && len(taken) < n; at++ {
		if used[at] < limit {
			used[at] = t.now
			taken = append(taken, base+uint32(at))
		}
	}
	return taken, at
}

// oldFirst[m] lists the numbers of the bits of m that are set, a byte each, ascending from the lowest byte.
var oldFirst = func() (order [256]uint64) {
	for m := range order {
		n := 0
		for i := range 8 {
			if m>>i&1 != 0 {
				order[m] |= uint64(i) << (8 * n)
				n++
			}
		}
	}
	return order
}()
