package partitioner

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/gstore/gstore/blocks/blockio"
)

// CSR is a [Graph] in memory: node v has the neighbours
// indices[indptr[v]:indptr[v+1]], each edge in both its ends' lists.
type CSR struct {
	indptr  []uint64
	indices []uint32
	slab    *blockio.Slab // where the arrays lie; nil if they are the caller's
}

var _ RandomAccess = (*CSR)(nil)

// NewCSR wraps two arrays and keeps them; len(indptr) is nodes+1. It checks
// the shape, not that the lists are symmetric.
func NewCSR(indptr []uint64, indices []uint32) (*CSR, error) {
	if len(indptr) == 0 || indptr[0] != 0 || indptr[len(indptr)-1] != uint64(len(indices)) {
		return nil, fmt.Errorf("%w: indptr must rise from 0 to %d", ErrOption, len(indices))
	}
	nodes := uint64(len(indptr) - 1)
	if nodes > MaxNodes {
		return nil, fmt.Errorf("%w: %d nodes, at most %d are possible", ErrOption, nodes, uint64(MaxNodes))
	}
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
	return &CSR{indptr: indptr, indices: indices}, nil
}

// Edges yields a graph's directed edges, as parallel slices of sources and
// destinations, the same ones each time it is called. It stops at yield's first error and returns it.
type Edges func(yield func(src, dst []uint32) error) error

// CSRBytes is the memory [BuildCSR] takes.
func CSRBytes(nodes, edges uint64) int64 { return int64(8*(nodes+1) + 8*edges) }

// BuildCSR reads the edges twice (degrees, then lists) and holds each in both
// directions, outside the Go heap; self loops are dropped. With simple,
// lists are sorted and hold every neighbour once. Close frees the memory.
func BuildCSR(nodes uint64, edges Edges, simple bool) (*CSR, error) {
	if nodes > MaxNodes {
		return nil, fmt.Errorf("%w: %d nodes, at most %d are possible", ErrOption, nodes, uint64(MaxNodes))
	}
	indptrSlab, err := blockio.AllocSlab(8*(int64(nodes)+1), blockio.SlabOptions{Lazy: true})
	if err != nil {
		return nil, err
	}
	defer indptrSlab.Free() //nolint:errcheck // the arrays are copied or the build failed
	count := unsafe.Slice((*uint64)(unsafe.Pointer(&indptrSlab.Bytes()[0])), nodes+1)
	err = edges(func(src, dst []uint32) error {
		for i, u := range src {
			v := dst[i]
			if uint64(u) >= nodes || uint64(v) >= nodes {
				return fmt.Errorf("%w: edge %d → %d in a graph of %d nodes", ErrOption, u, v, nodes)
			}
			if u != v {
				count[u]++
				count[v]++
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var entries uint64
	for v := range nodes {
		entries += count[v]
	}
	slab, err := blockio.AllocSlab(int64(8*(nodes+1)+4*entries+4), blockio.SlabOptions{Lazy: true})
	if err != nil {
		return nil, err
	}
	base := unsafe.Pointer(&slab.Bytes()[0])
	g := &CSR{
		indptr:  unsafe.Slice((*uint64)(base), nodes+1),
		indices: unsafe.Slice((*uint32)(unsafe.Add(base, 8*(nodes+1))), entries),
		slab:    slab,
	}
	// indptr[v+1] is the cursor of v while lists fill, and its end afterwards.
	var sum uint64
	for v := range nodes {
		g.indptr[v+1] = sum
		sum += count[v]
	}
	err = edges(func(src, dst []uint32) error {
		for i, u := range src {
			if v := dst[i]; u != v {
				if g.indptr[u+1] >= entries || g.indptr[v+1] >= entries {
					return fmt.Errorf("%w: more edges in the second reading", ErrOption)
				}
				g.indices[g.indptr[u+1]] = v
				g.indptr[u+1]++
				g.indices[g.indptr[v+1]] = u
				g.indptr[v+1]++
			}
		}
		return nil
	})
	if err != nil {
		_ = slab.Free()
		return nil, err
	}
	if simple {
		g.simplify()
	}
	return g, nil
}

// simplify sorts every list and drops repeats, in place.
func (g *CSR) simplify() {
	var begin, out uint64
	for v := range g.Nodes() {
		end := g.indptr[v+1]
		list := g.indices[begin:end]
		slices.Sort(list)
		for i, u := range list {
			if i == 0 || u != list[i-1] {
				g.indices[out] = u
				out++
			}
		}
		begin, g.indptr[v+1] = end, out
	}
	g.indices = g.indices[:out]
}

// Nodes implements [Graph].
func (g *CSR) Nodes() uint64 { return uint64(len(g.indptr) - 1) }

// Entries implements [Graph].
func (g *CSR) Entries() uint64 { return uint64(len(g.indices)) }

// Neighbours implements [RandomAccess].
func (g *CSR) Neighbours(v uint32) []uint32 { return g.indices[g.indptr[v]:g.indptr[v+1]] }

// Close frees memory that is not the Go heap's; the graph is empty afterwards.
func (g *CSR) Close() error {
	slab := g.slab
	g.indptr, g.indices, g.slab = []uint64{0}, nil, nil
	if slab == nil {
		return nil
	}
	return slab.Free()
}

// Stream implements [Graph].
func (g *CSR) Stream(ctx context.Context) (Stream, error) {
	return &csrStream{ctx: ctx, g: g}, nil
}

// Nodes a chunk of an in-memory graph: small enough that cancelling is prompt.
const csrChunk = 1 << 14

type csrStream struct {
	ctx         context.Context
	g           *CSR
	first, next uint64
	err         error
}

func (s *csrStream) Next() bool {
	if s.err = s.ctx.Err(); s.err != nil || s.next >= s.g.Nodes() {
		return false
	}
	s.first, s.next = s.next, min(s.next+csrChunk, s.g.Nodes())
	return true
}

func (s *csrStream) Chunk() Chunk {
	p := s.g.indptr[s.first : s.next+1]
	return Chunk{First: uint32(s.first), Indptr: p, Indices: s.g.indices[p[0]:p[len(p)-1]]}
}

func (s *csrStream) Err() error   { return s.err }
func (s *csrStream) Close() error { return nil }
