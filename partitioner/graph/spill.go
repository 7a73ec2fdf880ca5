package graph

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"unsafe"

	"github.com/gstore/gstore/blocks"
)

// Spilled is a [Graph] whose lists lie in an unnamed temporary file, one
// after the other: 4 bytes an entry on disk and 4 a node in memory. It is for
// graphs whose [CSR] does not fit the budget; passes read the file from front
// to back. Little-endian hosts only, as everything that maps gstore's arrays.
type Spilled struct {
	file    *os.File
	degree  []uint32
	entries uint64
	buffer  int   // entries a chunk; one list may be longer
	ranges  int64 // bytes of lists that are made together, see spillRangeBytes
	mem     Arrays
}

var _ Graph = (*Spilled)(nil)

// spillBufferEntries is what a pass reads at once: large enough for a disk, small beside any budget.
const spillBufferEntries = 1 << 20

// spillRangeBytes is what lists that are made together take, unless reading their edges brings those of further lists: more
// would leave the processor's caches, and every entry is put at random.
const spillRangeBytes = 64 << 20

// SpilledBytes is the least memory [Spill] takes: degrees, cursors and one buffer.
func SpilledBytes(nodes uint64) int64 { return 4*int64(nodes) + 16<<20 }

// Spill reads the edges once for degrees and then, range after range of nodes, for lists: those that near gives
// for the range, or all for every memoryBytes of lists if near is nil. It writes the lists to a temporary file in dir.
// Each edge is held in both directions; self loops are dropped. The file has no name and goes away with Close or the process.
func Spill(ctx context.Context, dir string, nodes uint64, edges Edges, near EdgesOf, memoryBytes int64) (*Spilled, error) {
	if nodes > MaxNodes {
		return nil, fmt.Errorf("%w: %d nodes, at most %d are possible", ErrOption, nodes, uint64(MaxNodes))
	}
	if need := SpilledBytes(nodes); memoryBytes < need {
		return nil, fmt.Errorf("%w: lists of %d nodes need %d bytes, the budget has %d", ErrBudget, nodes, need, memoryBytes)
	}
	g := &Spilled{buffer: spillBufferEntries, ranges: spillRangeBytes}
	g.degree = g.mem.Uint32s(int(nodes))
	if g.mem.Err != nil {
		return nil, g.mem.Err
	}
	if err := g.build(ctx, dir, edges, near, memoryBytes-4*int64(nodes)); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

func (g *Spilled) build(ctx context.Context, dir string, edges Edges, near EdgesOf, memory int64) error {
	nodes := uint64(len(g.degree))
	err := edges(func(src, dst []uint32) error {
		for i, u := range src {
			v := dst[i]
			if uint64(u) >= nodes || uint64(v) >= nodes {
				return fmt.Errorf("%w: edge %d → %d in a graph of %d nodes", ErrOption, u, v, nodes)
			}
			if u != v {
				if g.degree[u] == math.MaxUint32 || g.degree[v] == math.MaxUint32 {
					return fmt.Errorf("%w: node %d has more than %d neighbours", ErrOption, u, uint32(math.MaxUint32))
				}
				g.degree[u]++
				g.degree[v]++
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	for _, d := range g.degree {
		g.entries += uint64(d)
	}
	if g.file, err = blocks.Unnamed(dir, "gstore-lists-"); err != nil {
		return fmt.Errorf("spill neighbour lists: %w", err)
	}
	// Lists of consecutive nodes are made together: ranges take 4 bytes an entry and as many a node, its cursor. They go on to where
	// the lists end whose edges are read for them, if there is memory, so that these are not read again.
	memory = min(memory, 4*math.MaxUint32) // cursors have 32 bits
	if near == nil {
		near = func(_, _ uint32) (Edges, uint32) { return edges, uint32(nodes - 1) }
	}
	grow := func(lo, hi uint64, entries int64, end uint64, bytes int64) (uint64, int64) {
		for ; hi < end; hi++ {
			more := entries + int64(g.degree[hi])
			if hi > lo && 4*(more+int64(hi+1-lo)) > bytes {
				break
			}
			entries = more
		}
		return hi, entries
	}
	next := func(lo uint64) (hi uint64, entries int64, of Edges) {
		hi, entries = grow(lo, lo, 0, nodes, min(memory, g.ranges))
		of, last := near(uint32(lo), uint32(hi-1))
		hi, entries = grow(lo, hi, entries, uint64(last)+1, memory)
		return hi, entries, of
	}
	most := int64(0)
	for lo := uint64(0); lo < nodes; {
		hi, entries, _ := next(lo)
		most = max(most, int64(hi-lo)+entries)
		lo = hi
	}
	var a Arrays
	defer a.Free()
	room := a.Uint32s(int(most))
	if a.Err != nil {
		return a.Err
	}
	for lo := uint64(0); lo < nodes; {
		hi, entries, of := next(lo)
		cursors, lists := room[:hi-lo], room[hi-lo:][:entries]
		if err := g.fill(ctx, of, uint32(lo), cursors, lists); err != nil {
			return fmt.Errorf("spill neighbour lists: %w", err)
		}
		lo = hi
	}
	return nil
}

// fill appends the lists of the nodes from lo on, one a cursor, which it makes in lists.
func (g *Spilled) fill(ctx context.Context, edges Edges, lo uint32, cursor, lists []uint32) error {
	if len(lists) == 0 {
		return nil
	}
	sum, count := uint32(0), uint32(len(cursor))
	for i := range cursor { // where a node's next neighbour goes
		cursor[i] = sum
		sum += g.degree[lo+uint32(i)]
	}
	// Some edges at a time take their places, and then are put there: neither step's loads wait for the other's.
	const stage = 64
	var at, to [2 * stage]uint32
	err := edges(func(src, dst []uint32) error {
		for len(src) > 0 {
			n, last := 0, uint32(0)
			for i, u := range src[:min(stage, len(src))] {
				v := dst[i]
				if u == v {
					continue
				}
				if k := u - lo; k < count {
					at[n], to[n] = cursor[k], v
					last = max(last, at[n])
					cursor[k]++
					n++
				}
				if k := v - lo; k < count {
					at[n], to[n] = cursor[k], u
					last = max(last, at[n])
					cursor[k]++
					n++
				}
			}
			if n > 0 && int(last) >= len(lists) {
				return fmt.Errorf("%w: more edges in a later reading", ErrOption)
			}
			for i, place := range at[:n] {
				lists[place] = to[i]
			}
			src, dst = src[min(stage, len(src)):], dst[min(stage, len(dst)):]
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	_, err = g.file.Write(unsafe.Slice((*byte)(unsafe.Pointer(&lists[0])), 4*len(lists)))
	return err
}

// Nodes implements [Graph].
func (g *Spilled) Nodes() uint64 { return uint64(len(g.degree)) }

// Entries implements [Graph].
func (g *Spilled) Entries() uint64 { return g.entries }

// Close frees memory and file; no stream may be used afterwards.
func (g *Spilled) Close() error {
	g.degree = nil
	g.mem.Free()
	if g.file == nil {
		return nil
	}
	f := g.file
	g.file = nil
	return f.Close()
}

// Stream implements [Graph].
func (g *Spilled) Stream(ctx context.Context) (Stream, error) {
	return &spilledStream{ctx: ctx, g: g, indices: make([]uint32, 0, g.buffer)}, nil
}

type spilledStream struct {
	ctx     context.Context
	g       *Spilled
	next    uint64 // first node of the next chunk
	offset  int64  // its bytes in the file
	first   uint64
	indptr  []uint64
	indices []uint32
	err     error
}

func (s *spilledStream) Next() bool {
	const nodesMax = 1 << 16
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	nodes := s.g.Nodes()
	if s.err != nil || s.next >= nodes {
		return false
	}
	s.first, s.indptr = s.next, append(s.indptr[:0], 0)
	n := uint64(0)
	for s.next < nodes && len(s.indptr) <= nodesMax {
		d := uint64(s.g.degree[s.next])
		if n > 0 && n+d > uint64(s.g.buffer) {
			break
		}
		n += d
		s.indptr = append(s.indptr, n)
		s.next++
	}
	if uint64(cap(s.indices)) < n {
		s.indices = make([]uint32, n)
	}
	s.indices = s.indices[:n]
	if n == 0 {
		return true
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&s.indices[0])), 4*n)
	if _, err := s.g.file.ReadAt(b, s.offset); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		s.err = fmt.Errorf("read spilled neighbour lists at byte %d: %w", s.offset, err)
		return false
	}
	s.offset += int64(4 * n)
	return true
}

func (s *spilledStream) Chunk() Chunk {
	return Chunk{First: uint32(s.first), Indptr: s.indptr, Indices: s.indices}
}

func (s *spilledStream) Err() error   { return s.err }
func (s *spilledStream) Close() error { return nil }
