package cache

import (
	"errors"
	"fmt"
	"math/bits"
)

// Belady keeps the rows that are needed soonest (Belady's MIN with bypass): between two batches, of the rows that were held
// and those of the batch, those whose next use is nearest. Next uses come from a window of announced batches; rows that it
// has not rank behind all of those it has, the most visited first. With a whole trace as window that is the optimum
// ([NewOracle]).
//
// Places that hold a row form a circular list for each next use: one for each batch of the window, one for each class of
// visits. A list's head is element number of the list, place p is element lists+p. So a row's next use changes in
// constant time, and a victim is the first element of the last list that is not empty.
type Belady struct {
	arrays
	name   string
	places int // rows that may be held between batches
	batch  int // the most rows that come in beside those
	ring   int // batches told apart: batch b has list b modulo ring
	lists  int // those, and the classes
	held   int
	loc    []uint32 // by row: 1 + its place; 0: none
	owner  []uint32 // by place: 1 + its row
	prev   []uint32 // by element: neighbours in its list
	next   []uint32
	fresh  int      // places from here on were never taken
	free   []uint32 // other places that hold nothing, a stack
	now    int      // the batch being admitted, from 1
	far    int      // no list of a rank above it has elements
	stats  Stats

	window    int
	announced int      // batches that were announced and not admitted
	masks     []uint64 // by row: bit b modulo 64 says that announced batch b has it
	visits    []uint16 // by row, half of them forgotten whenever a count is full
	shift     uint     // of visits into classes

	uses [][]uint32 // of an oracle: for each batch, each row's next batch, from 1; 0: none. nil: masks say
}

const (
	windowRing = 64  // bits of a mask, so that WindowMax + 2 batches are told apart
	classes    = 256 // of visits, for rows that no announced batch has
)

