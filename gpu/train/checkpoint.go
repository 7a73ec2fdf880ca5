package train

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/modelfile"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
)

// Checkpoint is a trained model: what [Load] needs to use it again.
type Checkpoint struct {
	Version uint64        `json:"version"` // of the store that it was trained on
	Config  config.Config `json:"config"`
	Model   nn.Config     `json:"model"`
	Summary Summary       `json:"summary"`
	// ClassNames are those of the store that it was trained on, by number; nil where they have none.
	ClassNames []string `json:"class_names,omitempty"`
	// VectorTable are the learned vectors that are no parameters; nil: all are.
	VectorTable *VectorTable `json:"vector_table,omitempty"`
	Params      []byte       `json:"-"` // little-endian float32, see [nn.Params.Save]
}

// Classes are the names of the model's classes or labels: its own, or a store's; nil where they have none, and of numbers.
func (c *Checkpoint) Classes(m *store.Manifest) []string {
	names := c.ClassNames
	if names == nil {
		names = m.Schema.ClassNames
	}
	if c.Model.Numbers != nil || len(names) != c.Model.Out {
		return nil
	}
	return names
}

// Begin is what a run that begins with the model needs; an error where its learned vectors lie in a table.
func (c *Checkpoint) Begin() (*config.Begin, error) {
	if c.VectorTable != nil {
		return nil, store.Invalid(fmt.Errorf("train: the model's learned vectors lie in table %s of the store it was trained on: a run begins with models of --vectors memory alone", c.VectorTable.Name))
	}
	return &config.Begin{Config: c.Config, Model: c.Model, ClassNames: c.ClassNames, Params: c.Params}, nil
}

// decodeCheckpoint returns what is in a model file; path names the source in errors,
// which are those of [modelfile.Decode].
func decodeCheckpoint(path string, b []byte) (*Checkpoint, error) {
	c := new(Checkpoint)
	params, err := modelfile.Decode(path, modelfile.Node, b, c)
	if err != nil {
		return nil, err
	}
	c.Params = params
	if err := c.Model.CheckFloats(int64(len(params) / 4)); err != nil {
		return nil, &blocks.CorruptError{Path: path, Extent: "model", Offset: int64(len(b) - modelfile.TailSize - len(params)), Reason: err.Error()}
	}
	return c, nil
}

// SaveFile writes the checkpoint to path, whole or not at all.
func (c *Checkpoint) SaveFile(path string) error {
	return modelfile.Save(vfs.Default, path, modelfile.Node, c, c.Params)
}

// LoadFile reads a model file. One of another kind is [modelfile.ErrKind].
func LoadFile(path string) (*Checkpoint, error) {
	b, err := modelfile.Read(vfs.Default, path)
	if err != nil {
		return nil, fmt.Errorf("train: load model: %w", err)
	}
	return decodeCheckpoint(path, b)
}

// VerifyFile checks the checksum and the description of a model file or of a run's checkpoint, on fs. Damage is a
// [*blocks.CorruptError].
func VerifyFile(fs vfs.FS, path string) error {
	b, err := modelfile.Read(fs, path)
	if err != nil {
		return fmt.Errorf("train: verify: %w", err)
	}
	run := bytes.HasPrefix(b, []byte(modelfile.NodeRun)) || bytes.HasPrefix(b, []byte(modelfile.TemporalRun)) || bytes.HasPrefix(b, []byte(modelfile.TargetsRun))
	model := bytes.HasPrefix(b, []byte(modelfile.Node)) || bytes.HasPrefix(b, []byte(modelfile.Temporal)) || bytes.HasPrefix(b, []byte(modelfile.Targets))
	switch ext := filepath.Ext(path); {
	case run && ext == store.ModelExtension:
		return &blocks.CorruptError{Path: path, Extent: "file", Offset: -1, Reason: "it holds an unfinished run, expected a model"}
	case model && ext == store.RunExtension:
		return &blocks.CorruptError{Path: path, Extent: "file", Offset: -1, Reason: "it holds a model, expected an unfinished run"}
	}
	for magic, head := range map[string]any{modelfile.NodeRun: new(nodeProgress), modelfile.Temporal: new(json.RawMessage), modelfile.TemporalRun: new(json.RawMessage),
		modelfile.Targets: new(json.RawMessage), modelfile.TargetsRun: new(json.RawMessage)} {
		if bytes.HasPrefix(b, []byte(magic)) {
			_, err = modelfile.Decode(path, magic, b, head)
			return err
		}
	}
	_, err = decodeCheckpoint(path, b)
	return err
}
