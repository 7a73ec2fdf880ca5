package nn

import (
	"encoding/binary"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

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
	all, err := c.parametersOf(state)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// parametersOf is Parameters of each of the ranges that are saved: values first, then what the optimiser keeps of them.
func (c *LinkConfig) parametersOf(state []byte) (all [len(savedRanges)][]Parameter, err error) {
	p, err := c.declare(nil)
	if err != nil {
		return all, err
	}
	p.params.place()
	rows := p.params.rows
	if want := stateHead + 4*len(savedRanges)*rows; len(state) != want || binary.LittleEndian.Uint64(state[8:]) != uint64(rows) {
		return all, fmt.Errorf("nn: the state of parameters is %d bytes, expected %d: the model has other shapes", len(state), want)
	}
	for r := range all {
		all[r] = p.params.cut(func(i int) int { return stateHead + 4*(r*rows+p.params.specs[i].at) }, state)
	}
	return all, nil
}

// ParamBytes is the device memory of the parameters of a model of this valid description, their gradients and optimiser state.
func (c *Config) ParamBytes() int64 { return c.declare(nil).params.Bytes() }

// StateBytes is what [Params.SaveState] writes of a model of this valid description.
func (c *Config) StateBytes() int64 { return c.declare(nil).params.stateBytes() }

// SavedBytes is what [Params.Save] writes of such a model, padding included.
func (c *Config) SavedBytes() int64 { return 4 * int64(c.declare(nil).params.rows) }

// WithVectors is what [Params.Save] would write of a model of this description, of which saved is, had it the matrices as further
// vectors of categories: little-endian float32s, rows of Hidden.
func (c *Config) WithVectors(saved []byte, matrices [][]byte) []byte {
	p, at := c.declare(nil).params, 0
	own := len(c.Categories) // of the input layer
	if c.In > 0 {
		own++
	}
	for _, s := range p.specs[:own] {
		at += 4 * s.rows * s.cols
	}
	return slices.Concat(saved[:at], slices.Concat(matrices...), saved[at:])
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
	case c.Jumps() || c.Layers > 1 || c.projects():
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
	MeanHeads  bool   `json:"mean_heads,omitempty"` // of gat and rgat: the output is the mean of the heads
	Bases      int    `json:"bases,omitempty"`
	Relations  int    `json:"relations,omitempty"`  // that edges are of, inverse ones counted
	NodeTypes  int    `json:"node_types,omitempty"` // one more than which of the input's categories says of what type a node is
	Categories []int  `json:"categories,omitempty"` // of input: rows of each table of vectors
	Norm       string `json:"norm,omitempty"`
	Residual   bool   `json:"residual,omitempty"`
	// EdgeWeights: sage's mean or gcn's sum is weighted by the edges' weights.
	EdgeWeights bool   `json:"edge_weights,omitempty"`
	EdgeDim     int    `json:"edge_dim,omitempty"` // of gat: columns of edges' features
	Activation  string `json:"activation"`         // "relu", "tanh", "none"
}

// maximum ends the name of a kind whose aggregator is max.
const maximum = "-max"

// LayerInfos describes the layers of a valid description, input first.
func (c *Config) LayerInfos() []LayerInfo {
	var infos []LayerInfo
	kind, layers := c.Kind(), c.declare(nil).layers
	if c.projects() {
		infos = append(infos, LayerInfo{Kind: "input", In: c.In, Out: c.Hidden, Categories: c.Categories, Activation: "none"})
		layers = layers[1:]
	}
	for i, l := range layers {
		info := LayerInfo{Kind: kind.Name, In: l.InDim(), Out: l.OutDim(), EdgeWeights: c.EdgeWeights, EdgeDim: c.EdgeDim,
			Relations: c.Relations, NodeTypes: c.NodeTypes, Activation: "none"}
		if c.Aggregator == "max" {
			info.Kind += maximum
		}
		if i < c.hiddenLayers() {
			info.Activation, info.Residual = "relu", c.Residual
			if c.normed() {
				info.Norm = c.Norm
			}
		}
		if kind.Heads {
			info.Heads, info.MeanHeads = c.heads(), kind.MeanHeads && i >= c.hiddenLayers()
		}
		if kind.Bases {
			info.Bases = c.bases()
		}
		infos = append(infos, info)
	}
	return infos
}

// FromLayers is the inverse of [Config.LayerInfos] and [Config.Parameters]: the description of the model that consists of such
// layers, whose logits jumping makes, with such parameters, in any order, and these as [Params.Save] writes them. What is no
// model of this package's is an error that says which layer or parameter is not as expected.
func FromLayers(layers []LayerInfo, jumping string, parameters []Parameter) (c Config, saved []byte, err error) {
	named := map[string]Parameter{}
	for _, p := range parameters {
		named[p.Name] = p
	}
	c.Jumping = jumping
	rest := layers
	if len(rest) > 0 && rest[0].Kind == "input" {
		c.Categories, rest = rest[0].Categories, rest[1:]
	}
	if len(rest) == 0 {
		return c, nil, fmt.Errorf("nn: a model of %d layers: expected one with parameters or more", len(layers))
	}
	first, last := rest[0], rest[len(rest)-1]
	c.Model, c.Layers, c.In, c.Heads, c.Bases = first.Kind, len(rest), layers[0].In, first.Heads, first.Bases
	c.EdgeWeights, c.EdgeDim, c.NodeTypes = first.EdgeWeights, first.EdgeDim, first.NodeTypes
	if name, ok := strings.CutSuffix(first.Kind, maximum); ok {
		c.Model, c.Aggregator = name, "max"
	}
	kind := c.Kind()
	if c.Out = last.Out; c.Jumps() {
		c.Out = named["jump.bias"].Cols
	}
	switch {
	case c.hiddenLayers() > 0 || c.projects():
		c.Hidden = layers[0].Out
		c.Norm, c.Residual = first.Norm, first.Residual
	case kind.hidden != nil:
		c.Hidden = kind.hidden(named)
	}
	if kind.relations != nil {
		c.Relations = kind.relations(first, named)
	}
	if err := c.Validate(); err != nil {
		return c, nil, err
	}
	for i, want := range c.LayerInfos() {
		got := layers[i]
		if got.Norm == NoNorm {
			got.Norm = ""
		}
		if got.Relations == 0 { // described by an earlier version
			got.Relations = want.Relations
		}
		if !reflect.DeepEqual(got, want) {
			return c, nil, fmt.Errorf("nn: layer %d is %+v, expected %+v: gstore's models have layers of one kind, hidden ones alike", i, got, want)
		}
	}
	if saved, err = c.join(named); err != nil {
		return c, nil, err
	}
	return c, saved, c.CheckFloats(int64(len(saved) / 4))
}

// join is the inverse of [Config.Parameters]. What it finds in named it takes out.
func (c *Config) join(named map[string]Parameter) (saved []byte, err error) {
	m := c.declare(nil)
	p := m.params
	for i, s := range p.specs {
		name := p.list[i].Name
		got, ok := named[name]
		if !ok {
			return nil, fmt.Errorf("nn: parameter %s is missing, expected one of [%d %d]", name, s.rows, s.cols)
		}
		if got.Rows != s.rows || got.Cols != s.cols {
			return nil, fmt.Errorf("nn: parameter %s is [%d %d], expected [%d %d]", name, got.Rows, got.Cols, s.rows, s.cols)
		}
		saved = append(saved, got.Values...)
		delete(named, name)
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		return nil, fmt.Errorf("nn: parameter %s is of none of the model's %d layers", name, len(m.layers))
	}
	return saved, nil
}

// LayerInfos describes the projection of features, if there are any, and the encoder; none without either.
func (c *LinkConfig) LayerInfos() (infos []LayerInfo) {
	if n := c.featureColumns(); n > 0 {
		infos = append(infos, LayerInfo{Kind: "input", In: n, Out: c.Dim, Activation: "none"})
	}
	for i := range c.Hops() {
		info := LayerInfo{Kind: c.Encoder, In: c.Dim, Out: c.Dim, Activation: "tanh"}
		switch {
		case i < c.Layers-1:
			info.Activation = "relu"
		case c.Layers > 0:
			info.Activation = "none"
		}
		if KindNamed(c.Encoder).Heads {
			info.Heads, info.Residual, info.MeanHeads = c.heads(), c.Layers == 0, c.Layers > 0 && i == c.Layers-1
		}
		infos = append(infos, info)
	}
	return infos
}
