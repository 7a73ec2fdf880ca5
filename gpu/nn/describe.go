package nn

import (
	"encoding/binary"
	"fmt"

	"github.com/gstore/gstore/blocks"
)

// Parameter is a parameter by itself, for those who use a model elsewhere.
type Parameter struct {
	Name       string
	Rows, Cols int
	Values     []byte // little-endian float32, row-major; a part of what it was cut from
}

// Parameters cuts what [Params.Save] wrote of a model of this description into its parameters.
func (c *Config) Parameters(saved []byte) ([]Parameter, error) {
	if err := c.CheckFloats(int64(len(saved) / 4)); err != nil {
		return nil, err
	}
	p, at := c.declare(nil).params, 0
	return p.cut(func(i int) int {
		from := at
		at += 4 * p.specs[i].rows * p.specs[i].cols
		return from
	}, saved), nil
}

// Parameters cuts what [Params.SaveState] wrote of a model of this description into its parameters.
func (c *LinkConfig) Parameters(state []byte) ([]Parameter, error) {
	p, err := c.declare(nil)
	if err != nil {
		return nil, err
	}
	p.params.place()
	const head = 16 // of SaveState
	if want := head + 4*len(savedRanges)*p.params.rows; len(state) != want || binary.LittleEndian.Uint64(state[8:]) != uint64(p.params.rows) {
		return nil, fmt.Errorf("nn: the state of parameters is %d bytes, expected %d: the model has other shapes", len(state), want)
	}
	return p.params.cut(func(i int) int { return head + 4*p.params.specs[i].at }, state), nil
}

// cut returns the parameters whose values begin where at says.
func (p *Params) cut(at func(i int) int, b []byte) (ps []Parameter) {
	for i, s := range p.specs {
		from := at(i)
		ps = append(ps, Parameter{Name: p.list[i].Name, Rows: s.rows, Cols: s.cols, Values: b[from : from+4*s.rows*s.cols]})
	}
	return ps
}

// Bytes is the length of the values.
func (p *Parameter) Bytes() int { return p.Rows * p.Cols * blocks.Float32.Size() }

// StateDim is the columns of a node's state below the last product: what evaluation keeps as embeddings.
func (c *Config) StateDim() int {
	switch {
	case c.Jumping == JumpCat:
		return c.Layers * c.Hidden
	case c.Jumps() || c.Layers > 1 || len(c.Categories) > 0:
		return c.Hidden
	}
	return c.Out // of a single layer: the logits
}

// LayerInfo describes a layer for those who compute it elsewhere: docs/models.md says how.
type LayerInfo struct {
	Kind       string `json:"kind"` // a model's name; "sage-max" of the maximum
	In         int    `json:"in"`
	Out        int    `json:"out"`
	Heads      int    `json:"heads,omitempty"`
	MeanHeads  bool   `json:"mean_heads,omitempty"` // of gat: the output is the mean of the heads
	Bases      int    `json:"bases,omitempty"`
	Categories []int  `json:"categories,omitempty"` // of input: rows of each table of vectors
	Norm       string `json:"norm,omitempty"`
	Residual   bool   `json:"residual,omitempty"`
	Activation string `json:"activation"` // "relu", "tanh", "none"
}

// LayerInfos describes the layers of a valid description, input first.
func (c *Config) LayerInfos() []LayerInfo {
	var infos []LayerInfo
	layers := c.declare(nil).layers
	if len(c.Categories) > 0 {
		infos = append(infos, LayerInfo{Kind: "input", In: c.In, Out: c.Hidden, Categories: c.Categories, Activation: "none"})
		layers = layers[1:]
	}
	for i, l := range layers {
		info := LayerInfo{Kind: c.Model, In: l.InDim(), Out: l.OutDim(), Activation: "none"}
		if info.Kind == "" {
			info.Kind = "sage"
		}
		if c.Aggregator == "max" {
			info.Kind = "sage-max"
		}
		if i < c.hiddenLayers() {
			info.Activation, info.Residual = "relu", c.Residual
			if c.normed() {
				info.Norm = c.Norm
			}
		}
		switch info.Kind {
		case "gat":
			info.Heads, info.MeanHeads = c.heads(), i >= c.hiddenLayers()
		case "rgcn":
			info.Bases = c.bases()
		}
		infos = append(infos, info)
	}
	return infos
}

// LayerInfos describes the encoder; none without one.
func (c *LinkConfig) LayerInfos() []LayerInfo {
	if c.Encoder == "none" {
		return nil
	}
	info := LayerInfo{Kind: c.Encoder, In: c.Dim, Out: c.Dim, Activation: "tanh"}
	if c.Encoder == "gat" {
		info.Heads, info.Residual = c.heads(), true
	}
	return []LayerInfo{info}
}
