package mini

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// Walks are the random walks by which [Pinsage] finds a node's neighbours. They go along edges against their direction, from a node to one
// that it has a message from, each as likely.
type Walks struct {
	PerNode  int     // walks from a node; 0: 10
	Length   int     // the most steps of one; 0: 2
	Continue float64 // probability that one goes on after a step that is not its last, instead of back to its node; 0: .5
}

// Of [Walks], by default.
const (
	walksPerNode  = 10
	walksLength   = 2
	walksContinue = .5
	// walksMost bounds the steps of a node's walks.
	walksMost = 1 << 20
)

// Normalize fills in defaults.
func (w *Walks) Normalize() {
	if w.PerNode == 0 {
		w.PerNode = walksPerNode
	}
	if w.Length == 0 {
		w.Length = walksLength
	}
	if w.Continue == 0 {
		w.Continue = walksContinue
	}
}

// Validate reports what is wrong with w.
func (w *Walks) Validate() error {
	switch {
	case w.PerNode < 0 || w.Length < 0 || w.PerNode > walksMost || w.Length > walksMost || w.PerNode*w.Length > walksMost:
		return fmt.Errorf("option Walks has %d walks of %d steps: want numbers of 0 or more, and at most %d steps of a node", w.PerNode, w.Length, walksMost)
	case !(w.Continue >= 0 && w.Continue <= 1):
		return fmt.Errorf("option Walks.Continue is %v: want 0 ≤ p ≤ 1", w.Continue)
	}
	return nil
}

// walker is a walk that goes on.
type walker struct {
	r    keyed.Rand
	to   int64 // where its visits go
	rest int   // steps to come
}

// walks is the state of [Pinsage]. All walks of a chunk take a step together, so that their cache misses overlap.
type walks struct {
	Walks
	open    []walker
	at      []uint32 // parallel to open: where they are
	spans   []buffer.Span
	visits  []uint32   // of a chunk's nodes, PerNode × Length each, noVisit where a walk had ended
	slots   []visitSet // a table of a node's visits, open addressing
	stamp   uint32     // of the slots in use
	met     []uint32   // the node's different visits in the order of the first
	counts  []int32    // parallel to met
	ofCount []int32    // how many were visited as often
}

type visitSet struct {
	row, stamp uint32
	number     int32
}

const (
	noVisit = math.MaxUint32
	// walksAhead walks are a chunk, at least a node's.
	walksAhead = 8192
)

// check says what of g is not for walks.
func (w *walks) check(g *Graph) error {
	if g.Out != nil || g.In.Relations != nil {
		return fmt.Errorf("mini: sampler %s: the neighbours that walks find have no relation: want a graph without relations", Pinsage)
	}
	return nil
}

// hopWalks is hop for [Pinsage].
func (s *Sampler) hopWalks(place keyed.Key, h int, g *Graph, b *Batch, blk *Block) error {
	w := s.walks
	n := len(b.Input)
	blk.reset(n, false)
	fanout := s.cfg.Fanouts[h]
	step := max(1, min(chunkNodes, walksAhead/w.PerNode))
	for lo := 0; lo < n; lo += step {
		nodes := b.Input[lo:min(lo+step, n)]
		w.walk(place, lo, g.In, nodes)
		from := len(blk.Indices)
		steps := w.PerNode * w.Length
		for i, v := range nodes {
			w.count(v, w.visits[i*steps:][:steps])
			w.choose(fanout, blk)
			if len(blk.Indices) > math.MaxInt32 {
				return fmt.Errorf("%w: over %d edges in one block; use smaller batches or fanouts", ErrTooLarge, math.MaxInt32)
			}
			blk.Indptr = append(blk.Indptr, int32(len(blk.Indices)))
			blk.Degrees = append(blk.Degrees, int32(len(w.met)))
		}
		local := blk.Indices[from:]
		b.Input = s.table.Map(b.Input, asRows(local), local)
	}
	blk.NumDst, blk.NumSrc = n, len(b.Input)
	return nil
}

