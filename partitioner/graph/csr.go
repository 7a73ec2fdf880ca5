package graph

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"unsafe"
)

// CSR is a [Graph] in memory: an array of list ends, and the lists one after the other,
// each neighbour in as many bits as an id of the graph needs (20 for a million nodes, where an
// array of uint32 takes 32). It is for one goroutine at a time.
type CSR struct {
	indptr  []uint64 // node v's list is entries indptr[v] to indptr[v+1]
	packed  []byte   // entry i in bits i·bits …, little-endian; 8 bytes more than the last
	bits    uint
	scratch []uint32 // the list last decoded
	mem     Arrays
}

var _ RandomAccess = (*CSR)(nil)

// NewCSR copies two arrays, with each edge in both its ends' lists; len(indptr) is nodes+1. It checks
// the shape, not that the lists are symmetric.
func NewCSR(indptr []uint64, indices []uint32) (*CSR, error) {
	if len(indptr) == 0 || indptr[0] != 0 || indptr[len(indptr)-1] != uint64(len(indices)) {
		return nil, fmt.Errorf("%w: indptr must rise from 0 to %d", ErrOption, len(indices))
	}
	nodes := uint64(len(indptr) - 1)
	for v := range nodes {
		if indptr[v] > indptr[v+1] {
			return nil, fmt.Errorf("%w: indptr falls at node %d", ErrOption, v)
		}
	}
	for k, u := range indices {
		if uint64(u) >= nodes {
			return nil, fmt.Errorf("%w: entry %d is node %d of %d", ErrOption, k, u, nodes)
		}
	}
	g, err := newCSR(nodes)
	if err != nil {
		return nil, err
	}
	copy(g.indptr, indptr)
	if err := g.reserve(uint64(len(indices))); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	for i, u := range indices {
		g.put(uint64(i), u)
	}
	return g, nil
}

// newCSR returns a graph without edges.
func newCSR(nodes uint64) (*CSR, error) {
	if nodes > MaxNodes {
		return nil, fmt.Errorf("%w: %d nodes, at most %d are possible", ErrOption, nodes, uint64(MaxNodes))
	}
	g := &CSR{bits: idBits(nodes)}
	b := g.mem.Bytes(8 * int64(nodes+1))
	if g.mem.Err != nil {
		return nil, g.mem.Err
	}
	g.indptr = unsafe.Slice((*uint64)(unsafe.Pointer(&b[0])), nodes+1)
	return g, nil
}

// reserve makes room for entries, all 0.
func (g *CSR) reserve(entries uint64) error {
	g.packed = g.mem.Bytes(packedBytes(entries, g.bits))
	return g.mem.Err
}

func idBits(nodes uint64) uint { return uint(max(1, bits.Len64(max(nodes, 1)-1))) }

// packedBytes has 8 bytes of slack: an entry is read and written as part of a uint64.
func packedBytes(entries uint64, bits uint) int64 { return int64((entries*uint64(bits)+7)/8) + 8 }

// put stores an entry over one that is 0.
func (g *CSR) put(i uint64, u uint32) {
	at := i * uint64(g.bits)
	b := g.packed[at>>3:]
	binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)|uint64(u)<<(at&7))
}

// replace stores an entry over another.
func (g *CSR) replace(i uint64, u uint32) {
	at := i * uint64(g.bits)
	b := g.packed[at>>3:]
	x := binary.LittleEndian.Uint64(b) &^ ((1<<g.bits - 1) << (at & 7))
	binary.LittleEndian.PutUint64(b, x|uint64(u)<<(at&7))
}

func (g *CSR) at(i uint64) uint32 {
	at := i * uint64(g.bits)
	return uint32(binary.LittleEndian.Uint64(g.packed[at>>3:]) >> (at & 7) & (1<<g.bits - 1))
}

// decode returns entries from … to−1 in dst, which it lengthens if need be.
func (g *CSR) decode(dst []uint32, from, to uint64) []uint32 {
	n := int(to - from)
	dst = slices.Grow(dst[:0], n)[:n]
	g.unpack(dst, from)
	return dst
}

// unpack fills dst with the entries from … on.
func (g *CSR) unpack(dst []uint32, from uint64) {
	at, step, mask := from*uint64(g.bits), uint64(g.bits), uint64(1)<<g.bits-1
	for i := range dst {
		dst[i] = uint32(binary.LittleEndian.Uint64(g.packed[at>>3:]) >> (at & 7) & mask)
		at += step
	}
}

// Edges yields a graph's directed edges, as parallel slices of sources and
// destinations, the same ones each time it is called. It stops at yield's first error and returns it.
type Edges func(yield func(src, dst []uint32) error) error

// EdgesOf returns the edges that have an end among nodes first … last, in the order in which [Edges] has them. Others
// may come too: all of the nodes up to through do, which is last or a later one.
type EdgesOf func(first, last uint32) (edges Edges, through uint32)

// CSRBytes is the memory [BuildCSR] takes.
func CSRBytes(nodes, edges uint64) int64 {
	return 8*int64(nodes+1) + packedBytes(2*edges, idBits(nodes))
}

// BuildCSR reads the edges twice (degrees, then lists) and holds each in both
// directions, outside the Go heap; self loops are dropped. With simple,
// lists are sorted and hold every neighbour once. Close frees the memory.
func BuildCSR(nodes uint64, edges Edges, simple bool) (*CSR, error) {
	g, err := newCSR(nodes)
	if err != nil {
		return nil, err
	}
	if err := g.build(edges); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	if simple {
		g.simplify()
	}
	return g, nil
}

