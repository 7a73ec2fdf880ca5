package models

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/safetensors"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/gpu/temporal"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/export"
	"github.com/gstore/gstore/tools/cli/command"
)

// Files that a model is exported to.
const (
	tensorsFile     = "model.safetensors"
	descriptionFile = "model.json"
)

func isMissing(err error) bool { return errors.Is(err, store.ErrNotFound) }

// description is model.json.
type description struct {
	Task    string `json:"task"`
	Model   string `json:"model"` // of link prediction: the decoder
	Encoder string `json:"encoder,omitempty"`
	From    string `json:"from"` // which one of the store's
	Version uint64 `json:"version"`
	Tensors string `json:"tensors_file"`
	// Checksums in hexadecimal digits: of the file of tensors, and of this one with zeros for its own. "": not known.
	TensorsSum string `json:"tensors_sha256,omitempty"`
	Sum        string `json:"description_sha256,omitempty"`

	Features []feature `json:"features,omitempty"` // that are the input, side by side
	// Of node classification.
	EdgeFeatures []feature `json:"edge_features,omitempty"` // columns of edges that attention reads, side by side
	Classes      []string  `json:"classes,omitempty"`
	// Numbers: the one output is a number, output × deviation + mean.
	Numbers *nn.NumberScale `json:"numbers,omitempty"`
	// MultiLabel: the outputs are logits of labels of which a node has any number.
	MultiLabel bool   `json:"multi_label,omitempty"`
	Jumping    string `json:"jumping,omitempty"`
	// Of link prediction.
	Dim          int    `json:"dim,omitempty"`
	Table        string `json:"table,omitempty"`
	EmbeddingsAt string `json:"embeddings,omitempty"` // how they leave the store
	// Inverse is the first row of tensor relations that is of an inverse relation.
	Inverse int `json:"inverse_relations_from,omitempty"`

	Undirected bool           `json:"undirected"`
	Relations  []string       `json:"relations,omitempty"`
	Layers     []nn.LayerInfo `json:"layers"`
	Parameters []parameter    `json:"parameters"`
	Config     any            `json:"config"`
}

// feature is a column of the input. Its values reach the model as (value − mean) / deviation, where the store standardised them.
type feature struct {
	Column    string    `json:"column"`
	Columns   int       `json:"columns,omitempty"` // missing where this store has no such column
	Mean      []float64 `json:"mean,omitempty"`
	Deviation []float64 `json:"deviation,omitempty"`
}

// features describes columns that a run read.
func features(m *store.Manifest, names []string) (list []feature) {
	for _, name := range names {
		f := feature{Column: name}
		if x, err := m.Column(name); err == nil {
			f.Columns = x.Dim
			if x.Standard != nil {
				f.Mean, f.Deviation = x.Standard.Mean, x.Standard.Deviation
			}
		}
		list = append(list, f)
	}
	return list
}

// parameter says what a tensor of the file is.
type parameter struct {
	Name  string   `json:"name"`
	DType string   `json:"dtype"`
	Shape [2]int64 `json:"shape"`
}

// Described is a model as files for [export.Options].
type Described struct {
	Files     []export.Attachment
	Which     string // which one of the store's it is
	HeldBytes int64  // of memory that the files take until they are written
}

