package eval

import (
	"context"
	"slices"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Added are nodes and edges that a store does not have: what is read near a node ([Near]) is what it would be if they had been appended.
type Added struct {
	Nodes int // how many; their numbers follow those of the store
	Edges []AddedEdge
	// Rows are those of the new nodes, in the form of the store's columns; of a column that is missing they are 0.
	Rows map[string][]byte
}

// AddedEdge is an edge between nodes of the store or new ones, as the store would have it.
type AddedEdge struct {
	Src, Dst store.NodeID
	Relation store.RelationID
	Weight   float32
	Features []float32 // of the model's columns of edges; nil: 0
}

// With is what is near where some nodes and edges are added.
func (e *Evaluator) With(near Near, x *Added) Near {
	a := &withAdded{Near: near, x: x, m: e.src.Manifest(), messages: map[store.NodeID][]Message{}}
	b := &e.edges
	for _, k := range x.Edges {
		m := Message{Dst: k.Dst, Src: k.Src, Features: k.Features}
		if m.Features == nil {
			m.Features = make([]float32, b.featureColumns())
		}
		if b.relations > 0 {
			m.Relation = uint16(k.Relation)
		}
		if b.weight != nil {
			m.Weight = float32(buffer.Weight(k.Weight))
		}
		a.messages[m.Dst] = append(a.messages[m.Dst], m)
		if b.mirrors() && (k.Src != k.Dst || b.inverse > 0) {
			m.Dst, m.Src = m.Src, m.Dst
			m.Relation += b.inverse
			a.messages[m.Dst] = append(a.messages[m.Dst], m)
		}
	}
	n := Near{Into: a.into, Rows: a.rows}
	if near.Degrees != nil {
		n.Degrees = a.degree
	}
	return n
}

type withAdded struct {
	Near
	x        *Added
	m        *store.Manifest
	messages map[store.NodeID][]Message
}

func (a *withAdded) into(ctx context.Context, nodes []store.NodeID, fn func(x Message) bool) error {
	for _, v := range nodes {
		for _, m := range a.messages[v] {
			if !fn(m) {
				return nil
			}
		}
	}
	old := slices.DeleteFunc(slices.Clone(nodes), a.isNew)
	if len(old) == 0 {
		return nil
	}
	return a.Into(ctx, old, fn)
}

func (a *withAdded) isNew(v store.NodeID) bool { return uint64(v) >= a.m.Nodes }

func (a *withAdded) degree(v store.NodeID) (n int64, err error) {
	if !a.isNew(v) {
		n, err = a.Degrees(v)
	}
	return n + int64(len(a.messages[v])), err
}

func (a *withAdded) rows(ctx context.Context, column string, nodes []store.NodeID, dst []byte) ([]byte, error) {
	c, err := a.m.Column(column)
	if err != nil {
		return nil, err
	}
	own, err := a.Rows(ctx, column, slices.DeleteFunc(slices.Clone(nodes), a.isNew), nil)
	if err != nil {
		return nil, err
	}
	size := c.RowBytes()
	dst = slices.Grow(dst[:0], size*len(nodes))[:size*len(nodes)]
	clear(dst)
	for i, v := range nodes {
		row := dst[i*size : (i+1)*size]
		if !a.isNew(v) {
			own = own[copy(row, own):]
		} else if rows := a.x.Rows[column]; rows != nil {
			copy(row, rows[int(uint64(v)-a.m.Nodes)*size:])
		}
	}
	return dst, nil
}
