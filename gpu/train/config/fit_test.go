package config

import (
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
)

// Fit chooses by the graph, unless a model is named or something that is asked for is not for a model of relations.
func TestFit(t *testing.T) {
	named := func(n int, what string) (names []string) {
		for i := range n {
			names = append(names, what+string(rune('a'+i%26))+strings.Repeat("x", i/26))
		}
		return names
	}
	for name, c := range map[string]struct {
		config     Config
		types      int
		relations  int
		undirected bool
		model      string
		why        string // part of it; "" for none
	}{
		"one type":            {Config{Model: ModelAuto}, 1, 1, true, "sage", ""},
		"directed":            {Config{Model: ModelAuto}, 1, 1, false, "sage", ""},
		"relations":           {Config{Model: ModelAuto}, 1, 3, true, "rsage", "3 relations"},
		"types":               {Config{Model: ModelAuto}, 2, 1, false, "rsage", "2 node types and 1 relation; edges are read"},
		"types, undirected":   {Config{Model: ModelAuto}, 2, 1, true, "rsage", "2 node types and 1 relation"},
		"many relations":      {Config{Model: ModelAuto}, 1, 200, false, "rgcn", "200 relations"},
		"many, one direction": {Config{Model: ModelAuto}, 1, 200, true, "rsage", "200 relations"},
		"named":               {Config{Model: "gat"}, 2, 3, false, "gat", ""},
		"a program's default": {Config{}, 2, 3, false, "", ""},
		"weights":             {Config{Model: ModelAuto, EdgeWeights: true}, 2, 1, false, "sage", "edge_weights needs a model"},
		"walks":               {Config{Model: ModelAuto, Sampler: "pinsage"}, 2, 1, false, "sage", "does not go with what was asked for"},
		"history":             {Config{Model: ModelAuto, History: true}, 2, 1, false, "rsage", "2 node types"},
	} {
		m := &store.Manifest{Schema: store.Schema{Undirected: c.undirected}}
		for _, n := range named(c.types, "type") {
			m.Schema.NodeTypes = append(m.Schema.NodeTypes, store.NodeType{Name: n})
		}
		for _, n := range named(c.relations, "relation") {
			m.Schema.Relations = append(m.Schema.Relations, store.Relation{Name: n})
		}
		why := c.config.Fit(m)
		if c.config.Model != c.model || !strings.Contains(why, c.why) || c.why == "" && why != "" {
			t.Errorf("%s: model %q, %q; expected %q and %q", name, c.config.Model, why, c.model, c.why)
		}
	}
}