// newLookahead makes a policy that knows the next uses within a window of batches.
func newLookahead(o Options) (*Belady, error) {
	b, err := newBelady(NameLookahead, o, windowRing, classes)
	if err != nil {
		return nil, err
	}
	if b.window = o.Window; o.Window == 0 {
		b.window = WindowDefault
	}
	if b.masks, err = array[uint64](&b.arrays, o.Rows); err == nil {
		b.visits, err = array[uint16](&b.arrays, o.Rows)
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// NewOracle makes the policy that knows a whole trace, whose batches it is to be given one by one. It takes 4 bytes a row
// of the trace's batches.
func NewOracle(t *Trace, places int) (*Belady, error) {
	b, err := newBelady("oracle", Options{Rows: t.Rows, Places: places, Batch: t.Largest()}, len(t.Batches)+1, 1)
	if err != nil {
		return nil, err
	}
	b.uses = t.nextUses()
	return b, nil
}

func newBelady(name string, o Options, ring, classes int) (*Belady, error) {
	b := &Belady{name: name, places: o.Places, batch: o.batch(), ring: ring, lists: ring + classes}
	all := b.places + b.batch
	var errs [5]error
	b.loc, errs[0] = array[uint32](&b.arrays, o.Rows)
	b.owner, errs[1] = array[uint32](&b.arrays, all)
	b.free, errs[2] = array[uint32](&b.arrays, all)
	b.prev, errs[3] = array[uint32](&b.arrays, b.lists+all)
	b.next, errs[4] = array[uint32](&b.arrays, b.lists+all)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(fmt.Errorf("cache: %s: %w", name, err), b.Close())
	}
	b.free = b.free[:0]
	for l := range b.lists { // empty lists are their heads
		b.prev[l], b.next[l] = uint32(l), uint32(l)
	}
	return b, nil
}

// Name returns "lookahead" or "oracle".
func (b *Belady) Name() string { return b.name }

// Window is how many batches may be announced ahead.
func (b *Belady) Window() int { return b.window }

// Stats returns the totals since b was made.
func (b *Belady) Stats() Stats { return b.stats }

// list is the list of a rank: rank d ≥ 1 up to ring−1 is the d-th batch from now on, the ranks behind are classes.
func (b *Belady) list(rank int) uint32 {
	if rank < b.ring {
		return uint32((b.now + rank) % b.ring)
	}
	return uint32(rank)
}

// unlink takes a place out of its list.
func (b *Belady) unlink(p uint32) {
	e := uint32(b.lists) + p
	before, after := b.prev[e], b.next[e]
	b.next[before], b.prev[after] = after, before
}

// link puts a place into the list of a rank.
func (b *Belady) link(p uint32, rank int) {
	e, head := uint32(b.lists)+p, b.list(rank)
	first := b.next[head]
	b.next[head], b.prev[e], b.next[e], b.prev[first] = e, head, first, e
	b.far = max(b.far, rank)
}

// class ranks a row that no announced batch has: the more visits, the nearer.
func (b *Belady) class(r uint32) int {
	if b.visits == nil {
		return b.ring
	}
	return b.lists - 1 - min(classes-1, int(b.visits[r]>>b.shift))
}

// Announce tells the next batch of the window.
func (b *Belady) Announce(rows []uint32) error {
	if b.masks == nil { // an oracle knows
		return nil
	}
	if b.announced > b.window {
		return fmt.Errorf("cache: %s: %d batches are announced already, the window is %d: %w", b.name, b.announced, b.window, ErrAnnounced)
	}
	b.announced++
	ahead := b.announced // its rank
	bit := uint64(1) << ((b.now + ahead) % windowRing)
	for _, r := range rows {
		if int(r) >= len(b.loc) {
			return fmt.Errorf("cache: announce row %d of %d: %w", r, len(b.loc), ErrRow)
		}
		m := b.masks[r]
		b.masks[r] = m | bit
		if p := b.loc[r]; m == 0 && p != 0 { // it was in a class
			b.unlink(p - 1)
			b.link(p-1, ahead)
		}
	}
	return nil
}

// rank is that of row r's next use after the batch being admitted, whose k-th row it is.
func (b *Belady) rank(k int, r uint32) int {
	if b.uses != nil {
		if u := b.uses[b.now-1][k]; u != 0 {
			return int(u) - b.now
		}
		return b.ring
	}
	m := b.masks[r] &^ (1 << (b.now % windowRing))
	b.masks[r] = m
	if m == 0 {
		return b.class(r)
	}
	return 1 + bits.TrailingZeros64(bits.RotateLeft64(m, -((b.now+1)%windowRing)))
}

// Next admits a batch: that announced first, if any is announced.
func (b *Belady) Next(rows []uint32, t *Transfer) error {
	t.reset(len(rows))
	b.now++
	if b.uses != nil && (b.now > len(b.uses) || len(rows) != len(b.uses[b.now-1])) {
		return fmt.Errorf("cache: batch %d of %d rows is none of the oracle's trace: %w", b.now, len(rows), ErrAnnounced)
	}
	t.Direct = len(rows) > b.batch // more could be held than there are places
	before := b.stats
	bit, announced := uint64(1)<<(b.now%windowRing), b.announced > 0
	b.announced = max(0, b.announced-1)
	b.far = b.lists - 1
	for k, r := range rows {
		if int(r) >= len(b.loc) {
			return fmt.Errorf("cache: row %d of %d: %w", r, len(b.loc), ErrRow)
		}
		if b.masks != nil {
			if announced != (b.masks[r]&bit != 0) {
				return fmt.Errorf("cache: row %d: %w", r, ErrAnnounced)
			}
			b.visit(r)
		}
		rank := b.rank(k, r)
		p := b.loc[r] - 1
		switch {
		case b.loc[r] != 0:
			b.stats.Hits++
			b.unlink(p)
			t.Loc[k] = p
		case t.Direct:
			b.stats.Misses++
			continue
		default:
			b.stats.Misses++
			p = b.take() // at most places rows are held, and this batch has no more than batch of them
			b.loc[r], b.owner[p] = p+1, r+1
			t.send(k, r, p)
		}
		b.link(p, rank)
	}
	if t.Direct {
		b.stats.Hits, b.stats.Misses = before.Hits, before.Misses+uint64(len(rows))
		return nil
	}
	// What is needed last leaves; the batch may still read it, as its place is taken by a later one.
	for b.held > b.places {
		p := b.next[b.list(b.far)]
		if p < uint32(b.lists) { // an empty list
			b.far--
			continue
		}
		b.forget(p - uint32(b.lists))
	}
	return nil
}

// take returns a place that holds nothing.
func (b *Belady) take() uint32 {
	b.held++
	if n := len(b.free); n > 0 {
		p := b.free[n-1]
		b.free = b.free[:n-1]
		return p
	}
	b.fresh++
	return uint32(b.fresh - 1)
}

// forget gives the place of a row back.
func (b *Belady) forget(p uint32) {
	b.unlink(p)
	b.loc[b.owner[p]-1] = 0
	b.free = append(b.free, p)
	b.held--
}

// visit counts a use of a row.
func (b *Belady) visit(r uint32) {
	v := b.visits[r] + 1
	b.visits[r] = v
	if v>>b.shift >= classes { // classes are of twice as many visits from now on
		b.shift++
	}
	if v == 1<<16-1 {
		for i := range b.visits {
			b.visits[i] /= 2
		}
		b.shift--
	}
}

// Drop forgets the rows lo … hi−1.
func (b *Belady) Drop(lo, hi uint32) {
	hi = min(hi, uint32(len(b.loc)))
	for r := lo; r < hi; r++ {
		if p := b.loc[r]; p != 0 {
			b.forget(p - 1)
		}
	}
	if b.visits != nil && lo < hi {
		clear(b.visits[lo:hi])
	}
}
