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
// Places that hold a row lie on a stack for each next use: one for each batch of the window, one for each class of visits.
// A victim is the top of the last stack that is not empty. A place that moves is not taken off its old stack: due says where it
// is, and an entry that does not agree is no one's. So a row costs a random access to what is known of it, one to due, and a
// push. A batch's stack is emptied when it is admitted, those of classes are made anew when most of their entries are no one's.
type Belady struct {
	arrays
	name   string
	places int      // rows that may be held between batches
	batch  int      // the most rows that come in beside those
	ring   int      // batches told apart: batch b has stack b modulo ring
	lists  int      // those, and the classes
	rows   []row    // by row
	owner  []uint32 // by place: 1 + its row; 0: free
	due    []uint32 // by place that is held: the stack that it is on
	stacks stacks
	held   int
	idle   int      // entries on stacks of classes
	fresh  int      // places from here on were never taken
	free   []uint32 // other places that hold nothing, a stack
	now    int      // the batch being admitted, from 1
	far    int      // no stack of a rank above it has entries
	stats  Stats

	window    int
	announced int  // batches that were announced and not admitted
	grown     int  // batches admitted since there were none
	shift     uint // of visits into classes

	uses [][]uint32 // of an oracle: for each batch, each row's next batch, from 1; 0: none. nil: rows' masks say
}

// row is what is known of one.
type row struct {
	mask   uint64 // bit b modulo 64 says that announced batch b has it
	at     uint32 // 1 + its place; 0: none
	visits uint32
}

const rowBytes = 16 // of a row

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
	b.stacks = newStacks(b.lists)
	all := b.places + b.batch
	if err := b.reserve(beladyBytes(int64(o.Rows), int64(all))); err != nil {
		return nil, fmt.Errorf("cache: %s: %w", name, err)
	}
	b.rows = array[row](&b.arrays, o.Rows)
	b.owner = array[uint32](&b.arrays, all)
	b.due = array[uint32](&b.arrays, all)
	b.free = array[uint32](&b.arrays, all)[:0]
	return b, nil
}

// lookaheadBytes is what the books of a lookahead policy take: an entry for each row of the window's batches, and of classes
// as many as there are before they are made anew.
func lookaheadBytes(o Options) int64 {
	window := o.Window
	if window == 0 {
		window = WindowDefault
	}
	all := int64(o.Places) + int64(o.batch())
	entries := int64(window+2)*int64(o.batch()) + idleMost(all)
	return reserved(beladyBytes(int64(o.Rows), all)) + 4*(entries+(windowRing+classes+chunksMore)*chunkLen)
}

// beladyBytes is what the arrays of so many rows and places take.
func beladyBytes(rows, places int64) int64 { return rowBytes*rows + 12*places + 4*arrayAlign }

// idleMost is how many entries the stacks of classes may have where there are so many places.
func idleMost(places int64) int64 { return 4*places + 1024 }

// Close frees the books.
func (b *Belady) Close() error { return errors.Join(b.arrays.Close(), b.stacks.Close()) }

// Name returns "lookahead" or "oracle".
func (b *Belady) Name() string { return b.name }

// Window is how many batches may be announced ahead. Where announced batches ran out, as they do between epochs, it is WindowDefault
// at most, and grows by one a batch, so that whoever samples them need not have sampled a long window before the first.
func (b *Belady) Window() int { return min(b.window, WindowDefault+b.grown) }

// Stats returns the totals since b was made.
func (b *Belady) Stats() Stats { return b.stats }

// list is the stack of a rank: rank d ≥ 1 up to ring−1 is the d-th batch from now on, the ranks behind are classes.
func (b *Belady) list(rank int) int {
	if rank < b.ring {
		return (b.now + rank) % b.ring
	}
	return rank
}

// link puts a place on the stack of a rank.
func (b *Belady) link(p uint32, rank int) error {
	l := b.list(rank)
	b.due[p] = uint32(l)
	b.far = max(b.far, rank)
	if l >= b.ring {
		b.idle++
	}
	return b.stacks.push(l, p)
}

// class ranks a row that no announced batch has: the more visits, the nearer.
func (b *Belady) class(visits uint32) int {
	if b.uses != nil {
		return b.ring
	}
	return b.lists - 1 - min(classes-1, int(visits>>b.shift))
}

