package host

import (
	"context"
	"fmt"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host/kernels"
)

// stream executes operations at once; see [gpu.Stream]. An index outside its
// table, which package kernels reports by a panic before it writes anything,
// becomes the stream's error.
type stream struct {
	pool    *kernels.Pool
	observe func(op string, took time.Duration) // nil: nobody asks
	err     error
	began   time.Time // of the first operation since the last mark; zero: none
}

// mark is a place that execution has passed.
type mark struct {
	err  error
	took time.Duration
}

func (m mark) Wait(ctx context.Context) error {
	if m.err != nil {
		return m.err
	}
	return context.Cause(ctx)
}

// Passed is true: operations run as they are issued.
func (m mark) Passed() bool { return true }

func (m mark) Took() time.Duration { return m.took }

func (s *stream) Mark() gpu.Mark {
	m := mark{err: s.err}
	if !s.began.IsZero() {
		m.took, s.began = time.Since(s.began), time.Time{}
	}
	return m
}

func (s *stream) Sync(ctx context.Context) error {
	err := s.err
	s.err = nil
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

func (s *stream) Close() error { return nil }

// run executes op unless an earlier one failed.
func (s *stream) run(name string, op func()) {
	if s.err != nil {
		return
	}
	if s.began.IsZero() {
		s.began = time.Now()
	}
	defer func() {
		if r := recover(); r != nil {
			s.err = fmt.Errorf("host: %s: %v", name, r)
		}
	}()
	if s.observe == nil {
		op()
		return
	}
	start := time.Now()
	op()
	s.observe(name, time.Since(start))
}

func matrix(t gpu.Tensor) kernels.Matrix {
	return kernels.Matrix{Data: slice[float32](t), Rows: t.Rows, Cols: t.Cols, Stride: t.Stride}
}

func rows(t gpu.Tensor) kernels.Rows {
	r := kernels.Rows{Count: t.Rows, Dim: t.Cols, Stride: t.Stride * t.Elem.Size(), Type: t.Elem}
	r.Data = raw(t)
	if t.Scale != nil && t.Cols > 0 {
		r.Scales = slice[float32](gpu.VectorOf(t.Scale, t.ScaleOffset, t.Cols, blocks.Float32))
	}
	return r
}

// raw views a tensor's memory as bytes.
func raw(t gpu.Tensor) []byte {
	if t.Len() == 0 {
		return nil
	}
	return t.Mem.(*memory).b[t.Offset : t.Offset+t.Bytes()]
}

func graph(g gpu.Graph) kernels.CSR {
	return kernels.CSR{Indptr: slice[int32](g.Indptr), Indices: slice[int32](g.Indices)}
}

func transposed(g gpu.Graph) kernels.CSR {
	return kernels.CSR{Indptr: slice[int32](g.SrcIndptr), Indices: slice[int32](g.DstIndices)}
}

func (s *stream) Upload(dst gpu.Tensor, src []byte) {
	s.run("upload", func() { copy(raw(dst), src) })
}

func (s *stream) Download(dst []byte, src gpu.Tensor) {
	s.run("download", func() { copy(dst, raw(src)) })
}

// rowGrain is how many rows of c float32 a thread takes at a time: some 64 KiB.
func rowGrain(c int) int { return max(1, 16384/max(c, 1)) }

func (s *stream) Copy(dst, src gpu.Tensor) {
	s.run("copy", func() {
		d, f := matrix(dst), matrix(src)
		s.pool.For(d.Rows, rowGrain(d.Cols), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				copy(d.Row(i), f.Row(i))
			}
		})
	})
}

func (s *stream) Fill(dst gpu.Tensor, value float32) {
	s.run("fill", func() {
		d := matrix(dst)
		s.pool.For(d.Rows, rowGrain(d.Cols), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				row := d.Row(i)
				if value == 0 {
					clear(row)
					continue
				}
				for j := range row {
					row[j] = value
				}
			}
		})
	})
}

func (s *stream) CopyRows(dst, to, src, from gpu.Tensor) {
	s.run("copy rows", func() { kernels.CopyRows(s.pool, rows(dst), slice[uint32](to), rows(src), slice[uint32](from)) })
}

func (s *stream) Gather(dst, table, index gpu.Tensor) {
	s.run("gather", func() {
		kernels.GatherRows(s.pool, matrix(dst), rows(table), slice[uint32](index))
	})
}

func (s *stream) Aggregate(o gpu.AggregateOptions, g gpu.Graph, table, dst gpu.Tensor) {
	name := "aggregate"
	if !o.Index.IsZero() {
		name = "gather-aggregate"
	}
	s.run(name, func() {
		var index []uint32
		if !o.Index.IsZero() {
			index = slice[uint32](o.Index)
		}
		k := kernels.AggregateOptions{Mean: o.Reduce == gpu.Mean, Accumulate: o.Accumulate}
		if !o.Weights.IsZero() {
			k.Weights, k.WeightStride = slice[float32](o.Weights), o.Weights.Stride
		}
		kernels.Aggregate(s.pool, k, graph(g), index, rows(table), matrix(dst))
	})
}

