package config

import (
	"slices"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/train/sparse"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
)

// FillFeatures fills in c.Features, if there are none, with those of the store that are computed from no other, in the
// store's order, and for models of relations its categories of nodes behind them; where c reads a precomputed hop, their means follow in the same order.
// And it fills in the size of plan pbs' groups.
func (c *Config) FillFeatures(m *store.Manifest) {
	c.group(m)
	if len(c.Features) == 0 {
		for _, f := range m.ColumnsOf(store.RoleFeature) {
			if !precompute.IsHop(f) {
				c.Features = append(c.Features, f.Name)
			}
		}
		if c.Relational() && (c.Jumping == "" || c.Jumping == nn.JumpLast) {
			for _, k := range m.Categories() {
				c.Features = append(c.Features, k.Column)
			}
		}
	}
	switch {
	case c.PrecomputedHop && c.Relational():
		c.fillHops(m)
	case c.PrecomputedHop:
		c.Features = c.WithHops(c.Features)
	}
}

// HopKind is what a precomputed hop of c's model holds.
func (c *Config) HopKind() eval.HopKind {
	return eval.KindOf(&nn.Config{Model: c.Model, EdgeWeights: c.EdgeWeights})
}

// PrecomputeCommand makes what a precomputed hop of c's model reads.
func (c *Config) PrecomputeCommand() string {
	command := "gstore precompute"
	if sum := c.HopKind().Sum; sum != "" {
		command += " --model " + sum
	}
	if c.EdgeWeights {
		command += " --edge-weights"
	}
	return command
}

// OwnAndHops returns the feature columns that c.Features is of, in their order, and behind them those that were computed from these, one
// each: none without a precomputed hop. Of models that read sums alone the former are no part of c.Features.
func (c *Config) OwnAndHops() (own, hops []string) {
	m := nn.Config{Model: c.Model, PrecomputedHop: c.PrecomputedHop && !c.Relational()}
	at := m.FirstHop(len(c.Features))
	if own, hops = c.Features[:at:at], c.Features[at:]; at > 0 {
		return own, hops
	}
	for _, name := range hops {
		feature, _ := precompute.Feature(name, c.HopKind())
		own = append(own, feature)
	}
	return own, hops
}

// OwnFeatures are the feature columns that a run read, or whose hop it read.
func (c *Config) OwnFeatures() []string {
	own, _ := c.OwnAndHops()
	return own
}

// WithHops is features, less those that are the mean of another, followed by the mean of each; of models that read sums alone, these.
func (c *Config) WithHops(features []string) []string {
	var own, hops []string
	kind := c.HopKind()
	for _, name := range features {
		x, ok := precompute.Feature(name, kind)
		if ok && slices.Contains(features, x) {
			continue
		}
		if ok && kind.Sum != "" { // they are named already
			name = x
		}
		own, hops = append(own, name), append(hops, precompute.Column(name, kind))
	}
	if kind.Sum != "" {
		return hops
	}
	return append(own, hops...)
}

// SparseColumn is the one feature that c's model would read by its elements other than 0, if it is mostly 0; nil where the model, or the
// feature, is none for that. c.Features must be filled in.
func (c *Config) SparseColumn(m *store.Manifest) *store.ColumnInfo {
	model := nn.Config{Model: c.Model, Aggregator: c.Aggregator, Residual: c.Residual, Order: c.Order, InputDropout: float32(c.InputDropoutUsed()), PrecomputedHop: c.PrecomputedHop}
	if len(c.Features) != 1 || c.Dense || c.Relational() || !model.TakesSparse() {
		return nil
	}
	if column, err := m.Column(c.Features[0]); err == nil && column.Role == store.RoleFeature && sparse.Fits(column) {
		return column
	}
	return nil
}

// HoldsAll reports whether c may have all of the graph in memory, and its mini-batches are of all of it.
func (c *Config) HoldsAll(m *store.Manifest) bool {
	some := c.Buffer > 0 && c.Buffer < len(m.Partitions)-len(m.Pinned)
	return (c.Plan == "" || c.Plan == "auto" || c.Plan == macro.Memory) && !some && c.Group == 0 && !c.Stages() && !c.History && len(c.VectorTypes) == 0
}

// read are the columns that a run's mini-batches have: features, then precomputed hops of relations.
func (c *Config) read() []string { return slices.Concat(c.Features, c.Hops) }

// Columns are the manifest's columns that the run reads.
func (c *Config) Columns(m *store.Manifest) ([]store.ColumnInfo, error) {
	var cs []store.ColumnInfo
	for _, name := range c.read() {
		column, err := m.Column(name)
		if err != nil {
			return nil, err
		}
		cs = append(cs, *column)
	}
	return cs, nil
}
