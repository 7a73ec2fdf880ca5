package adjacency

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// Edge is an edge of a node that was asked for.
type Edge struct {
	Node     store.NodeID // at its other end
	Relation store.RelationID
	// Out: it leads from the node that was asked for to Node. Of an undirected graph no edge is.
	Out    bool
	Weight float32 // as it is stored; 1 where the store has no weights
	// Partition and Row say where edge columns have the edge's row ([store.Store.EdgeRows]).
	Partition store.PartitionID
	Row       uint64
}

// Lists are the edges of every node. An undirected edge is in the lists of both its ends, one from a node to itself once; a
// directed one is too, the list of its source has it with Out.
type Lists struct {
	m     *store.Manifest
	begin []uint64 // by node: the number of its first edge, and behind the last one how many there are
	held  [2]*blockio.Slab
	edges []uint32 // in memory: words of each edge; nil: in file
	file  *os.File
	form
}

// form says which words of 32 bits an edge takes, beside the node at its other end.
type form struct {
	words                  int
	relation, row, weights int // which word it is; 0: none
}

// formOf is what edges of a store need.
func formOf(m *store.Manifest) (f form) {
	f.words = 1
	word := func() int { f.words++; return f.words - 1 }
	if !m.Schema.Undirected || len(m.Schema.Relations) > 1 {
		f.relation = word()
	}
	if len(m.ColumnsOf(store.RoleEdge)) > 0 {
		f.row = word()
	}
	if len(m.ColumnsOf(store.RoleWeight)) > 0 {
		f.weights = word()
	}
	return f
}

// Bytes is what lists of a store take: of memory at least, where edges lie in a file, and whole. A pass over the store takes a few MiB beside.
func Bytes(m *store.Manifest) (least, whole int64) {
	least = 8 * (int64(m.Nodes) + 1)
	return least, least + 2*int64(m.Edges)*4*int64(formOf(m).words)
}

// Degree is how many edges a node's list has.
func (l *Lists) Degree(v store.NodeID) int64 {
	if uint64(v) >= l.m.Nodes {
		return 0
	}
	return int64(l.begin[v+1] - l.begin[v])
}

// InMemory reports whether edges lie in memory, not in a file.
func (l *Lists) InMemory() bool { return l.file == nil }

// MemoryBytes is what the lists hold.
func (l *Lists) MemoryBytes() (n int64) {
	for _, s := range l.held {
		if s != nil {
			n += int64(len(s.Bytes()))
		}
	}
	return n
}

// Edges appends a node's edges to dst: those that lead to it, then those with Out, each in ascending order of Node, parallel ones
// as often as they are there. A node that there is not is [store.ErrNotFound].
func (l *Lists) Edges(dst []Edge, v store.NodeID) ([]Edge, error) {
	begin := len(dst)
	err := l.Each(v, func(e Edge) bool {
		dst = append(dst, e)
		return true
	})
	slices.SortStableFunc(dst[begin:], func(a, b Edge) int {
		if a.Out != b.Out {
			if a.Out {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Node, b.Node)
	})
	return dst, err
}

// eachEdges is how many edges of a file are read at a time.
const eachEdges = 1 << 12

// Each calls fn with a node's edges, in an order that does not change, until it reports false: of a hub no more is in memory than is read at a
// time.
func (l *Lists) Each(v store.NodeID, fn func(e Edge) bool) error {
	p, err := l.m.Partition(v)
	if err != nil {
		return err
	}
	first, left := l.begin[v], l.begin[v+1]-l.begin[v]
	var buf []uint32
	for left > 0 {
		n := left
		var words []uint32
		if l.file == nil {
			words = l.edges[first*uint64(l.words):][:n*uint64(l.words)]
		} else {
			n = min(n, eachEdges)
			if buf == nil {
				buf = make([]uint32, n*uint64(l.words))
			}
			words = buf[:n*uint64(l.words)]
			b := blocks.Bytes(words)
			if _, err := l.file.ReadAt(b, int64(first)*4*int64(l.words)); err != nil {
				return fmt.Errorf("adjacency: edges of node %d: %w", v, err)
			}
			for i := range words { // in place: each word is decoded from its own bytes
				words[i] = binary.LittleEndian.Uint32(b[4*i:])
			}
		}
		first, left = first+n, left-n
		for ; len(words) > 0; words = words[l.words:] {
			e, err := l.edge(p, words)
			if err != nil {
				return err
			}
			if !fn(e) {
				return nil
			}
		}
	}
	return nil
}

// edge decodes the words of an edge of a node of partition p.
func (l *Lists) edge(p store.PartitionID, words []uint32) (e Edge, err error) {
	e = Edge{Node: store.NodeID(words[0]), Weight: 1, Partition: p}
	if l.relation > 0 {
		e.Relation, e.Out = store.RelationID(words[l.relation]>>1), words[l.relation]&1 == 1
	}
	if l.row > 0 {
		e.Row = uint64(words[l.row] >> 1)
		if words[l.row]&1 == 1 { // it lies in the stripe of its other end
			e.Partition, err = l.m.Partition(e.Node)
		}
	}
	if l.weights > 0 {
		e.Weight = math.Float32frombits(words[l.weights])
	}
	return e, err
}

// Close frees memory and file. Nobody may use the lists any more.
func (l *Lists) Close() (err error) {
	for i, s := range l.held {
		if s != nil {
			err = errors.Join(err, s.Free())
		}
		l.held[i] = nil
	}
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
	}
	l.begin, l.edges, l.file = nil, nil, nil
	return err
}
