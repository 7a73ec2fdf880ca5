package gpu

import (
	"fmt"

	"github.com/gstore/gstore/blocks"
)

// Operations on the edges of a graph. Values of edges are float32[edges×heads]
// without gaps, row e for edge e of Graph.Indices; features of several heads
// lie side by side, [nodes × heads·width].

// EdgeWeightOptions configures [Queue.EdgeWeights].
type EdgeWeightOptions struct {
	// Symmetric divides by √((deg d + 1)(deg s + 1)), the normalisation with self loops
	// of a graph convolution (Kipf and Welling, 2017, eq. 2). Otherwise a weight is 1.
	Symmetric bool
	// Sampled multiplies by deg d over the number of d's edges in the graph, self
	// loop not counted, so that the expectation of a sampled sum is the full sum.
	Sampled bool
}

// EdgeStream is the part of a [Stream] that layers beyond SAGE need, most of it on edges.
type EdgeStream interface {
	SelfLoops(g, out Graph)
	TransposeEdges(g Graph)
	EdgeWeights(o EdgeWeightOptions, g Graph, out Tensor)
	EdgeAdd(slope float32, g Graph, src, dst, edge, out Tensor)
	EdgeDot(heads int, g Graph, src, dst, out Tensor)
	EdgeSoftmax(heads int, g Graph, x Tensor)
	EdgeSoftmaxBackward(heads int, g Graph, a, d Tensor)
	EdgeSum(bySource bool, g Graph, x, out Tensor)
	AggregateHeads(heads int, g Graph, weights, src, dst Tensor)
	AggregateHeadsBackward(heads int, g Graph, weights, dDst, dSrc Tensor)
	OnlineAttention(heads int, slope float32, g Graph, src, srcScore, dstScore, edgeScore Tensor, s AttentionSums)
	LeakyReLUBackward(slope float32, y, d Tensor)
	AddBias(relu bool, bias, t Tensor)
	LayerNorm(o LayerNormOptions, x, xhat, y, rstd Tensor)
	LayerNormBackward(gamma, xhat, rstd, d, dGamma, dBeta Tensor)
}

// LayerNormOptions configures [Queue.LayerNorm].
type LayerNormOptions struct {
	Gamma, Beta Tensor  // [1×c]
	Epsilon     float32 // added to the variance
	ReLU        bool    // y = max(0, …), last
}

// SelfLoops returns g with one more edge d → d, the first, for every
// destination, in memory taken from a; a g without Indptr has no edges. Self
// loops that g has stay. The result keeps g's degrees.
func (q *Queue) SelfLoops(a *Arena, g Graph) Graph {
	var bad error
	if !g.Indptr.IsZero() || g.Edges() > 0 {
		bad = g.check("self loops")
	}
	if bad == nil && g.NumDst > g.NumSrc {
		bad = shapef("self loops", "the graph has %d destinations, but %d sources", g.NumDst, g.NumSrc)
	}
	if !q.ok(bad) {
		return Graph{}
	}
	out := Graph{NumDst: g.NumDst, NumSrc: g.NumSrc, SelfLoops: true, DstDegrees: g.DstDegrees, SrcDegrees: g.SrcDegrees}
	out.Indptr = a.Vector(q, g.NumDst+1, blocks.Int32)
	out.Indices = a.Vector(q, g.Edges()+g.NumDst, blocks.Int32)
	if q.ok() {
		q.stream.SelfLoops(g, out)
	}
	return out
}

// TransposeEdges is [Queue.Transpose] that also notes, in g.SrcEdges, which edge of
// g each edge by source is.
func (q *Queue) TransposeEdges(a *Arena, g *Graph) {
	if !q.ok(g.check("transpose edges")) {
		return
	}
	g.SrcIndptr = a.Vector(q, g.NumSrc+1, blocks.Int32)
	g.DstIndices = a.Vector(q, g.Edges(), blocks.Int32)
	g.SrcEdges = a.Vector(q, g.Edges(), blocks.Int32)
	if q.ok() {
		q.stream.TransposeEdges(*g)
	}
}

