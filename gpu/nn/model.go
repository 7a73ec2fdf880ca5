package nn

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

// Config describes a model; [New] builds it.
type Config struct {
	Model        string  `json:"model" yaml:"model"`                 // one of [Models]; "" means sage
	Heads        int     `json:"heads,omitempty" yaml:"heads"`       // of gat, side by side in hidden layers, averaged in the last; 0 means 4
	Layers       int     `json:"layers" yaml:"layers"`               // ≥ 1
	In           int     `json:"in" yaml:"in"`                       // columns of a node's features
	Hidden       int     `json:"hidden" yaml:"hidden"`               // columns between layers
	Out          int     `json:"out" yaml:"out"`                     // classes
	Dropout      float32 `json:"dropout" yaml:"dropout"`             // of hidden states
	InputDropout float32 `json:"input_dropout" yaml:"input_dropout"` // of the first layer's input
	// PrecomputedHop reads the first layer's neighbourhood mean from a second input table.
	PrecomputedHop bool   `json:"precomputed_hop,omitempty" yaml:"precomputed_hop"`
	Seed           uint64 `json:"seed" yaml:"seed"` // keys the initial parameters
}

// Models returns the names of the models that [New] builds.
func Models() []string { return []string{"sage", "gcn", "gat", "gin", "mlp"} }

// defaultHeads is the heads of gat if none are given.
const defaultHeads = 4

func (c *Config) heads() int {
	if c.Heads == 0 {
		return defaultHeads
	}
	return c.Heads
}

// Validate says what is wrong with c.
func (c *Config) Validate() error {
	switch {
	case c.Model != "" && !slices.Contains(Models(), c.Model):
		return fmt.Errorf("nn: model %q is not known (known: %s)", c.Model, strings.Join(Models(), ", "))
	case c.PrecomputedHop && c.Model != "" && c.Model != "sage":
		return fmt.Errorf("nn: model %s has no precomputed hop: only sage has", c.Model)
	case c.Heads < 0 || c.Heads > 0 && c.Model != "gat":
		return fmt.Errorf("nn: %d heads for model %q: only gat has heads", c.Heads, c.Model)
	case c.Model == "gat" && c.Layers > 1 && c.Hidden%c.heads() != 0:
		return fmt.Errorf("nn: %d hidden columns do not divide among %d heads", c.Hidden, c.heads())
	case c.Layers < 1:
		return fmt.Errorf("nn: %d layers, expected 1 or more", c.Layers)
	case c.In < 1 || c.Out < 1 || c.Layers > 1 && c.Hidden < 1:
		return fmt.Errorf("nn: %d input, %d hidden and %d output columns, expected 1 or more of each", c.In, c.Hidden, c.Out)
	case !(c.Dropout >= 0 && c.Dropout < 1):
		return fmt.Errorf("nn: dropout %v, expected 0 ≤ p < 1", c.Dropout)
	case !(c.InputDropout >= 0 && c.InputDropout < 1):
		return fmt.Errorf("nn: input dropout %v, expected 0 ≤ p < 1", c.InputDropout)
	}
	return nil
}

// Model is a stack of layers with its parameters.
type Model struct {
	cfg    Config
	params *Params
	layers []Layer
	stat   gpu.Memory
}

// New builds a model and fills its parameters from cfg.Seed.
func New(ctx context.Context, q *gpu.Queue, cfg Config) (*Model, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Model{cfg: cfg, params: NewParams(q.Device())}
	in := cfg.In
	for i := range cfg.Layers {
		out, act := cfg.Hidden, Activation{ReLU: true, Dropout: cfg.Dropout}
		if i == cfg.Layers-1 {
			out, act = cfg.Out, Activation{}
		}
		inputDropout := cfg.InputDropout
		if i > 0 {
			inputDropout = 0
		}
		m.layers = append(m.layers, cfg.layer(m.params, i, in, out, act, inputDropout))
		in = out
	}
	if err := m.params.Allocate(ctx, q, cfg.Seed); err != nil {
		return nil, err
	}
	stat, err := q.Device().Alloc(16)
	if err != nil {
		_ = m.params.Close()
		return nil, err
	}
	m.stat = stat
	return m, nil
}

