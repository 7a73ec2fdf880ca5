package config

import (
	"fmt"

	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/store"
)

// ModelAuto is the Config.Model that Fit chooses.
const ModelAuto = "auto"

// The models that [Config.Fit] chooses from. relationsMost is how many relations, inverse ones counted, have a matrix each
// in every layer; more are sums of a few matrices, as Schlichtkrull et al. (ESWC 2018, section 2.2) have it against overfitting.
const (
	plainModel     = "sage"
	relationsModel = "rsage"
	basesModel     = "rgcn"
	relationsMost  = 256
)

// Fit chooses the model where c's is [ModelAuto], by what the store's graph is: a model of relations, which reads edges along
// and against their direction as relations of their own, for several types of nodes or of edges; sage for others, and
// where something that c asks for is not for a model of relations. It returns why, in a sentence; "" where c names its
// model, or there was nothing to choose.
func (c *Config) Fit(m *store.Manifest) (why string) {
	if c.Model != ModelAuto {
		return ""
	}
	c.Model = plainModel
	graph := graphOf(m)
	if graph == "" {
		return ""
	}
	d := *c
	if d.Model = relationsModel; d.Directions(m)*int64(len(m.Schema.Relations)) > relationsMost {
		d.Model = basesModel
	}
	fitted := d.Model
	err := d.Normalize()
	if err == nil {
		err = Options().CheckStore(&d, m)
	}
	if err != nil {
		return fmt.Sprintf("model sage: the graph %s, but a model of relations does not go with what was asked for: %v", graph, err)
	}
	c.Model = fitted
	if c.Directions(m) == 2 {
		return fmt.Sprintf("model %s: the graph %s; edges are read in both directions, as relations of their own", fitted, graph)
	}
	return fmt.Sprintf("model %s: the graph %s", fitted, graph)
}

// graphOf says what a graph has that models of relations tell apart, or that they alone learn from; "" for nothing.
func graphOf(m *store.Manifest) string {
	types, relations := len(m.Schema.NodeTypes), len(m.Schema.Relations)
	switch {
	case types > 1:
		return fmt.Sprintf("has %s and %s", options.Count(types, "node type"), options.Count(relations, "relation"))
	case relations > 1:
		return fmt.Sprintf("has %d relations", relations)
	case len(m.ColumnsOf(store.RoleFeature)) == 0 && len(m.Categories()) > 0:
		return "has no features: each node learns a vector"
	}
	return ""
}