func (g Graph) checkTransposedEdges(op string) error {
	if g.SrcEdges.IsZero() && g.Edges() > 0 {
		return shapef(op, "the graph was not transposed with its edges: call Queue.TransposeEdges first")
	}
	if err := g.checkTransposed(op); err != nil {
		return err
	}
	return vector(op, "source edges", g.SrcEdges, blocks.Int32, g.Edges())
}

// EdgeWeights sets out [edges×1] to the weights of g's edges; what o asks for
// decides which of g's degrees must be there. The first edge of every
// destination of a graph made by [Queue.SelfLoops] is its self loop: not
// scaled for sampling.
func (q *Queue) EdgeWeights(o EdgeWeightOptions, g Graph, out Tensor) {
	checks := []error{g.check("edge weights"), edges("edge weights", "out", g, out, 1)}
	if o.Symmetric || o.Sampled {
		checks = append(checks, vector("edge weights", "destinations' degrees", g.DstDegrees, blocks.Int32, g.NumDst))
	}
	if o.Symmetric {
		checks = append(checks, vector("edge weights", "sources' degrees", g.SrcDegrees, blocks.Int32, g.NumSrc))
	}
	if q.ok(checks...) && out.Len() > 0 {
		q.stream.EdgeWeights(o, g, out)
	}
}

// edges checks that t holds heads values for each of g's edges; -1 means any number of heads.
func edges(op, name string, g Graph, t Tensor, heads int) error {
	if err := matrix(op, name, t, g.Edges(), heads); err != nil {
		return err
	}
	return contiguous(op, t)
}

func headsDivide(op string, heads int, t Tensor) error {
	if heads < 1 || t.Cols%heads != 0 {
		return shapef(op, "%d heads do not divide the columns of %v", heads, t)
	}
	return nil
}

// EdgeAdd sets out[e] = leakyReLU(src[s] + dst[d] + edge[e]) for every edge e = (s, d): the unnormalised attention of GAT
// from the parts src [NumSrc×heads], dst [NumDst×heads] and edge [edges×heads] of its scores. An edge of the zero Tensor is
// none; it may be out itself.
func (q *Queue) EdgeAdd(slope float32, g Graph, src, dst, edge, out Tensor) {
	if q.ok(g.check("edge add"), matrix("edge add", "src", src, g.NumSrc, -1), matrix("edge add", "dst", dst, g.NumDst, src.Cols),
		edgePart("edge add", g, edge, src.Cols), edges("edge add", "out", g, out, src.Cols), disjoint("edge add", out, src), disjoint("edge add", out, dst)) && out.Len() > 0 {
		q.stream.EdgeAdd(slope, g, src, dst, edge, out)
	}
}

// edgePart checks the edges' own part of their scores, which there may be.
func edgePart(op string, g Graph, t Tensor, heads int) error {
	if t.IsZero() {
		return nil
	}
	return edges(op, "edge", g, t, heads)
}

// EdgeDot sets out[e][h] to the dot product of head h of src[s] and of dst[d] for
// every edge e = (s, d).
func (q *Queue) EdgeDot(heads int, g Graph, src, dst, out Tensor) {
	if q.ok(g.check("edge dot"), headsDivide("edge dot", heads, src), matrix("edge dot", "src", src, g.NumSrc, -1),
		matrix("edge dot", "dst", dst, g.NumDst, src.Cols), edges("edge dot", "out", g, out, heads),
		disjoint("edge dot", out, src), disjoint("edge dot", out, dst)) && out.Len() > 0 {
		q.stream.EdgeDot(heads, g, src, dst, out)
	}
}

// EdgeSoftmax replaces the values of every destination's edges by their
// softmax, head by head, in place.
func (q *Queue) EdgeSoftmax(g Graph, x Tensor) {
	if q.ok(g.check("edge softmax"), edges("edge softmax", "x", g, x, -1)) && x.Len() > 0 {
		q.stream.EdgeSoftmax(x.Cols, g, x)
	}
}

// EdgeSoftmaxBackward turns the gradient d of a = EdgeSoftmax(x) into that of x, in place.
func (q *Queue) EdgeSoftmaxBackward(g Graph, a, d Tensor) {
	if q.ok(g.check("edge softmax backward"), edges("edge softmax backward", "a", g, a, -1), edges("edge softmax backward", "d", g, d, a.Cols),
		disjoint("edge softmax backward", d, a)) && d.Len() > 0 {
		q.stream.EdgeSoftmaxBackward(a.Cols, g, a, d)
	}
}

