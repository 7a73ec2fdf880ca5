package gputest

import (
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

// segmentMax checks the maximum over a graph at once and in two pieces,
// its winners and its gradient.
func segmentMax(b *bench) {
	for _, s := range append(graphs, [2]int{5, 0}) {
		for _, dim := range []int{1, 7, 64} {
			n, m := s[0], s[1]
			g, indptr, indices := b.randomGraph(n, m)
			table, x := b.matrix(m+3, dim, 2)
			index := make([]uint32, m)
			for i := range index {
				index[i] = uint32(b.r.Below(uint64(m + 3)))
			}
			dOut, dv := b.matrix(n, dim, 1)
			want, winner := make([]float64, n*dim), make([]int32, n*dim)
			back := make([]float64, m*dim)
			for d := range n {
				for j := range dim {
					at := d*dim + j
					winner[at] = -1
					for e := indptr[d]; e < indptr[d+1]; e++ {
						if v := float64(x[int(index[indices[e]])*dim+j]); winner[at] < 0 || v > want[at] {
							want[at], winner[at] = v, e
						}
					}
					if w := winner[at]; w >= 0 {
						back[int(indices[w])*dim+j] += float64(dv[at])
					}
				}
			}
			what := fmt.Sprintf("max of %d from %d, %d columns", n, m, dim)
			out, _ := b.matrix(n, dim, 1)
			arg := b.a.Vector(b.q, n*dim, blocks.Int32)
			o := gpu.MaxOptions{Index: b.a.Uint32s(b.q, index)}
			b.q.SegmentMax(o, g, table, out, arg)
			b.near(what, b.read(out), want, 0)
			got := make([]int32, n*dim)
			if len(got) > 0 {
				b.q.Download(bytesOf(got), arg)
			}
			b.sync()
			for i, w := range winner {
				if got[i] != w {
					b.Errorf("%s: value %d came from edge %d, expected %d", what, i, got[i], w)
				}
			}
			dSrc, start := b.matrix(m, dim, 1)
			for i := range back {
				back[i] += float64(start[i])
			}
			b.q.TransposeEdges(b.a, &g)
			b.q.SegmentMaxBackward(g, dOut, arg, dSrc)
			b.near(what+", backward", b.read(dSrc), back, 1e-5)

			// The same edges in two pieces, by parity of their place.
			acc := b.a.Matrix(b.q, n, dim+1)
			b.q.Fill(acc, 0)
			o.Seen = acc.View(0, dim, n, 1)
			for part := range int32(2) {
				ptr, idx := []int32{0}, []int32{}
				for d := range n {
					for e := indptr[d]; e < indptr[d+1]; e++ {
						if e%2 == part {
							idx = append(idx, indices[e])
						}
					}
					ptr = append(ptr, int32(len(idx)))
				}
				h := gpu.Graph{NumDst: n, NumSrc: m, Indptr: b.a.Int32s(b.q, ptr), Indices: b.a.Int32s(b.q, idx)}
				b.q.SegmentMax(o, h, table, acc.View(0, 0, n, dim), gpu.Tensor{})
			}
			b.near(what+", in pieces", b.read(acc.View(0, 0, n, dim)), want, 0)
		}
	}
}

// batchNorm checks training's statistics, inference's use of them, and the gradients
// against central differences of Σ weight·y in float64.
func batchNorm(b *bench) {
	const n, c, eps, momentum = 7, 19, 1e-3, .25
	x, xv := b.matrix(n, c, 1)
	gamma, gv := b.matrix(1, c, 0)
	beta, bv := b.matrix(1, c, 0)
	mean, mv := b.matrix(1, c, 0)
	variance, _ := b.matrix(1, c, 0)
	b.q.Fill(variance, 2)
	d, wv := b.matrix(n, c, 2)
	moments := func(x []float64, j int) (mean, square float64) {
		for i := range n {
			mean += x[i*c+j] / n
		}
		for i := range n {
			square += (x[i*c+j] - mean) * (x[i*c+j] - mean) / n
		}
		return mean, square
	}
	value := func(x, g, be []float64) []float64 {
		y := make([]float64, n*c)
		for j := range c {
			mean, square := moments(x, j)
			for i := range n {
				y[i*c+j] = (x[i*c+j]-mean)/math.Sqrt(square+eps)*g[j] + be[j]
			}
		}
		return y
	}
	in := [][]float64{toFloat64(xv), toFloat64(gv), toFloat64(bv)}
	running, spread, inferred := make([]float64, c), make([]float64, c), make([]float64, n*c)
	for j := range c {
		m, s := moments(in[0], j)
		running[j] = float64(mv[j]) + momentum*(m-float64(mv[j]))
		spread[j] = 2 + momentum*(s*n/(n-1)-2)
		for i := range n {
			inferred[i*c+j] = (in[0][i*c+j]-running[j])/math.Sqrt(spread[j]+eps)*in[1][j] + in[2][j]
		}
	}
	xhat, y, rstd := b.a.Matrix(b.q, n, c), b.a.Matrix(b.q, n, c), b.a.Matrix(b.q, 1, c)
	o := gpu.BatchNormOptions{Gamma: gamma, Beta: beta, Epsilon: eps, Mean: mean, Variance: variance, Momentum: momentum}
	b.q.BatchNorm(o, x, xhat, y, rstd)
	b.near("batch norm", b.read(y), value(in[0], in[1], in[2]), 1e-5)
	b.near("running mean", b.read(mean), running, 1e-5)
	b.near("running variance", b.read(variance), spread, 1e-5)
	o.Inference = true
	z, unused := b.a.Matrix(b.q, n, c), b.a.Matrix(b.q, 1, c)
	b.q.BatchNorm(o, x, b.a.Matrix(b.q, n, c), z, unused)
	b.near("batch norm, inference", b.read(z), inferred, 1e-5)
	b.near("running mean after inference", b.read(mean), running, 1e-5)
	dGamma, dBeta := b.a.Matrix(b.q, 1, c), b.a.Matrix(b.q, 1, c)
	b.q.Fill(dGamma, 0)
	b.q.Fill(dBeta, 1) // added to
	b.q.BatchNormBackward(gamma, xhat, rstd, d, dGamma, dBeta)
	b.normGradients("batch norm", in, wv, value, d, dGamma, dBeta)
}

// scaledTables checks that columns' scales count wherever a table of int8 is read, also through a view of
// some columns, and are refused where no table is expected.
func scaledTables(b *bench) {
	const rows, cols, from = 6, 21, 3
	raw := make([]int8, rows*cols)
	scales := make([]float32, cols)
	for i := range raw {
		raw[i] = int8(b.r.Below(256))
	}
	for j := range scales {
		scales[j] = float32(b.r.Normal())
	}
	mem := b.a.Vector(b.q, len(raw), blocks.Int8)
	b.q.Upload(mem, bytesOf(raw))
	factors := b.a.Vector(b.q, cols, blocks.Float32)
	b.q.Upload(factors, bytesOf(scales))
	table := gpu.Tensor{Mem: mem.Mem, Offset: mem.Offset, Rows: rows, Cols: cols, Stride: cols, Elem: blocks.Int8, Scale: factors.Mem, ScaleOffset: factors.Offset}
	view := table.View(0, from, rows, cols-from)
	value := func(i uint32, j int) float64 {
		return float64(raw[int(i)*cols+from+j]) * float64(scales[from+j])
	}
	index := []uint32{4, 0, 4, 5}
	n := cols - from
	gathered, summed, largest := make([]float64, len(index)*n), make([]float64, 2*n), make([]float64, 2*n)
	for k, i := range index {
		for j := range n {
			gathered[k*n+j] = value(i, j)
			if d := k / 3; k%3 == 0 || gathered[k*n+j] > largest[d*n+j] { // edges 0, 1, 2 end in 0, edge 3 in 1
				largest[d*n+j] = gathered[k*n+j]
			}
			summed[k/3*n+j] += gathered[k*n+j]
		}
	}
	out := b.a.Matrix(b.q, len(index), n)
	b.q.Gather(out, view, b.a.Uint32s(b.q, index))
	b.near("gather", b.read(out), gathered, 1e-6)
	g := gpu.Graph{NumDst: 2, NumSrc: len(index), Indptr: b.a.Int32s(b.q, []int32{0, 3, 4}), Indices: b.a.Int32s(b.q, []int32{0, 1, 2, 3})}
	sum, most := b.a.Matrix(b.q, 2, n), b.a.Matrix(b.q, 2, n)
	b.q.Aggregate(gpu.AggregateOptions{Index: b.a.Uint32s(b.q, index)}, g, view, sum)
	b.near("aggregate", b.read(sum), summed, 1e-5)
	b.q.SegmentMax(gpu.MaxOptions{Index: b.a.Uint32s(b.q, index)}, g, view, most, gpu.Tensor{})
	b.near("segment max", b.read(most), largest, 1e-6)

	sum.Scale, sum.ScaleOffset = factors.Mem, factors.Offset
	b.q.Fill(sum, 0)
	if err := b.q.Sync(b.Context()); err == nil {
		b.Error("a matrix with scales was accepted as an output")
	}
	table.ScaleOffset = factors.Mem.Bytes()
	b.q.Gather(b.a.Matrix(b.q, len(index), cols), table, b.a.Uint32s(b.q, index))
	if err := b.q.Sync(b.Context()); err == nil {
		b.Error("scales behind the end of their memory were accepted")
	}
}
