package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/safetensors"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
)

// tensorsExtension is that of files of tensors: the description has the same name with .json.
const tensorsExtension = ".safetensors"

// Load reads a model of node classification for a store: a run's file; or what [Node] describes, which Python's
// gstore.save_model writes too: the folder, or the file of tensors in it. A model that reads another kind of graph, or
// features that were standardised otherwise, is refused; so is one whose files are not what was written, by their checksums. Of
// one without checksums standard error tells.
func Load(e *command.Env, m *store.Manifest, path string) (*train.Checkpoint, error) {
	if strings.HasSuffix(path, tensorsExtension) {
		return load(e, m, strings.TrimSuffix(path, tensorsExtension)+".json", path)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return load(e, m, filepath.Join(path, descriptionFile), filepath.Join(path, tensorsFile))
	}
	return train.LoadFile(path)
}

// load reads the two files of an exported model.
func load(e *command.Env, m *store.Manifest, describes, holds string) (*train.Checkpoint, error) {
	text, err := os.ReadFile(describes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s, which describes a model's layers (docs/models.md): gstore export --what model and Python's gstore.save_model write it", store.ErrNotFound, describes)
	}
	if err != nil {
		return nil, err
	}
	var trained struct {
		Split string `json:"split"` // of a model that gstore trained
	}
	d := description{Config: &trained}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, &blocks.CorruptError{Path: describes, Extent: "description", Offset: -1, Reason: err.Error(), Cause: err}
	}
	held, err := os.ReadFile(holds)
	if err != nil {
		return nil, err
	}
	checked, err := d.checked(describes, text, holds, held)
	if err != nil {
		return nil, err
	}
	if d.Task != store.TaskNode {
		return nil, fmt.Errorf("%s: a model of task %q, expected %s", describes, d.Task, store.TaskNode)
	}
	parameters, err := readParameters(holds, held)
	if err == nil {
		err = d.matches(holds, parameters)
	}
	if err != nil {
		return nil, err
	}
	c := &train.Checkpoint{Version: d.Version, ClassNames: d.Classes, Config: config.Config{Task: d.Task, Split: trained.Split}}
	if c.Model, c.Params, err = nn.FromLayers(d.Layers, d.Jumping, parameters); err != nil {
		return nil, fmt.Errorf("%s: %w", describes, err)
	}
	if c.Model.Numbers = d.Numbers; d.Numbers != nil && (c.Model.Out != 1 || !(d.Numbers.Deviation > 0)) {
		return nil, fmt.Errorf("%w: %s: numbers of deviation %v, and %d outputs, expected more than 0, and 1", store.ErrInvalid, describes, d.Numbers.Deviation, c.Model.Out)
	}
	if c.Model.MultiLabel = d.MultiLabel; d.MultiLabel && d.Numbers != nil {
		return nil, fmt.Errorf("%w: %s: outputs are numbers and of several labels, expected one of both", store.ErrInvalid, describes)
	}
	if err := d.fits(m); err != nil {
		return nil, fmt.Errorf("%s: %w", describes, err)
	}
	if len(d.Classes) > 0 && len(d.Classes) != c.Model.Out {
		return nil, fmt.Errorf("%w: %s: %d classes are named, the last layer has %d", store.ErrInvalid, describes, len(d.Classes), c.Model.Out)
	}
	if !checked {
		fmt.Fprintf(e.Stderr, "gstore: %s carries no checksum: whether it is what was written is not known\n", describes)
	}
	c.Config.Model = c.Model.Model
	for _, f := range d.Features {
		c.Config.Features = append(c.Config.Features, f.Column)
	}
	for _, f := range d.EdgeFeatures {
		c.Config.EdgeFeatures = append(c.Config.EdgeFeatures, f.Column)
	}
	return c, nil
}

// readParameters reads a file of tensors, which has b in it; a bias may have one dimension.
func readParameters(path string, b []byte) ([]nn.Parameter, error) {
	tensors, err := safetensors.Decode(path, b)
	if err != nil {
		return nil, err
	}
	var ps []nn.Parameter
	for _, t := range tensors {
		if len(t.Shape) == 1 {
			t.Shape = []int64{1, t.Shape[0]}
		}
		if t.DType != safetensors.DType(blocks.Float32) || len(t.Shape) != 2 {
			return nil, fmt.Errorf("%s: tensor %s is %v of %s, expected two dimensions of F32", path, t.Name, t.Shape, t.DType)
		}
		ps = append(ps, nn.Parameter{Name: t.Name, Rows: int(t.Shape[0]), Cols: int(t.Shape[1]), Values: t.Data})
	}
	return ps, nil
}

// fits says what of the store is not as the model was trained on; that it has the features is checked by [train.Checkpoint.Evaluate].
func (d *description) fits(m *store.Manifest) error {
	kind := map[bool]string{false: "directed", true: "undirected"}
	if d.Undirected != m.Schema.Undirected {
		return fmt.Errorf("the model is of a graph that is %s, the store's is %s", kind[d.Undirected], kind[m.Schema.Undirected])
	}
	for _, f := range slices.Concat(d.Features, d.EdgeFeatures) {
		x, err := m.Column(f.Column)
		if err != nil {
			return err
		}
		s := x.Standard
		if s == nil {
			s = new(store.Standard)
		}
		if !alike(f.Mean, s.Mean) || !alike(f.Deviation, s.Deviation) {
			return fmt.Errorf("feature %s: the model's values are standardised otherwise than the store's (%d and %d columns have a mean): take the store that it was trained on, or one appended to it", f.Column, len(f.Mean), len(s.Mean))
		}
	}
	return nil
}

// alike reports whether a and b are the same but for rounding to float32.
func alike(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-6*max(math.Abs(a[i]), math.Abs(b[i])) {
			return false
		}
	}
	return true
}
