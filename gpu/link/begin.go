package link

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// A run may begin with the model of another one, such as after an append. What a model has learned by heart keeps it from learning what
// came as well as a new one does; a decoder's embeddings are shrunk against that (Ash and Adams, NeurIPS 2020, "On Warm-Starting Neural
// Network Training", section 4, without their noise), and the optimiser begins anew, as a trained model's steps are small, but where scores
// are distances, which its first steps would destroy. The learning rate falls from the first epoch on, and there are a third of a new run's
// epochs by default (docs/accuracy.md, "Link prediction").

// beginShare divides the epochs of a new run to those of one that begins with a model.
const beginShare = 3

// beginScale is what a decoder's embeddings are multiplied by.
const beginScale = .5

// Begin is a trained model that a run begins with: a table of the store, of the run's version or an earlier one.
type Begin struct {
	Config Config // of the run that trained it
	Epochs int    // that it trained

	table *table.Table
	was   *store.Store // as the table's version has it
	state []byte       // see [nn.Params.SaveState]
}

// OpenBegin opens the table called name, which no run may be training. The caller closes the result once the run has begun.
func OpenBegin(ctx context.Context, st *store.Store, name string) (_ *Begin, err error) {
	b := &Begin{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.table, err = table.Open(ctx, st, table.Options{Name: name, ReadOnly: true, AnyVersion: true}); err != nil {
		return nil, err
	}
	run, err := Load(ctx, b.table)
	if err != nil {
		return nil, err
	}
	if run.Epochs == 0 && !run.Middle {
		return nil, fmt.Errorf("%w: table %s has no trained epoch yet", store.ErrInvalid, name)
	}
	b.Config, b.Epochs, b.state = run.Config, run.Epochs, run.Model
	version := st.Manifest().Version
	if other := (*table.VersionError)(nil); errors.As(b.table.CheckVersion(st.Manifest()), &other) {
		version = other.Of
	}
	b.was, err = store.Open(st.Dir(), store.Options{FS: st.Files().FS(), Version: version})
	return b, err
}

// Close closes the table.
func (b *Begin) Close() error {
	var errs []error
	if b.was != nil {
		errs = append(errs, b.was.Close())
	}
	if b.table != nil {
		errs = append(errs, b.table.Close())
	}
	b.was, b.table = nil, nil
	return errors.Join(errs...)
}

// BeginWith has the run begin with a model: what decides the shape of embeddings and parameters, what it learns and how is as it was
// there, unless Given names it. How long and where it trains is the run's own.
func (c *Config) BeginWith(b *Begin) {
	from := b.Config
	from.Epochs, from.Patience, from.LRDecay, from.EvalEvery, from.Seed, from.Against = c.Epochs, c.Patience, c.LRDecay, c.EvalEvery, c.Seed, c.Against
	from.Logical, from.RemoveBatchEdges, from.KeepBatchEdges = c.Logical, c.RemoveBatchEdges, c.KeepBatchEdges // by what is in memory
	Options().Inherit(c, &from, options.Data, options.Model, options.Optimiser, options.LinkPrediction)
	c.From, c.Begin = b.table.Name(), b
}

// begins reports whether the run begins with a model, and how long it trains is not said by its patience.
func (c *Config) begins() bool { return c.From != "" && c.Patience == 0 }

// check refuses a model that a run of c on a store cannot begin with.
func (b *Begin) check(c *Config, m *store.Manifest) error {
	if b == nil {
		return fmt.Errorf("%w: what it holds is not there: see Config.BeginWith", store.ErrInvalid)
	}
	was := b.was.Manifest().Schema.Relations
	switch {
	case c.Table == b.table.Name():
		return fmt.Errorf("%w: expected another table for what comes of the run", store.ErrInvalid)
	case b.Config.TableDim() != c.TableDim() || b.Config.NoEmbeddings != c.NoEmbeddings:
		return fmt.Errorf("%w: it has embeddings of %d numbers, the run %d: leave out options of the model", store.ErrInvalid, b.Config.TableDim(), c.TableDim())
	case len(was) > len(m.Schema.Relations) || !slices.EqualFunc(was, m.Schema.Relations[:len(was)], func(a, b store.Relation) bool { return a.Name == b.Name }):
		return fmt.Errorf("%w: it was trained on relations that this version of the store does not have", store.ErrInvalid)
	}
	return nil
}

// keepsState reports whether a run of c begins with the optimiser's state too.
func (b *Begin) keepsState(c *Config) bool {
	d, err := nn.NewDecoder(c.Model, c.Dim)
	return err == nil && d.Distances() && c.Encoder == noEncoder && c.Optimizer == b.Config.Optimizer
}

// carry returns the state of the parameters that a run of c begins with; fresh is that of new ones.
func (b *Begin) carry(c *Config, m *store.Manifest, fresh []byte) ([]byte, error) {
	from, err := b.Config.LinkModel(b.was.Manifest())
	if err != nil {
		return nil, err
	}
	to, err := c.LinkModel(m)
	if err != nil {
		return nil, err
	}
	state, err := to.Carry(&from, b.state, fresh, b.keepsState(c))
	if err != nil {
		return nil, fmt.Errorf("%w: %w: leave out options of the model", store.ErrInvalid, err)
	}
	return state, nil
}

// begin sets new parameters to those of the model that the run begins with, if it does with one.
func (s *session) begin(ctx context.Context, m *store.Manifest) error {
	b := s.cfg.Begin
	if b == nil {
		return nil
	}
	p := s.t.model.Params()
	fresh, err := p.SaveState(ctx, s.t.queue)
	if err != nil {
		return err
	}
	state, err := b.carry(s.cfg, m, fresh)
	if err != nil {
		return fmt.Errorf("train: begin with table %s: %w", s.cfg.From, err)
	}
	return p.LoadState(ctx, s.t.queue, state)
}
