package nn

import (
	"fmt"

	"github.com/gstore/gstore/gpu"
)

// precomputedLayer is a first SAGE layer whose mean over neighbours is read
// instead of computed: its input tables are those of the features X and of their
// neighbourhood mean AX, which has no parameters and was computed once over
// the whole graph (docs/lab/findings.md, "First hop precomputed").
// Parameters and result are those of [SAGE] with all neighbours; the layer
// reads a node alone, so a model of L layers samples L−1 hops.
type precomputedLayer struct{ SAGE }

var _ Streamer = (*precomputedLayer)(nil)

// newPrecomputedSAGE declares the parameters of layer 0.
func newPrecomputedSAGE(p *Params, in, out int, act Activation, inputDropout float32) *precomputedLayer {
	return &precomputedLayer{*NewSAGE(p, 0, in, out, act, inputDropout)}
}

// Hops returns 0.
func (l *precomputedLayer) Hops() int { return 0 }

// Forward implements [Layer]. g has as many destinations as sources.
func (l *precomputedLayer) Forward(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	z, ok := l.rows(p, g.NumDst, in)
	if !ok {
		return gpu.Tensor{}
	}
	p.aggregated(l.index, z.View(0, l.in, g.NumDst, l.in))
	if p.Train && l.inputDropout > 0 {
		p.Queue.Dropout(p.inputMask(l.inputDropout, 0), z)
	}
	y := l.dense(p, z)
	l.g, l.z, l.y = g, z, y
	return y
}

// rows gathers [X, AX] of n nodes.
func (l *precomputedLayer) rows(p *Pass, n int, in Input) (z gpu.Tensor, ok bool) {
	q := p.Queue
	if x := in.first(l.in); x.width() != l.in {
		q.Fail(fmt.Errorf("nn: precomputed SAGE layer: input is %v, expected features and their neighbourhood mean: %w", in.Tables, gpu.ErrShape))
		return gpu.Tensor{}, false
	}
	z = p.Arena.Matrix(q, n, 2*l.in)
	return z, q.Err() == nil && states(p, "precomputed SAGE layer", n, in, z)
}

// Backward implements [Layer]; the features have no gradient.
func (l *precomputedLayer) Backward(p *Pass, dOut gpu.Tensor, _ bool) gpu.Tensor {
	return l.SAGE.Backward(p, dOut, false)
}

// AccumulatorDim returns 0: nothing arrives from neighbours.
func (l *precomputedLayer) AccumulatorDim() int { return 0 }

// Accumulate does nothing.
func (l *precomputedLayer) Accumulate(*Pass, *gpu.Graph, Input, gpu.Tensor) {}

// Finish implements [Streamer].
func (l *precomputedLayer) Finish(p *Pass, self Input, _, degrees gpu.Tensor) gpu.Tensor {
	z, ok := l.rows(p, degrees.Cols, self)
	if !ok {
		return gpu.Tensor{}
	}
	return l.dense(p, z)
}

// Sums streams what a first layer of gcn or gin multiplies by its weights, and a precomputed hop holds: its output is that.
type Sums struct{ gcnLayer }

// NewSums is of gcn's sums where they are symmetric, else of gin's. The parameters that it declares are not used.
func NewSums(p *Params, symmetric bool, in int) *Sums {
	l := newGCN(p, 0, in, 1, Activation{}, 0, false)
	l.sum.symmetric = symmetric
	return &Sums{*l}
}

// Finish implements [Streamer].
func (s *Sums) Finish(p *Pass, self Input, acc, degrees gpu.Tensor) gpu.Tensor {
	return s.sum.finish(p, self, acc, degrees)
}

// RelationHop is a relation whose mean over a node's neighbours is read: of columns of their features, from a table whose last column says
// whether there are any, 1 or 0. All its neighbours are of one node type.
type RelationHop struct {
	Relation int `json:"relation" yaml:"relation"` // inverse ones follow the store's
	First    int `json:"first" yaml:"first"`       // of the input's columns, those that the means are of: Cols from here on
	Cols     int `json:"cols" yaml:"cols"`
	// Table and Vector name the learned vector that all its neighbours have; vector 0: none, or another hop of the relation names it.
	Table  int `json:"table,omitempty" yaml:"table"`
	Vector int `json:"vector,omitempty" yaml:"vector"`
}

// checkRelationHops says what is wrong with RelationHops.
func (c *Config) checkRelationHops() error {
	if len(c.RelationHops) > 0 && (c.Kind().Hop != HopRelations || len(c.Categories) == 0 || c.Layers < 2) {
		return fmt.Errorf("nn: precomputed hops of relations for model %q of %d layers with %d tables of learned vectors: only rsage of 2 layers or more, behind an input layer, has them", c.Model, c.Layers, len(c.Categories))
	}
	for _, h := range c.RelationHops {
		if h.Relation < 0 || h.Relation >= c.Relations || h.First < 0 || h.Cols < 1 || h.First > c.In-h.Cols || h.Table < 0 || h.Table >= len(c.Categories) || h.Vector < 0 || h.Vector >= c.Categories[h.Table] {
			return fmt.Errorf("nn: precomputed hop %+v of a model of %d relations, %d columns and vectors %v", h, c.Relations, c.In, c.Categories)
		}
	}
	return nil
}

