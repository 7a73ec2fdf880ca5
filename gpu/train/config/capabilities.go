package config

import (
	"strings"

	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/options"
)

// What options ask of kinds of models, in one place.

func attends(k *nn.Kind) bool          { return k.Heads }
func isOfRelations(k *nn.Kind) bool    { return k.Relations }
func takesMaximum(k *nn.Kind) bool     { return k.Max }
func readsEdgeWeights(k *nn.Kind) bool { return k.Weights != "" }
func readsEdges(k *nn.Kind) bool       { return k.EdgeFeatures }
func readsNeighbours(k *nn.Kind) bool  { return !k.NodesAlone }
func keepsHistory(k *nn.Kind) bool     { return k.History != nn.NoHistory }
func readsHop(k *nn.Kind) bool         { return k.Hop != nn.NoHop }
func hasBases(k *nn.Kind) bool         { return k.Bases }

// readsAnyNodes reports whether a model can take nodes for neighbours to which no edge leads: it reads neither relations nor
// degrees of edges.
func readsAnyNodes(k *nn.Kind) bool {
	return readsNeighbours(k) && !k.Relations && k.Weights != nn.WeightsSymmetric
}

// modelThat is the condition of a model that can do something; what says it: "with attention heads".
func modelThat(what string, can func(*nn.Kind) bool) condition {
	names := nn.Models(can)
	return condition{Text: "a model " + what + " (" + strings.Join(names, ", ") + ")",
		Holds: func(c *Config) bool { k := c.Kind(); return can(&k) },
		Found: func(c *Config) string { return "--model " + c.Model }, Fix: "Use --model " + options.OneOf(names)}
}