// EdgeSum adds to each row of out the values x of its edges: out is
// [NumDst×heads], or [NumSrc×heads] if bySource, which takes a graph transposed
// with its edges. It is the gradient of one half of [Queue.EdgeAdd]'s scores.
func (q *Queue) EdgeSum(bySource bool, g Graph, x, out Tensor) {
	checks := []error{g.check("edge sum"), edges("edge sum", "x", g, x, out.Cols), disjoint("edge sum", out, x)}
	if bySource {
		checks = append(checks, g.checkTransposedEdges("edge sum"), matrix("edge sum", "out", out, g.NumSrc, -1))
	} else {
		checks = append(checks, matrix("edge sum", "out", out, g.NumDst, -1))
	}
	if q.ok(checks...) && out.Len() > 0 && x.Len() > 0 {
		q.stream.EdgeSum(bySource, g, x, out)
	}
}

// AggregateHeads adds to dst[d] the rows of src that belong to d's edges, head
// h of edge e multiplied by weights[e][h].
func (q *Queue) AggregateHeads(g Graph, weights, src, dst Tensor) {
	heads := weights.Cols
	if q.ok(g.check("aggregate heads"), headsDivide("aggregate heads", heads, src), edges("aggregate heads", "weights", g, weights, heads),
		matrix("aggregate heads", "src", src, g.NumSrc, -1), matrix("aggregate heads", "dst", dst, g.NumDst, src.Cols),
		disjoint("aggregate heads", dst, src), disjoint("aggregate heads", dst, weights)) && dst.Len() > 0 && weights.Len() > 0 {
		q.stream.AggregateHeads(heads, g, weights, src, dst)
	}
}

// AggregateHeadsBackward adds to dSrc [NumSrc×c] the gradient that
// [Queue.AggregateHeads] passes on to its sources; that of the weights is
// EdgeDot of src and dDst. g must have been transposed with its edges. With
// one head it serves [AggregateOptions].Weights too.
func (q *Queue) AggregateHeadsBackward(g Graph, weights, dDst, dSrc Tensor) {
	heads, op := weights.Cols, "aggregate heads backward"
	if q.ok(g.check(op), g.checkTransposedEdges(op), headsDivide(op, heads, dDst), edges(op, "weights", g, weights, heads),
		matrix(op, "dDst", dDst, g.NumDst, -1), matrix(op, "dSrc", dSrc, g.NumSrc, dDst.Cols), disjoint(op, dSrc, dDst),
		disjoint(op, dSrc, weights)) && dSrc.Len() > 0 && weights.Len() > 0 {
		q.stream.AggregateHeadsBackward(heads, g, weights, dDst, dSrc)
	}
}

// AttentionSums is the state of a softmax-weighted sum whose terms arrive in
// pieces, for n destinations: what a destination has seen so far is worth
// Sum/Total, both as parts of 2^Max. Zero everywhere is "nothing yet".
type AttentionSums struct {
	Sum   Tensor // [n × heads·width]: Σ e^score/2^Max·row
	Max   Tensor // [n × heads]: the exponent of two of the largest e^score, a whole number
	Total Tensor // [n × heads]: Σ e^score/2^Max
}

