package mini

import (
	"fmt"
	"slices"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// labor gives every node one random number a batch and hop, by the node's key, and a node takes the neighbours with the
// smallest ones: of its own list a uniform sample without replacement, since the numbers are independent and equal in
// law, while lists that overlap choose the same nodes. Edges from one node to another share its number.
//
// A batch that reaches hubs reads lists that are hundreds of times longer than what it draws of them. Once a hop has spent as
// much on them as that costs, it marks the rows whose numbers are small. Long lists are then searched for
// marks, a bit a neighbour, and numbers are made for the few that have one.
type labor struct {
	heap  smallest
	marks [2]marks // of the directions, which draw by numbers of their own
	near  [nearMax]uint32
}

const (
	// markLevels are how many thresholds rows are marked by: level j has those with numbers below 2^-j.
	markLevels = 12
	// markFine is up to which level a row has a bit of its own. Above, each level's bits stand for twice as many rows as the
	// last's, so that about as large a share of them is set (an eighth) and they stay in the processor's caches.
	markFine = 3
	// markAfter is how many rows are marked in the time in which a neighbour's number is looked up, somewhere in memory.
	markAfter = 4
	// nearMax is how many marked neighbours are gathered before their numbers are looked at.
	nearMax = 256
)

// marks are of one hop and direction.
type marks struct {
	place  keyed.Key
	seen   int64 // neighbours whose numbers were looked at
	made   bool
	levels [markLevels + 1][]uint64 // [0] is not used
}

// markShift is the base-2 logarithm of how many rows share a bit of a level.
func markShift(level int) int { return max(0, level-markFine) }

// LaborBytes is what a sampler that draws by [Labor] holds beside its batches for a graph of so many rows, of a direction.
func LaborBytes(rows int64) (n int64) {
	for level := 1; level <= markLevels; level++ {
		n += 8 * ((rows>>markShift(level))/64 + 2)
	}
	return n
}

// check implements drawer.
func (d *labor) check(g *Graph) error {
	if len(g.Keys) < len(g.In.Spans) {
		return fmt.Errorf("sampler %s: the macro-batch has no keys of nodes", Labor)
	}
	for i := range d.marks { // a batch of the same name may be drawn from another graph
		d.marks[i].seen, d.marks[i].made = 0, false
	}
	return nil
}

// lotBits is the size of a node's number: float64 holds it exactly.
const lotBits = 53

// lot is the number of the node with a key.
func lot(place keyed.Key, key uint32) uint64 { return place.At(uint64(key)) >> (64 - lotBits) }

// draw implements drawer.
func (d *labor) draw(place keyed.Key, g *Graph, a *buffer.Adjacency, lists []list) {
	m := &d.marks[0]
	if a == g.Out {
		m = &d.marks[1]
	}
	if m.place != place {
		m.place, m.seen, m.made = place, 0, false
	}
	for i := range lists {
		l := &lists[i]
		if !d.smallestMarked(m, place, g.Keys, a.Indices, l) {
			d.heap.begin(l.out)
			m.seen += l.span.End - l.span.Begin
			for k, row := range a.Indices[l.span.Begin:l.span.End] {
				d.offer(lot(place, g.Keys[row]), l.span.Begin+int64(k))
			}
		}
		slices.Sort(l.out) // the heap's order tells which way they were found
	}
}

// smallestMarked draws l by marks; false: there are none yet, or the list is short, or fewer are below the threshold than are to be drawn.
func (d *labor) smallestMarked(m *marks, place keyed.Key, keys, indices []uint32, l *list) bool {
	n := l.span.End - l.span.Begin
	level := markLevel(n, len(l.out))
	if level == 0 || !m.made && m.seen+n <= int64(len(keys))/markAfter {
		return false
	}
	if !m.made {
		m.make(keys)
	}
	d.heap.begin(l.out)
	d.search(m.levels[level], markShift(level), place, keys, indices, l)
	return d.heap.full() && d.heap.worst() < float64(uint64(1)<<(lotBits-level))
}

func (d *labor) offer(number uint64, pos int64) {
	if x := float64(number); !d.heap.full() || x < d.heap.worst() {
		d.heap.offer(x, pos)
	}
}

// markLevel is the highest level at which n neighbours have enough marked ones among them to draw k of: it expects half as many more
// and eight. 0: none.
func markLevel(n int64, k int) (level int) {
	for want := int64(k + k/2 + 8); level < markLevels && n>>(level+1) >= want; {
		level++
	}
	return level
}

// make marks the rows with keys.
func (m *marks) make(keys []uint32) {
	for level := 1; level <= markLevels; level++ {
		m.levels[level] = resize(m.levels[level], (len(keys)>>markShift(level))/64+1)
		clear(m.levels[level])
	}
	for v, key := range keys {
		number := lot(m.place, key)
		for level := 1; level <= markLevels && number>>(lotBits-level) == 0; level++ {
			bit := uint(v) >> markShift(level)
			m.levels[level][bit>>6] |= 1 << (bit & 63)
		}
	}
	m.made = true
}

// search offers the neighbours of a list whose bits are set: all with numbers below the level's threshold, and some others.
// If the heap is full afterwards, with numbers below the threshold alone, these are the list's smallest.
func (d *labor) search(bits []uint64, shift int, place keyed.Key, keys, indices []uint32, l *list) {
	n := 0
	for k, row := range indices[l.span.Begin:l.span.End] {
		bit := row >> shift
		d.near[n&(nearMax-1)] = uint32(k)
		n += int(bits[bit>>6] >> (bit & 63) & 1)
		if n == nearMax {
			d.offerNear(n, place, keys, indices, l)
			n = 0
		}
	}
	d.offerNear(n, place, keys, indices, l)
}

func (d *labor) offerNear(n int, place keyed.Key, keys, indices []uint32, l *list) {
	for _, k := range d.near[:n] {
		pos := l.span.Begin + int64(k)
		d.offer(lot(place, keys[indices[pos]]), pos)
	}
}