// Node describes the model that [Find] finds.
func Node(ctx context.Context, e *command.Env, st *store.Store, checkpoint string) (*Described, error) {
	path, which, err := Find(ctx, st, checkpoint)
	if err != nil {
		return nil, err
	}
	m := st.Manifest()
	if temporal.IsFile(path) {
		return nil, fmt.Errorf("%w: a model to export: %s is of edges at moments (train --task temporal), which eval and predict take as it is; --checkpoint N names another run", store.ErrNotFound, which)
	}
	if targets.IsFile(path) {
		return nil, fmt.Errorf("%w: a model to export: %s is of targets of rows (train --targets), which predict takes as it is; --checkpoint N names another run", store.ErrNotFound, which)
	}
	cp, err := Load(e, m, path)
	if err == nil {
		cp, err = cp.Inline(ctx, st)
	}
	if err != nil {
		return nil, err
	}
	parameters, err := cp.Model.Parameters(cp.Params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d := description{Task: store.TaskNode, Model: cp.Config.Model, From: which, Version: cp.Version, Features: features(m, cp.Config.OwnFeatures()), EdgeFeatures: features(m, cp.Config.EdgeFeatures), Classes: cp.ClassNames,
		Layers: cp.Model.LayerInfos(), Config: cp.Config, Jumping: "last", Numbers: cp.Model.Numbers, MultiLabel: cp.Model.MultiLabel}
	if d.Classes == nil { // of a model file of an earlier version
		d.Classes = m.Schema.ClassNames
	}
	if cp.Model.Jumps() {
		d.Jumping = cp.Model.Jumping
	}
	return attach(m, d, parameters, int64(len(cp.Params)))
}

// Link describes the model behind a table of embeddings like [Node].
func Link(ctx context.Context, st *store.Store, name, checkpoint string) (_ *Described, err error) {
	t, err := OpenTable(ctx, st, name, checkpoint)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	c, err := link.Load(ctx, t)
	if err != nil {
		return nil, err
	}
	m := st.Manifest()
	model, err := c.Config.LinkModel(m)
	if err != nil {
		return nil, err
	}
	parameters, err := model.Parameters(c.Model)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", c.Config.Table, err)
	}
	which := fmt.Sprintf("table %s, checkpoint %d, after %d epochs", c.Config.Table, t.LastCheckpoint().Number, c.Epochs)
	d := description{Task: store.TaskLink, Model: model.Decoder, Encoder: model.Encoder, From: which, Version: m.Version, Dim: model.Dim, Table: c.Config.Table,
		Features: features(m, c.Config.Features), EmbeddingsAt: "gstore export --what embeddings", Layers: model.LayerInfos(), Config: c.Config, Inverse: model.Relations}
	if model.NoEmbeddings {
		d.EmbeddingsAt = ""
	}
	return attach(m, d, parameters, int64(len(c.Model)))
}

// attach makes the two files.
func attach(m *store.Manifest, d description, parameters []nn.Parameter, held int64) (*Described, error) {
	d.Tensors, d.Undirected = tensorsFile, m.Schema.Undirected
	for _, r := range m.Schema.Relations {
		d.Relations = append(d.Relations, r.Name)
	}
	if d.Layers == nil {
		d.Layers = []nn.LayerInfo{}
	}
	var tensors []safetensors.Tensor
	for _, p := range parameters {
		shape := []int64{int64(p.Rows), int64(p.Cols)}
		d.Parameters = append(d.Parameters, parameter{p.Name, safetensors.DType(blocks.Float32), [2]int64(shape)})
		tensors = append(tensors, safetensors.Tensor{Name: p.Name, Elem: blocks.Float32, Shape: shape, Write: func(w io.Writer) error {
			_, err := w.Write(p.Values)
			return err
		}})
	}
	writeTensors := func(w io.Writer) error {
		return safetensors.Write(w, map[string]string{"format": "gstore", "task": d.Task, "model": d.Model}, tensors)
	}
	sum := sha256.New()
	if err := writeTensors(sum); err != nil {
		return nil, err
	}
	d.TensorsSum, d.Sum = hex.EncodeToString(sum.Sum(nil)), noSum
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("describe the model: %w", err)
	}
	text = seal(append(text, '\n'))
	return &Described{Which: d.From, HeldBytes: held, Files: []export.Attachment{
		{Name: tensorsFile, Rows: uint64(len(tensors)), Write: writeTensors},
		{Name: descriptionFile, Rows: uint64(len(tensors)), Write: func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		}},
	}}, nil
}