// OnlineAttention adds g's edges to s: the score of head h of edge (s, d) is
// leakyReLU(srcScore[s][h] + dstScore[d][h] + edgeScore[e][h]), where an edgeScore of the zero Tensor is none; its row is head h
// of src[s]. Sum divided by Total is then the sum weighted by the softmax over all edges
// added so far, whatever their order and pieces (online softmax: Milakov
// and Gimelshein, 2018, Algorithm 3): no exponential exceeds √2. Edges in the same order give the same bits in whatever pieces,
// but for sums below 2^-126.
func (q *Queue) OnlineAttention(slope float32, g Graph, src, srcScore, dstScore, edgeScore Tensor, s AttentionSums) {
	heads, op := srcScore.Cols, "online attention"
	checks := []error{g.check(op), headsDivide(op, heads, src), matrix(op, "src", src, g.NumSrc, -1), matrix(op, "srcScore", srcScore, g.NumSrc, -1),
		matrix(op, "dstScore", dstScore, g.NumDst, heads), edgePart(op, g, edgeScore, heads), matrix(op, "sum", s.Sum, g.NumDst, src.Cols),
		matrix(op, "max", s.Max, g.NumDst, heads), matrix(op, "total", s.Total, g.NumDst, heads)}
	for _, out := range []Tensor{s.Sum, s.Max, s.Total} {
		for _, in := range []Tensor{src, srcScore, dstScore, edgeScore} {
			checks = append(checks, disjoint(op, out, in))
		}
	}
	checks = append(checks, disjoint(op, s.Sum, s.Max), disjoint(op, s.Sum, s.Total), disjoint(op, s.Max, s.Total))
	if q.ok(checks...) && g.NumDst > 0 && g.Edges() > 0 {
		q.stream.OnlineAttention(heads, slope, g, src, srcScore, dstScore, edgeScore, s)
	}
}

// LeakyReLUBackward turns the gradient d of y = leakyReLU(x), slope ≥ 0, into that of x, in place.
func (q *Queue) LeakyReLUBackward(slope float32, y, d Tensor) {
	var bad error
	if !(slope >= 0) {
		bad = fmt.Errorf("gpu: leaky relu with slope %v, expected 0 or more", slope)
	}
	if q.ok(matrix("leaky relu backward", "y", y, -1, -1), matrix("leaky relu backward", "d", d, y.Rows, y.Cols),
		contiguous("leaky relu backward", y, d), disjoint("leaky relu backward", d, y), bad) && d.Len() > 0 {
		q.stream.LeakyReLUBackward(slope, y, d)
	}
}

// AddBias adds bias [1×c] to every row of t [n×c], then max(0, …) if relu.
func (q *Queue) AddBias(relu bool, bias, t Tensor) {
	if q.ok(matrix("add bias", "t", t, -1, -1), matrix("add bias", "bias", bias, 1, t.Cols), disjoint("add bias", t, bias)) && t.Len() > 0 {
		q.stream.AddBias(relu, bias, t)
	}
}

// LayerNorm sets y = xhat·gamma + beta with xhat the rows of x [n×c], shifted and
// scaled to mean 0 and variance 1 (Ba, Kiros and Hinton, 2016). xhat and rstd
// (float32[1×n], 1/√(variance+epsilon)) are what the backward pass needs; xhat
// may be x.
func (q *Queue) LayerNorm(o LayerNormOptions, x, xhat, y, rstd Tensor) {
	const op = "layer norm"
	if q.ok(matrix(op, "x", x, -1, -1), matrix(op, "xhat", xhat, x.Rows, x.Cols), matrix(op, "y", y, x.Rows, x.Cols),
		vector(op, "rstd", rstd, blocks.Float32, x.Rows), matrix(op, "gamma", o.Gamma, 1, x.Cols), matrix(op, "beta", o.Beta, 1, x.Cols),
		disjoint(op, y, x), disjoint(op, y, xhat), disjoint(op, y, o.Gamma), disjoint(op, y, o.Beta)) && x.Len() > 0 {
		q.stream.LayerNorm(o, x, xhat, y, rstd)
	}
}

// LayerNormBackward turns the gradient d of [Queue.LayerNorm]'s y, before the ReLU, into that of
// x, in place, and adds those of gamma and beta to dGamma and dBeta [1×c].
func (q *Queue) LayerNormBackward(gamma, xhat, rstd, d, dGamma, dBeta Tensor) {
	const op = "layer norm backward"
	if q.ok(matrix(op, "d", d, -1, -1), matrix(op, "xhat", xhat, d.Rows, d.Cols), vector(op, "rstd", rstd, blocks.Float32, d.Rows),
		matrix(op, "gamma", gamma, 1, d.Cols), matrix(op, "dGamma", dGamma, 1, d.Cols), matrix(op, "dBeta", dBeta, 1, d.Cols),
		disjoint(op, d, xhat), disjoint(op, d, gamma), disjoint(op, dGamma, d), disjoint(op, dBeta, d)) && d.Len() > 0 {
		q.stream.LayerNormBackward(gamma, xhat, rstd, d, dGamma, dBeta)
	}
}
