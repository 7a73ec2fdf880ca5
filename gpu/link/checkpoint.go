package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/table"
)

// Blobs of a table's checkpoint.
const (
	blobRun   = "run"   // position as JSON
	blobModel = "model" // nn.Params.SaveState
)

// position is where a run stands: with the table and the model, all that it goes on from.
type position struct {
	Config Config `json:"config"`
	run.Position
	patient
	Summary Summary `json:"summary"`
}

// Checkpointed describes the run behind a table of embeddings.
type Checkpointed struct {
	Config  Config
	Epochs  int     // finished
	Middle  bool    // further mini-batches of the next epoch were trained
	Summary Summary // of those
	Model   []byte  // parameters and optimiser state: what nn.Params.LoadState reads
}

// Load reads what a table's last checkpoint says of the run that made it, for
// export and evaluation.
func Load(ctx context.Context, t *table.Table) (*Checkpointed, error) {
	p, model, err := loadProgress(ctx, t)
	if err != nil {
		return nil, err
	}
	return &Checkpointed{Config: p.Config, Epochs: p.Epoch, Middle: p.Within(), Summary: p.Summary, Model: model}, nil
}

func loadProgress(ctx context.Context, t *table.Table) (*position, []byte, error) {
	b, err := t.Blob(ctx, blobRun)
	if err != nil {
		return nil, nil, err
	}
	p, err := decodeProgress(b)
	if err != nil {
		return nil, nil, &blocks.CorruptError{Path: t.Path(), Extent: "checkpoint, run", Offset: -1, Reason: err.Error()}
	}
	model, err := t.Blob(ctx, blobModel)
	return p, model, err
}

// decodeProgress reads blobRun. What runs that began with earlier versions do not say is what those did.
func decodeProgress(b []byte) (*position, error) {
	p := &position{Config: Config{Preset: PresetMarius, N3: new(float64), NegativesFor: ForThemselves, DenseRate: 1, LRDecay: noDecay, RemoveBatchEdges: new(bool), Absent: AbsentIgnore, NegativesFrom: FromResident, Against: eval.AgainstAll}}
	return p, json.Unmarshal(b, p)
}

// resumeTable opens the table of the run that cfg resumes and sets cfg to what it goes on with.
// Where no such run was begun all results are nil.
func resumeTable(ctx context.Context, st *store.Store, cfg *Config) (_ *table.Table, _ *position, model []byte, err error) {
	name := cfg.Table
	if name == "" {
		name = defaultTable
	}
	t, err := table.Open(ctx, st, table.Options{Name: name, Checkpoint: cfg.FromCheckpoint})
	if errors.Is(err, store.ErrNotFound) && cfg.FromCheckpoint == 0 {
		return nil, nil, nil, nil
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("train: resume: %w", err)
	}
	p, model, err := loadProgress(ctx, t)
	if err == nil {
		cfg.Buffer = min(cfg.Buffer, len(st.Manifest().Partitions)) // as the run took a larger one
		*cfg, err = progress.Resume(*cfg, p.Config, (*Config).Normalize)
	}
	if err == nil && cfg.LRDecay != noDecay && cfg.Epochs != p.Config.Epochs {
		err = fmt.Errorf("train: resume: the run's learning rate falls to 0 at the end of epoch %d, not %d: leave the epochs out or begin afresh (without decay their number may change)",
			p.Config.Epochs, cfg.Epochs)
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, t.Close())
	}
	return t, p, model, nil
}

// createTable makes the table of a run that begins, in the place of an earlier run's. Its first checkpoint
// is one to resume from. Whatever can be found wrong with the run must have been found: the earlier one is lost.
func createTable(ctx context.Context, st *store.Store, cfg *Config, blobs []table.Blob) (*table.Table, error) {
	o := table.Options{Name: cfg.Table, Dim: cfg.TableDim(), States: cfg.TablePlanes() - 1, Keep: cfg.KeepCheckpoints, Replace: true, Blobs: blobs}
	if cfg.Patience > 0 { // and the best epoch's
		o.Keep = min(o.Keep+1, table.CheckpointsMax)
	}
	switch {
	case cfg.NoEmbeddings:
	case cfg.Begin != nil:
		var err error
		if o.From, err = cfg.Begin.rows(st, cfg); err != nil {
			return nil, err
		}
	default:
		o.Init = InitRows(cfg.Seed, cfg.Dim, embeddingScale)
	}
	t, err := table.Create(ctx, st, o)
	if err != nil {
		return nil, fmt.Errorf("train: embeddings: %w", err)
	}
	return t, nil
}

// Checkpoint implements [run.Task].
func (s *session) Checkpoint(ctx context.Context, at run.Position) error {
	if finite, err := s.t.model.Params().Finite(ctx, s.t.queue); err != nil {
		return err
	} else if !finite {
		return fmt.Errorf("train: epoch %d: %w", at.Last(), s.t.diverged("parameters are no finite numbers"))
	}
	blobs, err := s.t.blobs(ctx, &position{Config: *s.cfg, Position: at, patient: s.patient, Summary: s.sum})
	if err != nil {
		return err
	}
	if err := s.it.Checkpoint(ctx, blobs...); err != nil {
		return fmt.Errorf("train: epoch %d: %w", at.Last(), err)
	}
	if err := s.spare(at); err != nil {
		return err
	}
	if s.hooks.Checkpoint != nil {
		s.hooks.Checkpoint(s.table.LastCheckpoint().Number, at.Epoch, at.Place.Step, at.Place.Batch)
	}
	return nil
}

// blobs is what a checkpoint holds beside the table.
func (t *trainer) blobs(ctx context.Context, p *position) ([]table.Blob, error) {
	model, err := t.model.Params().SaveState(ctx, t.queue)
	if err != nil {
		return nil, err
	}
	run, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("train: checkpoint: %w", err)
	}
	return []table.Blob{{Name: blobRun, Data: run}, {Name: blobModel, Data: model}}, nil
}

// embeddings are the learned vectors and the optimiser's state of the resident
// partitions, all [rows × dim] and numbered like a macro-batch's rows: its planes.
type embeddings struct {
	mems  []gpu.Memory
	value gpu.Tensor
	state []gpu.Tensor // Adagrad's sums of squares, or Adam's moments
}

// mapEmbeddings views a macro-batch's planes, which are the same memory for all macro-batches.
func mapEmbeddings(dev gpu.Device, mb *buffer.MacroBatch, dim int) (*embeddings, error) {
	e := new(embeddings)
	for _, plane := range mb.Planes {
		mem, err := dev.Map(floatBytes(plane))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("train: embeddings of %d rows: %w", mb.Rows, err), e.close())
		}
		e.mems = append(e.mems, mem)
	}
	e.value = gpu.MatrixOf(e.mems[0], 0, mb.Rows, dim)
	for _, mem := range e.mems[1:] {
		e.state = append(e.state, gpu.MatrixOf(mem, 0, mb.Rows, dim))
	}
	return e, nil
}

func (e *embeddings) close() error {
	var errs []error
	for _, m := range e.mems {
		errs = append(errs, m.Free())
	}
	return errors.Join(errs...)
}
