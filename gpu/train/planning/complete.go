package planning

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
)

// Complete decides what a run does for neighbours that its plan leaves out of memory, or that plan pbs leaves out of a group,
// where c.Absent says so: it reads the precomputed hop if the store has one, in memory too, and keeps a history if the model can use one
// and the budget has room for it, unless the caller switched that off. Where partitions would nevertheless lose presentPoints or
// more, c is for plan rows, with batches of a half or a quarter where they fit and the caller left their size open. Where the model
// takes none of this, c stays as it is. It returns why, in sentences. c's defaults and c.Features must be filled in.
func Complete(c *config.Config, ctx context.Context, st *store.Store, info gpu.Info) (why []string, err error) {
	return CompleteOnce(c, ctx, st, info, new(Counted))
}

// CompleteOnce is Complete of a run whose draws are counted once. Before all else it decides where learned vectors are.
func CompleteOnce(c *config.Config, ctx context.Context, st *store.Store, info gpu.Info, once *Counted) (why []string, err error) {
	if why, err = chooseVectors(c, ctx, st, info, once); err != nil {
		return nil, err
	}
	absent, err := completeAbsent(c, ctx, st, info, once)
	return append(why, absent...), err
}

func completeAbsent(c *config.Config, ctx context.Context, st *store.Store, info gpu.Info, once *Counted) (why []string, err error) {
	m := st.Manifest()
	if c.Absent != config.AbsentAuto || len(c.Features) == 0 || c.PrecomputedHop && c.History {
		return nil, nil
	}
	hop, missing := readStoredHop(c, m)
	groups := c.DevicePlan == macro.DevicePBS // of plan memory
	if !groups && hop == nil && (c.Plan == macro.Memory || c.Plan == macro.Rows || c.Plan == "auto" && c.Buffer == 0 && c.MemoryBytes == 0) {
		return nil, nil // nothing is absent; known without reading topology directories
	}
	choice, err := Choose(c, ctx, st, info, once)
	if errors.Is(err, store.ErrBudget) || errors.Is(err, macro.ErrPlan) {
		return nil, nil // the run is refused as it is, with what would do
	}
	whole := func(policy string) bool { return !groups && (policy == macro.Memory || policy == macro.Rows) } // nothing is absent
	if err != nil || hop == nil && whole(choice.Policy) {
		return nil, err
	}
	try := func(change func(*config.Config), reason string) error {
		d := *c
		d.Features = slices.Clone(c.Features)
		if change(&d); d.Validate() != nil {
			return nil // not for this model
		}
		switch got, err := Choose(&d, ctx, st, info, once); {
		case errors.Is(err, store.ErrBudget):
			return nil // no room for it
		case err != nil:
			return err
		case d.History && !c.History && crowds(&d, got, choice):
			why = append(why, "no history is kept: it would leave room for less than half as many partitions at a time")
		case len(d.Hops) > len(c.Hops) && got.Policy == choice.Policy && got.Capacity < choice.Capacity:
			why = append(why, fmt.Sprintf("precomputed hops of relations are not read: beside them there is room for %d partitions at a time instead of %d (--precomputed-hop reads them)", got.Capacity, choice.Capacity))
		case got.Policy == choice.Policy, whole(got.Policy) && choice.Policy != macro.Memory: // mini-batches of a hop less may leave room for all
			*c, why, choice = d, append(why, reason), got
		}
		return nil
	}
	switch {
	case hop == nil:
		why = missing
	case whole(choice.Policy):
		err = try(hop.change, "the first layer reads "+hop.columns+", of all neighbours (--absent ignore draws them)")
	default:
		err = try(hop.change, "the first layer reads "+hop.columns+", which no absent neighbour is missing from")
	}
	if err != nil {
		return why, err
	}
	if c.History || whole(choice.Policy) {
		return why, err
	}
	without, said := *c, why
	if !refused(c, "history", c.History) {
		if few, err := fewAttended(c, ctx, st, info, once); err != nil {
			return why, err
		} else if few != "" {
			why, said = append(why, few), append(said, few)
		} else if err = try(func(d *config.Config) { d.History = true }, "absent neighbours' hidden states come from a history, an epoch old"); err != nil {
			return why, err
		}
	}
	if groups {
		return why, nil
	}
	d, reason, err := present(&without, ctx, st, info, once, c)
	if d == nil || err != nil {
		return why, err
	}
	*c = *d
	return append(said, reason), nil
}

// refused reports whether the caller switched off, by its JSON name, what would else be switched on unasked.
func refused(c *config.Config, name string, on bool) bool {
	return !on && slices.Contains(c.Given, name)
}

// storedHop is how a run would read the first hop that its store has precomputed.
type storedHop struct {
	columns string // for people
	change  func(*config.Config)
}

