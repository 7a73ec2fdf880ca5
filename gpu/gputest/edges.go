package gputest

import (
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/gpu"
)

// graphs is what the operations on edges are tried on: see randomGraph.
var graphs = [][2]int{{1, 1}, {9, 20}, {40, 60}, {6, 6}, {0, 4}}

// edgeList returns the edges of a graph as destinations and sources.
func edgeList(indptr, indices []int32) (dst, src []int) {
	for d := range len(indptr) - 1 {
		for _, s := range indices[indptr[d]:indptr[d+1]] {
			dst, src = append(dst, d), append(src, int(s))
		}
	}
	return dst, src
}

func softmaxOf(dst []int, heads int, score []float64) []float64 {
	top, total := map[[2]int]float64{}, map[[2]int]float64{}
	for i, v := range score {
		k := [2]int{dst[i/heads], i % heads}
		if old, ok := top[k]; !ok || v > old {
			top[k] = v
		}
	}
	out := make([]float64, len(score))
	for i, v := range score {
		k := [2]int{dst[i/heads], i % heads}
		out[i] = math.Exp(v - top[k])
		total[k] += out[i]
	}
	for i := range out {
		out[i] /= total[[2]int{dst[i/heads], i % heads}]
	}
	return out
}

func leaky(x float64) float64 {
	if x < 0 {
		return .2 * x
	}
	return x
}

// attention checks every step of graph attention and its gradients, and that
// an online softmax over pieces, whose scores lie far apart, is the softmax.
func attention(b *bench) {
	for _, s := range graphs {
		for _, heads := range []int{1, 3} {
			const width = 7
			n, m := s[0], s[1]
			g, indptr, indices := b.randomGraph(n, m)
			dst, src := edgeList(indptr, indices)
			what := fmt.Sprintf("%d from %d, %d heads: ", n, m, heads)
			left, lv := b.matrix(m, heads, 2)
			right, rv := b.matrix(n, heads, 1)
			x, xv := b.matrix(m, heads*width, 1)
			dy, dv := b.matrix(n, heads*width, 2)
			e := len(dst)
			own, ov := b.matrix(e, heads, 0) // the edges' own part of their scores, which every other graph has
			if len(indptr)%2 == 0 {
				own = gpu.Tensor{}
				clear(ov)
			}
			score, dot := make([]float64, e*heads), make([]float64, e*heads)
			for i := range score {
				k, h := i/heads, i%heads
				score[i] = leaky(float64(lv[src[k]*heads+h]) + float64(rv[dst[k]*heads+h]) + float64(ov[i]))
				for j := range width {
					dot[i] += float64(xv[(src[k]*heads+h)*width+j]) * float64(dv[(dst[k]*heads+h)*width+j])
				}
			}
			alpha := softmaxOf(dst, heads, score)
			out, back := make([]float64, n*heads*width), make([]float64, m*heads*width)
			sum, bySrc, byDst := make([]float64, n*heads), make([]float64, m*heads), make([]float64, n*heads)
			for i, a := range alpha {
				k, h := i/heads, i%heads
				sum[dst[k]*heads+h] += a * dot[i]
				bySrc[src[k]*heads+h] += a
				byDst[dst[k]*heads+h] += a
				for j := range width {
					out[(dst[k]*heads+h)*width+j] += a * float64(xv[(src[k]*heads+h)*width+j])
					back[(src[k]*heads+h)*width+j] += a * float64(dv[(dst[k]*heads+h)*width+j])
				}
			}
			dScore := make([]float64, e*heads)
			for i, a := range alpha {
				dScore[i] = a * (dot[i] - sum[dst[i/heads]*heads+i%heads])
				if score[i] < 0 {
					dScore[i] *= .2
				}
			}
			scores, weights, d := b.a.Matrix(b.q, e, heads), b.a.Matrix(b.q, e, heads), b.a.Matrix(b.q, e, heads)
			b.q.EdgeAdd(.2, g, left, right, own, scores)
			b.near(what+"edge add", b.read(scores), score, 1e-6)
			if !own.IsZero() { // in place
				b.q.Copy(scores, own)
				b.q.EdgeAdd(.2, g, left, right, scores, scores)
				b.near(what+"edge add in place", b.read(scores), score, 1e-6)
			}
			b.q.Copy(weights, scores)
			b.q.EdgeSoftmax(g, weights)
			b.near(what+"edge softmax", b.read(weights), alpha, 1e-5)
			b.q.EdgeDot(heads, g, x, dy, d)
			b.near(what+"edge dot", b.read(d), dot, 1e-5)
			b.q.EdgeSoftmaxBackward(g, weights, d)
			b.q.LeakyReLUBackward(.2, scores, d)
			b.near(what+"scores' gradient", b.read(d), dScore, 1e-4)
			y, dx := b.a.Matrix(b.q, n, heads*width), b.a.Matrix(b.q, m, heads*width)
			b.q.Fill(y, 0)
			b.q.Fill(dx, 0)
			b.q.AggregateHeads(g, weights, x, y)
			b.near(what+"weighted sum", b.read(y), out, 1e-4)
			b.q.TransposeEdges(b.a, &g)
			b.q.AggregateHeadsBackward(g, weights, dy, dx)
			b.near(what+"weighted sum, backward", b.read(dx), back, 1e-4)
			for _, bySource := range []bool{true, false} {
				want, rows := byDst, n
				if bySource {
					want, rows = bySrc, m
				}
				t := b.a.Matrix(b.q, rows, heads)
				b.q.Fill(t, 0)
				b.q.EdgeSum(bySource, g, weights, t)
				b.near(fmt.Sprintf("%sedge sum by source %v", what, bySource), b.read(t), want, 1e-4)
			}
			b.online(what, n, m, heads, width, indptr, indices, left, right, x, ov)
		}
	}
}

