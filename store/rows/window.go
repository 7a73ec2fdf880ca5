package rows

import (
	"fmt"
	"math/bits"
	"unsafe"
)

// windowOptions are the sizes of a [window]. All are needed.
type windowOptions struct {
	Rows      int // rows are numbered below this
	Slots     int // rows that the cache holds; at least BatchRows
	BatchRows int // most rows of one batch
	// Entries bounds how far is looked ahead: the rows of all batches that are known and not decided, added up. At least BatchRows.
	Entries int
	// Held is how many batches before the one that is decided may still be in use: their rows are evicted only where nothing
	// else can be, and whoever loads into their slots must wait ([decision].After).
	Held int
	// Kinds divides the slots among rows of several kinds, which take different memory: so many slots for rows of each, one kind after the
	// other, as many as a batch has rows of the kind at least. nil: all are of one kind.
	Kinds []int
}

// Validate says which size is wrong.
func (o windowOptions) Validate() error {
	if sum := 0; o.Kinds != nil {
		for _, n := range o.Kinds {
			sum += n
		}
		if sum != o.Slots || len(o.Kinds) > 256 {
			return fmt.Errorf("rows: %+v: expected slots of at most 256 kinds that add up to all", o)
		}
	}
	if o.Rows < 1 || o.BatchRows < 1 || o.Kinds == nil && o.Slots < o.BatchRows || o.Entries < o.BatchRows || o.Held < 1 || o.ring() > 1<<32-2 || o.Rows > 1<<32-2 {
		return fmt.Errorf("rows: %+v: expected positive sizes, slots and entries for a batch at least, and fewer than 2^32 of each", o)
	}
	return nil
}

// ring is how many rows the ring has room for: those not decided, those of batches that may be in use, and what is left
// empty where a batch would not fit before the ring's end.
func (o windowOptions) ring() int { return o.Entries + (o.Held+3)*o.BatchRows }

// Bytes is the memory that a window takes.
func (o windowOptions) Bytes() int64 {
	bytes := int64(o.Rows)*9 + 3*4*int64(o.ring()) + 5*4*int64(o.Slots+lists*o.kinds()) + 64
	if o.Kinds != nil {
		bytes += int64(o.Rows)
	}
	return bytes
}

// kinds is how many kinds of rows there are.
func (o windowOptions) kinds() int { return max(1, len(o.Kinds)) }

// window decides which rows a cache keeps whose reader knows batches beforehand: Belady's rule over the batches
// known. Evicted is the row whose next use is farthest; those of which no use is known go first, and of these the ones
// used least often so far, then least recently (Ginex: neighbours are sampled ahead, so that the features' cache can be
// planned). A decision depends on the batches pushed alone, not on time: what is loaded can be
// computed without loading it.
//
//	for each batch {
//		for !l.Fits(len(rows)) { l.Decide(&d); … }
//		l.Push(rows)
//	}
//	for l.Pending() > 0 { l.Decide(&d); … }
//
// cache.Belady, which is for a device's memory, has one batch in use at a time and a window of 62; here rows are read for a batch while others
// are in use, and the window is as long as memory allows.
//
// It holds no rows, only where they are. Methods are for one goroutine at a time.
type window struct {
	o windowOptions

	// By row.
	slot []uint32 // 1 + its slot, 0 = none
	last []uint32 // 1 + the ring's place of its last use among batches not decided, 0 = none
	uses []uint8  // how often it was pushed, halved now and then
	kind []uint8  // nil: all are of kind 0; [newWindow]'s caller fills it in

	// By place in the ring, which holds the rows of batches in their order.
	row  []uint32
	next []uint32 // 1 + the batch of the row's next use, 0 = none known; once decided, the row's slot
	load []uint32 // once decided: places within the batch of the rows to load

	// By slot; lists are behind the slots. A row that may be evicted is in the list of its next use.
	held []uint32 // 1 + the row in the slot
	due  []uint32 // 1 + the batch of its next use, 0 = none known
	used []uint32 // 1 + the last batch that uses it
	prev []uint32 // neighbours in its list; itself if in none
	succ []uint32

	batches []stretch // from number first on
	first   int       // the oldest batch whose rows the ring still has
	decided int       // the next batch to decide
	undone  int       // rows of batches not decided
	head    int       // the ring's place for the next batch
	pushed  int       // rows since uses were halved
	pools   []pool    // by kind
}

