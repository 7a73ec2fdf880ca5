package nn

import (
	"fmt"

	"github.com/gstore/gstore/gpu"
)

// states sets dst [n × c] to the states of the first n sources, of any
// feature type. It reports whether the pass goes on.
func states(p *Pass, layer string, n int, in Input, dst gpu.Tensor) bool {
	q := p.Queue
	short := in.width() != dst.Cols
	for k, t := range in.Tables {
		if index := in.index(k); index.IsZero() {
			short = short || t.Rows < n
		} else {
			short = short || index.Cols < n
		}
	}
	if short {
		q.Fail(fmt.Errorf("nn: %s: input is %v, expected %d columns and %d rows or more: %w", layer, in.Tables, dst.Cols, n, gpu.ErrShape))
	}
	at := 0
	for k, t := range in.Tables {
		if q.Err() != nil {
			break
		}
		to, index := dst.View(0, at, dst.Rows, t.Cols), in.index(k)
		switch {
		case !index.IsZero():
			q.Gather(to, t, index.View(0, 0, 1, n))
		case t.Elem == dst.Elem && t.Scale == nil:
			q.Copy(to, t.Head(n))
		default: // a sum of one row converts
			q.Aggregate(gpu.AggregateOptions{}, q.SelfLoops(p.Arena, gpu.Graph{NumDst: n, NumSrc: n}), t, to)
		}
		at += t.Cols
	}
	return q.Err() == nil
}

// neighbourSum is the weighted sum over a node's neighbours and itself with
// which [gcnLayer] and [ginLayer] begin: z[v] = w_vv·h[v] + Σ w_uv·h[u]. Weights depend on
// the graph alone, so that it has no parameters: they are the graph's own where it has some ([EdgeWeigher]). Of a first
// layer the sum may be read instead, as it was computed once over the whole graph (docs/lab/findings.md, "First hop precomputed").
type neighbourSum struct {
	name         string
	in           int
	symmetric    bool // weights 1/√((deg v + 1)(deg u + 1)) instead of 1
	precomputed  bool // the input is the sum
	inputDropout float32

	// Of the pass between forward and backward.
	loops   gpu.Graph // the edges and self loops; with a history these alone
	weights gpu.Tensor
	history *History   // nil: none
	edges   gpu.Graph  // with a history, and what they weigh
	apart   gpu.Tensor // without self loops
}

// ReadsDegrees implements [DegreeReader].
func (s *neighbourSum) ReadsDegrees() bool { return !s.precomputed }

// Hops returns 1, or 0 for a sum that is read.
func (s *neighbourSum) Hops() int {
	if s.precomputed {
		return 0
	}
	return 1
}

// forward returns [g.NumDst × in]. h completes the sums over neighbours, unless it is nil.
func (s *neighbourSum) forward(p *Pass, g *gpu.Graph, in Input, h *History) (z gpu.Tensor) {
	q := p.Queue
	if in.width() != s.in {
		q.Fail(fmt.Errorf("nn: %s: input is %v, expected %d columns: %w", s.name, in.Tables, s.in, gpu.ErrShape))
		return gpu.Tensor{}
	}
	switch {
	case s.precomputed:
		if z = p.Arena.Matrix(q, g.NumDst, s.in); !states(p, s.name, g.NumDst, in, z) {
			return gpu.Tensor{}
		}
	case h != nil:
		z = s.completed(p, g, in, h)
	default:
		z = s.of(p, g, in)
	}
	if p.Train && s.inputDropout > 0 {
		q.Dropout(p.inputMask(s.inputDropout, 0), z)
	}
	return z
}

// of returns the weighted sums of rows of any width.
func (s *neighbourSum) of(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	q := p.Queue
	s.history, s.loops = nil, q.SelfLoops(p.Arena, *g)
	if s.weights = g.Weights; s.weights.IsZero() {
		s.weights = p.Arena.Matrix(q, s.loops.Edges(), 1)
		q.EdgeWeights(gpu.EdgeWeightOptions{Symmetric: s.symmetric, Sampled: true}, s.loops, s.weights)
	}
	z := p.Arena.Matrix(q, g.NumDst, in.width())
	if q.Err() == nil {
		aggregate(q, gpu.AggregateOptions{Weights: s.weights}, s.loops, in, z)
	}
	return z
}

