package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/gpu"
)

// Edge weights ([Config].EdgeWeights) are numbers of the graph, not parameters: what a layer multiplies each message by is made of
// them on the host, a float an edge, and lies in [gpu.Graph].Weights.
//
//	sage  mean of h[u]  becomes  Σ w·h[u] / Σ w, as if an edge were there w times; 0 where Σ w is 0
//	gcn   D^-1/2·W·D^-1/2 with D_v = 1 + Σ w over v's edges, a self loop of weight 1 included (PyG's gcn_norm)

// WeighedEdges are a sampled block's edges with what they weigh, by destination.
type WeighedEdges struct {
	Indptr, Indices []int32
	Weights         []float32 // of each edge, 0 or more
	Degrees         []int32   // of each destination, before sampling
	// Sums are, of each source, the weights of all edges into it before sampling; for gcn alone. Destinations are the first sources.
	Sums []float64
}

// EdgeWeigher gives sampled blocks their [gpu.Graph].Weights. It owns what the tensor then refers to, so it serves one graph at a
// time; memory is reused. The zero value is for sage.
type EdgeWeigher struct {
	Symmetric bool // for gcn
	out       []float32
}

// EdgeWeighers returns one for each of n graphs of a model of this description.
func (c *Config) EdgeWeighers(n int) []EdgeWeigher {
	ws := make([]EdgeWeigher, n)
	for i := range ws {
		ws[i].Symmetric = c.SymmetricWeights()
	}
	return ws
}

// SymmetricWeights reports whether messages are normalised by the weights of both their ends: gcn's.
func (c *Config) SymmetricWeights() bool {
	return c.EdgeWeights && c.Kind().Weights == WeightsSymmetric
}

// Weigh sets g's Weights from k. A mini-batch holds some of a destination's edges, drawn whatever their weights: sage divides by the
// weights of these, the self-normalised estimate of the weighted mean, whose bias vanishes with the fanout; gcn multiplies them by
// degree over number, as without weights, so that the expectation is the sum over all, and divides by sums of all weights. gcn's are of
// the graph with self loops, the first edge of each destination ([gpu.Queue.SelfLoops]).
func (w *EdgeWeigher) Weigh(q *gpu.Queue, a *gpu.Arena, g *gpu.Graph, k WeighedEdges) {
	w.out = w.out[:0]
	for d := range len(k.Indptr) - 1 {
		begin, end := k.Indptr[d], k.Indptr[d+1]
		own := k.Weights[begin:end]
		if w.Symmetric {
			own1 := 1 + k.Sums[d]
			w.out = append(w.out, float32(1/own1))
			scale := float64(k.Degrees[d]) / float64(max(len(own), 1)) / math.Sqrt(own1)
			for i, s := range k.Indices[begin:end] {
				w.out = append(w.out, float32(float64(own[i])*scale/math.Sqrt(1+k.Sums[s])))
			}
			continue
		}
		sum := 0.
		for _, x := range own {
			sum += float64(x)
		}
		by := 0.
		if sum > 0 {
			by = 1 / sum
		}
		for _, x := range own {
			w.out = append(w.out, float32(float64(x)*by))
		}
	}
	g.Weights = WeightColumn(a.Float32s(q, w.out))
}

// WeightColumn views a vector of weights as [gpu.Graph].Weights.
func WeightColumn(t gpu.Tensor) gpu.Tensor {
	t.Rows, t.Cols, t.Stride = t.Cols, min(t.Cols, 1), min(t.Cols, 1)
	return t
}

// NormalizeWeights turns weights of whole neighbourhoods into gcn's of [Streamer].Accumulate, in place: divided by the roots of one more
// than the sums of all weights into destination and source. sage accumulates weights as they are.
func NormalizeWeights(indptr, indices []int32, weights, dst, src []float32) {
	for d := range len(indptr) - 1 {
		own := math.Sqrt(1 + float64(dst[d]))
		for e := indptr[d]; e < indptr[d+1]; e++ {
			weights[e] = float32(float64(weights[e]) / (own * math.Sqrt(1+float64(src[indices[e]]))))
		}
	}
}

// FeaturedEdges are a sampled block's edges with where their features lie.
type FeaturedEdges struct {
	Indptr []int32   // by destination
	Places []int64   // of each edge, its row of Rows
	Rows   []float32 // features, Dim a row
	Dim    int
}

// EdgeReader gives sampled blocks their [gpu.Graph].EdgeFeatures. It owns what the tensor then refers to, so it serves one graph at a
// time; memory is reused.
type EdgeReader struct{ out []float32 }

// Read sets g's EdgeFeatures from k: those of its edges and, the first of each destination, of its self loop
// ([gpu.Queue.SelfLoops]): the mean of the destination's edges in the block, 0 without any, as PyG's GATConv fills them by default.
func (r *EdgeReader) Read(q *gpu.Queue, a *gpu.Arena, g *gpu.Graph, k FeaturedEdges) {
	n, dim := len(k.Indptr)-1, k.Dim
	r.out = slices.Grow(r.out[:0], (n+len(k.Places))*dim)
	for d := range n {
		loop := len(r.out)
		r.out = r.out[:loop+dim]
		mean, own := r.out[loop:], k.Places[k.Indptr[d]:k.Indptr[d+1]]
		clear(mean)
		for _, p := range own {
			row := k.Rows[p*int64(dim) : (p+1)*int64(dim)]
			r.out = append(r.out, row...)
			for j, x := range row {
				mean[j] += x
			}
		}
		for j := range mean {
			mean[j] /= float32(max(len(own), 1))
		}
	}
	g.EdgeFeatures = FeatureRows(a.Float32s(q, r.out), dim)
}

// FeatureRows views a vector of features as [gpu.Graph].EdgeFeatures, dim columns a row.
func FeatureRows(t gpu.Tensor, dim int) gpu.Tensor {
	t.Rows, t.Cols, t.Stride = t.Cols/dim, dim, dim
	return t
}

// checkWeights says what is wrong with EdgeWeights.
func (c *Config) checkWeights() error {
	if c.EdgeWeights && (c.Kind().Weights == "" || c.Aggregator == "max") {
		return fmt.Errorf("nn: edge weights for model %q, aggregator %q: sage's mean and gcn are weighted by them (gat reads them as features of edges)", c.Model, c.Aggregator)
	}
	return nil
}

// weighed fails where a model that is weighted by edges has a graph whose edges have no weights.
func (m *Model) weighed(q *gpu.Queue, g *gpu.Graph) {
	if m.cfg.EdgeWeights && g.Edges() > 0 && g.Weights.IsZero() {
		q.Fail(fmt.Errorf("nn: the graph's edges have no weights: %w", gpu.ErrShape))
	}
}

// meanOf is how the messages of g become a mean: by their weights, where it has some.
func meanOf(g *gpu.Graph) gpu.AggregateOptions {
	if g.Weights.IsZero() {
		return gpu.AggregateOptions{Reduce: gpu.Mean}
	}
	return gpu.AggregateOptions{Weights: g.Weights}
}

// meanBackward adds to dSrc the gradient that a mean by [meanOf] passes on to its sources. It transposes g.
func meanBackward(p *Pass, g *gpu.Graph, dDst, dSrc gpu.Tensor) {
	if g.Weights.IsZero() {
		p.Queue.Transpose(p.Arena, g)
		p.Queue.AggregateBackward(gpu.Mean, *g, dDst, dSrc)
		return
	}
	p.Queue.TransposeEdges(p.Arena, g)
	p.Queue.AggregateHeadsBackward(*g, g.Weights, dDst, dSrc)
}
