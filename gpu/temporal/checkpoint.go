package temporal

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/modelfile"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/store/budget"
)

// Checkpoint is a trained model: what [Evaluate] needs to use it again.
type Checkpoint struct {
	Version uint64  `json:"version"` // of the store that it was trained on
	Config  Config  `json:"config"`
	Summary Summary `json:"summary"`
	// Candidates have a vector each, the last rows of Params; nodes by external id. The parameters before them are Parameters, in their order.
	Candidates []uint32   `json:"candidates"`
	Parameters []nn.Shape `json:"parameters"`
	Params     []byte     `json:"-"` // little-endian float32
}

// SaveFile writes the model to path, whole or not at all.
func (c *Checkpoint) SaveFile(path string) error {
	return modelfile.Save(vfs.Default, path, modelfile.Temporal, c, c.Params)
}

// IsFile reports whether path is a file of [Checkpoint.SaveFile].
func IsFile(path string) bool { return modelfile.Is(path, modelfile.Temporal) }

// LoadFile reads a model file. Damage is a [*blocks.CorruptError].
func LoadFile(path string) (*Checkpoint, error) {
	b, err := modelfile.Read(vfs.Default, path)
	if err != nil {
		return nil, fmt.Errorf("load model: %w", err)
	}
	c := new(Checkpoint)
	if c.Params, err = modelfile.Decode(path, modelfile.Temporal, b, c); err != nil {
		return nil, err
	}
	left := int64(len(c.Params) / 4)
	for _, p := range append(c.Parameters, nn.Shape{Name: "vectors", Rows: len(c.Candidates), Cols: c.Config.Dim}) {
		if p.Rows < 0 || p.Cols < 1 || int64(p.Rows) > left/int64(p.Cols) {
			left = -1
			break
		}
		left -= int64(p.Rows) * int64(p.Cols)
	}
	if check := c.Config; left != 0 || check.Normalize() != nil {
		return nil, &blocks.CorruptError{Path: path, Extent: "model", Offset: -1, Reason: fmt.Sprintf("%d bytes of parameters of %d candidates, by %+v", len(c.Params), len(c.Candidates), c.Config)}
	}
	return c, nil
}

// checkpoint makes the model's values a checkpoint's.
func (m *model) checkpoint(ctx context.Context, d *data, c *Checkpoint) error {
	all, err := m.params.Save(ctx, m.q) // in the order of the list, which ends with the vectors
	if err != nil {
		return err
	}
	c.Parameters, c.Candidates = m.params.Shapes(), nil
	row := 4 * m.cfg.Dim
	vectors := all[len(all)-d.mb.Rows*row:]
	c.Params = append([]byte(nil), all[:len(all)-len(vectors)]...)
	for _, v := range d.candidates {
		c.Candidates = append(c.Candidates, d.mb.Keys[v])
		c.Params = append(c.Params, vectors[int(v)*row:][:row]...)
	}
	return nil
}

// restore sets the model's values to a checkpoint's. Nodes that it does not know keep the vectors that they began with.
func (m *model) restore(ctx context.Context, d *data, c *Checkpoint) error {
	own := m.params.Shapes()
	if fmt.Sprint(own) != fmt.Sprint(c.Parameters) {
		return fmt.Errorf("the model has parameters %v, of this store's features it would have %v: %w", c.Parameters, own, gpu.ErrShape)
	}
	all, err := m.params.Save(ctx, m.q)
	if err != nil {
		return err
	}
	row := 4 * m.cfg.Dim
	trained := len(c.Params) - len(c.Candidates)*row
	copy(all[:trained], c.Params)
	place := make(map[uint32]int, len(c.Candidates))
	for i, key := range c.Candidates {
		place[key] = i
	}
	for _, v := range d.candidates {
		if i, ok := place[d.mb.Keys[v]]; ok {
			copy(all[trained+int(v)*row:][:row], c.Params[trained+i*row:])
		}
	}
	return m.params.Load(ctx, m.q, all)
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
	state, err = at.Resume(file, modelfile.TemporalRun, cfg, (*Config).Normalize)
	return at, state, err
}

// keep replaces the run's file by where it stands.
func (m *model) keep(ctx context.Context, at *unfinished) error {
	state, err := m.params.SaveState(ctx, m.q)
	if err != nil {
		return err
	}
	moments := make([]byte, 4*(m.m.Len()+m.v.Len()))
	m.q.Download(moments[:4*m.m.Len()], m.m)
	m.q.Download(moments[4*m.m.Len():], m.v)
	if err := m.q.Sync(ctx); err != nil {
		return err
	}
	budget.Mark(ctx, "checkpoint")
	return modelfile.Save(vfs.Default, m.cfg.CheckpointFile, modelfile.TemporalRun, at, state, moments)
}

// goOn sets the model to what keep wrote.
func (m *model) goOn(ctx context.Context, state []byte) error {
	n := 4 * (m.m.Len() + m.v.Len())
	if len(state) < n {
		return fmt.Errorf("train: resume: %d bytes of state, expected more than %d: %w", len(state), n, gpu.ErrShape)
	}
	moments := state[len(state)-n:]
	m.q.Upload(m.m, moments[:n/2])
	m.q.Upload(m.v, moments[n/2:])
	return m.params.LoadState(ctx, m.q, state[:len(state)-n])
}