// completed returns the weighted sums of rows whose absent neighbours h has. The graph's degrees are those with absent neighbours: the
// sampled ones stand for all, which h's divisors make all that are there.
func (s *neighbourSum) completed(p *Pass, g *gpu.Graph, in Input, h *History) gpu.Tensor {
	q, a := p.Queue, p.Arena
	s.history, s.edges = h, *g
	z := a.Matrix(q, g.NumDst, in.width())
	q.Fill(z, 0)
	if g.Edges() > 0 {
		s.apart = a.Matrix(q, g.Edges(), 1)
		q.EdgeWeights(gpu.EdgeWeightOptions{Symmetric: s.symmetric, Sampled: true}, s.edges, s.apart)
		aggregate(q, gpu.AggregateOptions{Weights: s.apart}, s.edges, in, z)
	}
	h.complete(q, z)
	s.loops = q.SelfLoops(a, gpu.Graph{NumDst: g.NumDst, NumSrc: g.NumSrc, DstDegrees: g.DstDegrees, SrcDegrees: g.SrcDegrees})
	s.weights = a.Matrix(q, s.loops.Edges(), 1)
	q.EdgeWeights(gpu.EdgeWeightOptions{Symmetric: s.symmetric}, s.loops, s.weights)
	if q.Err() == nil {
		aggregate(q, gpu.AggregateOptions{Weights: s.weights, Accumulate: true}, s.loops, in, z)
	}
	return z
}

// backward returns the gradient of the rows summed [NumSrc × c] from that of the sums, which it may overwrite.
func (s *neighbourSum) backward(p *Pass, dz gpu.Tensor) gpu.Tensor {
	q := p.Queue
	dIn := p.Arena.Matrix(q, s.loops.NumSrc, dz.Cols)
	q.Fill(dIn, 0)
	q.TransposeEdges(p.Arena, &s.loops)
	q.AggregateHeadsBackward(s.loops, s.weights, dz, dIn)
	if s.history != nil && s.edges.Edges() > 0 {
		q.DivideRows(dz, s.history.Divisors)
		q.TransposeEdges(p.Arena, &s.edges)
		q.AggregateHeadsBackward(s.edges, s.apart, dz, dIn)
	}
	return dIn
}

// AccumulatorDim implements [Streamer]: the neighbours' part of the sum.
func (s *neighbourSum) AccumulatorDim() int { return s.in * s.Hops() }

// Accumulate implements [Streamer].
func (s *neighbourSum) Accumulate(p *Pass, g *gpu.Graph, src Input, acc gpu.Tensor) {
	if s.precomputed {
		return
	}
	q := p.Queue
	o := gpu.AggregateOptions{Accumulate: true, Weights: g.Weights}
	if s.symmetric && o.Weights.IsZero() {
		o.Weights = p.Arena.Matrix(q, g.Edges(), 1)
		q.EdgeWeights(gpu.EdgeWeightOptions{Symmetric: true}, *g, o.Weights)
	}
	if q.Err() == nil && g.Edges() > 0 {
		aggregate(q, o, *g, src, acc)
	}
}

// finish returns z, of as many columns as the nodes' own, from the accumulated neighbours.
func (s *neighbourSum) finish(p *Pass, self Input, acc, degrees gpu.Tensor) gpu.Tensor {
	q, n := p.Queue, degrees.Cols
	z := p.Arena.Matrix(q, n, self.width())
	if !states(p, s.name, n, self, z) || s.precomputed {
		return z
	}
	if s.symmetric {
		by := p.Arena.Vector(q, n, degrees.Elem)
		q.Fill(by, 1)
		q.Axpy(1, degrees, by)
		q.DivideRows(z, by)
	}
	q.Axpy(1, acc, z)
	return z
}

// linear is a dense layer's product with its gradients: x·W + b.
type linear struct {
	w, b *Param
}

// newLinear declares "name.weight" [in × out] and "name.bias" in p.
func newLinear(p *Params, name string, in, out int) linear {
	return linear{w: p.Add(name+".weight", in, out, fanIn(in)), b: p.Add(name+".bias", 1, out, zero)}
}

func (l linear) params() []*Param { return []*Param{l.w, l.b} }

// forward returns [x.Rows × out].
func (l linear) forward(p *Pass, x gpu.Tensor, relu bool) gpu.Tensor {
	y := p.Arena.Matrix(p.Queue, x.Rows, l.w.Value.Cols)
	p.Queue.Gemm(gpu.GemmOptions{Bias: l.b.Value, ReLU: relu}, x, l.w.Value, y)
	return y
}

// backward sets the parameters' gradients and returns that of x if needInput.
func (l linear) backward(p *Pass, x, dy gpu.Tensor, needInput bool) gpu.Tensor {
	p.Queue.ColumnSum(dy, l.b.Grad)
	return l.weightBackward(p, x, dy, needInput)
}

// weightBackward is backward without the bias.
func (l linear) weightBackward(p *Pass, x, dy gpu.Tensor, needInput bool) gpu.Tensor {
	q := p.Queue
	q.Gemm(gpu.GemmOptions{TransA: true}, x, dy, l.w.Grad)
	if !needInput || q.Err() != nil {
		return gpu.Tensor{}
	}
	dx := p.Arena.Matrix(q, x.Rows, x.Cols)
	q.Gemm(gpu.GemmOptions{TransB: true}, dy, l.w.Value, dx)
	return dx
}
