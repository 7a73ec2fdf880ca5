package eval

import (
	"cmp"
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

// each calls fn with the edges of a node along which messages come to it, until it reports false.
func (n *nearLists) each(v store.NodeID, fn func(e adjacency.Edge) bool) error {
	all := n.e.edges.mirrors()
	return n.lists.Each(v, func(e adjacency.Edge) bool { return e.Out && !all || fn(e) })
}

func (n *nearLists) degree(v store.NodeID) (d int64, err error) {
	if n.e.edges.mirrors() {
		return n.lists.Degree(v), nil
	}
	err = n.each(v, func(adjacency.Edge) bool {
		d++
		return true
	})
	return d, err
}

func (n *nearLists) into(ctx context.Context, nodes []store.NodeID, fn func(x Message) bool) error {
	for _, v := range nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		ended, problem := false, error(nil)
		part := n.edges[:0]
		pass := func() bool { // what was collected, with what it carries
			ended, problem = n.messages(ctx, v, part, fn)
			part = part[:0]
			return !ended && problem == nil
		}
		err := n.each(v, func(e adjacency.Edge) bool {
			part = append(part, e)
			return len(part) < featuresBatch || pass()
		})
		if err == nil && problem == nil && !ended {
			pass()
		}
		if n.edges = part; err != nil || problem != nil || ended {
			return cmp.Or(err, problem)
		}
	}
	return nil
}

// messages calls fn with edges to a node as the model reads them, until it reports false.
func (n *nearLists) messages(ctx context.Context, v store.NodeID, edges []adjacency.Edge,
	fn func(x Message) bool) (ended bool, err error) {
	b := &n.e.edges
	features, err := n.features(ctx, edges)
	if err != nil {
		return false, err
	}
	columns := b.featureColumns()
	for i, x := range edges {
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
			return true, nil
		}
	}
	return false, nil
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
