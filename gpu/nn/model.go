package nn

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

// Config describes a model; [New] builds it.
type Config struct {
	Model        string  `json:"model" yaml:"model"`                 // a name of [Kinds]; "" means sage
	Heads        int     `json:"heads,omitempty" yaml:"heads"`       // of layers with attention; those of gat and rgat are side by side in hidden layers, averaged in the last; 0 means 4
	Layers       int     `json:"layers" yaml:"layers"`               // ≥ 1
	In           int     `json:"in" yaml:"in"`                       // columns of a node's features
	Hidden       int     `json:"hidden" yaml:"hidden"`               // columns between layers
	Out          int     `json:"out" yaml:"out"`                     // classes
	Dropout      float32 `json:"dropout" yaml:"dropout"`             // of hidden states
	InputDropout float32 `json:"input_dropout" yaml:"input_dropout"` // of the first layer's input
	// Aggregator is how sage combines neighbours: "mean" (or "") or "max".
	Aggregator string `json:"aggregator,omitempty" yaml:"aggregator"`
	// Norm of hidden layers: "none" (or ""), "batch" or "layer".
	Norm string `json:"norm,omitempty" yaml:"norm"`
	// Residual adds a hidden layer's own input to its output, before the ReLU.
	Residual bool `json:"residual,omitempty" yaml:"residual"`
	// Jumping says what makes the logits: "last" (or ""), the last layer; "cat" or "max", a
	// product of all layers' states, which then are all hidden.
	Jumping string `json:"jumping,omitempty" yaml:"jumping"`
	// Relations is the number of edge types of the graphs of models of relations, inverse ones counted; Bases
	// that of the matrices that rgcn's relations are sums of, 0 means 4.
	Relations int `json:"relations,omitempty" yaml:"relations"`
	Bases     int `json:"bases,omitempty" yaml:"bases"`
	// Categories are how many learned vectors each table of categories names, the 0 for none counted; any give a model of relations
	// an input layer, whose states of Hidden columns all layers' neighbours are.
	Categories []int `json:"categories,omitempty" yaml:"categories"`
	// NodeTypes is one more than which of Categories says of what type each node is, of models that read types; 0: all are of one.
	NodeTypes int `json:"node_types,omitempty" yaml:"node_types"`
	// Vectors: the input layer, which Categories make, adds learned vectors that are no parameters, [Input].Vectors.
	Vectors bool `json:"vectors,omitempty" yaml:"vectors"`
	// Order says which product of a sage or gcn layer comes first in training: "auto" (or ""), by
	// [Model.ChooseOrders], "aggregate" or "multiply".
	Order string `json:"order,omitempty" yaml:"order"`
	// SparseInput: most elements of the first layer's input are 0, so that it is multiplied before all else, whether it comes as [Input].Sparse
	// or as a table. For models that [Config.TakesSparse] says it of. No part of what a model is.
	SparseInput bool `json:"-" yaml:"-"`
	// EdgeWeights weighs messages of sage's mean and of gcn by their edges' weights, see [EdgeWeigher].
	EdgeWeights bool `json:"edge_weights,omitempty" yaml:"edge_weights"`
	// EdgeDim is the columns of edges' features, which gat's attention reads; 0: it reads none. See [EdgeReader].
	EdgeDim int `json:"edge_dim,omitempty" yaml:"edge_dim"`
	// PrecomputedHop reads what the first layer makes of neighbours, computed before: sage its mean, from columns beside the features;
	// gcn and gin their sums, instead of the features.
	PrecomputedHop bool `json:"precomputed_hop,omitempty" yaml:"precomputed_hop"`
	// RelationHops are the relations of which rsage's first layer reads the means from tables of their own, behind features and
	// categories; its blocks have edges of the others alone. For models with an input layer.
	RelationHops []RelationHop `json:"relation_hops,omitempty" yaml:"relation_hops"`
	Seed         uint64        `json:"seed" yaml:"seed"` // keys the initial parameters
	// Numbers: the one output is a number, not the logit of a class; nil: Out classes.
	Numbers *NumberScale `json:"numbers,omitempty" yaml:"numbers"`
	// MultiLabel: a node has any number of Out labels, each said by its own logit.
	MultiLabel bool `json:"multi_label,omitempty" yaml:"multi_label"`
}

// NumberScale says which number an output stands for: output × Deviation + Mean. Deviation > 0.
type NumberScale struct {
	Mean      float32 `json:"mean" yaml:"mean"`
	Deviation float32 `json:"deviation" yaml:"deviation"`
}

// Of is the number of an output.
func (n *NumberScale) Of(output float32) float32 { return output*n.Deviation + n.Mean }

// Score falls from 1 to 0 as a mean absolute error grows: what the best of several is chosen by, as by accuracies.
func (n *NumberScale) Score(mae float64) float64 { return 1 / (1 + mae/float64(n.Deviation)) }