// pool are the slots of a kind of rows.
type pool struct {
	first, slots int
	filled       int // of them that were ever used
	far          int // no list of a batch after this one has rows
}

// stretch is a batch's places in the ring.
type stretch struct{ at, n int }

// A list for each number of uses, by its logarithm, of rows of which no use is known; and one for each of the next batches.
const (
	coldLists  = 9
	batchLists = 1 << 12 // most batches known at once
	lists      = coldLists + batchLists
)

// decision is what becomes of one batch. Its slices are valid until the batch Held + 1 after it is decided.
type decision struct {
	Batch int      // 0, 1, …, in the order of Push
	Rows  []uint32 // as pushed
	Slots []uint32 // of each row
	Loads []uint32 // indices into Rows and Slots of what must be loaded
	// After is the last batch that uses a slot to load into: it must be over before. −1: none.
	After int
}

// newWindow makes an empty cache's. mem holds o.Bytes() of zeroes, aligned to 8, and stays the caller's; nil makes it.
func newWindow(o windowOptions, mem []byte) (*window, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if mem == nil {
		mem = make([]byte, o.Bytes())
	}
	if int64(len(mem)) < o.Bytes() {
		return nil, fmt.Errorf("rows: %d bytes for a lookahead that takes %d", len(mem), o.Bytes())
	}
	take := func(n int) []uint32 {
		s := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(mem))), n)
		mem = mem[4*n:]
		return s
	}
	l := &window{o: o, slot: take(o.Rows), last: take(o.Rows), row: take(o.ring()), next: take(o.ring()), load: take(o.ring()),
		held: take(o.Slots), due: take(o.Slots), used: take(o.Slots), prev: take(o.Slots + lists*o.kinds()), succ: take(o.Slots + lists*o.kinds())}
	l.uses = mem[:o.Rows]
	l.pools = []pool{{slots: o.Slots}}
	if o.Kinds != nil {
		l.kind, l.pools = mem[o.Rows:2*o.Rows], nil
		first := 0
		for _, n := range o.Kinds {
			l.pools = append(l.pools, pool{first: first, slots: n})
			first += n
		}
	}
	for i := range l.prev {
		l.prev[i], l.succ[i] = uint32(i), uint32(i)
	}
	return l, nil
}

// fill gives all rows slots, of which there are as many: in order, those of each kind.
func (l *window) fill() {
	for r := range l.slot {
		p := &l.pools[l.kindOf(uint32(r))]
		s := uint32(p.first + p.filled)
		p.filled++
		l.slot[r], l.held[s] = s+1, uint32(r)+1
		l.list(s)
	}
}

// kindOf is that of a row.
func (l *window) kindOf(row uint32) int {
	if l.kind == nil {
		return 0
	}
	return int(l.kind[row])
}

// Pending returns how many batches are pushed and not decided.
func (l *window) Pending() int { return l.first + len(l.batches) - l.decided }

// Fits reports whether a batch of n rows may be pushed now; where it may not, a batch must be decided first.
func (l *window) Fits(n int) bool {
	return l.Pending() == 0 || l.undone+n <= l.o.Entries && l.Pending() < batchLists-1
}

// Push makes the next batch known. rows are different and below Options.Rows, at most BatchRows; it must fit.
func (l *window) Push(rows []uint32) {
	k := uint32(l.first+len(l.batches)) + 1
	if l.head+len(rows) > len(l.row) {
		l.head = 0
	}
	at := l.head
	l.head += len(rows)
	l.batches = append(l.batches, stretch{at, len(rows)})
	l.undone += len(rows)
	l.age(len(rows))
	for i, r := range rows {
		l.row[at+i], l.next[at+i] = r, 0
		if u := &l.uses[r]; *u < 255 {
			*u++
		}
		if p := l.last[r]; p != 0 {
			l.next[p-1] = k
		} else if s := l.slot[r]; s != 0 {
			l.due[s-1] = k
			if l.listed(s - 1) {
				l.unlist(s - 1)
				l.list(s - 1)
			}
		}
		l.last[r] = uint32(at+i) + 1
	}
}

