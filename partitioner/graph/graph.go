// Package graph is what partitioners read: a [Graph] streams each node's neighbours, one with [RandomAccess] has them at
// any node. A [CSR] packs ids into as many bits as they need; [Spilled] keeps them in a file. Further, permutations that are
// computed instead of stored.
package graph

import (
	"context"
	"math"
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
	// Neighbours of a node; valid until the next call, not to be modified.
	Neighbours(node uint32) []uint32
	// Read is Neighbours into dst, which it lengthens if need be; safe for concurrent use.
	Read(dst []uint32, node uint32) []uint32
	// ReadLists reads the lists of as many of the nodes as come at once, of at least one, into l; it returns how many.
	ReadLists(l *Lists, nodes []uint32) int
	// Degree is how many there are, and Neighbour one of them.
	Degree(node uint32) int
	Neighbour(node uint32, i int) uint32
}

// Lists are the neighbour lists of some nodes in any order, read together, so that they do not wait for memory one after
// the other.
type Lists struct {
	Entries []uint32
	end     []uint64 // by list: where it ends in entries
	from    []uint64 // by list: where it begins in the graph
	touched byte     // what was read ahead; kept, so that it is read
}

// Lists and entries that are read together: they stay in the processor's first caches, unless one alone is longer.
const (
	listsMax        = 64
	listsEntriesMax = 1 << 11
)

// Of is list i; valid until the next reading.
func (l *Lists) Of(i int) []uint32 {
	if i == 0 {
		return l.Entries[:l.end[0]]
	}
	return l.Entries[l.end[i-1]:l.end[i]]
}

// Bounds of what this package accepts. A node id fits 32 bits everywhere in
// memory (half the bytes of every array); stores use 64 bits on disk.
const (
	MaxNodes      = math.MaxUint32
	MaxPartitions = 1 << 20
)

// EachNode makes one pass over g.
func EachNode(ctx context.Context, g Graph, visit func(v uint32, neighbours []uint32)) error {
	stream, err := g.Stream(ctx)
	if err != nil {
		return err
	}
	for stream.Next() {
		c := stream.Chunk()
		for i := range c.Len() {
			visit(c.First+uint32(i), c.Neighbours(i))
		}
	}
	if err := stream.Err(); err != nil {
		_ = stream.Close()
		return err
	}
	return stream.Close()
}
