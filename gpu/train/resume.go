package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu/modelfile"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/store"
)

// nodeProgress is where a run stands: with the parameters and the optimiser's state, all that it goes on from.
type nodeProgress struct {
	Version uint64          `json:"version"` // of the store
	Config  Config          `json:"config"`
	Epoch   int             `json:"epoch"` // finished epochs
	Place   progress.Place  `json:"place"` // in the epoch after those
	Totals  progress.Totals `json:"totals"`
	Best    float64         `json:"best"`  // validation accuracy of Summary.BestEpoch
	Ended   bool            `json:"ended"` // no epoch was to follow
	Summary Summary         `json:"summary"`
	// VectorTable are the learned vectors that lie in a table, of the best epoch as of then; nil without.
	VectorTable *VectorTable `json:"vector_table,omitempty"`
	// StateBytes of what follows are nn.Params.SaveState. The rest are the values that the unfinished epoch
	// began with, nn.Params.Save, where a history is a function of them.
	StateBytes int `json:"state_bytes"`
}

// Position is where the run of a checkpoint file stands.
type Position struct {
	Finished int   // epochs
	Batches  int64 // further mini-batches
	Ended    bool  // no epoch was to follow
}

// Unfinished reports whether something was trained and more was to be.
func (p Position) Unfinished() bool { return !p.Ended && (p.Finished > 0 || p.Batches > 0) }

// ReadPosition reads a file of [Config].CheckpointFile on fs.
func ReadPosition(fs vfs.FS, path string) (Position, error) {
	p := new(nodeProgress)
	if err := modelfile.ReadHead(fs, path, modelfile.NodeRun, p); err != nil {
		return Position{}, fmt.Errorf("train: checkpoint: %w", err)
	}
	return Position{Finished: p.Epoch, Batches: p.Totals.Batches, Ended: p.Ended}, nil
}

// resumeNode reads where the run that cfg resumes stands and sets cfg to what it goes on with. Where no such run was begun
// it is the beginning of one, and state is nil.
func resumeNode(fs vfs.FS, cfg *Config, m *store.Manifest) (_ *nodeProgress, state []byte, err error) {
	p := &nodeProgress{Version: m.Version, Best: -1}
	if !cfg.Resume || cfg.CheckpointFile == "" {
		return p, nil, cfg.Normalize()
	}
	b, err := modelfile.Read(fs, cfg.CheckpointFile)
	if errors.Is(err, os.ErrNotExist) {
		return p, nil, cfg.Normalize()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("train: resume: %w", err)
	}
	if state, err = modelfile.Decode(cfg.CheckpointFile, modelfile.NodeRun, b, p); err != nil {
		return nil, nil, err
	}
	if at := p.Place; p.StateBytes < 0 || p.StateBytes > len(state) || min(p.Epoch, at.Step, at.Pass, at.Batch) < 0 {
		return nil, nil, &blocks.CorruptError{Path: cfg.CheckpointFile, Extent: "model", Offset: -1,
			Reason: fmt.Sprintf("%d bytes of state in %d, epoch %d, place %+v", p.StateBytes, len(state), p.Epoch, at)}
	}
	if p.Version != m.Version {
		return nil, nil, fmt.Errorf("train: resume: the run began on version %d of the store, this is version %d: open that one, or begin afresh", p.Version, m.Version)
	}
	if c := &p.Config; c.History && c.relational() && c.MemoryBytes != cfg.MemoryBytes { // it decides how many tiles round
		return nil, nil, fmt.Errorf("train: resume: the run of model %s with a history began with %d bytes of memory, which decide its last bits, not with %d: give --mem as it was", c.Model, c.MemoryBytes, cfg.MemoryBytes)
	}
	if p.Config.PrecomputedHop && !p.Config.relational() && len(cfg.Features) > 0 { // chosen unasked, it added to what the user named
		cfg.Features = p.Config.withHops(cfg.Features)
	}
	if p.Config.Vectors == "" { // of a gstore that knew no table
		p.Config.Vectors = VectorsMemory
	}
	if p.Config.Mixture == "" { // of a gstore that knew no other
		p.Config.Mixture = MixtureRandom
	}
	cfg.Buffer = min(cfg.Buffer, len(m.Partitions)-len(m.Pinned)) // as the run took a larger one
	*cfg, err = progress.Resume(*cfg, p.Config, (*Config).Normalize)
	return p, state, err
}