// relationHops are the means over all neighbours by some relations that a first rsage layer reads instead of computing them from its
// block. The states below are linear in a node's features x, P·x + V (see [inputLayer]), and so is their mean: for a mean z of features
// and c, 1 where there are neighbours,
//
//	W_r·mean(h[u] : u → v by r) = W_r·(P·z + V·c) = (W_r·[P V])·[z c]
//
// with P's rows of the columns that z is of. The layer's parameters and result are those of all neighbours in the block. nil has none.
type relationHops struct {
	of    []RelationHop
	input *inputLayer
	width int   // of all tables
	means Input // of the mini-batch's nodes, a table a hop

	// Of the pass between Forward and Backward.
	z     gpu.Tensor // [NumDst × width]: means side by side
	lifts gpu.Tensor // [width × in]: [P V] of each hop, one below the other
	grads gpu.Tensor // [width × in]: their gradients
}

// hopReader is a layer that can read means of relations from precomputed hops.
type hopReader interface {
	Layer
	readHops(input *inputLayer, of []RelationHop) *relationHops
}

// readHops makes the layer, the first behind an input layer, read hops.
func (l *rsageLayer) readHops(input *inputLayer, of []RelationHop) *relationHops {
	h := &relationHops{of: of, input: input}
	for _, r := range of {
		h.width += r.Cols + 1
	}
	l.hops, input.hops = h, h
	return h
}

// take keeps the tables of means, the last ones of a mini-batch's input, and returns the others.
func (h *relationHops) take(in Input) Input {
	if h == nil {
		return in
	}
	others := max(0, len(in.Tables)-len(h.of))
	h.means = in.only(others, len(in.Tables))
	rest := in.only(0, others)
	rest.Vectors = in.Vectors
	return rest
}

// each calls do for every hop, with its rows of what has a row a column of means, and those of the layer's weights of its relation.
func (h *relationHops) each(l *rsageLayer, do func(k RelationHop, weight, grad gpu.Tensor, rows func(gpu.Tensor) gpu.Tensor)) {
	at := 0
	for _, k := range h.of {
		from := at
		at += k.Cols + 1
		do(k, l.rel.Value.View(k.Relation*l.in, 0, l.in, l.out), l.rel.Grad.View(k.Relation*l.in, 0, l.in, l.out),
			func(t gpu.Tensor) gpu.Tensor { return t.View(from, 0, k.Cols+1, t.Cols) })
	}
}

// add adds to y [n × out] what the layer's first n nodes get of their means.
func (h *relationHops) add(p *Pass, l *rsageLayer, y gpu.Tensor) {
	if h == nil {
		return
	}
	q, a, n := p.Queue, p.Arena, y.Rows
	h.z, h.lifts = a.Matrix(q, n, h.width), a.Matrix(q, h.width, l.in)
	weights := a.Matrix(q, h.width, l.out)
	if q.Err() != nil || !states(p, l.name()+", precomputed hops", n, h.means, h.z) {
		return
	}
	if share := h.input.inputDropout; p.Train && share > 0 {
		q.Dropout(p.inputMask(share, 1), h.z)
	}
	h.each(l, func(k RelationHop, weight, _ gpu.Tensor, rows func(gpu.Tensor) gpu.Tensor) {
		lift := rows(h.lifts)
		q.Copy(lift.Head(k.Cols), h.input.project.Value.View(k.First, 0, k.Cols, l.in))
		q.Copy(lift.View(k.Cols, 0, 1, l.in), h.input.vectors[k.Table].Value.View(k.Vector, 0, 1, l.in)) // vector 0 is 0
		q.Gemm(gpu.GemmOptions{}, lift, weight, rows(weights))
	})
	q.Gemm(gpu.GemmOptions{Accumulate: true}, h.z, weights, y)
}

// backward adds to the gradients of the layer's weights of relations, given that of what add added to.
func (h *relationHops) backward(p *Pass, l *rsageLayer, dOut gpu.Tensor) {
	if h == nil {
		return
	}
	q, a := p.Queue, p.Arena
	h.grads = a.Matrix(q, h.width, l.in)
	dWeights := a.Matrix(q, h.width, l.out)
	if q.Err() != nil {
		return
	}
	q.Gemm(gpu.GemmOptions{TransA: true}, h.z, dOut, dWeights)
	h.each(l, func(_ RelationHop, weight, grad gpu.Tensor, rows func(gpu.Tensor) gpu.Tensor) {
		q.Gemm(gpu.GemmOptions{TransA: true, Accumulate: true}, rows(h.lifts), rows(dWeights), grad)
		q.Gemm(gpu.GemmOptions{TransB: true}, rows(dWeights), weight, rows(h.grads))
	})
}

// inputBackward adds to the gradients of the input layer, which has set them.
func (h *relationHops) inputBackward(p *Pass) {
	if h == nil {
		return
	}
	q, at := p.Queue, 0
	for _, k := range h.of {
		q.Axpy(1, h.grads.View(at, 0, k.Cols, h.grads.Cols), h.input.project.Grad.View(k.First, 0, k.Cols, h.grads.Cols))
		if k.Vector > 0 {
			q.Axpy(1, h.grads.View(at+k.Cols, 0, 1, h.grads.Cols), h.input.vectors[k.Table].Grad.View(k.Vector, 0, 1, h.grads.Cols))
		}
		at += k.Cols + 1
	}
}
