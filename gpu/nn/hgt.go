package nn

import (
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

func kindOfHGT() Kind {
	return Kind{Name: "hgt", Relations: true, NodeTypes: true, ByRelation: true, EachEdge: true, Projected: true, Heads: true,
		layer: func(c *Config, p *Params, s slot) Layer {
			shape := hgtShape{types: c.types(), relations: c.Relations, heads: c.heads(), width: c.Hidden, out: s.out}
			if s.last {
				shape.out, shape.classes = shape.width, s.out
			}
			return newHGT(p, s, shape)
		},
		stream: func(c *Config) (accumulated, transformed int) {
			return 2*c.Hidden + 2*c.heads(), 4*c.Hidden + max(c.In, c.Hidden) + 2
		},
		relations: func(_ LayerInfo, named map[string]Parameter) int { return named["0.prior"].Rows }}
}

// hgtShape is what a layer's parameters are for. Its heads have width/heads columns each, and its states out columns;
// classes are the logits' columns, of the last layer, else 0.
type hgtShape struct{ types, relations, heads, width, out, classes int }

func (s *hgtShape) dim() int { return s.width / s.heads }

// hgtLayer is a layer of a heterogeneous graph transformer (Hu, Dong, Wang and Sun, "Heterogeneous Graph Transformer", WWW 2020, eqs.
// 1–5), as PyG's HGTConv has it. With τ(v) the type of a node and r the relation of an edge, for each of its heads of d columns:
//
//	k[u] = K_τ(u)·h[u] + b,  q[v] = Q_τ(v)·h[v] + b,  m[u] = M_τ(u)·h[u] + b
//	α[u,v] = softmax over all edges u → v of μ_r · q[v] · (A_r·k[u]) / √d
//	o[v]   = Σ_(u → v by r) α[u,v]·B_r·m[u]
//	y[v]   = W_τ(v)·gelu(heads of o[v] side by side) + b
//	out[v] = act(σ(s_τ(v))·y[v] + (1 − σ(s_τ(v)))·h[v])
//
// and y[v] itself where a state has not as many columns as the output, as the first layer of a model that jumps; in others an
// input layer makes states as wide as the output before the first. The last layer's states are multiplied by one matrix more,
// the same for all types, which makes the logits: a node's own state would not be in them otherwise. A node without neighbours
// has o[v] = 0. Where nodes have no types all are of one; of a graph with types, type 0 is that of nodes without one. A graph
// that is read in both directions has twice the relations.
//
// Keys and messages are one product a type over all sources, and each edge's are multiplied by its relation's matrices, those of one
// relation together. The block's graph must have Groups by relation, of one edge each.
type hgtLayer struct {
	hgtShape
	index, in     int
	act           Activation
	inputDropout  float32
	source        typedLinear // K and M side by side
	query, output typedLinear
	key, message  *Param  // A and B
	prior, skip   *Param  // μ and s; no skip: nil
	logits        *linear // of the last layer, else nil

	src, dst typedRows
	hgtPass
}

// hgtPass is what a layer keeps of the pass between Forward and Backward.
type hgtPass struct {
	g     *gpu.Graph
	edges gpu.Graph  // from each edge's place by relation to its destination
	x, xs gpu.Tensor // [NumSrc × in], and by type
	xd    gpu.Tensor // [NumDst × in], by type
	q     gpu.Tensor // [NumDst × width]
	hgtSent
	alpha   gpu.Tensor // [edges × heads]
	o, t    gpu.Tensor // [NumDst × width]: the heads' sums, and what geluBackward takes
	active  gpu.Tensor // gelu(o), by type
	rest, w gpu.Tensor // [NumDst × out] y − h, and its gate [NumDst × 1]
	half    gpu.Tensor // [types × 1], tanh(s/2)
	y       gpu.Tensor // [NumDst × out], activated; of the last layer before the logits
}

// hgtSent is what the edges of a graph send, by relation.
type hgtSent struct {
	from   gpu.Tensor // Uint32[1×edges], their sources
	scaled gpu.Tensor // A times μ/√d
	by     gpu.Tensor // [relations × heads], μ/√d
	raw    gpu.Tensor // [edges × 2·width], keys and messages
	sent   gpu.Tensor // the same, multiplied by the relations' matrices
}

var (
	_ Preparer    = (*hgtLayer)(nil)
	_ Transformer = (*hgtLayer)(nil)
)

// newHGT declares a layer's parameters in p, where matrices of types, then of relations and heads, lie one below the other:
// "i.source.weight" [types·in × 2·width], K and M side by side, "i.query.weight" [types·in × width], "i.output.weight"
// [types·width × out], their biases, a row a type, "i.key" and "i.message" [relations·width × d], "i.prior" [relations × heads],
// where out is in "i.skip" [types × 1], and of the last layer "i.logits.weight" [width × classes] and "i.logits.bias".
func newHGT(p *Params, s slot, shape hgtShape) *hgtLayer {
	name := fmt.Sprint(s.index)
	l := &hgtLayer{hgtShape: shape, index: s.index, in: s.in, act: s.act, inputDropout: s.inputDropout,
		source:  newTypedLinear(p, name+".source", shape.types, s.in, 2*shape.width),
		query:   newTypedLinear(p, name+".query", shape.types, s.in, shape.width),
		output:  newTypedLinear(p, name+".output", shape.types, shape.width, shape.out),
		key:     p.Add(name+".key", shape.relations*shape.width, shape.dim(), fanIn(shape.dim())),
		message: p.Add(name+".message", shape.relations*shape.width, shape.dim(), fanIn(shape.dim())),
		prior:   p.Add(name+".prior", shape.relations, shape.heads, one)}
	if s.in == shape.out {
		l.skip = p.Add(name+".skip", shape.types, 1, one)
	}
	if shape.classes > 0 {
		logits := newLinear(p, name+".logits", shape.out, shape.classes)
		l.logits = &logits
	}
	return l
}

// InDim returns the columns of a source's state.
func (l *hgtLayer) InDim() int { return l.in }

// OutDim returns the columns of a destination's state.
func (l *hgtLayer) OutDim() int {
	if l.classes > 0 {
		return l.classes
	}
	return l.out
}

// Params lists the types' parameters, then the relations', the gates, and what makes the logits.
func (l *hgtLayer) Params() (ps []*Param) {
	for _, t := range []*typedLinear{&l.source, &l.query, &l.output} {
		ps = append(ps, t.params()...)
	}
	if ps = append(ps, l.key, l.message, l.prior); l.skip != nil {
		ps = append(ps, l.skip)
	}
	if l.logits != nil {
		ps = append(ps, l.logits.params()...)
	}
	return ps
}

// Hops returns 1.
func (l *hgtLayer) Hops() int { return 1 }

func (l *hgtLayer) name() string { return fmt.Sprintf("HGT layer %d", l.index) }

// Forward implements [Layer].
func (l *hgtLayer) Forward(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	q, a, n, e := p.Queue, p.Arena, g.NumDst, g.Edges()
	l.hgtPass = hgtPass{g: g}
	l.src.sort(p, in.Types, g.NumSrc, l.types)
	l.dst.sort(p, in.Types, n, l.types)
	if l.x = droppedInput(p, l.name(), g.NumSrc, l.in, in, l.inputDropout); q.Err() != nil {
		return gpu.Tensor{}
	}
	l.xs, l.xd = l.src.sorted(p, l.x), l.dst.sorted(p, l.x.Head(n))
	l.q = l.query.forward(p, &l.dst, l.xd)
	l.edges, l.hgtSent = l.messages(p, g, l.source.forward(p, &l.src, l.xs))
	l.alpha, l.o = a.Matrix(q, e, l.heads), a.Matrix(q, n, l.width)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	q.Fill(l.o, 0)
	keys, sent := l.halves(l.sent)
	q.EdgeDot(l.heads, l.edges, keys, l.q, l.alpha)
	q.EdgeSoftmax(l.edges, l.alpha)
	q.AggregateHeads(l.edges, l.alpha, sent, l.o)
	return l.finish(p, l.x.Head(n))
}

// halves are the keys and the messages in t.
func (l *hgtLayer) halves(t gpu.Tensor) (keys, messages gpu.Tensor) {
	return t.View(0, 0, t.Rows, l.width), t.View(0, l.width, t.Rows, l.width)
}

// flat views matrices of all relations [relations·width × d] as a row a relation, whose heads' parts lie side by side.
func (l *hgtLayer) flat(t gpu.Tensor) gpu.Tensor {
	t.Rows, t.Cols, t.Stride = l.relations, l.width*l.dim(), l.width*l.dim()
	return t
}

// each calls do for every head of every relation that has edges in g: rows are the head's columns, behind column at, of the relation's
// rows of what lies by relation, and of is its matrix in t.
func (l *hgtLayer) each(g *gpu.Graph, do func(rows func(t gpu.Tensor, at int) gpu.Tensor, of func(t gpu.Tensor) gpu.Tensor)) {
	bounds, d := g.Groups.Bounds, l.dim()
	for r := range len(bounds) - 1 {
		lo, n := bounds[r], bounds[r+1]-bounds[r]
		for h := range l.heads {
			if n > 0 {
				do(func(t gpu.Tensor, at int) gpu.Tensor { return t.View(lo, at+h*d, n, d) },
					func(t gpu.Tensor) gpu.Tensor { return t.View(r*l.width+h*d, 0, d, d) })
			}
		}
	}
}

// messages returns what g's edges send of the sources' keys and messages [NumSrc × 2·width], and a graph of which each edge has a source
// of its own.
func (l *hgtLayer) messages(p *Pass, g *gpu.Graph, of gpu.Tensor) (edges gpu.Graph, s hgtSent) {
	q, a, k, e := p.Queue, p.Arena, g.Groups, g.Edges()
	if k == nil || k.Bounds == nil || len(k.Bounds) > l.relations+1 || k.Order.Cols != e {
		q.Fail(fmt.Errorf("nn: %s: the graph's edges are not each a group, by %d relations: %w", l.name(), l.relations, gpu.ErrShape))
		return edges, s
	}
	edges = gpu.Graph{NumDst: g.NumDst, NumSrc: e, Indptr: g.Indptr, Indices: k.Ranks}
	s.by, s.scaled = a.Matrix(q, l.relations, l.heads), a.Matrix(q, l.relations*l.width, l.dim())
	s.raw, s.sent = a.Matrix(q, e, 2*l.width), a.Matrix(q, e, 2*l.width)
	from := a.Matrix(q, e, 1)
	if q.Err() != nil {
		return edges, s
	}
	q.Fill(s.by, 0)
	q.Axpy(float32(1/math.Sqrt(float64(l.dim()))), l.prior.Value, s.by)
	q.Fill(s.scaled, 0)
	own := q.SelfLoops(a, gpu.Graph{NumDst: l.relations, NumSrc: l.relations})
	q.AggregateHeads(own, s.by, l.flat(l.key.Value), l.flat(s.scaled))
	if e == 0 {
		return edges, s
	}
	sources := gpu.Tensor{Mem: g.Indices.Mem, Offset: g.Indices.Offset, Rows: e, Cols: 1, Stride: 1, Elem: blocks.Float32}
	q.Gather(from, sources, k.Order) // of the same bits
	s.from = gpu.VectorOf(from.Mem, from.Offset, e, blocks.Uint32)
	q.Gather(s.raw, of, s.from)
	l.each(g, func(rows func(gpu.Tensor, int) gpu.Tensor, of func(gpu.Tensor) gpu.Tensor) {
		q.Gemm(gpu.GemmOptions{}, rows(s.raw, 0), of(s.scaled), rows(s.sent, 0))
		q.Gemm(gpu.GemmOptions{}, rows(s.raw, l.width), of(l.message.Value), rows(s.sent, l.width))
	})
	return edges, s
}

// finish returns the output of nodes, whose types are those of l.dst, from the heads' sums l.o and their own states x.
func (l *hgtLayer) finish(p *Pass, x gpu.Tensor) gpu.Tensor {
	q, a, n := p.Queue, p.Arena, x.Rows
	active, t := gelu(p, l.o)
	l.t = t
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	l.active = l.dst.sorted(p, active)
	y := l.output.forward(p, &l.dst, l.active)
	if l.skip != nil {
		l.rest = y
		y, l.w, l.half = a.Matrix(q, n, l.out), a.Matrix(q, n, 1), a.Matrix(q, l.types, 1)
		gate := a.Matrix(q, l.types, 1)
		if q.Err() != nil {
			return gpu.Tensor{}
		}
		q.Fill(l.half, 0) // σ(s) = (1 + tanh(s/2))/2
		q.Axpy(.5, l.skip.Value, l.half)
		q.Tanh(l.half)
		q.Fill(gate, .5)
		q.Axpy(.5, l.half, gate)
		q.Gather(l.w, gate, l.dst.types)
		q.Copy(y, x)
		q.Axpy(-1, y, l.rest)
		q.ScaleRowsAdd(1, l.w, l.rest, y)
	}
	if l.act.ReLU {
		relu(p, y)
	}
	l.act.apply(p, l.index, y)
	if l.y = y; l.logits == nil || q.Err() != nil {
		return y
	}
	return l.logits.forward(p, y, false)
}

// finishBackward sets the gradients of what finish reads from that of its result, which it overwrites, and returns those of the heads'
// sums and, where there is a skip, of the nodes' own states.
func (l *hgtLayer) finishBackward(p *Pass, dy gpu.Tensor) (do, dx gpu.Tensor) {
	q, a, n := p.Queue, p.Arena, dy.Rows
	if l.logits != nil {
		if dy = l.logits.backward(p, l.y, dy, true); q.Err() != nil {
			return do, dx
		}
	}
	l.act.backward(p, l.index, l.y, dy)
	d := dy
	if l.skip != nil {
		d = a.Matrix(q, n, l.out)
		dw, gate := a.Matrix(q, n, 1), a.Matrix(q, l.types, 1)
		if q.Err() != nil {
			return do, dx
		}
		q.RowDot(l.rest, dy, dw)
		q.Fill(gate, 0)
		q.ScatterAddRows(gate, l.dst.types, dw)
		q.TanhBackward(l.half, gate)
		q.Fill(l.skip.Grad, 0)
		q.Axpy(.25, gate, l.skip.Grad)
		q.Fill(d, 0)
		q.ScaleRowsAdd(1, l.w, dy, d)
		q.Axpy(-1, d, dy)
		dx = dy
	}
	d = l.output.backward(p, &l.dst, l.active, d, true)
	if q.Err() != nil {
		return do, dx
	}
	return geluBackward(p, l.o, l.t, d), dx
}

// Backward implements [Layer].
func (l *hgtLayer) Backward(p *Pass, dOut gpu.Tensor, needInput bool) gpu.Tensor {
	q, a, n, e := p.Queue, p.Arena, l.g.NumDst, l.g.Edges()
	do, own := l.finishBackward(p, dOut)
	dAlpha, dSent, dq := a.Matrix(q, e, l.heads), a.Matrix(q, e, 2*l.width), a.Matrix(q, n, l.width)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	keys, sent := l.halves(l.sent)
	dKeys, dMessages := l.halves(dSent)
	q.EdgeDot(l.heads, l.edges, sent, do, dAlpha)
	q.EdgeSoftmaxBackward(l.edges, l.alpha, dAlpha)
	q.Fill(dq, 0)
	q.AggregateHeads(l.edges, dAlpha, keys, dq)
	q.Fill(dSent, 0)
	q.TransposeEdges(a, &l.edges)
	q.AggregateHeadsBackward(l.edges, dAlpha, l.q, dKeys)
	q.AggregateHeadsBackward(l.edges, l.alpha, do, dMessages)
	dSource := l.messagesBackward(p, dSent)
	dx := l.source.backward(p, &l.src, l.xs, dSource, needInput)
	dxd := l.query.backward(p, &l.dst, l.xd, dq, needInput)
	if !needInput || q.Err() != nil {
		return gpu.Tensor{}
	}
	q.Axpy(1, dxd, dx.Head(n))
	if l.skip != nil {
		q.Axpy(1, own, dx.Head(n))
	}
	return dx
}

// messagesBackward sets the relations' gradients from that of what the edges send, and returns that of the sources' keys and messages.
func (l *hgtLayer) messagesBackward(p *Pass, d gpu.Tensor) gpu.Tensor {
	q, a := p.Queue, p.Arena
	dRaw, dScaled := a.Matrix(q, d.Rows, d.Cols), a.Matrix(q, l.scaled.Rows, l.scaled.Cols)
	dBy, of := a.Matrix(q, l.relations, l.heads), a.Matrix(q, l.g.NumSrc, d.Cols)
	own := q.SelfLoops(a, gpu.Graph{NumDst: l.relations, NumSrc: l.relations})
	if q.Err() != nil {
		return of
	}
	for _, t := range []gpu.Tensor{dScaled, l.message.Grad, l.key.Grad, l.prior.Grad, of} {
		q.Fill(t, 0)
	}
	l.each(l.g, func(rows func(gpu.Tensor, int) gpu.Tensor, in func(gpu.Tensor) gpu.Tensor) {
		q.Gemm(gpu.GemmOptions{TransA: true}, rows(l.raw, 0), rows(d, 0), in(dScaled))
		q.Gemm(gpu.GemmOptions{TransA: true}, rows(l.raw, l.width), rows(d, l.width), in(l.message.Grad))
		q.Gemm(gpu.GemmOptions{TransB: true}, rows(d, 0), in(l.scaled), rows(dRaw, 0))
		q.Gemm(gpu.GemmOptions{TransB: true}, rows(d, l.width), in(l.message.Value), rows(dRaw, l.width))
	})
	q.EdgeDot(l.heads, own, l.flat(l.key.Value), l.flat(dScaled), dBy)
	q.Axpy(float32(1/math.Sqrt(float64(l.dim()))), dBy, l.prior.Grad)
	q.AggregateHeads(own, l.by, l.flat(dScaled), l.flat(l.key.Grad))
	if d.Rows > 0 {
		q.ScatterAddRows(of, l.from, dRaw)
	}
	return of
}

// AccumulatorDim implements [Streamer]: the weighted sum and, for each head, the largest score and the sum of weights; and the query.
func (l *hgtLayer) AccumulatorDim() int { return 2*l.width + 2*l.heads }

// accumulators views the accumulators of some destinations.
func (l *hgtLayer) accumulators(acc gpu.Tensor) (s gpu.AttentionSums, query gpu.Tensor) {
	n, w, h := acc.Rows, l.width, l.heads
	s = gpu.AttentionSums{Sum: acc.View(0, 0, n, w), Max: acc.View(0, w, n, h), Total: acc.View(0, w+h, n, h)}
	return s, acc.View(0, w+2*h, n, w)
}

// Prepare implements [Preparer]: the destinations' queries.
func (l *hgtLayer) Prepare(p *Pass, self Input, acc gpu.Tensor) {
	l.dst.sort(p, self.Types, acc.Rows, l.types)
	x := wholeInput(p, l.name(), acc.Rows, l.in, self)
	if p.Queue.Err() != nil {
		return
	}
	_, query := l.accumulators(acc)
	p.Queue.Copy(query, l.query.forward(p, &l.dst, l.dst.sorted(p, x)))
}

// Transform implements [Transformer]: the sources' keys and messages.
func (l *hgtLayer) Transform(p *Pass, n int, src Input) Input {
	l.src.sort(p, src.Types, n, l.types)
	x := wholeInput(p, l.name(), n, l.in, src)
	if p.Queue.Err() != nil {
		return src
	}
	return Dense(l.source.forward(p, &l.src, l.src.sorted(p, x)))
}

// Accumulate implements [Streamer] by an online softmax, of what Transform made of the sources.
func (l *hgtLayer) Accumulate(p *Pass, g *gpu.Graph, src Input, acc gpu.Tensor) {
	q, a, e := p.Queue, p.Arena, g.Edges()
	if e == 0 {
		return
	}
	of := wholeInput(p, l.name(), g.NumSrc, 2*l.width, src)
	edges, m := l.messages(p, g, of)
	scores, none, noneOf := a.Matrix(q, e, l.heads), a.Matrix(q, e, l.heads), a.Matrix(q, g.NumDst, l.heads)
	if q.Err() != nil {
		return
	}
	s, query := l.accumulators(acc)
	keys, sent := l.halves(m.sent)
	q.EdgeDot(l.heads, edges, keys, query, scores)
	q.Fill(none, 0)
	q.Fill(noneOf, 0)
	q.OnlineAttention(1, edges, sent, none, noneOf, scores, s) // a slope of 1: the score itself
}

// Finish implements [Streamer].
func (l *hgtLayer) Finish(p *Pass, self Input, acc, _ gpu.Tensor) gpu.Tensor {
	q, n := p.Queue, acc.Rows
	l.hgtPass = hgtPass{}
	l.dst.sort(p, self.Types, n, l.types)
	x := wholeInput(p, l.name(), n, l.in, self)
	l.o = p.Arena.Matrix(q, n, l.width)
	if q.Err() != nil {
		return gpu.Tensor{}
	}
	s, _ := l.accumulators(acc)
	attended(p, s, l.o, l.heads)
	return l.finish(p, x)
}
