package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/run"
)

// A decoder's run without a learning rate and a number of epochs tries those of Config.Rates: it trains a few epochs with each, from the
// same beginning, and then is the run of the one that validates best, to the bit. Which one that is differs from graph to graph, and the
// first epochs tell (docs/accuracy.md, "Link prediction").

// defaultRates is the default of Config.Rates.
var defaultRates = []float64{.1, .3}

// Each of them is tried for trialLeast epochs, or as many as make trialBatches mini-batches, within those of the full learning rate: what
// learns faster at first need not end higher, and the edges of a small graph are few mini-batches.
const (
	trialLeast   = 3
	trialBatches = 200
)

// TriedRate is what became of a learning rate that a run tried.
type TriedRate struct {
	LR       float64 `json:"lr"`
	ValidMRR float64 `json:"valid_mrr"` // after the epochs of its trial; 0: it diverged
}

// tryRates fills in defaults by t, and those of the learning rates that a run tries which has none.
func (c *Config) tryRates(t *options.Table[Config]) {
	given := c.LR != 0
	if !given && len(c.Rates) > 0 {
		c.LR = c.Rates[0]
	}
	t.Complete(c)
	if !given && c.Rates == nil && c.Epochs == 0 && c.Optimizer == adagrad && c.EvalEvery == 1 && !c.marius() {
		c.Rates = slices.Clone(defaultRates)
	}
}

// trial is how many epochs a rate is tried for, by a run on so many examples whose number of epochs is known.
func (c *Config) trial(examples uint64) int {
	return min(max(trialLeast, c.epochsFor(trialBatches, examples)), fullRate(c.Epochs, c.decays()))
}

// BestRate is the one that a run chooses of those it tried, of equals the first.
func BestRate(tried []TriedRate) TriedRate {
	return slices.MaxFunc(tried, func(a, b TriedRate) int { return cmp.Compare(a.ValidMRR, b.ValidMRR) })
}

// tries reports whether the run still chooses its learning rate.
func (s *session) tries() bool { return len(s.cfg.Rates) > 0 }

// tried counts an epoch's validation for the learning rate in hand, if it is the one that tells.
func (s *session) tried(r *Epoch) {
	if r.Epoch != s.trial {
		return
	}
	x := TriedRate{LR: s.cfg.LR}
	if r.Valid != nil { // a run that is resumed without evaluation has none
		x.ValidMRR = r.Valid.MRR
	}
	s.sum.Rates = append(s.sum.Rates, x)
}

// chooseRate tries what is left of s.cfg.Rates, if anything is, and leaves the run at its beginning with the best of them, or behind the
// epochs that were trained with it.
func (s *session) chooseRate(ctx context.Context, dev gpu.Device, every progress.Interval) error {
	for s.tries() {
		if n := len(s.sum.Rates); n == 0 || s.sum.Rates[n-1].LR != s.cfg.LR {
			_, err := s.trainFrom(ctx, every, s.trial)
			switch {
			case errors.Is(err, run.ErrDiverged):
				s.sum.Rates, s.patient = append(s.sum.Rates, TriedRate{LR: s.cfg.LR}), patient{}
			case err != nil:
				return err
			default:
				s.from.Position = run.Position{Epoch: s.trial}
			}
		}
		if n := len(s.sum.Rates); n < len(s.cfg.Rates) {
			if err := s.restart(ctx, dev, s.cfg.Rates[n]); err != nil {
				return err
			}
			continue
		}
		if err := s.takeRate(ctx, dev); err != nil {
			return err
		}
	}
	return nil
}

// takeRate makes the run that of the best rate. The one that was tried last need not be trained again: no run goes back that early.
func (s *session) takeRate(ctx context.Context, dev gpu.Device) error {
	best := BestRate(s.sum.Rates)
	s.cfg.Rates = nil
	if best.LR == s.cfg.LR && s.patient.Best == s.trial {
		if err := s.spareBest(ctx); err != nil {
			return err
		}
	} else if err := s.restart(ctx, dev, best.LR); err != nil {
		return err
	}
	if s.hooks.Rate != nil {
		s.hooks.Rate(*s.cfg, s.from.Epoch, s.sum.Rates)
	}
	return nil
}

// restart makes the run one that begins again with another learning rate.
func (s *session) restart(ctx context.Context, dev gpu.Device, rate float64) error {
	first, err := s.checkpointOf(ctx, 0)
	if err != nil {
		return err
	}
	if err := s.rewind(ctx, dev, first, func() { s.cfg.LR = rate }); err != nil {
		return fmt.Errorf("train: back to the beginning: %w", err)
	}
	return nil
}

// ratesWhy says that the run on so many examples tries learning rates, if it does.
func (c *Config) ratesWhy(examples uint64) string {
	if len(c.Rates) == 0 {
		return ""
	}
	var names []string
	for _, r := range c.Rates {
		names = append(names, fmt.Sprint(r))
	}
	return fmt.Sprintf("learning rate: the best by validation of %s after %d epochs", strings.Join(names, " and "), c.trial(examples))
}
