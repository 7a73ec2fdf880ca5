package eval

import (
	"context"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/adjacency"
	"github.com/gstore/gstore/store/buffer"
)

// featuresBatch is how many edges' features are read together.
const featuresBatch = 1 << 12

// ByLists reads messages from lists of all edges, and what lies beside them by single reads: for few nodes of a large store.
func (e *Evaluator) ByLists(st *store.Store, lists *adjacency.Lists) Near {
	n := &nearLists{e: e, st: st, lists: lists}
	return Near{Into: n.into, Rows: st.Features, Degrees: n.degree}
}

type nearLists struct {
	e     *Evaluator
	st    *store.Store
	lists *adjacency.Lists
	edges []adjacency.Edge // reused
}

// list is the edges of a node along which messages come to it.
func (n *nearLists) list(v store.NodeID) (err error) {
	if n.edges, err = n.lists.Edges(n.edges[:0], v); err != nil {
		return err
	}
	if n.e.edges.mirrors() {
		return nil
	}
	for i, x := range n.edges { // those with Out are the last
		if x.Out {
			n.edges = n.edges[:i]
			break
		}
	}
	return nil
}

func (n *nearLists) degree(v store.NodeID) (int64, error) {
	if n.e.edges.mirrors() {
		return n.lists.Degree(v), nil
	}
	err := n.list(v)
	return int64(len(n.edges)), err
}

func (n *nearLists) into(ctx context.Context, nodes []store.NodeID, fn func(x Message) bool) error {
	b := &n.e.edges
	for _, v := range nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := n.list(v); err != nil {
			return err
		}
		for edges := n.edges; len(edges) > 0; {
			part := edges[:min(len(edges), featuresBatch)]
			edges = edges[len(part):]
			features, err := n.features(ctx, part)
			if err != nil {
				return err
			}
			columns := b.featureColumns()
			for i, x := range part {
				m := Message{Dst: v, Src: x.Node, Features: features[i*columns : (i+1)*columns : (i+1)*columns]}
				if b.relations > 0 {
					if m.Relation = uint16(x.Relation); x.Out {
						m.Relation += b.inverse
					}
				}
				if b.weight != nil {
					m.Weight = float32(buffer.Weight(x.Weight))
				}
				if !fn(m) {
					return nil
				}
			}
		}
	}
	return nil
}

// features are those of edges that the model reads.
func (n *nearLists) features(ctx context.Context, edges []adjacency.Edge) ([]float32, error) {
	b := &n.e.edges
	columns := b.featureColumns()
	if columns == 0 {
		return nil, nil
	}
	at := make([]store.EdgeRow, len(edges))
	for i, x := range edges {
		at[i] = store.EdgeRow{Partition: x.Partition, Row: x.Row}
	}
	all, first := make([]float32, len(edges)*columns), 0
	for _, c := range b.features {
		rows, err := n.st.EdgeRows(ctx, c.Name, at, nil)
		if err != nil {
			return nil, err
		}
		size := c.RowBytes()
		for i := range edges {
			c.Elem.Widen(all[i*columns+first:][:c.Dim], rows[i*size:(i+1)*size], c.Scale)
		}
		first += c.Dim
	}
	return all, nil
}