// readStoredHop is how c would read the hops that the store has for its model; nil where c reads them or there are none. Where the store
// has those of some features alone, missing says so.
func readStoredHop(c *config.Config, m *store.Manifest) (_ *storedHop, missing []string) {
	if c.PrecomputedHop || refused(c, "precomputed_hop", c.PrecomputedHop) {
		return nil, nil
	}
	if c.Relational() {
		hops := c.StoredHops(m)
		if len(hops) == 0 {
			return nil, nil
		}
		columns := fmt.Sprintf("%d precomputed hops of relations (%s, …)", len(hops), hops[0])
		return &storedHop{columns, func(d *config.Config) { d.PrecomputedHop, d.Hops = true, hops }}, nil
	}
	hopped := *c
	hopped.PrecomputedHop, hopped.Features = true, c.WithHops(c.Features)
	_, hops := hopped.OwnAndHops()
	without := slices.DeleteFunc(slices.Clone(hops), func(name string) bool {
		hop, err := m.Column(name)
		return err == nil && c.HopKind().Holds(hop)
	})
	switch {
	case len(without) == 0:
		return &storedHop{strings.Join(hops, ", "), func(d *config.Config) { d.PrecomputedHop, d.Features = true, hopped.Features }}, nil
	case len(without) < len(hops):
		return nil, []string{"the precomputed hop is not read: the store has no " + strings.Join(without, ", ") + " (" + c.PrecomputeCommand() + " makes what is missing)"}
	}
	return nil, nil
}

// attendedMin is the share of training nodes' neighbours in memory from which on gat keeps a history unasked.
const attendedMin = .4

// fewAttended says, in a sentence, why a run of gat keeps no history unasked: layers of attention that are trained by few neighbours and
// read the others' states of the epoch's start overshoot with every epoch (docs/lab/findings.md, "Attention to absent neighbours"). "" if
// it may keep one, or none goes with it.
func fewAttended(c *config.Config, ctx context.Context, st *store.Store, info gpu.Info, once *Counted) (string, error) {
	kept := *c
	if kept.History = true; c.Kind().History != nn.HistoryAttention || kept.Validate() != nil {
		return "", nil
	}
	o, err := expect(c, ctx, st, info, once)
	if err != nil || o == nil || o.Kept >= attendedMin {
		return "", err
	}
	return fmt.Sprintf("no history is kept: with %.0f %% of training nodes' neighbours within reach, fewer than %.0f, attention does worse with one (--history keeps it)", 100*o.Kept, 100*attendedMin), nil
}

// present is c with batches so small that all neighbours are within reach, by plan rows or in memory; nil where no such plan fits or is
// worth its reads, or where a run over partitions, as of parts, is not expected to lose as much as [lossLooked].
func present(c *config.Config, ctx context.Context, st *store.Store, info gpu.Info, once *Counted, parts *config.Config) (_ *config.Config, reason string, err error) {
	halvings := 0
	if c.BatchSizeAuto && c.Accumulate == 1 && len(c.VectorTypes) == 0 { // rows of a table step with every mini-batch
		halvings = 4
	}
	for i := range halvings + 1 {
		d := *c
		d.Features, d.BatchSize, d.Lossy = slices.Clone(c.Features), max(1, c.BatchSize>>i), true
		d.Accumulate = c.Accumulate << i // steps stay as large
		switch got, err := Policy(&d, ctx, st, info, once); {
		case errors.Is(err, store.ErrBudget):
			continue
		case err != nil:
			return nil, "", err
		case got != macro.Memory && got != macro.Rows:
			continue
		}
		o, err := expect(parts, ctx, st, info, once)
		if err != nil || o == nil || o.LossPoints < lossLooked(st.Manifest().Nodes) {
			return nil, "", err
		}
		reason := fmt.Sprintf("partitions would have %.0f %% of training nodes' neighbours within reach and lose about %.1f points of accuracy (a rough estimate)", 100*o.Kept, o.LossPoints)
		if i > 0 {
			reason += fmt.Sprintf("; batches of %d, %d of them a step, instead of %d leave room for all", d.BatchSize, d.Accumulate, c.BatchSize)
		}
		return &d, reason, nil
	}
	return nil, "", nil
}

// expect is what is to be expected of the plan that a run by c as it is would choose; nil where nothing is absent.
func expect(c *config.Config, ctx context.Context, st *store.Store, info gpu.Info, once *Counted) (_ *Outlook, err error) {
	y, err := OpenMemoryOnce(ctx, st, info, *c, once)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, y.Close()) }()
	p, err := y.plan(c.MemoryBytes)
	if err != nil {
		return nil, err
	}
	err = y.MixSteps(ctx, &p)
	return p.Outlook, err
}

// crowds reports whether the history of c would leave less than half of the partitions in memory that there are without it: steps of
// few nodes lose more than it gives back. Of models of relations it completes all layers, and is worth that.
func crowds(c *config.Config, with, without macro.Choice) bool {
	return c.MemoryBytes > 0 && c.Buffer == 0 && !c.Relational() && 2*with.Capacity < without.Capacity
}

// Policy is the plan that a run by c as it is would choose.
func Policy(c *config.Config, ctx context.Context, st *store.Store, info gpu.Info, once *Counted) (string, error) {
	choice, err := Choose(c, ctx, st, info, once)
	return choice.Policy, err
}

// Choose is what macro.Choose says of a run by c as it is.
func Choose(c *config.Config, ctx context.Context, st *store.Store, info gpu.Info, once *Counted) (_ macro.Choice, err error) {
	y, err := OpenMemoryOnce(ctx, st, info, *c, once)
	if err != nil {
		return macro.Choice{}, err
	}
	defer func() { err = errors.Join(err, y.Close()) }()
	p, err := y.plan(c.MemoryBytes)
	return p.Choice, err
}