// online feeds the edges in three pieces, the scores 300 times as large, so
// that a sum of plain exponentials would be infinite or 0.
func (b *bench) online(what string, n, m, heads, width int, indptr, indices []int32, left, right, x gpu.Tensor, own []float32) {
	b.Helper()
	big, bigDst := b.a.Matrix(b.q, m, heads), b.a.Matrix(b.q, n, heads)
	for _, c := range [][2]gpu.Tensor{{big, left}, {bigDst, right}} {
		dense := b.a.Matrix(b.q, c[0].Rows, heads)
		b.q.Copy(dense, c[1])
		b.q.Fill(c[0], 0)
		b.q.Axpy(300, dense, c[0])
	}
	lv, rv, xv := b.read(big), b.read(bigDst), b.read(x)
	dst, src := edgeList(indptr, indices)
	score := make([]float64, len(dst)*heads)
	for i := range score {
		k, h := i/heads, i%heads
		score[i] = leaky(float64(lv[src[k]*heads+h] + rv[dst[k]*heads+h] + 300*own[i]))
	}
	want := make([]float64, n*heads*width)
	for i, a := range softmaxOf(dst, heads, score) {
		for j := range width {
			want[(dst[i/heads]*heads+i%heads)*width+j] += a * float64(xv[(src[i/heads]*heads+i%heads)*width+j])
		}
	}
	acc := b.a.Matrix(b.q, n, heads*(width+2))
	b.q.Fill(acc, 0)
	at := heads * width
	sums := gpu.AttentionSums{Sum: acc.View(0, 0, n, at), Max: acc.View(0, at, n, heads), Total: acc.View(0, at+heads, n, heads)}
	for piece := range int32(3) {
		ptr, idx, part := []int32{0}, []int32{}, []float32{}
		for d := range n {
			for e := indptr[d]; e < indptr[d+1]; e++ {
				if e%3 == piece {
					idx = append(idx, indices[e])
					for _, v := range own[int(e)*heads : (int(e)+1)*heads] {
						part = append(part, 300*v)
					}
				}
			}
			ptr = append(ptr, int32(len(idx)))
		}
		var ofEdges gpu.Tensor
		if slices.ContainsFunc(own, func(v float32) bool { return v != 0 }) {
			ofEdges = b.a.Matrix(b.q, len(idx), heads)
			b.q.Upload(ofEdges, bytesOf(part))
		}
		b.q.OnlineAttention(.2, gpu.Graph{NumDst: n, NumSrc: m, Indptr: b.a.Int32s(b.q, ptr), Indices: b.a.Int32s(b.q, idx)}, x, big, bigDst, ofEdges, sums)
	}
	total := b.read(sums.Total)
	got := b.read(sums.Sum)
	for d := range n {
		for h := range heads {
			w := total[d*heads+h]
			if (w == 0) != (indptr[d] == indptr[d+1]) {
				b.Fatalf("%sdestination %d of %d edges has total %v", what, d, indptr[d+1]-indptr[d], w)
			}
			for j := range width {
				if w != 0 {
					got[(d*heads+h)*width+j] /= w
				}
			}
		}
	}
	b.near(what+"online softmax", got, want, 1e-4)
	b.onlinePieces(what, n, m, indptr, indices, x, big, bigDst)
}