// layer declares layer i.
func (c *Config) layer(p *Params, i, in, out int, act Activation, inputDropout float32) Layer {
	switch c.Model {
	case "gcn":
		return NewGCN(p, i, in, out, act, inputDropout)
	case "gat":
		if i == c.Layers-1 {
			return NewGAT(p, i, in, out, c.heads(), true, act, inputDropout)
		}
		return NewGAT(p, i, in, out/c.heads(), c.heads(), false, act, inputDropout)
	case "gin":
		hidden := c.Hidden
		if hidden < 1 { // a single layer
			hidden = out
		}
		return NewGIN(p, i, in, hidden, out, act, inputDropout)
	case "mlp":
		return NewMLP(p, i, in, out, act, inputDropout)
	}
	if i == 0 && c.PrecomputedHop {
		return NewPrecomputedSAGE(p, in, out, act, inputDropout)
	}
	return NewSAGE(p, i, in, out, act, inputDropout)
}

// ReadsDegrees reports whether the graphs given to Forward and to a Streamer's
// Accumulate must have their degrees.
func (m *Model) ReadsDegrees() bool {
	for _, l := range m.layers {
		if d, ok := l.(DegreeReader); ok && d.ReadsDegrees() {
			return true
		}
	}
	return false
}

// StreamDims returns the most floats that a layer accumulates for a node of a
// destination tile, and the most that it computes for a node of a source tile,
// when the model is evaluated by streaming.
func (c *Config) StreamDims() (accumulated, transformed int) {
	accumulated = max(c.In, c.Hidden)
	if c.Model == "gat" {
		h := c.heads()
		most := h * c.Out
		if c.Layers > 1 {
			most = max(most, c.Hidden)
		}
		return most + 3*h, most + 2*h + c.In // x·W, scores, converted features
	}
	return accumulated, 0
}

// Config returns what the model was built from.
func (m *Model) Config() Config { return m.cfg }

// Params returns the model's parameters.
func (m *Model) Params() *Params { return m.params }

// Layers returns the layers, input first.
func (m *Model) Layers() []Layer { return m.layers }

// Hops returns how many layers read neighbours: the blocks that a mini-batch needs.
func (m *Model) Hops() int {
	n := 0
	for _, l := range m.layers {
		n += l.Hops()
	}
	return n
}

// Forward runs all layers over a mini-batch's graphs (input first, one for each layer)
// and returns the logits of the seeds [seeds × Out].
func (m *Model) Forward(p *Pass, graphs []gpu.Graph, in Input) gpu.Tensor {
	if len(graphs) != len(m.layers) {
		p.Queue.Fail(fmt.Errorf("nn: %d blocks for %d layers: %w", len(graphs), len(m.layers), gpu.ErrShape))
		return gpu.Tensor{}
	}
	var h gpu.Tensor
	for i, l := range m.layers {
		h = l.Forward(p, &graphs[i], in)
		if p.Queue.Err() != nil {
			return gpu.Tensor{}
		}
		in = Dense(h)
	}
	return h
}

// Backward runs all layers' backward passes from the gradient of the logits
// and sets the gradients of all parameters. The gradient of the input
// features is not computed.
func (m *Model) Backward(p *Pass, dLogits gpu.Tensor) {
	d := dLogits
	for i := len(m.layers) - 1; i >= 0 && p.Queue.Err() == nil; i-- {
		d = m.layers[i].Backward(p, d, i > 0)
	}
}

// Stat returns the model's float64[1×2] for [gpu.Queue.SoftmaxCrossEntropy].
func (m *Model) Stat() gpu.Tensor { return gpu.VectorOf(m.stat, 0, 2, blocks.Float64) }

// Close frees the model's memory.
func (m *Model) Close() error {
	err := m.params.Close()
	if e := m.stat.Free(); err == nil {
		err = e
	}
	return err
}