func (g *CSR) build(edges Edges) error {
	nodes := g.Nodes()
	err := edges(func(src, dst []uint32) error {
		for i, u := range src {
			v := dst[i]
			if uint64(u) >= nodes || uint64(v) >= nodes {
				return fmt.Errorf("%w: edge %d → %d in a graph of %d nodes", ErrOption, u, v, nodes)
			}
			if u != v {
				g.indptr[u+1]++
				g.indptr[v+1]++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	// indptr[v+1] is the cursor of v while lists fill, and its end afterwards.
	var entries uint64
	for v := range nodes {
		degree := g.indptr[v+1]
		g.indptr[v+1] = entries
		entries += degree
	}
	if err := g.reserve(entries); err != nil {
		return err
	}
	// Some edges at a time take their places, and then are put there: neither step's loads wait for the other's.
	const stage = 64
	var at [2 * stage]uint64
	var to [2 * stage]uint32
	return edges(func(src, dst []uint32) error {
		for len(src) > 0 {
			n, last := 0, uint64(0)
			for i, u := range src[:min(stage, len(src))] {
				v := dst[i]
				if u == v {
					continue
				}
				at[n], to[n] = g.indptr[u+1], v
				g.indptr[u+1]++
				at[n+1], to[n+1] = g.indptr[v+1], u
				g.indptr[v+1]++
				last = max(last, at[n], at[n+1])
				n += 2
			}
			if n > 0 && last >= entries {
				return fmt.Errorf("%w: more edges in the second reading", ErrOption)
			}
			for i, place := range at[:n] {
				g.put(place, to[i])
			}
			src, dst = src[min(stage, len(src)):], dst[min(stage, len(dst)):]
		}
		return nil
	})
}

// simplify sorts every list and drops repeats, in place.
func (g *CSR) simplify() {
	var begin, out uint64
	for v := range g.Nodes() {
		end := g.indptr[v+1]
		g.scratch = g.decode(g.scratch, begin, end)
		slices.Sort(g.scratch)
		for i, u := range g.scratch {
			if i == 0 || u != g.scratch[i-1] {
				g.replace(out, u)
				out++
			}
		}
		begin, g.indptr[v+1] = end, out
	}
}

// Nodes implements [Graph].
func (g *CSR) Nodes() uint64 { return uint64(len(g.indptr) - 1) }

// Entries implements [Graph].
func (g *CSR) Entries() uint64 { return g.indptr[len(g.indptr)-1] }

// Neighbours implements [RandomAccess].
func (g *CSR) Neighbours(v uint32) []uint32 {
	g.scratch = g.decode(g.scratch, g.indptr[v], g.indptr[v+1])
	return g.scratch
}

// Read implements [RandomAccess].
func (g *CSR) Read(dst []uint32, v uint32) []uint32 { return g.decode(dst, g.indptr[v], g.indptr[v+1]) }

// ReadLists implements [RandomAccess].
func (g *CSR) ReadLists(l *Lists, nodes []uint32) int {
	// Ends first, then a byte of every list, then all of them: a list waits for two cache misses, those of others meanwhile.
	l.end, l.from = l.end[:0], l.from[:0]
	total := uint64(0)
	for _, v := range nodes[:min(len(nodes), listsMax)] {
		from, to := g.indptr[v], g.indptr[v+1]
		if total += to - from; total > listsEntriesMax && len(l.end) > 0 {
			total -= to - from
			break
		}
		l.from, l.end = append(l.from, from), append(l.end, total)
	}
	for _, from := range l.from {
		l.touched ^= g.packed[from*uint64(g.bits)>>3]
	}
	l.Entries = slices.Grow(l.Entries[:0], int(total))[:total]
	begin := uint64(0)
	for i, from := range l.from {
		g.unpack(l.Entries[begin:l.end[i]], from)
		begin = l.end[i]
	}
	return len(l.end)
}

// Degree implements [RandomAccess].
func (g *CSR) Degree(v uint32) int { return int(g.indptr[v+1] - g.indptr[v]) }

// Neighbour implements [RandomAccess].
func (g *CSR) Neighbour(v uint32, i int) uint32 { return g.at(g.indptr[v] + uint64(i)) }

// Close frees the memory; the graph is empty afterwards.
func (g *CSR) Close() error {
	g.mem.Free()
	g.indptr, g.packed, g.scratch = []uint64{0}, nil, nil
	return nil
}

// Stream implements [Graph].
func (g *CSR) Stream(ctx context.Context) (Stream, error) {
	return &csrStream{ctx: ctx, g: g}, nil
}

// Nodes a chunk of an in-memory graph: its lists stay in the processor's caches, and cancelling is prompt.
const csrChunk = 1 << 12

type csrStream struct {
	ctx         context.Context
	g           *CSR
	first, next uint64
	indices     []uint32
	err         error
}

func (s *csrStream) Next() bool {
	if s.err = s.ctx.Err(); s.err != nil || s.next >= s.g.Nodes() {
		return false
	}
	s.first, s.next = s.next, min(s.next+csrChunk, s.g.Nodes())
	s.indices = s.g.decode(s.indices, s.g.indptr[s.first], s.g.indptr[s.next])
	return true
}

func (s *csrStream) Chunk() Chunk {
	return Chunk{First: uint32(s.first), Indptr: s.g.indptr[s.first : s.next+1], Indices: s.indices}
}

func (s *csrStream) Err() error   { return s.err }
func (s *csrStream) Close() error { return nil }