// FirstHop returns which of so many input columns is the first that was computed from neighbours; without any, how many there are.
func (c *Config) FirstHop(columns int) int {
	switch {
	case !c.PrecomputedHop:
		return columns
	case c.Kind().Hop == HopSum:
		return 0
	}
	return columns / 2
}

// projects reports whether an input layer brings nodes to Hidden columns.
func (c *Config) projects() bool {
	return len(c.Categories) > 0 || c.Kind().Projected && !c.Jumps()
}

// types is how many types of nodes there are, that of nodes without one counted where there are any.
func (c *Config) types() int {
	if c.NodeTypes < 1 {
		return 1
	}
	return c.Categories[c.NodeTypes-1]
}

// TypedBytes is what a mini-batch's types take of host memory, those of its input and the orders by type that layers sort
// their nodes into, of a model whose graphs are graphs; 0 of a model that reads no types.
func (c *Config) TypedBytes(graphs []gpu.Graph) (n int64) {
	if c.NodeTypes < 1 || len(graphs) == 0 {
		return 0
	}
	n = 4 * int64(graphs[0].NumSrc)
	for _, g := range graphs[len(graphs)-c.Layers:] { // behind an input layer
		n += 8 * int64(g.NumSrc+g.NumDst)
	}
	return n
}

// defaultHeads is the heads of gat if none are given.
const defaultHeads = 4

// AttentionHeads is how many heads layers have, of a model that has some.
func (c *Config) AttentionHeads() int { return c.heads() }

func (c *Config) heads() int {
	if c.Heads == 0 {
		return defaultHeads
	}
	return c.Heads
}

// defaultBases is the basis matrices of rgcn if none are given.
const defaultBases = 4

func (c *Config) bases() int {
	if c.Bases == 0 {
		return defaultBases
	}
	return c.Bases
}

func (c *Config) normed() bool { return c.Norm != "" && c.Norm != NoNorm }

// Jumps reports whether all layers are hidden and a product of their states makes the logits.
func (c *Config) Jumps() bool { return c.Jumping != "" && c.Jumping != JumpLast }

// hiddenLayers is how many layers have Hidden columns.
func (c *Config) hiddenLayers() int {
	if c.Jumps() {
		return c.Layers
	}
	return c.Layers - 1
}

// among fails if v is neither "" nor one of known.
func among(what, v string, known ...string) error {
	if v == "" || slices.Contains(known, v) {
		return nil
	}
	return fmt.Errorf("nn: %s %q is not known (known: %s)", what, v, strings.Join(known, ", "))
}

// What no model has, so that a slip of the finger is told and not computed: a layer of columnsMax² parameters is 4 TiB.
const (
	layersMax  = 1000
	columnsMax = 1 << 20
	basesMax   = 1 << 16 // more than relations, whose combinations they are
)

// Validate says what is wrong with c.
func (c *Config) Validate() error {
	for _, err := range []error{among("model", c.Model, Models(nil)...), among("aggregator", c.Aggregator, "mean", "max"),
		c.checkWeights(), c.checkRelationHops(), among("norm", c.Norm, NoNorm, BatchNorm, LayerNorm), among("jumping", c.Jumping, JumpLast, JumpCat, JumpMax)} {
		if err != nil {
			return err
		}
	}
	if err := c.checkKind(); err != nil {
		return err
	}
	switch {
	case (c.normed() || c.Residual) && c.hiddenLayers() < 1:
		return fmt.Errorf("nn: a norm or a residual needs a hidden layer: 2 layers, or jumping %s or %s", JumpCat, JumpMax)
	case c.Layers < 1:
		return fmt.Errorf("nn: %d layers, expected 1 or more", c.Layers)
	case c.Layers > layersMax || c.Hidden > columnsMax || c.EdgeDim > columnsMax || c.Bases > basesMax:
		return fmt.Errorf("nn: %d layers, %d hidden columns, %d of edges' features, %d bases: expected at most %d, %d, %d and %d", c.Layers, c.Hidden, c.EdgeDim, c.Bases, layersMax, columnsMax, columnsMax, basesMax)
	case c.In < 1 && (c.In < 0 || len(c.Categories) == 0) || c.Out < 1 || c.hiddenLayers() > 0 && c.Hidden < 1:
		return fmt.Errorf("nn: %d input, %d hidden and %d output columns, expected 1 or more of each", c.In, c.Hidden, c.Out)
	case !(c.Dropout >= 0 && c.Dropout < 1):
		return fmt.Errorf("nn: dropout %v, expected 0 ≤ p < 1", c.Dropout)
	case !(c.InputDropout >= 0 && c.InputDropout < 1):
		return fmt.Errorf("nn: input dropout %v, expected 0 ≤ p < 1", c.InputDropout)
	}
	return c.checkOrder()
}