// walk sets w.visits to those of the walks from nodes, which are numbered from first on in the frontier. Walk j of node i draws from the stream
// (first + i) · PerNode + j of place: for a step a neighbour, then, unless it is the last or all go on, whether to go on.
func (w *walks) walk(place keyed.Key, first int, a *buffer.Adjacency, nodes []uint32) {
	n := len(nodes) * w.PerNode
	w.visits = resize(w.visits, n*w.Length)
	for i := range w.visits {
		w.visits[i] = noVisit
	}
	w.open, w.at, w.spans = resize(w.open, n), resize(w.at, n), resize(w.spans, n)
	for k := range n {
		w.open[k] = walker{r: place.Rand(uint64(first*w.PerNode + k)), to: int64(k * w.Length), rest: w.Length}
		w.at[k] = nodes[k/w.PerNode]
	}
	for n > 0 {
		spansOf(a, w.at[:n], w.spans)
		// Places of the next nodes first, then the nodes: loads of neither wait for each other.
		left := 0
		for k := range n {
			span := w.spans[k]
			if span.Begin == span.End {
				continue
			}
			o := w.open[k]
			w.spans[left].Begin = span.Begin + int64(o.r.Below(uint64(span.End-span.Begin)))
			w.open[left] = o
			left++
		}
		n, left = left, 0
		for k := range n {
			o := w.open[k]
			row := a.Indices[w.spans[k].Begin]
			w.visits[o.to] = row
			if o.rest--; o.rest == 0 || w.Continue < 1 && o.r.Float64() >= w.Continue {
				continue
			}
			o.to++
			w.open[left], w.at[left] = o, row
			left++
		}
		n = left
	}
}

// count sets w.met and w.counts to the visits of v's walks, but those of v itself.
func (w *walks) count(v uint32, visits []uint32) {
	if size := 1 << bits.Len(uint(2*len(visits))); len(w.slots) < size || w.stamp == math.MaxUint32 {
		w.slots, w.stamp = make([]visitSet, max(size, len(w.slots))), 0
	}
	w.stamp++
	w.met, w.counts = w.met[:0], w.counts[:0]
	mask := uint32(len(w.slots) - 1)
	shift := 32 - bits.Len32(mask)
	for _, row := range visits {
		if row == noVisit || row == v {
			continue
		}
		for h := row * 0x9E3779B1 >> shift & mask; ; h = (h + 1) & mask {
			slot := &w.slots[h]
			if slot.stamp != w.stamp {
				*slot = visitSet{row: row, stamp: w.stamp, number: int32(len(w.met))}
				w.met, w.counts = append(w.met, row), append(w.counts, 1)
				break
			}
			if slot.row == row {
				w.counts[slot.number]++
				break
			}
		}
	}
}

// choose appends to blk the fanout most visited, in the order of their first visits; of those that were visited equally often the first ones.
func (w *walks) choose(fanout int, blk *Block) {
	least, equals := int32(0), math.MaxInt // those with more visits than least are chosen, and so many with as many
	if fanout != All && fanout < len(w.met) {
		w.ofCount = w.ofCount[:0]
		for _, c := range w.counts {
			if int(c) >= len(w.ofCount) {
				w.ofCount = append(w.ofCount, make([]int32, int(c)+1-len(w.ofCount))...)
			}
			w.ofCount[c]++
		}
		equals = fanout
		for least = int32(len(w.ofCount)) - 1; int(w.ofCount[least]) < equals; least-- {
			equals -= int(w.ofCount[least])
		}
	}
	for i, c := range w.counts {
		if c < least {
			continue
		}
		if c == least {
			if equals == 0 {
				continue
			}
			equals--
		}
		blk.Indices = append(blk.Indices, int32(w.met[i]))
		blk.Visits = append(blk.Visits, c)
	}
}
