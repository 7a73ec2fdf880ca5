package host

import (
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host/kernels"
)

func (s *stream) SegmentMax(o gpu.MaxOptions, g gpu.Graph, table, out, arg gpu.Tensor) {
	s.run("segment max", func() {
		k := kernels.MaxOptions{}
		if !o.Index.IsZero() {
			k.Index = slice[uint32](o.Index)
		}
		if !o.Seen.IsZero() {
			k.Seen = matrix(o.Seen)
		}
		if !arg.IsZero() {
			k.Arg = slice[int32](arg)
		}
		kernels.SegmentMax(s.pool, k, graph(g), rows(table), matrix(out))
	})
}

func (s *stream) SegmentMaxBackward(g gpu.Graph, dOut, arg, dSrc gpu.Tensor) {
	s.run("segment max backward", func() {
		kernels.SegmentMaxBackward(s.pool, transposed(g), slice[int32](g.SrcEdges), matrix(dOut), slice[int32](arg), matrix(dSrc))
	})
}

func (s *stream) BatchNorm(o gpu.BatchNormOptions, x, xhat, y, rstd gpu.Tensor) {
	s.run("batch norm", func() {
		k := kernels.BatchNormOptions{Epsilon: o.Epsilon, Momentum: o.Momentum, Inference: o.Inference}
		kernels.BatchNorm(s.pool, k, matrix(x), slice[float32](o.Gamma), slice[float32](o.Beta), slice[float32](o.Mean), slice[float32](o.Variance), matrix(xhat), matrix(y), slice[float32](rstd))
	})
}

func (s *stream) BatchNormBackward(gamma, xhat, rstd, d, dGamma, dBeta gpu.Tensor) {
	s.run("batch norm backward", func() {
		kernels.BatchNormBackward(s.pool, slice[float32](gamma), matrix(xhat), slice[float32](rstd), matrix(d), slice[float32](dGamma), slice[float32](dBeta))
	})
}
