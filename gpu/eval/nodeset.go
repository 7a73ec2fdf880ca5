package eval

import (
	"math/bits"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// nodeSet is the nodes whose states a layer reads or makes: all, or some of them. Its nodes are numbered from 0 on in the
// order of their ids, and these numbers, not the ids, are the rows of a table of states. Of nodes 0 … 9 the set {2, 3, 7}
// has rows 0, 1, 2.
//
// A set of some nodes is a bit a node and, once it is sealed, the number of the first node of every 64: 3/16 byte a node
// of the graph, off the Go heap.
type nodeSet struct {
	parts []store.PartitionInfo
	first []uint64 // by partition: the number of its first node; one more, the number of nodes
	slab  *blockio.Slab
	words []uint64 // nil: all nodes
	ranks []uint32 // by word
}

// setBytes is what a set of some of a graph's nodes takes.
func setBytes(nodes uint64) int64 { return int64(nodes+63) / 64 * 12 }

// allNodes is the set of all nodes.
func allNodes(parts []store.PartitionInfo) *nodeSet {
	s := &nodeSet{parts: parts, first: make([]uint64, 1, len(parts)+1)}
	for _, p := range parts {
		s.first = append(s.first, s.first[len(s.first)-1]+p.Nodes)
	}
	return s
}

// newNodeSet is a set without nodes, to which add adds some until it is sealed.
func newNodeSet(parts []store.PartitionInfo, nodes uint64) (*nodeSet, error) {
	slab, err := blockio.AllocSlab(max(setBytes(nodes), 12), blockio.SlabOptions{})
	if err != nil {
		return nil, err
	}
	n := max((nodes+63)/64, 1)
	s := &nodeSet{parts: parts, slab: slab}
	if s.words, err = blocks.View[uint64](slab.Bytes()[:8*n]); err == nil {
		s.ranks, err = blocks.View[uint32](slab.Bytes()[8*n : 12*n])
	}
	return s, err
}

// all reports whether the set has every node.
func (s *nodeSet) all() bool { return s.words == nil }

// has reports whether a node is in the set.
func (s *nodeSet) has(v uint64) bool { return s.words == nil || s.words[v/64]>>(v%64)&1 > 0 }

// add adds a node to a set that is not sealed.
func (s *nodeSet) add(v uint64) { s.words[v/64] |= 1 << (v % 64) }

// union adds the nodes of another set of some.
func (s *nodeSet) union(o *nodeSet) {
	for i, w := range o.words {
		s.words[i] |= w
	}
}

// seal numbers the nodes.
func (s *nodeSet) seal() {
	n := uint32(0)
	for i, w := range s.words {
		s.ranks[i] = n
		n += uint32(bits.OnesCount64(w))
	}
	s.first = s.first[:0]
	for _, p := range s.parts {
		s.first = append(s.first, s.before(uint64(p.First)))
	}
	s.first = append(s.first, uint64(n))
}

// before is how many nodes with smaller ids a set of some has.
func (s *nodeSet) before(v uint64) uint64 {
	if v/64 == uint64(len(s.words)) {
		v-- // behind the last: it is counted below
		return s.before(v) + s.words[v/64]>>(v%64)&1
	}
	return uint64(s.ranks[v/64]) + uint64(bits.OnesCount64(s.words[v/64]&(1<<(v%64)-1)))
}

// number is the number of a node of the set.
func (s *nodeSet) number(v uint64) uint64 {
	if s.words == nil {
		return v
	}
	return uint64(s.ranks[v/64]) + uint64(bits.OnesCount64(s.words[v/64]&(1<<(v%64)-1)))
}

// len is how many nodes there are.
func (s *nodeSet) len() uint64 { return s.first[len(s.first)-1] }

// in is how many there are in a partition.
func (s *nodeSet) in(p int) int { return int(s.first[p+1] - s.first[p]) }

// tile is the nodes of partitions lo … hi−1, by their numbers.
func (s *nodeSet) tile(lo, hi int) Tile {
	return Tile{Lo: lo, Hi: hi, Base: s.first[lo], Nodes: int(s.first[hi] - s.first[lo])}
}

// tilesOf cuts the nodes into at most n runs of partitions of about equal numbers of them.
func (s *nodeSet) tilesOf(n int) []Tile { return tilesOf(s.counted(), n) }

// within cuts those of partitions lo … hi−1 into runs of at most so many, those of a run's last partition that the set has not counted
// too, or of one partition; 0: into one.
func (s *nodeSet) within(lo, hi int, most uint64) []Tile {
	if most == 0 {
		return []Tile{s.tile(lo, hi)}
	}
	var ts []Tile
	for i := lo; i < hi; {
		t := s.tile(i, i)
		for t.Hi < hi && (t.Nodes == 0 || s.in(t.Hi) == 0 || uint64(t.Nodes)+s.parts[t.Hi].Nodes <= most) {
			t = s.tile(i, t.Hi+1)
		}
		ts = append(ts, t)
		i = t.Hi
	}
	return ts
}

// counted is the partitions with the set's nodes alone, by their numbers.
func (s *nodeSet) counted() []store.PartitionInfo {
	if s.words == nil {
		return s.parts
	}
	parts := make([]store.PartitionInfo, 0, len(s.parts))
	for p := range s.parts {
		parts = append(parts, store.PartitionInfo{First: store.NodeID(s.first[p]), Nodes: uint64(s.in(p))})
	}
	return parts
}

// each calls fn with every node of a partition that is in the set, ascending, by its place in the partition.
func (s *nodeSet) each(p int, fn func(i int)) {
	base, n := uint64(s.parts[p].First), s.parts[p].Nodes
	if s.words == nil {
		for i := range n {
			fn(int(i))
		}
		return
	}
	for w := base / 64; w*64 < base+n; w++ {
		word := s.words[w]
		if w*64 < base {
			word &^= 1<<(base-w*64) - 1
		}
		if end := base + n - w*64; end < 64 {
			word &= 1<<end - 1
		}
		for ; word != 0; word &= word - 1 {
			fn(int(w*64 + uint64(bits.TrailingZeros64(word)) - base))
		}
	}
}

// pick moves the rows of a partition's nodes that are in the set together: from b, which has rows of all of them, to dst. Both may
// be the same.
func (s *nodeSet) pick(dst, b []byte, p, row int) []byte {
	if n := s.in(p) * row; s.in(p) == int(s.parts[p].Nodes) {
		if n > 0 && &dst[0] != &b[0] {
			copy(dst, b[:n])
		}
		return dst[:n]
	}
	at := 0
	s.each(p, func(i int) {
		copy(dst[at:at+row], b[i*row:(i+1)*row])
		at += row
	})
	return dst[:at]
}

// free gives a set of some nodes up; it may be nil.
func (s *nodeSet) free() {
	if s != nil && s.slab != nil {
		_ = s.slab.Free() // anonymous memory; a failure only leaks it
		s.slab, s.words, s.ranks = nil, nil, nil
	}
}