// Model is a stack of layers with its parameters.
type Model struct {
	cfg    Config
	params *Params
	layers []Layer
	hops   *relationHops // of the first layer; nil: it has none
	jump   *jumping      // nil: the last layer makes the logits
	outs   []gpu.Tensor  // each layer's output, of the pass between Forward and Backward
	stat   gpu.Memory
}

// New builds a model and fills its parameters from cfg.Seed.
func New(ctx context.Context, q *gpu.Queue, cfg Config) (*Model, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := cfg.declare(q.Device())
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

// CheckFloats says whether a model of this description has so many parameters, those of
// [Params.Save]; it allocates in proportion to them at most, whatever the description says.
func (c *Config) CheckFloats(floats int64) error {
	if err := c.Validate(); err != nil {
		return err
	}
	for _, d := range append([]int{c.Layers, c.In, c.Hidden, c.Out, c.heads(), c.Relations, c.Bases, c.EdgeDim}, c.Categories...) { // each has a parameter or more
		if int64(d) > min(floats, math.MaxInt32) && !(d == c.Hidden && c.hiddenLayers() == 0) && !(d == c.heads() && !c.Kind().Heads) {
			return fmt.Errorf("nn: a model of %d layers, %d to %d columns by %d hidden ones has more than %d parameters", c.Layers, c.In, c.Out, c.Hidden, floats)
		}
	}
	if n := c.declare(nil).params.saved(floats); n != floats {
		return fmt.Errorf("nn: the model has other than %d parameters", floats)
	}
	return nil
}

// declare makes the layers of a valid description; their parameters have no memory.
func (c *Config) declare(dev gpu.Device) *Model {
	cfg := *c
	m := &Model{cfg: cfg, params: NewParams(dev)}
	kind, in, inputDropout := cfg.Kind(), cfg.In, cfg.InputDropout
	if cfg.projects() {
		m.layers = append(m.layers, newInput(m.params, in, cfg.Hidden, cfg.Categories, inputDropout))
		in, inputDropout = cfg.Hidden, 0
	}
	for i := range cfg.Layers {
		if i > 0 {
			inputDropout = 0
		}
		act, out := Activation{ReLU: true, Dropout: cfg.Dropout}, cfg.Hidden
		last, wrapped := i >= cfg.hiddenLayers(), cfg.normed() || cfg.Residual
		if last {
			out = cfg.Out
		}
		own := act
		if last || wrapped {
			own = Activation{}
		}
		l := kind.layer(&cfg, m.params, slot{i, in, out, last, own, inputDropout})
		if first, ok := l.(hopReader); ok && i == 0 && len(cfg.RelationHops) > 0 {
			m.hops = first.readHops(m.layers[0].(*inputLayer), cfg.RelationHops)
		}
		if wrapped && !last {
			l = cfg.newHidden(m.params, i, l, act)
		}
		m.layers = append(m.layers, l)
		in = cfg.Hidden
	}
	if cfg.Jumps() {
		m.jump = newJumping(m.params, cfg.Jumping, cfg.Layers, cfg.Hidden, cfg.Out)
	}
	return m
}

// ReadsDegrees reports whether the graphs given to Forward and to a Streamer's
// Accumulate must have their degrees.
func (m *Model) ReadsDegrees() bool {
	for _, l := range m.layers {
		if d, ok := l.(DegreeReader); ok && d.ReadsDegrees() && !m.cfg.EdgeWeights { // weights have them in
			return true
		}
	}
	return false
}

// StreamEdgeDim returns how many floats a layer computes for an edge when the model is evaluated by streaming.
func (c *Config) StreamEdgeDim() int {
	if c.EdgeDim == 0 {
		return 0
	}
	return c.heads() // their parts of the scores
}

// StreamDims returns the most floats that a layer accumulates for a node of a
// destination tile, and the most that it computes for a node of a source tile,
// when the model is evaluated by streaming.
func (c *Config) StreamDims() (accumulated, transformed int) {
	if c.StreamsProducts() {
		return max(c.firstOut(), c.Hidden), c.firstOut()
	}
	if stream := c.Kind().stream; stream != nil {
		return stream(c)
	}
	return max(c.In, c.Hidden), 0
}

// productsPay is how many times as wide as its output a first layer's input is at least, if products are added up in its stead.
const productsPay = 2

// StreamsProducts reports whether the first layer of a streamed model adds up, over neighbours, what its weights make of their rows and not the
// rows, which are wider: sums take less memory then, and rows are read fewer times. Bits depend on the shape alone, as it does.
func (c *Config) StreamsProducts() bool {
	return c.Kind().Products && c.Aggregator != "max" && !c.PrecomputedHop && c.In >= productsPay*c.firstOut()
}

// firstOut is the columns of the first layer's output.
func (c *Config) firstOut() int {
	if c.hiddenLayers() > 0 {
		return c.Hidden
	}
	return c.Out
}

// ProductBytes is what [Transformer].Transform and [Streamer].Finish of a first layer that streams products take beside their results, where the
// input is not one matrix of float32.
func (c *Config) ProductBytes() int64 { return 4 * int64(productRows(c.In)) * int64(c.In) }

// streamAttention is the StreamDims of kinds with heads.
func streamAttention(c *Config) (accumulated, transformed int) {
	h := c.heads()
	most := h * c.Out
	if c.hiddenLayers() > 0 {
		most = max(most, c.Hidden)
	}
	own := 3 * h // beside the sum of each head
	if c.EdgeDim > 0 {
		own += h
	}
	return (most + own) * max(c.Relations, 1), most + 2*h + c.In // x·W, scores, converted features
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
	m.outs = m.outs[:0]
	types := in.Types // of destinations too, which are the first sources
	if m.cfg.NodeTypes > 0 && types == nil {
		p.Queue.Fail(fmt.Errorf("nn: the input has no types of nodes: %w", gpu.ErrShape))
		return gpu.Tensor{}
	}
	in = m.hops.take(in)
	for i, l := range m.layers {
		m.weighed(p.Queue, &graphs[i])
		h := l.Forward(p, &graphs[i], in)
		if p.Queue.Err() != nil {
			return gpu.Tensor{}
		}
		m.outs = append(m.outs, h)
		in = Dense(h)
		in.Types = types
	}
	last := m.outs[len(m.outs)-1]
	if m.jump != nil {
		return m.jump.forward(p, m.outs, last.Rows)
	}
	return last
}

// Jumps reports whether [Model.Jump] makes the logits, not the last layer.
func (m *Model) Jumps() bool { return m.jump != nil }

// JumpDim is the columns of what Jump combines.
func (m *Model) JumpDim() int { return m.jump.lin.w.Value.Rows }

// Jump computes, for an evaluation layer by layer, the logits of some nodes from their states
// of all layers, and the combination of states that these are a product of.
func (m *Model) Jump(p *Pass, states []gpu.Tensor) (combined, logits gpu.Tensor) {
	logits = m.jump.forward(p, states, states[0].Rows)
	return m.jump.z, logits
}

// Backward runs all layers' backward passes from the gradient of the logits
// and sets the gradients of all parameters. The gradient of the input
// features is not computed.
func (m *Model) Backward(p *Pass, dLogits gpu.Tensor) { m.backward(p, dLogits, false) }

// InputGradient is Backward where the input was computed: it returns the gradient of the states of the first graph's sources [NumSrc × In].
func (m *Model) InputGradient(p *Pass, dLogits gpu.Tensor) gpu.Tensor {
	return m.backward(p, dLogits, true)
}

func (m *Model) backward(p *Pass, dLogits gpu.Tensor, input bool) gpu.Tensor {
	q, d := p.Queue, dLogits
	var jumps []gpu.Tensor // gradients of each layer's states, of the seeds
	if m.jump != nil {
		jumps = m.jump.backward(p, dLogits)
	}
	for i := len(m.layers) - 1; i >= 0 && q.Err() == nil; i-- {
		if jumps != nil {
			d = m.jumped(p, jumps[i], d, i == len(m.layers)-1)
		}
		d = m.layers[i].Backward(p, d, i > 0 || input)
	}
	return d
}

// jumped adds to the gradient d of a layer's states what jumping has of the seeds' states, or is it of the last layer.
func (m *Model) jumped(p *Pass, jump, d gpu.Tensor, last bool) gpu.Tensor {
	part := p.Arena.Matrix(p.Queue, jump.Rows, jump.Cols)
	p.Queue.Copy(part, jump)
	if last {
		return part
	}
	p.Queue.Axpy(1, part, d.Head(part.Rows))
	return d
}

// VectorGradient returns the gradient of a batch's [Input].Vectors [len(At)×Hidden], of the pass that Backward ended; none of a model
// without.
func (m *Model) VectorGradient() gpu.Tensor {
	if l, ok := m.layers[0].(*inputLayer); ok {
		return l.gradient
	}
	return gpu.Tensor{}
}

// Stat returns the model's float64[1×2] for [gpu.Queue.SoftmaxCrossEntropy] or [gpu.Queue.NumberLoss].
func (m *Model) Stat() gpu.Tensor { return gpu.VectorOf(m.stat, 0, 2, blocks.Float64) }

// Close frees the model's memory.
func (m *Model) Close() error {
	err := m.params.Close()
	if e := m.stat.Free(); err == nil {
		err = e
	}
	return err
}
