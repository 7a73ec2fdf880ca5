package host

import (
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host/kernels"
)

func (s *stream) SelfLoops(g, out gpu.Graph) {
	s.run("self loops", func() {
		kernels.AddSelfLoops(s.pool, graph(g), graph(out))
	})
}

func (s *stream) TransposeEdges(g gpu.Graph) {
	s.run("transpose edges", func() {
		kernels.TransposeEdges(s.pool, graph(g), transposed(g), slice[int32](g.SrcEdges))
	})
}

func (s *stream) EdgeWeights(o gpu.EdgeWeightOptions, g gpu.Graph, out gpu.Tensor) {
	s.run("edge weights", func() {
		k := kernels.EdgeWeightOptions{SelfLoops: g.SelfLoops, Symmetric: o.Symmetric, Sampled: o.Sampled}
		kernels.EdgeWeights(s.pool, k, graph(g), slice[int32](g.SrcDegrees), slice[int32](g.DstDegrees), slice[float32](out))
	})
}

func (s *stream) EdgeAdd(slope float32, g gpu.Graph, src, dst, edge, out gpu.Tensor) {
	s.run("edge add", func() {
		kernels.EdgeAdd(s.pool, graph(g), matrix(src), matrix(dst), slice[float32](edge), slope, slice[float32](out))
	})
}

func (s *stream) EdgeDot(heads int, g gpu.Graph, src, dst, out gpu.Tensor) {
	s.run("edge dot", func() {
		kernels.EdgeDot(s.pool, graph(g), heads, matrix(src), matrix(dst), slice[float32](out))
	})
}

func (s *stream) EdgeSoftmax(heads int, g gpu.Graph, x gpu.Tensor) {
	s.run("edge softmax", func() { kernels.EdgeSoftmax(s.pool, graph(g), heads, slice[float32](x)) })
}

func (s *stream) EdgeSoftmaxBackward(heads int, g gpu.Graph, a, d gpu.Tensor) {
	s.run("edge softmax backward", func() {
		kernels.EdgeSoftmaxBackward(s.pool, graph(g), heads, slice[float32](a), slice[float32](d))
	})
}

func (s *stream) EdgeSum(bySource bool, g gpu.Graph, x, out gpu.Tensor) {
	s.run("edge sum", func() {
		if bySource {
			kernels.EdgeSum(s.pool, transposed(g), slice[int32](g.SrcEdges), slice[float32](x), matrix(out))
			return
		}
		kernels.EdgeSum(s.pool, graph(g), nil, slice[float32](x), matrix(out))
	})
}

func (s *stream) AggregateHeads(heads int, g gpu.Graph, weights, src, dst gpu.Tensor) {
	s.run("aggregate heads", func() {
		kernels.AggregateHeads(s.pool, graph(g), nil, heads, slice[float32](weights), matrix(src), matrix(dst))
	})
}

func (s *stream) AggregateHeadsBackward(heads int, g gpu.Graph, weights, dDst, dSrc gpu.Tensor) {
	s.run("aggregate heads backward", func() {
		kernels.AggregateHeads(s.pool, transposed(g), slice[int32](g.SrcEdges), heads, slice[float32](weights), matrix(dDst), matrix(dSrc))
	})
}

func (s *stream) OnlineAttention(heads int, slope float32, g gpu.Graph, src, srcScore, dstScore, edgeScore gpu.Tensor, sums gpu.AttentionSums) {
	s.run("online attention", func() {
		kernels.OnlineAttention(s.pool, graph(g), slope, matrix(src), matrix(srcScore), matrix(dstScore), slice[float32](edgeScore), matrix(sums.Sum), matrix(sums.Max), matrix(sums.Total))
	})
}

func (s *stream) LeakyReLUBackward(slope float32, y, d gpu.Tensor) {
	s.run("leaky relu backward", func() {
		kernels.LeakyReLUBackward(s.pool, slope, slice[float32](y), slice[float32](d))
	})
}

func (s *stream) AddBias(relu bool, bias, t gpu.Tensor) {
	s.run("add bias", func() {
		if relu {
			kernels.BiasReLU(s.pool, matrix(t), slice[float32](bias))
			return
		}
		kernels.AddBias(s.pool, matrix(t), slice[float32](bias))
	})
}

func (s *stream) LayerNorm(o gpu.LayerNormOptions, x, xhat, y, rstd gpu.Tensor) {
	s.run("layer norm", func() {
		kernels.LayerNorm(s.pool, o.Epsilon, matrix(x), slice[float32](o.Gamma), slice[float32](o.Beta), matrix(xhat), matrix(y), slice[float32](rstd))
		if o.ReLU {
			kernels.BiasReLU(s.pool, matrix(y), nil)
		}
	})
}

func (s *stream) LayerNormBackward(gamma, xhat, rstd, d, dGamma, dBeta gpu.Tensor) {
	s.run("layer norm backward", func() {
		kernels.LayerNormBackward(s.pool, slice[float32](gamma), matrix(xhat), slice[float32](rstd), matrix(d), slice[float32](dGamma), slice[float32](dBeta))
	})
}