// onlinePieces feeds lists whole, then cut in three runs: their sums have the same bits.
func (b *bench) onlinePieces(what string, n, m int, indptr, indices []int32, x, srcScore, dstScore gpu.Tensor) {
	b.Helper()
	heads := srcScore.Cols
	run := func(pieces int32) []float32 {
		acc := b.a.Matrix(b.q, n, x.Cols+2*heads)
		b.q.Fill(acc, 0)
		at := x.Cols
		for piece := range pieces {
			ptr, idx := []int32{0}, []int32{}
			for d := range n {
				first, deg := indptr[d], indptr[d+1]-indptr[d]
				idx = append(idx, indices[first+deg*piece/pieces:first+deg*(piece+1)/pieces]...)
				ptr = append(ptr, int32(len(idx)))
			}
			b.q.OnlineAttention(.2, gpu.Graph{NumDst: n, NumSrc: m, Indptr: b.a.Int32s(b.q, ptr), Indices: b.a.Int32s(b.q, idx)}, x, srcScore, dstScore, gpu.Tensor{},
				gpu.AttentionSums{Sum: acc.View(0, 0, n, at), Max: acc.View(0, at, n, heads), Total: acc.View(0, at+heads, n, heads)})
		}
		return b.read(acc)
	}
	whole, cut := run(1), run(3)
	for i := range whole {
		if math.Float32bits(whole[i]) != math.Float32bits(cut[i]) {
			b.Fatalf("%sonline softmax: sum %d is %v of whole lists, %v of lists in three pieces", what, i, whole[i], cut[i])
		}
	}
}

// convolution checks self loops, the weights of a convolution, and weighted sums.
func convolution(b *bench) {
	for _, s := range graphs {
		n, m := s[0], max(s[0], s[1])
		plain, indptr, indices := b.randomGraph(n, m)
		deg := [2][]int32{make([]int32, m), make([]int32, n)}
		for v := range m {
			deg[0][v] = int32(b.r.Below(50))
		}
		for d := range n {
			deg[1][d] = indptr[d+1] - indptr[d] + int32(b.r.Below(50))
		}
		plain.SrcDegrees, plain.DstDegrees = b.a.Int32s(b.q, deg[0]), b.a.Int32s(b.q, deg[1])
		for variant := range 8 {
			o := gpu.EdgeWeightOptions{Symmetric: variant&1 > 0, Sampled: variant&2 > 0}
			g, ptr, idx := plain, indptr, indices
			if variant&4 > 0 {
				g, ptr, idx = b.q.SelfLoops(b.a, plain), []int32{0}, nil
				for d := range n {
					idx = append(append(idx, int32(d)), indices[indptr[d]:indptr[d+1]]...)
					ptr = append(ptr, int32(len(idx)))
				}
			}
			dst, src := edgeList(ptr, idx)
			table, x := b.matrix(m, 5, 1)
			weight, want := make([]float64, len(dst)), make([]float64, n*5)
			for e, d := range dst {
				weight[e] = 1
				loop := variant&4 > 0 && e == int(ptr[d])
				if o.Sampled && !loop {
					weight[e] = float64(deg[1][d]) / float64(indptr[d+1]-indptr[d])
				}
				if o.Symmetric {
					weight[e] /= math.Sqrt(float64(deg[1][d]+1) * float64(deg[0][src[e]]+1))
				}
				for j := range 5 {
					want[d*5+j] += weight[e] * float64(x[src[e]*5+j])
				}
			}
			what := fmt.Sprintf("%d from %d, self loops %v, %+v: ", n, m, g.SelfLoops, o)
			w := b.a.Matrix(b.q, len(dst), 1)
			b.q.EdgeWeights(o, g, w)
			b.near(what+"weights", b.read(w), weight, 1e-6)
			out := b.a.Matrix(b.q, n, 5)
			b.q.Aggregate(gpu.AggregateOptions{Weights: w}, g, table, out)
			b.near(what+"weighted sum", b.read(out), want, 1e-3)
		}
	}
	alone := b.q.SelfLoops(b.a, gpu.Graph{NumDst: 3, NumSrc: 5})
	x, xv := b.matrix(5, 2, 0)
	out := b.a.Matrix(b.q, 3, 2)
	b.q.Aggregate(gpu.AggregateOptions{}, alone, x, out)
	b.near("self loops of a graph without edges", b.read(out), toFloat64(xv[:6]), 0)
	bias, bv := b.matrix(1, 2, 0)
	for _, relu := range []bool{false, true} {
		b.q.AddBias(relu, bias, out)
		want := toFloat64(xv[:6])
		for i := range want {
			want[i] += float64(bv[i%2])
			if relu {
				want[i] = max(0, want[i]+float64(bv[i%2]))
			}
		}
		b.near(fmt.Sprintf("bias, relu %v", relu), b.read(out), want, 1e-6)
	}
	// What does not fit is refused.
	for name, op := range map[string]func(){
		"degrees missing": func() {
			b.q.EdgeWeights(gpu.EdgeWeightOptions{Symmetric: true}, alone, b.a.Matrix(b.q, 3, 1))
		},
		"not transposed": func() { b.q.EdgeSum(true, alone, b.a.Matrix(b.q, 3, 1), b.a.Matrix(b.q, 5, 1)) },
		"heads":          func() { b.q.EdgeDot(3, alone, x, out, b.a.Matrix(b.q, 3, 3)) },
		"weighted mean": func() {
			b.q.Aggregate(gpu.AggregateOptions{Reduce: gpu.Mean, Weights: b.a.Matrix(b.q, 3, 1)}, alone, x, out)
		},
		"too few sources": func() { b.q.SelfLoops(b.a, gpu.Graph{NumDst: 3, NumSrc: 2}) },
		"values of edges": func() { b.q.EdgeSoftmax(alone, b.a.Matrix(b.q, 4, 1)) },
		"bias's width":    func() { b.q.AddBias(false, b.a.Matrix(b.q, 1, 3), out) },
		"index of an edge": func() {
			b.q.EdgeAdd(.2, gpu.Graph{NumDst: 1, NumSrc: 5, Indptr: b.a.Int32s(b.q, []int32{0, 1}), Indices: b.a.Int32s(b.q, []int32{5})}, x, b.a.Matrix(b.q, 1, 2), gpu.Tensor{}, b.a.Matrix(b.q, 1, 2))
		},
	} {
		op()
		if err := b.q.Sync(b.Context()); err == nil {
			b.Errorf("%s: no error", name)
		}
	}
}

