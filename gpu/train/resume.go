package train

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu/modelfile"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
)

// nodeProgress is where a run stands: with the parameters and the optimiser's state, all that it goes on from.
type nodeProgress struct {
	Version uint64        `json:"version"` // of the store
	Config  config.Config `json:"config"`
	run.Position
	Best    float64 `json:"best"`  // validation accuracy of Summary.BestEpoch, balanced with class weights
	Ended   bool    `json:"ended"` // no epoch was to follow
	Summary Summary `json:"summary"`
	// Plateaus are those so far; nil of a schedule that does not ask for them.
	Plateaus *plateaus `json:"plateaus,omitempty"`
	// VectorTable are the learned vectors that lie in a table, of the best epoch as of then; nil without.
	VectorTable *VectorTable `json:"vector_table,omitempty"`
	// StateBytes of what follows are nn.Params.SaveState. The rest are the values that the unfinished epoch
	// began with, nn.Params.Save, where a history is a function of them.
	StateBytes int `json:"state_bytes"`

	fitted string // [config.Config.Fit], of a run that begins
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
func resumeNode(fs vfs.FS, cfg *config.Config, m *store.Manifest) (_ *nodeProgress, state []byte, err error) {
	p := &nodeProgress{Version: m.Version, Best: -1}
	if !cfg.Resume || cfg.CheckpointFile == "" {
		p.fitted = cfg.Fit(m)
		return p, nil, cfg.Normalize()
	}
	if state, err = run.Find(fs, cfg.CheckpointFile, modelfile.NodeRun, p); err != nil {
		return nil, nil, err
	}
	if state == nil {
		p.fitted = cfg.Fit(m)
		return p, nil, cfg.Normalize()
	}
	if at := p.Place; p.StateBytes < 0 || p.StateBytes > len(state) || min(p.Epoch, at.Step, at.Pass, at.Batch) < 0 {
		return nil, nil, &blocks.CorruptError{Path: cfg.CheckpointFile, Extent: "model", Offset: -1,
			Reason: fmt.Sprintf("%d bytes of state in %d, epoch %d, place %+v", p.StateBytes, len(state), p.Epoch, at)}
	}
	if err := run.SameVersion(p.Version, m.Version); err != nil {
		return nil, nil, err
	}
	if p.Config.PrecomputedHop && !p.Config.Relational() && len(cfg.Features) > 0 { // chosen unasked, it added to what the user named
		cfg.Features = p.Config.WithHops(cfg.Features)
	}
	if p.Config.Vectors == "" && len(p.Config.OwnVectors(m)) > 0 { // of a gstore that knew no table
		p.Config.Vectors = config.VectorsMemory
	}
	if p.Config.Mixture == "" { // of a gstore that knew no other
		p.Config.Mixture = config.MixtureRandom
	}
	cfg.Buffer = min(cfg.Buffer, len(m.Partitions)-len(m.Pinned)) // as the run took a larger one
	if *cfg, err = progress.Resume(*cfg, p.Config, (*config.Config).Normalize); err == nil {
		err = cfg.CheckResumed(&p.Config)
	}
	return p, state, err
}

// resume sets the model and the history to where s.from says.
func (s *session) resume(ctx context.Context, state []byte) error {
	params, q := s.t.model.Params(), s.t.queue
	if s.from.Within() && len(s.t.history) > 0 { // the history is that of the epoch's start
		if err := params.Load(ctx, q, state[s.from.StateBytes:]); err != nil {
			return err
		}
		if _, err := s.refreshHistory(ctx, s.from.Epoch, s.plan.Epoch(s.from.Epoch)); err != nil {
			return err
		}
		s.began = slices.Clone(state[s.from.StateBytes:])
	}
	if err := params.LoadState(ctx, q, state[:s.from.StateBytes]); err != nil {
		return err
	}
	if cs := s.from.Summary.Choices; cs != nil {
		if err := s.t.model.RestoreOrders(cs); err != nil {
			return err
		}
		s.t.ordered(cs)
	}
	return nil
}

// Checkpoint implements [run.Task]: it replaces the run's file.
func (s *session) Checkpoint(ctx context.Context, at run.Position) error {
	state, err := s.t.model.Params().SaveStateInto(ctx, s.t.queue, s.state)
	if err != nil {
		return err
	}
	within := at.Within()
	p := nodeProgress{Version: s.version, Config: *s.cfg, Position: at, Best: s.best, Ended: !within && !s.run.Rule.More(at.Epoch), Summary: s.total(),
		VectorTable: s.vectors.ref(), StateBytes: len(state)}
	if s.cfg.LRSchedule == config.SchedulePlateau {
		p.Plateaus = &s.flat
	}
	s.state = state // whose memory the next one takes
	params := [][]byte{state}
	if within {
		params = append(params, s.began)
	}
	var blob []byte
	if s.vectors != nil {
		blob, err = modelfile.Encode(modelfile.NodeRun, &p, params...)
	}
	budget.Mark(ctx, "checkpoint")
	save := []func() error{
		func() error { return s.vectors.checkpoint(ctx, blob) },
		func() error { return modelfile.Save(s.fs, s.cfg.CheckpointFile, modelfile.NodeRun, &p, params...) },
	}
	if at.Epoch == 0 && !within { // there are rows for it already
		slices.Reverse(save)
	}
	for _, step := range save {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		return fmt.Errorf("train: epoch %d: checkpoint: %w", at.Last(), err)
	}
	if s.hooks.Checkpoint != nil {
		s.hooks.Checkpoint(at.Epoch, at.Place.Step, at.Place.Batch)
	}
	return nil
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
	out.EvalBytesRead = was.EvalBytesRead + s.eval.BytesRead() + s.looked
	states := s.eval.Spilled()
	out.StateBytesRead, out.StateBytesWritten, out.ComputedRows = was.StateBytesRead+states.Read, was.StateBytesWritten+states.Written, was.ComputedRows+s.eval.Computed()
	out.HistoryResidentBytes, out.HistoryRowBytes = s.t.history.Memory(), was.HistoryRowBytes+s.t.history.RowBytesRead()
	out.FeatureResidentBytes = max(was.FeatureResidentBytes, s.t.featureBytes)
	out.Choices = s.t.choices
	moved := s.vectors.stats(s.it)
	out.BytesWritten, out.CheckpointBytes = was.BytesWritten+moved.EvictedBytes+states.Written, was.CheckpointBytes+moved.FlushedBytes
	out.BytesRead = out.TrainBytesRead + out.EvalBytesRead + out.StateBytesRead + out.HistoryRowBytes
	return out
}
