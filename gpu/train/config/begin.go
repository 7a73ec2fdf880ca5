package config

import (
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/store"
)

// Begin is a trained model that a run begins with, on the store that it was trained on, a later version, or another one alike.
type Begin struct {
	Config     Config
	Model      nn.Config
	ClassNames []string // of its outputs; nil where they have none
	Params     []byte   // see [nn.Params.Save]
}

// BeginWith has the run begin with a model: what decides the shape of its parameters, what it reads and how it learns is as it was there,
// unless Given names it. How long and where it trains is the run's own.
func (c *Config) BeginWith(b *Begin) {
	from := b.Config
	from.Features = from.OwnFeatures()
	from.Epochs, from.Patience, from.EvalEvery, from.Seed = c.Epochs, c.Patience, c.EvalEvery, c.Seed
	from.LRSchedule = c.LRSchedule
	Options().Inherit(c, &from, options.Data, options.Model, options.Optimiser)
	c.Begin = b
}

// check refuses a model that does not say what the store's labels are.
func (b *Begin) check(m *store.Manifest, s *Shape) error {
	switch {
	case (b.Model.Numbers != nil) != (s.Numbers != nil) || b.Model.MultiLabel != (s.Sets != nil):
		return store.Invalid(fmt.Errorf("train: the model to begin with says %s, the store's labels are %s", kindOf(b.Model.Numbers != nil, b.Model.MultiLabel), kindOf(s.Numbers != nil, s.Sets != nil)))
	case !slices.Equal(b.ClassNames, m.Schema.ClassNames) && len(b.ClassNames) > 0 && len(m.Schema.ClassNames) > 0:
		return store.Invalid(fmt.Errorf("train: the model to begin with tells the classes %q apart, the store has %q: expected the same, in this order", b.ClassNames, m.Schema.ClassNames))
	}
	return nil
}

func kindOf(numbers, several bool) string {
	switch {
	case numbers:
		return "numbers"
	case several:
		return "several a node"
	}
	return "classes"
}

// Fit checks the model against a store, and makes s say what follows from it: numbers stay on its scale.
func (b *Begin) Fit(m *store.Manifest, s *Shape) error {
	if b == nil {
		return nil
	}
	if err := b.check(m, s); err != nil {
		return err
	}
	if s.Numbers != nil {
		s.Numbers = b.Model.Numbers
	}
	return nil
}
