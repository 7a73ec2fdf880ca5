package partitioner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"unsafe"
)

// Spilled is a [Graph] whose lists lie in an unnamed temporary file, one
// after the other: 4 bytes an entry on disk and 4 a node in memory. It is for
// graphs whose [CSR] does not fit the budget; passes read the file from front
// to back. Little-endian hosts only, as everything that maps gstore's arrays.
type Spilled struct {
	file    *os.File
	degree  []uint32
	entries uint64
	buffer  int // entries a chunk; one list may be longer
	mem     arrays
}

var _ Graph = (*Spilled)(nil)

// spillBufferEntries is what a pass reads at once: large enough for a disk, small beside any budget.
const spillBufferEntries = 1 << 20

// SpilledBytes is the least memory [Spill] takes: degrees, cursors and one buffer.
func SpilledBytes(nodes uint64) int64 { return 4*int64(nodes) + 16<<20 }

// Spill reads the edges once for degrees and then once for every memoryBytes
// of lists, which it writes to a temporary file in dir. Each edge is held in both directions; self
// loops are dropped. The file has no name and goes away with Close or the process.
func Spill(ctx context.Context, dir string, nodes uint64, edges Edges, memoryBytes int64) (*Spilled, error) {
	if nodes > MaxNodes {
		return nil, fmt.Errorf("%w: %d nodes, at most %d are possible", ErrOption, nodes, uint64(MaxNodes))
	}
	if need := SpilledBytes(nodes); memoryBytes < need {
		return nil, fmt.Errorf("%w: lists of %d nodes need %d bytes, the budget has %d", ErrBudget, nodes, need, memoryBytes)
	}
	g := &Spilled{buffer: spillBufferEntries}
	g.degree = g.mem.uint32s(int(nodes))
	if g.mem.err != nil {
		return nil, g.mem.err
	}
	if err := g.build(ctx, dir, edges, memoryBytes-4*int64(nodes)); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

func (g *Spilled) build(ctx context.Context, dir string, edges Edges, memory int64) error {
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
	if g.file, err = os.CreateTemp(dir, "gstore-lists-*"); err != nil {
		return fmt.Errorf("spill neighbour lists: %w", err)
	}
	if err := os.Remove(g.file.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) { // swept by a writer of the store just now
		return fmt.Errorf("spill neighbour lists: %w", err)
	}
	for lo := uint64(0); lo < nodes; {
		// A range takes 4 bytes an entry and 8 a node (cursors).
		hi, entries := lo, int64(0)
		for hi < nodes && (hi == lo || 4*(entries+int64(g.degree[hi]))+8*int64(hi+1-lo) <= memory) {
			entries += int64(g.degree[hi])
			hi++
		}
		if err := g.fill(ctx, edges, uint32(lo), uint32(hi-lo), entries); err != nil {
			return fmt.Errorf("spill neighbour lists: %w", err)
		}
		lo = hi
	}
	return nil
}

// fill appends the lists of nodes lo … lo+count−1.
func (g *Spilled) fill(ctx context.Context, edges Edges, lo, count uint32, entries int64) error {
	var a arrays
	defer a.free()
	lists := a.uint32s(int(entries))
	cursor := a.bytes(8 * int64(count))
	if a.err != nil {
		return a.err
	}
	if entries == 0 {
		return nil
	}
	at := unsafe.Slice((*uint64)(unsafe.Pointer(&cursor[0])), count)
	sum := uint64(0)
	for i := range at {
		at[i] = sum
		sum += uint64(g.degree[lo+uint32(i)])
	}
	put := func(v, u uint32) error {
		if i := v - lo; i < count {
			if at[i] >= uint64(len(lists)) {
				return fmt.Errorf("%w: more edges in a later reading", ErrOption)
			}
			lists[at[i]] = u
			at[i]++
		}
		return nil
	}
	err := edges(func(src, dst []uint32) error {
		for i, u := range src {
			if v := dst[i]; u != v {
				if err := put(u, v); err != nil {
					return err
				}
				if err := put(v, u); err != nil {
					return err
				}
			}
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
	g.mem.free()
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