// age halves the counts of uses every 8 × Rows rows, so that what was used long ago counts less.
func (l *window) age(n int) {
	if l.pushed += n; l.pushed < 8*l.o.Rows {
		return
	}
	l.pushed = 0
	for i := range l.uses {
		l.uses[i] >>= 1
	}
}

// Decide decides the oldest batch that is not decided; there must be one. What the batch Held + 1 before it used may be
// overwritten from then on.
func (l *window) Decide(d *decision) {
	t := l.decided
	l.decided++
	l.release(t - l.o.Held - 1)
	b := l.batches[t-l.first]
	l.undone -= b.n
	*d = decision{Batch: t, Rows: l.row[b.at : b.at+b.n], Slots: l.next[b.at : b.at+b.n], Loads: l.load[b.at : b.at : b.at+b.n], After: -1}
	// What the batch needs and the cache has stays, first of all.
	for i, r := range d.Rows {
		if p := uint32(b.at+i) + 1; l.last[r] == p {
			l.last[r] = 0
		}
		s := l.slot[r]
		if s == 0 {
			d.Loads = append(d.Loads, uint32(i))
			continue
		}
		s--
		if l.listed(s) {
			l.unlist(s)
		}
		l.due[s], l.used[s] = d.Slots[i], uint32(t)+1
		d.Slots[i] = s
	}
	early := t - l.o.Held // the next batch whose rows are given up before it is known to be over
	for _, i := range d.Loads {
		r := d.Rows[i]
		k := l.kindOf(r)
		s, ok := l.victim(k)
		for !ok {
			l.free(early)
			early++
			s, ok = l.victim(k)
		}
		if old := l.held[s]; old != 0 {
			l.slot[old-1] = 0
			if u := int(l.used[s]) - 1; u >= t-l.o.Held {
				d.After = max(d.After, u)
			}
		}
		l.held[s], l.slot[r] = r+1, s+1
		l.due[s], l.used[s] = d.Slots[i], uint32(t)+1
		d.Slots[i] = s
	}
}

// release forgets a batch that is over: its rows may be evicted from now on.
func (l *window) release(t int) {
	if t < l.first {
		return
	}
	l.free(t)
	l.batches = l.batches[1:]
	l.first++
}

// free puts the rows that batch t was the last to use into their lists.
func (l *window) free(t int) {
	if t < l.first {
		return
	}
	b := l.batches[t-l.first]
	for _, s := range l.next[b.at : b.at+b.n] {
		if l.used[s] == uint32(t)+1 && !l.listed(s) {
			l.list(s)
		}
	}
}

// victim takes a slot to load a row of a kind into; false if all are held.
func (l *window) victim(kind int) (uint32, bool) {
	p := &l.pools[kind]
	if p.filled < p.slots {
		p.filled++
		return uint32(p.first + p.filled - 1), true
	}
	for i := range coldLists {
		if s, ok := l.pop(kind*lists + i); ok {
			return s, true
		}
	}
	for ; p.far > l.decided-1; p.far-- {
		if s, ok := l.pop(kind*lists + coldLists + p.far%batchLists); ok {
			return s, true
		}
	}
	return 0, false
}

// pop takes the first of a list.
func (l *window) pop(list int) (uint32, bool) {
	h := uint32(l.o.Slots + list)
	s := l.succ[h]
	if s == h {
		return 0, false
	}
	l.unlist(s)
	return s, true
}

func (l *window) listed(s uint32) bool { return l.succ[s] != s }

// list puts a slot at the end of its list.
func (l *window) list(s uint32) {
	row := l.held[s] - 1
	at, kind := bits.Len8(l.uses[row]), l.kindOf(row) // cold: no use is known
	if k := int(l.due[s]) - 1; k >= 0 {
		at = coldLists + k%batchLists
		l.pools[kind].far = max(l.pools[kind].far, k)
	}
	h := uint32(l.o.Slots + kind*lists + at)
	p := l.prev[h]
	l.succ[p], l.prev[s], l.succ[s], l.prev[h] = s, p, h, s
}

func (l *window) unlist(s uint32) {
	p, n := l.prev[s], l.succ[s]
	l.succ[p], l.prev[n] = n, p
	l.prev[s], l.succ[s] = s, s
}