// layerNorm checks the normalised rows, one of them constant, and compares the gradients
// with central differences of Σ weight·y in float64.
func layerNorm(b *bench) {
	const n, c, eps = 5, 37, 1e-3
	x, xv := b.matrix(n, c, 1)
	gamma, gv := b.matrix(1, c, 0)
	beta, bv := b.matrix(1, c, 0)
	d, wv := b.matrix(n, c, 2)
	b.q.Fill(x.View(3, 0, 1, c), 2)
	for j := range c {
		xv[3*c+j] = 2
	}
	value := func(x, g, be []float64) []float64 {
		y := make([]float64, n*c)
		for i := range n {
			var mean, square float64
			for _, v := range x[i*c : (i+1)*c] {
				mean += v / c
			}
			for _, v := range x[i*c : (i+1)*c] {
				square += (v - mean) * (v - mean) / c
			}
			for j := range c {
				y[i*c+j] = (x[i*c+j]-mean)/math.Sqrt(square+eps)*g[j] + be[j]
			}
		}
		return y
	}
	in := [][]float64{toFloat64(xv), toFloat64(gv), toFloat64(bv)}
	want := value(in[0], in[1], in[2])
	xhat, y, rstd := b.a.Matrix(b.q, n, c), b.a.Matrix(b.q, n, c), b.a.Matrix(b.q, 1, n)
	for _, relu := range []bool{true, false} {
		b.q.LayerNorm(gpu.LayerNormOptions{Gamma: gamma, Beta: beta, Epsilon: eps, ReLU: relu}, x, xhat, y, rstd)
		expect := append([]float64(nil), want...)
		for i := range expect {
			if relu {
				expect[i] = max(0, expect[i])
			}
		}
		b.near(fmt.Sprintf("layer norm, relu %v", relu), b.read(y), expect, 1e-5)
	}
	dGamma, dBeta := b.a.Matrix(b.q, 1, c), b.a.Matrix(b.q, 1, c)
	b.q.Fill(dGamma, 0)
	b.q.Fill(dBeta, 1) // added to
	b.q.LayerNormBackward(gamma, xhat, rstd, d, dGamma, dBeta)
	b.normGradients("layer norm", in, wv, value, d, dGamma, dBeta)
}

// normGradients checks a normalisation's gradients of x, gamma and beta, the last of which was added to 1,
// against differences of value, weighted by wv.
func (b *bench) normGradients(name string, in [][]float64, wv []float32, value func(x, gamma, beta []float64) []float64, d, dGamma, dBeta gpu.Tensor) {
	for k, got := range []gpu.Tensor{d, dGamma, dBeta} {
		grad := make([]float64, len(in[k]))
		for i, v := range in[k] {
			const h = 1e-6
			for _, side := range []float64{1, -1} {
				in[k][i] = v + side*h
				for j, y := range value(in[0], in[1], in[2]) {
					grad[i] += side * float64(wv[j]) * y / (2 * h)
				}
			}
			in[k][i] = v
			if k == 2 {
				grad[i]++
			}
		}
		b.near(name+": gradient of "+[]string{"x", "gamma", "beta"}[k], b.read(got), grad, 1e-4)
	}
}

func toFloat64(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
