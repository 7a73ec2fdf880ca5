package nn

import (
	"fmt"
	"slices"
)

// checkKind says what of c its kind cannot do.
func (c *Config) checkKind() error {
	k := c.Kind()
	switch {
	case c.Aggregator == "max" && (!k.Max || c.PrecomputedHop):
		return fmt.Errorf("nn: aggregator max is for %s without a precomputed hop", Only(func(k *Kind) bool { return k.Max }))
	case k.Relations && c.Relations < 1:
		return fmt.Errorf("nn: %s with %d relations, expected 1 or more", c.Model, c.Relations)
	case !k.Relations && c.Relations != 0 || !k.Bases && c.Bases != 0 || c.Bases < 0:
		return fmt.Errorf("nn: %d relations and %d bases for model %q: only %s have relations, only %s bases", c.Relations,
			c.Bases, c.Model, Only(func(k *Kind) bool { return k.Relations }), Only(func(k *Kind) bool { return k.Bases }))
	case len(c.Categories) > 0 && (!k.Relations || c.Jumps() || c.Hidden < 1 || slices.Min(c.Categories) < 1):
		return fmt.Errorf("nn: %d tables of learned vectors, of %v rows, for model %q of %d hidden columns, jumping %q: "+
			"only models of relations that do not jump have them", len(c.Categories), c.Categories, c.Model, c.Hidden, c.Jumping)
	case c.NodeTypes < 0 || c.NodeTypes > len(c.Categories) || c.NodeTypes > 0 && !k.NodeTypes:
		return fmt.Errorf("nn: category %d of %d says the types of nodes, for model %q: only %s read them", c.NodeTypes, len(c.Categories),
			c.Model, Only(func(k *Kind) bool { return k.NodeTypes }))
	case k.Projected && !c.Jumps() && c.Hidden < 1:
		return fmt.Errorf("nn: %d hidden columns, to which model %q brings its input: expected 1 or more", c.Hidden, c.Model)
	case c.Vectors && len(c.Categories) == 0:
		return fmt.Errorf("nn: learned vectors outside of the parameters are an input layer's, and no categories ask for one")
	case c.PrecomputedHop && k.Hop != HopMean && k.Hop != HopSum:
		return fmt.Errorf("nn: model %s has no precomputed hop: %s have", c.Model,
			Only(func(k *Kind) bool { return k.Hop == HopMean || k.Hop == HopSum }))
	case c.Heads < 0 || c.Heads > 0 && !k.Heads:
		return fmt.Errorf("nn: %d heads for model %q: only %s have heads", c.Heads, c.Model, Only(func(k *Kind) bool { return k.Heads }))
	case c.EdgeDim < 0 || c.EdgeDim > 0 && !k.EdgeFeatures:
		return fmt.Errorf("nn: %d columns of edges' features for model %q: only %s's attention reads them", c.EdgeDim, c.Model,
			Only(func(k *Kind) bool { return k.EdgeFeatures }))
	case k.Heads && (c.hiddenLayers() > 0 || !k.MeanHeads) && c.Hidden%c.heads() != 0:
		return fmt.Errorf("nn: %d hidden columns do not divide among %d heads", c.Hidden, c.heads())
	}
	return nil
}
