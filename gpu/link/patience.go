package link

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// A run without a number of epochs has patience: it trains at the full learning rate until validation has not improved for
// Config.Patience epochs, or that rate's share of the run is over. In the first case it goes back to the best epoch, of which the
// table kept a checkpoint, and on from there as a run whose learning rate begins to fall at that epoch: its result is to the bit that
// of a run which was given as many epochs. Embeddings of a graph that is small for them learn it by heart at the full rate, and no
// falling one brings back what that lost (docs/accuracy.md, "Link prediction"). Epochs before those for which a learning rate is tried
// count for nothing: of a few mini-batches validation is noise, and TransE's is at its start.

// defaultPatience is the default of Config.Patience where a run has more epochs by default than [epochsLeast].
const defaultPatience = 5

// patience fills in what an open number of epochs means for a run on so many examples.
func (c *Config) patience(examples uint64) {
	if c.Patience > 0 {
		c.Epochs = run.EpochsMax
	} else if c.begins() {
		c.Epochs = max(epochsLeast, c.epochs(examples)/beginShare)
	} else if c.Epochs = c.epochs(examples); c.Epochs > epochsLeast && c.EvalEvery > 0 && c.LRDecay < 1 {
		c.Patience = defaultPatience
	}
	if c.Patience == 0 || c.trial(examples) < trialLeast {
		c.Rates = nil
	}
}

// decays is the share of the epochs in which the learning rate falls.
func (c *Config) decays() float64 {
	if c.LRDecay == noDecay {
		return 0
	}
	return c.LRDecay
}

// fullRate is how many of a run's first epochs have the full learning rate from beginning to end.
func fullRate(epochs int, decays float64) int { return int(float64(epochs) * (1 - decays)) }

// epochsOf is the number of epochs of the run whose learning rate begins to fall after so many.
func epochsOf(full int, decays float64) int {
	n := full
	for fullRate(n, decays) < full {
		n++
	}
	return n
}

// patient is how far a run with patience is.
type patient struct {
	Best    int     `json:"best,omitempty"`     // the best epoch so far, from 1; 0: none
	BestMRR float64 `json:"best_mrr,omitempty"` // its validation
	Settled bool    `json:"settled,omitempty"`  // the number of epochs is final
}

// looks reports whether the best epoch is still looked for.
func (s *session) looks() bool { return s.cfg.Patience > 0 && !s.patient.Settled }

// judge takes an epoch's validation, and says by s.rule whether the epoch is the best, and whether there were enough.
func (s *session) judge(r *Epoch) {
	if !s.looks() {
		return
	}
	if r.Valid != nil && r.Epoch >= s.trial && r.Valid.MRR > s.patient.BestMRR {
		s.patient.Best, s.patient.BestMRR = r.Epoch, r.Valid.MRR
	}
	if s.tries() {
		s.tried(r)
		return
	}
	s.rule.Best, s.rule.Enough = s.patient.Best, s.enough(r.Epoch)
	if !s.rule.Enough && r.Epoch >= fullRate(s.cfg.Epochs, s.cfg.decays()) {
		s.patient.Settled, s.rule.Best = true, 0
	}
}

// enough reports whether the run goes back to its best epoch after so many.
func (s *session) enough(epochs int) bool {
	best := s.patient.Best
	valid, last := s.due(epochs)
	if !s.looks() || best == 0 || !valid || epochs > fullRate(s.cfg.Epochs, s.cfg.decays()) {
		return false
	}
	return epochs-best >= s.cfg.Patience || last && epochs > best
}

// spare has the table keep the best epoch's checkpoint while it may be gone back to. at is where the last checkpoint stands.
func (s *session) spare(at run.Position) error {
	if s.cfg.Patience == 0 {
		return nil
	}
	if !s.looks() {
		return s.table.Spare()
	}
	if s.tries() {
		return nil // the beginning is spared
	}
	if at.Epoch != s.patient.Best || at.Within() {
		return nil
	}
	return s.table.Spare(s.table.LastCheckpoint().Number)
}

// spareBest has it keep the one of the best epoch that a run goes on with, and of a run that still chooses its learning rate the beginning.
func (s *session) spareBest(ctx context.Context) error {
	epoch := s.patient.Best
	if s.tries() {
		epoch = 0
	} else if !s.looks() || epoch == 0 {
		return nil
	}
	c, err := s.checkpointOf(ctx, epoch)
	if err != nil {
		return err
	}
	return s.table.Spare(c.Number)
}

// checkpointOf finds that of the end of an epoch, 0 for the beginning, among those that the table keeps.
func (s *session) checkpointOf(ctx context.Context, epoch int) (table.Checkpoint, error) {
	for _, c := range s.table.Checkpoints() {
		b, err := s.table.BlobOf(ctx, c, blobRun)
		if err != nil {
			return c, err
		}
		if p, err := decodeProgress(b); err == nil && p.Epoch == epoch && !p.Within() {
			return c, nil
		}
	}
	return table.Checkpoint{}, fmt.Errorf("train: %w: the checkpoint of epoch %d, the best one before checkpoint %d, is not kept any more: resume from another checkpoint",
		store.ErrNotFound, epoch, s.table.LastCheckpoint().Number)
}

// goBack makes the run one that goes on from its best epoch.
func (s *session) goBack(ctx context.Context, dev gpu.Device) error {
	best, err := s.checkpointOf(ctx, s.patient.Best)
	if err != nil {
		return err
	}
	err = s.rewind(ctx, dev, best, func() { s.cfg.Epochs = epochsOf(s.patient.Best, s.cfg.decays()) })
	if err != nil {
		return fmt.Errorf("train: back to epoch %d: %w", s.patient.Best, err)
	}
	s.patient.Settled = true
	if s.hooks.Back != nil {
		s.hooks.Back(s.patient.Best, s.cfg.Epochs)
	}
	return nil
}

// rewind makes the run one that goes on from a checkpoint, once change has said what is different this time.
func (s *session) rewind(ctx context.Context, dev gpu.Device, to table.Checkpoint, change func()) error {
	tried, written := s.sum, s.it.TableStats()
	if s.next != nil {
		s.next.wait()
		s.next = nil
	}
	if err := s.closeRun(); err != nil {
		return err
	}
	if err := s.table.GoBack(ctx, to.Number); err != nil {
		return err
	}
	var model []byte
	var err error
	if s.from, model, err = loadProgress(ctx, s.table); err != nil {
		return err
	}
	change()
	if err := s.prepare(ctx, dev, true); err != nil {
		return err
	}
	if err := s.open(ctx, dev, model); err != nil {
		return err
	}
	s.sum.discard(&tried)
	s.sum.addTable(written)
	if s.hooks.Rewind != nil {
		s.hooks.Rewind(*s.cfg, s.from.Epoch)
	}
	return nil
}