// resume sets the model and the history to where s.from says.
func (s *session) resume(ctx context.Context, state []byte) error {
	params, q := s.t.model.Params(), s.t.queue
	if s.from.Totals.Batches > 0 && len(s.t.history) > 0 { // the history is that of the epoch's start
		if err := params.Load(ctx, q, state[s.from.StateBytes:]); err != nil {
			return err
		}
		if _, err := s.refreshHistory(ctx, s.from.Epoch, s.plan.epoch(s.from.Epoch)); err != nil {
			return err
		}
		s.began = state[s.from.StateBytes:]
	}
	if err := params.LoadState(ctx, q, state[:s.from.StateBytes]); err != nil {
		return err
	}
	if cs := s.from.Summary.Choices; cs != nil {
		if err := s.t.model.RestoreOrders(cs); err != nil {
			return err
		}
		if s.t.choices = cs; s.t.chosen != nil {
			s.t.chosen(cs)
		}
	}
	return nil
}

// checkpoint replaces the run's file by where the run stands; without one it does nothing.
func (s *session) checkpoint(ctx context.Context, epoch int, place progress.Place, sum progress.Totals) error {
	if s.cfg.CheckpointFile == "" {
		return nil
	}
	state, err := s.t.model.Params().SaveState(context.WithoutCancel(ctx), s.t.queue) // one that is begun is finished
	if err != nil {
		return err
	}
	p := nodeProgress{Version: s.version, Config: *s.cfg, Epoch: epoch, Place: place, Totals: sum, Best: s.best, Ended: sum.Batches == 0 && !s.more(epoch), Summary: s.total(), VectorTable: s.vectors.ref(), StateBytes: len(state)}
	if sum.Batches > 0 {
		state = append(state, s.began...)
	}
	var run []byte
	if s.vectors != nil {
		run, err = modelfile.Encode(modelfile.NodeRun, &p, state)
	}
	save := []func() error{func() error { return s.vectors.checkpoint(ctx, run) }, func() error { return modelfile.Save(s.fs, s.cfg.CheckpointFile, modelfile.NodeRun, &p, state) }}
	if epoch == 0 && sum.Batches == 0 { // there are rows for it already
		slices.Reverse(save)
	}
	for _, step := range save {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		return fmt.Errorf("train: epoch %d: checkpoint: %w", epoch+1, err)
	}
	s.clock.Reset()
	if s.hooks.Checkpoint != nil {
		s.hooks.Checkpoint(epoch, place.Step, place.Batch)
	}
	return nil
}

// interrupted makes a run that ctx ended one to resume from where it is: in epoch e, counted from 0, after its last
// mini-batch. Any other error, and one in the middle of an optimiser step, is returned as it is.
func (s *session) interrupted(ctx context.Context, e int, err error) error {
	if ctx.Err() == nil || s.t.stepping || !errors.Is(err, ctx.Err()) {
		return err
	}
	totals := s.soFar()
	if totals.Batches > 0 && !s.vectors.midEpoch() {
		return fmt.Errorf("train: interrupted in epoch %d after %d mini-batches: --resume goes on from the last checkpoint before it (%s), as a history of learned vectors in a table is of an epoch's start: %w", e+1, totals.Batches, s.cfg.CheckpointFile, err)
	}
	if s.cfg.CheckpointFile == "" {
		return fmt.Errorf("train: interrupted in epoch %d after %d mini-batches, without a file of checkpoints to resume from: %w", e+1, totals.Batches, err)
	}
	if failed := s.checkpoint(ctx, e, s.next, totals); failed != nil {
		return errors.Join(err, failed)
	}
	return progress.Interrupted(err, e+1, totals.Batches, s.cfg.CheckpointFile)
}

// begin keeps what a checkpoint in the middle of the epoch needs of its start.
func (s *session) begin(ctx context.Context) (err error) {
	s.began = nil
	if len(s.t.history) == 0 || s.cfg.CheckpointFile == "" {
		return nil
	}
	s.began, err = s.t.model.Params().Save(ctx, s.t.queue)
	return err
}

// total is the summary with what this process and those before it took.
func (s *session) total() Summary {
	out, was := s.sum, &s.from.Summary
	out.CPUSeconds = usage.CPUSeconds() - s.cpu + was.CPUSeconds
	out.PeakRSSBytes = max(usage.PeakRSSBytes(), was.PeakRSSBytes)
	out.TotalSeconds = was.TotalSeconds + time.Since(s.start).Seconds()
	out.EvalBytesRead = was.EvalBytesRead + s.eval.BytesRead()
	out.HistoryResidentBytes, out.HistoryRowBytes = s.t.history.memory(), was.HistoryRowBytes+s.t.history.rowBytesRead()
	out.FeatureResidentBytes = max(was.FeatureResidentBytes, s.t.featureBytes)
	out.Choices = s.t.choices
	moved := s.vectors.stats(s.it)
	out.BytesWritten, out.CheckpointBytes = was.BytesWritten+moved.EvictedBytes, was.CheckpointBytes+moved.FlushedBytes
	return out
}
