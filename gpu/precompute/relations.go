package precompute

import (
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/store"
)

// RelationMean is the mean of a feature of one node type over a node's neighbours by one relation: a column of the nodes at the
// relation's other end, FEATURE.hop1.RELATION or, against the edges' direction, FEATURE.hop1.RELATION.inverse. It has an element more than
// the feature, the last: 1 where there are neighbours, else 0.
type RelationMean struct {
	Column   string
	Feature  *store.ColumnInfo
	Relation int    // as models number them: inverse ones follow the store's
	Derived  string // [store.ColumnInfo].Derived
	Source   int    // the node type of neighbours
	Type     string // that of the column's nodes
}

// RelationMeans lists the means of a feature by each relation, and each against its direction, that lead from nodes of its type; none of
// a feature of all nodes, or of relations whose ends are not known to be of one type each.
func RelationMeans(m *store.Manifest, feature *store.ColumnInfo) (means []RelationMean) {
	s := &m.Schema
	if feature.NodeType == "" || s.Undirected {
		return nil
	}
	for _, inverse := range []bool{false, true} {
		for r := range s.Relations {
			src, dst, ok := s.Ends(store.RelationID(r))
			x := RelationMean{Column: feature.Name + suffix + "." + s.ShortName(store.RelationID(r)), Feature: feature, Relation: r,
				Derived: eval.DerivedRelationMean(feature.Name, s.Relations[r].Name, inverse)}
			if inverse {
				x.Column, x.Relation, src, dst = x.Column+".inverse", r+len(s.Relations), dst, src
			}
			if !ok || s.NodeTypes[src].Name != feature.NodeType {
				continue
			}
			x.Source, x.Type = src, s.NodeTypes[dst].Name
			means = append(means, x)
		}
	}
	return means
}

// Find returns the store's column of the mean, nil if it has none.
func (x *RelationMean) Find(m *store.Manifest) *store.ColumnInfo {
	c, err := m.Column(x.Column)
	if err != nil || c.Derived != x.Derived || c.NodeType != x.Type || c.Dim != x.Feature.Dim+1 {
		return nil
	}
	return c
}

// ofRelations lists the columns that o asks for, a relation each.
func ofRelations(m *store.Manifest, features []*store.ColumnInfo, o Options) (hops []hop, err error) {
	if o.kind() != (eval.HopKind{}) {
		return nil, fmt.Errorf("train: precompute: %w: means of each relation are those of rsage, of no other model and not weighed by edges", store.ErrInvalid)
	}
	for _, f := range features {
		for _, x := range RelationMeans(m, f) {
			h := hop{name: x.Column, column: f, elem: o.Elem, relation: &x}
			old := x.Find(m)
			if h.there = old != nil && (o.Elem == 0 || o.Elem == old.Elem); old == nil {
				if taken, err := m.Column(x.Column); err == nil && taken.Derived != x.Derived {
					return nil, fmt.Errorf("train: precompute: %w: the store has a column %s that is no %s", store.ErrExists, x.Column, x.Derived)
				}
			}
			hops = append(hops, h)
		}
	}
	if len(hops) == 0 {
		return nil, fmt.Errorf("train: precompute: %w: means of each relation are of features of one node type, by relations source:name:destination of a directed store", store.ErrNotFound)
	}
	return hops, nil
}

// info is the column of a hop whose rows lie in a file.
func (h *hop) info(m *store.Manifest, o Options, file string) store.ColumnInfo {
	c := store.ColumnInfo{Name: h.name, Role: store.RoleFeature, Elem: h.elem, Dim: h.column.Dim, Derived: o.kind().Derived(h.column.Name), Files: []string{file}}
	if x := h.relation; x != nil {
		c.Role, c.Dim, c.Derived, c.NodeType = store.RoleNode, c.Dim+1, x.Derived, x.Type
		c.Runs = slices.ContainsFunc(m.Partitions, func(p store.PartitionInfo) bool { return p.Types != nil })
	}
	return c
}
