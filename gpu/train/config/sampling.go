package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
)

// Sampled are the fanouts that mini-batches are sampled with, outward: one for each layer that reads neighbours ([nn.Model.Hops]).
func (c *Config) Sampled() []int {
	switch {
	case c.Kind().NodesAlone:
		return nil
	case c.PrecomputedHop && !c.Relational():
		return c.Fanouts[:len(c.Fanouts)-1]
	}
	return c.Fanouts
}

// RelationSampling are [mini.Config].RelationFanouts and Without of hops that are sampled; nil: no hop has any.
type RelationSampling struct {
	Fanouts [][]int
	Without [][]bool
}

// RelationSampling says how relations are drawn from a store: by c.RelationFanouts, and in the last hop none of those that are read from
// precomputed hops, the others by the hop's fanout each.
func (c *Config) RelationSampling(m *store.Manifest) (d RelationSampling, err error) {
	if d.Fanouts, err = c.relationFanouts(m); err != nil {
		return d, err
	}
	without := c.HopRelations(m)
	if without == nil {
		return d, nil
	}
	last := len(c.Sampled()) - 1
	if d.Fanouts == nil {
		d.Fanouts = make([][]int, last+1)
		d.Fanouts[last] = slices.Repeat([]int{c.Fanouts[last]}, len(m.Schema.Relations))
	}
	d.Without = make([][]bool, last+1)
	d.Without[last] = without
	return d, nil
}

// Draws reports whether a hop draws edges of a relation, as models number them.
func (d *RelationSampling) Draws(hop, relation int) bool {
	return d.Without == nil || d.Without[hop] == nil || !d.Without[hop][relation]
}

// relationFanouts reads c.RelationFanouts for a store: those of each hop that is sampled, by relation; nil without any.
func (c *Config) relationFanouts(m *store.Manifest) (of [][]int, err error) {
	if c.RelationFanouts == "" {
		return nil, nil
	}
	defer func() { err = store.Invalid(err) }()
	relations := m.Schema.Relations
	hops := len(c.Sampled())
	of = make([][]int, hops)
	for h := range of {
		of[h] = slices.Repeat([]int{c.Fanouts[h]}, len(relations))
	}
	named := map[store.RelationID]bool{}
	for part := range strings.SplitSeq(c.RelationFanouts, ";") {
		at := strings.LastIndexByte(part, '=')
		if at < 0 {
			return nil, fmt.Errorf("train: relation fanouts %q: %q is no relation=fanouts", c.RelationFanouts, part)
		}
		r, err := m.Schema.RelationNamed(strings.TrimSpace(part[:at]))
		if err != nil {
			return nil, fmt.Errorf("train: relation fanouts %q: %w", c.RelationFanouts, err)
		}
		values := strings.Split(part[at+1:], ",")
		if named[r] || len(values) != c.Layers {
			return nil, fmt.Errorf("train: relation fanouts %q: %d of %s for %d layers, expected each relation once and one a layer", c.RelationFanouts, len(values), relations[r].Name, c.Layers)
		}
		named[r] = true
		for h, text := range values {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil || n < mini.All || n == 0 {
				return nil, fmt.Errorf("train: relation fanouts %q: %q of %s, expected a positive number, or -1 for all neighbours", c.RelationFanouts, text, relations[r].Name)
			}
			if h < hops {
				of[h][r] = n
			}
		}
	}
	return of, nil
}

// WalkOptions are those of c.
func (c *Config) WalkOptions() mini.Walks {
	w := mini.Walks{PerNode: c.Walks, Length: c.WalkLength}
	if c.WalkRestart != nil {
		w.Continue = 1 - *c.WalkRestart
	}
	return w
}

// prune reads c.Prune for a graph of a mean degree.
func (c *Config) prune(degree float64) (p mini.Prune, err error) {
	if c.Prune == "" {
		return p, nil
	}
	if p, err = mini.ParsePrune(c.Prune); err != nil {
		return p, fmt.Errorf("train: %w", err)
	}
	p.Degree = degree
	return p, nil
}

// PruneWhy says what c.Prune keeps of lists, for each fanout that is sampled; "" without it.
func (c *Config) PruneWhy(degree float64) string {
	p, err := c.prune(degree)
	if c.Prune == "" || err != nil {
		return ""
	}
	var of []string
	for _, fanout := range c.Sampled() {
		if n := p.Threshold(fanout); n < math.MaxInt32 {
			of = append(of, fmt.Sprintf("at most %d for %d", n, fanout))
		}
	}
	if len(of) == 0 {
		return "prune: no hop has a fanout, so that all neighbours are taken"
	}
	return fmt.Sprintf("prune: with %.1f neighbours a node on average, a node's are drawn from %s", degree, strings.Join(of, ", "))
}

// FanoutsMost are the most neighbours of a node in each hop that is sampled, in each direction.
func (c *Config) FanoutsMost(d RelationSampling) []int {
	if c.Sampler == mini.Pinsage {
		w := c.WalkOptions()
		w.Normalize()
		most := slices.Clone(c.Sampled())
		for h, f := range most {
			if most[h] = w.PerNode * w.Length; f != mini.All {
				most[h] = min(most[h], f)
			}
		}
		return most
	}
	if d.Fanouts == nil {
		return c.Sampled()
	}
	most := slices.Clone(c.Sampled())
	for h, of := range d.Fanouts {
		if of != nil {
			most[h] = 0
		}
		for r, f := range of {
			if inverse := r + len(of); !d.Draws(h, r) && (inverse >= len(d.Without[h]) || !d.Draws(h, inverse)) {
				continue // in neither direction
			}
			if most[h] += f; f == mini.All {
				most[h] = mini.All
				break
			}
		}
	}
	return most
}

// Inputs are the rows that feed a batch's first layer.
func (c *Config) Inputs(b *mini.Batch) []uint32 {
	if len(c.Sampled()) == 0 {
		return b.Seeds
	}
	return b.Input
}

// EvenBatches reports whether a step's seeds make batches of one size instead of full ones and the rest: a last batch of a few nodes is
// an optimiser's step like any other, and a plan of several steps has one in each (docs/lab/findings.md, "What a step holds").
// Groups of partitions with all neighbours, which show what hanoi's order costs, are trained as its steps are.
func (c *Config) EvenBatches() bool { return c.Plan == macro.Hanoi || c.Group > 0 && !c.Stages() }

// SamplerConfig is what the mini-batches of a run of c are sampled by, whose model samples so many hops of a graph of a mean degree, of relations as
// these say.
func (c *Config) SamplerConfig(hops int, relations RelationSampling, degree float64) (mini.Config, error) {
	prune, err := c.prune(degree)
	return mini.Config{Fanouts: c.Fanouts[:hops], RelationFanouts: relations.Fanouts, Without: relations.Without, Sampler: c.Sampler, Seed: c.Seed, Together: c.Together(), Prune: prune, Walks: c.WalkOptions(), Weights: c.EdgeWeights, Places: len(c.EdgeFeatures) > 0}, err
}
