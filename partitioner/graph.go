package partitioner

import (
	"context"
	"fmt"
)

// Graph is an undirected view of a graph that can be read as often as passes
// are made: nodes in a fixed order, each exactly once, with all neighbours of
// either direction. Self loops and repeated neighbours are allowed: a repeated
// one weighs more, a self loop nothing.
type Graph interface {
	// Nodes is the number of nodes, ≤ MaxNodes.
	Nodes() uint64
	// Entries is the sum of all neighbour lists' lengths: twice the edges.
	Entries() uint64
	// Stream starts a pass.
	Stream(ctx context.Context) (Stream, error)
}

// Stream is one pass over a [Graph].
type Stream interface {
	// Next fetches the next chunk; false at the end or on an error.
	Next() bool
	// Chunk is valid until the next call of Next or Close.
	Chunk() Chunk
	Err() error
	Close() error
}

// Chunk is some nodes' neighbour lists: node First+i has the neighbours
// Indices[Indptr[i]-Indptr[0] : Indptr[i+1]-Indptr[0]].
type Chunk struct {
	First   uint32
	Indptr  []uint64 // one more than nodes
	Indices []uint32
}

// Len is the number of nodes.
func (c Chunk) Len() int { return len(c.Indptr) - 1 }

// Neighbours is the list of node First+i.
func (c Chunk) Neighbours(i int) []uint32 {
	base := c.Indptr[0]
	return c.Indices[c.Indptr[i]-base : c.Indptr[i+1]-base]
}

// RandomAccess is a [Graph] whose lists can be read in any order, which every
// node order but the natural one needs.
type RandomAccess interface {
	Graph
	// Neighbours of a node; valid until the graph is closed, not to be modified.
	Neighbours(node uint32) []uint32
}

// CSR is a [Graph] in memory: node v has the neighbours
// indices[indptr[v]:indptr[v+1]], each edge in both its ends' lists.
type CSR struct {
	indptr  []uint64
	indices []uint32
	close   func() error
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

// Nodes implements [Graph].
func (g *CSR) Nodes() uint64 { return uint64(len(g.indptr) - 1) }

// Entries implements [Graph].
func (g *CSR) Entries() uint64 { return uint64(len(g.indices)) }

// Neighbours implements [RandomAccess].
func (g *CSR) Neighbours(v uint32) []uint32 { return g.indices[g.indptr[v]:g.indptr[v+1]] }

// Close releases memory that is not the Go heap's; none of the graph may be used after.
func (g *CSR) Close() error {
	if g.close == nil {
		return nil
	}
	f := g.close
	*g = CSR{}
	return f()
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
