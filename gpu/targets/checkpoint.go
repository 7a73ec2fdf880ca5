package targets

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/modelfile"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// Checkpoint is a trained model: what [Predict] needs to use it again.
type Checkpoint struct {
	Version uint64  `json:"version"` // of the store that it was trained on
	Config  Config  `json:"config"`
	Summary Summary `json:"summary"`
	Table   string  `json:"table"` // of the entities
	// Encoding is what the store's columns mean; "" of models that were saved before it was kept.
	Encoding string        `json:"encoding,omitempty"`
	Task     database.Task `json:"task"`
	Mean     float64       `json:"mean"` // of a regression's targets, and their deviation
	Spread   float64       `json:"spread"`
	// Items tell the rows apart that can be recommended, of each of which there is a vector: hashes of their external ids.
	Items []uint64 `json:"items,omitempty"`
	// Parameters are those of encoders and head, and Layers those behind them in Params.
	Parameters []nn.Shape `json:"parameters"`
	Layers     []nn.Shape `json:"layers"`
	Params     []byte     `json:"-"` // little-endian float32, and behind them earlier targets
	// PastRows is how many earlier targets of entities those are; see [past].
	PastRows int `json:"past_rows,omitempty"`
}

// SaveFile writes the model to path, whole or not at all.
func (c *Checkpoint) SaveFile(path string) error {
	return modelfile.Save(vfs.Default, path, modelfile.Targets, c, c.Params)
}

// IsFile reports whether path is a file of [Checkpoint.SaveFile].
func IsFile(path string) bool { return modelfile.Is(path, modelfile.Targets) }

// LoadFile reads a model file. Damage is a [*blocks.CorruptError].
func LoadFile(path string) (*Checkpoint, error) {
	b, err := modelfile.Read(vfs.Default, path)
	if err != nil {
		return nil, fmt.Errorf("load model: %w", err)
	}
	c := new(Checkpoint)
	c.Params, err = modelfile.Decode(path, modelfile.Targets, b, c)
	return c, err
}

// checkpoint makes the model's values a checkpoint's.
func (m *model) checkpoint(ctx context.Context, c *Checkpoint) error {
	own, err := m.params.Save(ctx, m.q)
	if err != nil {
		return err
	}
	layers, err := m.gnn.Params().Save(ctx, m.q)
	if err != nil {
		return err
	}
	c.Mean, c.Spread, c.Parameters, c.Layers, c.Params = m.kind.mean, m.kind.spread, m.params.Shapes(), m.gnn.Params().Shapes(), append(own, layers...)
	return nil
}

// restore sets the model's values to a checkpoint's, and returns what stands behind them: earlier targets, or nothing.
func (m *model) restore(ctx context.Context, c *Checkpoint) (behind []byte, err error) {
	own, layers := m.params.Shapes(), m.gnn.Params().Shapes()
	if fmt.Sprint(own, layers) != fmt.Sprint(c.Parameters, c.Layers) {
		its, others := slices.Concat(c.Parameters, c.Layers), slices.Concat(own, layers)
		return nil, fmt.Errorf("the model has %s, of this store's tables it would have %s: %w", unlike(its, others), unlike(others, its), gpu.ErrShape)
	}
	n := bytesOf(own)
	end := n + bytesOf(layers)
	if end > len(c.Params) || end < len(c.Params) && c.PastRows == 0 {
		return nil, fmt.Errorf("%d bytes of parameters, expected %d: %w", len(c.Params), end, gpu.ErrShape)
	}
	m.kind.mean, m.kind.spread = c.Mean, c.Spread
	if err := m.params.Load(ctx, m.q, c.Params[:n]); err != nil {
		return nil, err
	}
	return c.Params[end:], m.gnn.Params().Load(ctx, m.q, c.Params[n:end])
}

// bytesOf is how many bytes parameters take in a model's file.
func bytesOf(list []nn.Shape) (n int) {
	for _, p := range list {
		n += 4 * p.Rows * p.Cols
	}
	return n
}

// unlike spells the first of a model's parameters that others has not.
func unlike(list, others []nn.Shape) string {
	for _, p := range list {
		if !slices.Contains(others, p) {
			return fmt.Sprintf("%s of %d × %d", p.Name, p.Rows, p.Cols)
		}
	}
	return "no other"
}

// unfinished is where a run stands. The model's state follows it in its file.
type unfinished = run.Unfinished[Config, Summary]

// resume reads where the run that cfg resumes stands, and sets cfg to what it goes on with. Where there is none a run begins.
func resume(cfg *Config, version uint64) (at unfinished, state []byte, err error) {
	at.Version = version
	file := cfg.CheckpointFile
	if !cfg.Resume {
		file = ""
	}
	state, err = at.Resume(file, modelfile.TargetsRun, cfg, (*Config).Normalize)
	return at, state, err
}

// keep replaces the run's file by where it stands.
func (m *model) keep(ctx context.Context, at *unfinished) error {
	own, err := m.params.SaveState(ctx, m.q)
	if err != nil {
		return err
	}
	layers, err := m.gnn.Params().SaveState(ctx, m.q)
	if err != nil {
		return err
	}
	budget.Mark(ctx, "checkpoint")
	return modelfile.Save(vfs.Default, m.cfg.CheckpointFile, modelfile.TargetsRun, at, binary.LittleEndian.AppendUint64(nil, uint64(len(own))), own, layers)
}

// goOn sets the model to what keep wrote.
func (m *model) goOn(ctx context.Context, state []byte) error {
	if len(state) < 8 || binary.LittleEndian.Uint64(state) > uint64(len(state)-8) {
		return fmt.Errorf("train: resume: %d bytes of state: %w", len(state), gpu.ErrShape)
	}
	n := binary.LittleEndian.Uint64(state)
	if err := m.params.LoadState(ctx, m.q, state[8:8+n]); err != nil {
		return err
	}
	return m.gnn.Params().LoadState(ctx, m.q, state[8+n:])
}