// Announce tells the next batch of the window.
func (b *Belady) Announce(rows []uint32) error {
	if b.uses != nil { // an oracle knows
		return nil
	}
	if b.announced > b.window {
		return fmt.Errorf("cache: %s: %d batches are announced already, the window is %d: %w", b.name, b.announced, b.window, ErrAnnounced)
	}
	b.announced++
	ahead := b.announced // its rank
	bit := uint64(1) << ((b.now + ahead) % windowRing)
	for _, r := range rows {
		if int(r) >= len(b.rows) {
			return fmt.Errorf("cache: announce row %d of %d: %w", r, len(b.rows), ErrRow)
		}
		x := &b.rows[r]
		if x.mask == 0 && x.at != 0 { // it was in a class
			if err := b.link(x.at-1, ahead); err != nil {
				return err
			}
		}
		x.mask |= bit
	}
	return nil
}

// rank is that of a row's next use after the batch being admitted, whose k-th row it is.
func (b *Belady) rank(k int, x *row) int {
	if b.uses != nil {
		if u := b.uses[b.now-1][k]; u != 0 {
			return int(u) - b.now
		}
		return b.ring
	}
	x.mask &^= 1 << (b.now % windowRing)
	if x.mask == 0 {
		return b.class(x.visits)
	}
	return 1 + bits.TrailingZeros64(bits.RotateLeft64(x.mask, -((b.now+1)%windowRing)))
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
	if b.announced--; b.announced <= 0 {
		b.announced, b.grown = 0, -1
	}
	b.grown++
	b.far = b.lists - 1
	b.stacks.clear(b.list(0)) // all that was on it is in this batch
	for k, r := range rows {
		if int(r) >= len(b.rows) {
			return fmt.Errorf("cache: row %d of %d: %w", r, len(b.rows), ErrRow)
		}
		x := &b.rows[r]
		if b.uses == nil {
			if announced != (x.mask&bit != 0) {
				return fmt.Errorf("cache: row %d: %w", r, ErrAnnounced)
			}
			if x.visits++; x.visits>>b.shift >= classes { // classes are of twice as many visits from now on
				b.shift++
			}
		}
		rank := b.rank(k, x)
		switch {
		case x.at != 0:
			b.stats.Hits++
			t.Loc[k] = x.at - 1
		case t.Direct:
			b.stats.Misses++
			continue
		default:
			b.stats.Misses++
			p := b.take() // at most places rows are held, and this batch has no more than batch of them
			x.at, b.owner[p] = p+1, r+1
			t.send(k, r, p)
		}
		if err := b.link(x.at-1, rank); err != nil {
			return err
		}
	}
	if t.Direct {
		b.stats.Hits, b.stats.Misses = before.Hits, before.Misses+uint64(len(rows))
		return nil
	}
	// What is needed last leaves; the batch may still read it, as its place is taken by a later one.
	for b.held > b.places {
		l := b.list(b.far)
		p, ok := b.stacks.pop(l)
		if !ok {
			b.far--
			continue
		}
		if l >= b.ring {
			b.idle--
		}
		if b.owner[p] != 0 && b.due[p] == uint32(l) {
			b.forget(p)
		}
	}
	if int64(b.idle) > idleMost(int64(len(b.due))) {
		return b.sweep()
	}
	return nil
}

// sweep makes the stacks of classes anew, of what is on them.
func (b *Belady) sweep() error {
	for l := b.ring; l < b.lists; l++ {
		b.stacks.clear(l)
	}
	b.idle = 0
	for p := range b.fresh {
		if l := int(b.due[p]); b.owner[p] != 0 && l >= b.ring {
			b.idle++
			if err := b.stacks.push(l, uint32(p)); err != nil {
				return err
			}
		}
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
	b.rows[b.owner[p]-1].at, b.owner[p] = 0, 0
	b.free = append(b.free, p)
	b.held--
}

// Drop forgets the rows lo … hi−1.
func (b *Belady) Drop(lo, hi uint32) {
	for r := lo; r < min(hi, uint32(len(b.rows))); r++ {
		x := &b.rows[r]
		if x.at != 0 {
			b.forget(x.at - 1)
		}
		x.visits = 0
	}
}
