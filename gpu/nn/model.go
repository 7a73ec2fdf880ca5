package nn

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

// Config describes a model; [New] builds it.
type Config struct {
	Model        string  `json:"model" yaml:"model"`                 // "sage"; "" means sage
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

// Validate says what is wrong with c.
func (c *Config) Validate() error {
	switch {
	case c.Model != "" && c.Model != "sage":
		return fmt.Errorf("nn: model %q is not known (known: sage)", c.Model)
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
		if i == 0 && cfg.PrecomputedHop {
			m.layers = append(m.layers, NewPrecomputedSAGE(m.params, in, out, act, inputDropout))
			in = out
			continue
		}
		m.layers = append(m.layers, NewSAGE(m.params, i, in, out, act, inputDropout))
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
