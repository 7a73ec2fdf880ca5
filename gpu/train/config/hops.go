package config

import (
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/store"
)

// fillHops fills in c.Hops, if there are none: of each relation whose neighbours' features, those that the run reads, all have a mean in
// the store, these means. Neighbours with learned vectors of their own are sampled.
func (c *Config) fillHops(m *store.Manifest) {
	if len(c.Hops) > 0 {
		return
	}
	found := map[int][]string{} // by relation
	for _, t := range m.Schema.NodeTypes {
		var features []*store.ColumnInfo
		known := !slices.Contains(c.Features, t.Name+store.NodeSuffix) && !slices.Contains(c.VectorTypes, t.Name)
		for _, name := range c.Features {
			if f, err := m.Column(name); err == nil && f.Role == store.RoleFeature && (f.NodeType == t.Name || f.NodeType == "") {
				features, known = append(features, f), known && f.NodeType != ""
			}
		}
		if !known || len(features) == 0 {
			continue
		}
		for _, x := range precompute.RelationMeans(m, features[0]) {
			var names []string
			for _, f := range features {
				of := precompute.RelationMeans(m, f)
				k := slices.IndexFunc(of, func(y precompute.RelationMean) bool { return y.Relation == x.Relation })
				if of[k].Find(m) != nil {
					names = append(names, of[k].Column)
				}
			}
			if len(names) == len(features) {
				found[x.Relation] = names
			}
		}
	}
	for r := range 2 * len(m.Schema.Relations) {
		c.Hops = append(c.Hops, found[r]...)
	}
}

// StoredHops are the Hops that rsage could read of a store; none where it could not.
func (c *Config) StoredHops(m *store.Manifest) []string {
	d := *c
	if d.Hops = nil; c.Kind().Hop == nn.HopRelations {
		d.PrecomputedHop = true
		d.fillHops(m)
	}
	if _, err := d.relationHops(m); err != nil {
		return nil
	}
	return d.Hops
}

// hopMeans are what c.Hops are the means of, in their order.
func (c *Config) hopMeans(m *store.Manifest) (means []precompute.RelationMean, err error) {
	for _, name := range c.Hops {
		at := len(means)
		for _, feature := range c.Features {
			f, err := m.Column(feature)
			if err != nil {
				continue // ShapeOf says so
			}
			for _, x := range precompute.RelationMeans(m, f) {
				if x.Column == name && x.Find(m) != nil {
					means = append(means, x)
				}
			}
		}
		if len(means) != at+1 {
			return nil, fmt.Errorf("train: %w: precomputed hop %s of features %q: make it with gstore precompute --each-relation", store.ErrNotFound, name, c.Features)
		}
	}
	return means, nil
}

// HopRelations says, by relation, inverse ones behind the store's, which are read from c.Hops; nil: none is.
func (c *Config) HopRelations(m *store.Manifest) []bool {
	means, err := c.hopMeans(m)
	if err != nil || len(means) == 0 { // relationHops says what is wrong
		return nil
	}
	relations := make([]bool, 2*len(m.Schema.Relations))
	for _, x := range means {
		relations[x.Relation] = true
	}
	return relations
}

// relationHops describes c.Hops for a model whose input is c.Features.
func (c *Config) relationHops(m *store.Manifest) (hops []nn.RelationHop, err error) {
	if !c.PrecomputedHop || !c.Relational() {
		return nil, nil
	}
	means, err := c.hopMeans(m)
	if err != nil {
		return nil, err
	}
	if len(means) == 0 {
		return nil, fmt.Errorf("train: %w: the store has no precomputed hops of the relations of features %q: gstore precompute --each-relation makes them, of stores of several node types", store.ErrNotFound, c.Features)
	}
	begins, tables, in := map[string]int{}, []string{}, 0
	for _, name := range c.Features {
		if _, ok := m.Category(name); ok {
			tables = append(tables, name)
		} else if f, err := m.Column(name); err == nil {
			begins[name] = in
			in += f.Dim
		}
	}
	if len(tables) == 0 {
		return nil, fmt.Errorf("train: %w: precomputed hops of relations of features %q alone: name column %s behind them, so that the types' features are projected", store.ErrInvalid, c.Features, store.TypeColumn)
	}
	named := map[int]bool{}
	for _, x := range means {
		h := nn.RelationHop{Relation: x.Relation, First: begins[x.Feature.Name], Cols: x.Feature.Dim}
		if k := slices.Index(tables, store.TypeColumn); k >= 0 && !named[x.Relation] { // once, whatever features the type has
			h.Table, h.Vector, named[x.Relation] = k, x.Source+1, true
		}
		hops = append(hops, h)
	}
	return hops, nil
}