func (s *stream) AggregateBackward(r gpu.Reduce, g gpu.Graph, dDst, dSrc gpu.Tensor) {
	s.run("aggregate backward", func() {
		kernels.AggregateBackward(s.pool, r == gpu.Mean, slice[int32](g.Indptr), transposed(g), matrix(dDst), matrix(dSrc))
	})
}

func (s *stream) Transpose(g gpu.Graph) {
	s.run("transpose", func() {
		kernels.Transpose(s.pool, graph(g), transposed(g))
	})
}

func (s *stream) DivideRows(t, divisors gpu.Tensor) {
	s.run("divide rows", func() {
		m, by := matrix(t), slice[float32](divisors)
		s.pool.For(m.Rows, rowGrain(m.Cols), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				if by[i] == 0 {
					continue
				}
				inv := 1 / by[i]
				row := m.Row(i)
				for j := range row {
					row[j] *= inv
				}
			}
		})
	})
}

// SparseGemm implements [gpu.SparseStream].
func (s *stream) SparseGemm(trans bool, a gpu.Sparse, b, c gpu.Tensor) {
	s.run("sparse gemm", func() {
		k := kernels.Sparse{Cols: a.Cols, Index: slice[uint32](a.Index), Indptr: slice[int32](a.Indptr), Columns: slice[int32](a.Columns), Values: slice[float32](a.Values)}
		kernels.SparseGemm(s.pool, trans, k, matrix(b), matrix(c))
	})
}

func (s *stream) Gemm(o gpu.GemmOptions, a, b, c gpu.Tensor) {
	s.run("gemm", func() {
		k := kernels.GemmOptions{TransA: o.TransA, TransB: o.TransB, Accumulate: o.Accumulate, ReLU: o.ReLU}
		if !o.Bias.IsZero() {
			k.Bias = slice[float32](o.Bias)
		}
		kernels.Gemm(s.pool, k, matrix(a), matrix(b), matrix(c))
	})
}

func (s *stream) ColumnSum(src, dst gpu.Tensor) {
	s.run("column sum", func() { kernels.ColumnSum(s.pool, matrix(src), slice[float32](dst)) })
}

func (s *stream) Axpy(alpha float32, x, y gpu.Tensor) {
	s.run("axpy", func() { kernels.Axpy(s.pool, alpha, slice[float32](x), slice[float32](y)) })
}

func (s *stream) Dropout(o gpu.DropoutOptions, t gpu.Tensor) {
	s.run("dropout", func() {
		kernels.Dropout(s.pool, o.P, o.Seed, slice[float32](t))
	})
}

func (s *stream) ReLUBackward(scale float32, y, d gpu.Tensor) {
	s.run("relu backward", func() {
		kernels.ReLUBackward(s.pool, scale, slice[float32](y), slice[float32](d))
	})
}

func (s *stream) SoftmaxCrossEntropy(logits, labels, grad, stat gpu.Tensor) {
	s.run("softmax cross-entropy", func() {
		var g kernels.Matrix
		if !grad.IsZero() {
			g = matrix(grad)
		}
		loss, correct := kernels.SoftmaxCrossEntropy(s.pool, matrix(logits), slice[int32](labels), g)
		out := slice[float64](stat)
		out[0], out[1] = loss, float64(correct)
	})
}

func (s *stream) NumberLoss(o gpu.NumberLossOptions, outputs, labels, grad, stat gpu.Tensor) {
	s.run("number loss", func() {
		out := slice[float64](stat)
		out[0], out[1] = kernels.NumberLoss(o.Mean, o.Deviation, matrix(outputs), slice[int32](labels), matrix(grad))
	})
}

func (s *stream) MultiLabelLoss(sets, logits, labels, grad, stat gpu.Tensor) {
	s.run("multi-label loss", func() {
		out := slice[float64](stat)
		out[0], out[1] = kernels.MultiLabelLoss(s.pool, slice[int32](sets), matrix(logits), slice[int32](labels), matrix(grad))
	})
}

func adamOptions(o gpu.AdamOptions) kernels.AdamOptions {
	return kernels.AdamOptions{LR: o.LR, Beta1: o.Beta1, Beta2: o.Beta2, Epsilon: o.Epsilon, WeightDecay: o.WeightDecay, Step: o.Step}
}

func (s *stream) Adam(o gpu.AdamOptions, param, grad, m, v gpu.Tensor) {
	s.run("adam", func() {
		kernels.Adam(s.pool, adamOptions(o),
			slice[float32](param), slice[float32](grad), slice[float32](m), slice[float32](v))
	})
}
