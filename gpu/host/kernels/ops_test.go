package kernels

import (
	"fmt"
	"math"
	"testing"
)

// agree runs op on fresh copies of its outputs on every pool and fails unless
// all leave the same bits; it returns the outputs.
func agree(t *testing.T, outputs []Matrix, op func(p *Pool, out []Matrix)) []Matrix {
	t.Helper()
	var first []Matrix
	for _, p := range pools() {
		got := make([]Matrix, len(outputs))
		for i := range got {
			got[i] = clone(outputs[i])
		}
		op(p, got)
		if first == nil {
			first = got
		}
		for i := range got {
			checkGaps(t, got[i])
			checkBits(t, fmt.Sprintf("%s: output %d", p.name(), i), compact(got[i]), compact(first[i]))
		}
	}
	return first
}

func column(x []float32) Matrix { return Dense(x, len(x), 1) }

func TestDropout(t *testing.T) {
	const n = 100_003
	ones := make([]float32, n)
	for i := range ones {
		ones[i] = 1
	}
	for _, rate := range []float32{0, .2, .5, .999} {
		out := agree(t, []Matrix{column(ones)}, func(p *Pool, o []Matrix) { Dropout(p, rate, 42, o[0].Data) })[0].Data
		kept := 0
		for i, v := range out {
			if v != 0 && v != 1/(1-rate) {
				t.Fatalf("rate %v: element %d is %v", rate, i, v)
			}
			if v != 0 {
				kept++
			}
		}
		want := n * (1 - float64(rate))
		if d := math.Abs(float64(kept) - want); d > 5*math.Sqrt(want*float64(rate))+n/65536+1 {
			t.Errorf("rate %v: kept %d of %d, expected about %.0f", rate, kept, n, want)
		}
	}
	a, b, c := append([]float32(nil), ones...), append([]float32(nil), ones...), append([]float32(nil), ones[:777]...)
	Dropout(nil, .5, 1, a)
	Dropout(nil, .5, 2, b)
	Dropout(nil, .5, 1, c)
	checkBits(t, "a prefix has the same mask", c, a[:777])
	same := 0
	for i := range a {
		if a[i] == b[i] {
			same++
		}
	}
	if math.Abs(float64(same)-n/2) > 5*math.Sqrt(n/4) {
		t.Errorf("masks of two seeds agree in %d of %d places", same, n)
	}
	mustPanic(t, "rate", func() { Dropout(nil, 1, 1, a) })
}

func TestSoftmaxCrossEntropy(t *testing.T) {
	for _, s := range []struct{ rows, classes int }{{0, 3}, {1, 1}, {5, 2}, {300, 47}, {130, 172}} {
		r := newRand(uint64(s.rows))
		x := strided(r, s.rows, s.classes, 2)
		labels := make([]int32, s.rows)
		labelled := 0
		for i := range labels {
			labels[i] = r.Int32N(int32(s.classes)+1) - 1
			if labels[i] >= 0 {
				labelled++
			}
		}
		want := make([]float64, s.rows*s.classes)
		loss, correct := 0.0, 0
		for i, l := range labels {
			if l < 0 {
				continue
			}
			sum, top := 0.0, 0
			for j, v := range x.Row(i) {
				sum += math.Exp(float64(v))
				if v > x.Row(i)[top] {
					top = j
				}
			}
			if top == int(l) {
				correct++
			}
			loss += math.Log(sum) - float64(x.Row(i)[l])
			for j, v := range x.Row(i) {
				g := math.Exp(float64(v)) / sum
				if j == int(l) {
					g--
				}
				want[i*s.classes+j] = g / float64(labelled)
			}
		}
		var losses []float64
		out := agree(t, []Matrix{strided(r, s.rows, s.classes, 1)}, func(p *Pool, o []Matrix) {
			l, c := SoftmaxCrossEntropy(p, x, labels, o[0])
			if c != correct {
				t.Errorf("%s: %d correct, expected %d", p.name(), c, correct)
			}
			only, _ := SoftmaxCrossEntropy(p, x, labels, Matrix{})
			losses = append(losses, l, only)
		})
		checkNear(t, "gradient", compact(out[0]), want, 1e-6)
		for _, l := range losses {
			if l != losses[0] || math.Abs(l-loss) > 1e-5*(1+loss) {
				t.Fatalf("losses %v, expected %v", losses, loss)
			}
		}
	}
	nan := Dense([]float32{1, float32(math.NaN()), 2}, 1, 3)
	if l, _ := SoftmaxCrossEntropy(nil, nan, []int32{0}, Matrix{}); !math.IsNaN(l) {
		t.Errorf("loss of NaN is %v", l)
	}
	mustPanic(t, "label", func() { SoftmaxCrossEntropy(nil, nan, []int32{3}, Matrix{}) })
}

func TestOptimizers(t *testing.T) {
	r := newRand(5)
	const n = 40_001
	w, g := randoms(r, n), randoms(r, n)
	zero := make([]float32, n)
	o := AdamOptions{LR: .01, Beta1: .9, Beta2: .999, Epsilon: 1e-8, WeightDecay: .1}
	out := agree(t, []Matrix{column(w), column(zero), column(zero)}, func(p *Pool, x []Matrix) {
		for o.Step = 1; o.Step <= 3; o.Step++ {
			Adam(p, o, x[0].Data, g, x[1].Data, x[2].Data)
		}
	})
	want := make([]float64, n)
	for i := range w {
		x, m, v := float64(w[i]), 0., 0.
		for s := 1.; s <= 3; s++ {
			d := float64(g[i]) + .1*x
			m, v = .9*m+.1*d, .999*v+.001*d*d
			x -= .01 * (m / (1 - math.Pow(.9, s))) / (math.Sqrt(v/(1-math.Pow(.999, s))) + 1e-8)
		}
		want[i] = x
	}
	checkNear(t, "adam", out[0].Data, want, 1e-4)

	out = agree(t, []Matrix{column(w), column(zero)}, func(p *Pool, x []Matrix) {
		for range 2 {
			Adagrad(p, AdagradOptions{LR: .1, Epsilon: 1e-10, WeightDecay: .2}, x[0].Data, g, x[1].Data)
		}
	})
	for i := range w {
		x, s := float64(w[i]), 0.
		for range 2 {
			d := float64(g[i]) + .2*x
			s += d * d
			x -= .1 * d / (math.Sqrt(s) + 1e-10)
		}
		want[i] = x
	}
	checkNear(t, "adagrad", out[0].Data, want, 1e-4)

	for _, momentum := range []float32{0, .9} {
		out = agree(t, []Matrix{column(w), column(zero)}, func(p *Pool, x []Matrix) {
			for range 2 {
				SGD(p, SGDOptions{LR: .1, WeightDecay: .2, Momentum: momentum}, x[0].Data, g, x[1].Data)
			}
		})
		for i := range w {
			x, v := float64(w[i]), 0.
			for range 2 {
				v = float64(momentum)*v + float64(g[i]) + .2*x
				x -= .1 * v
			}
			want[i] = x
		}
		checkNear(t, "sgd", out[0].Data, want, 1e-5)
	}
}

func TestSparseRows(t *testing.T) {
	r := newRand(6)
	const rows, dim, n = 50, 37, 400
	index := make([]uint32, n)
	for i := range index {
		index[i] = r.Uint32N(rows)
	}
	src, dst := strided(r, n, dim, 1), strided(r, rows, dim, 2)
	want := make([]float64, 0, rows*dim)
	for i := range rows {
		for j := range dim {
			s := float64(dst.Row(i)[j])
			for k, row := range index {
				if int(row) == i {
					s += float64(src.Row(k)[j])
				}
			}
			want = append(want, s)
		}
	}
	out := agree(t, []Matrix{dst}, func(p *Pool, o []Matrix) { ScatterAddRows(p, o[0], index, src) })
	checkNear(t, "scatter", compact(out[0]), want, 1e-5)

	// A sparse step on all rows is a dense one; on some, the others stay.
	w, g := Dense(randoms(r, rows*dim), rows, dim), Dense(randoms(r, rows*dim), rows, dim)
	zero := Dense(make([]float32, rows*dim), rows, dim)
	all := make([]uint32, rows)
	for i := range all {
		all[i] = uint32(i)
	}
	o := AdamOptions{LR: .1, Beta1: .9, Beta2: .99, Epsilon: 1e-8, Step: 1}
	a := agree(t, []Matrix{w, zero, zero}, func(p *Pool, x []Matrix) { AdamRows(p, o, all, x[0], g, x[1], x[2]) })
	b := agree(t, []Matrix{w, zero, zero}, func(p *Pool, x []Matrix) { Adam(p, o, x[0].Data, g.Data, x[1].Data, x[2].Data) })
	for i := range a {
		checkBits(t, "sparse Adam", a[i].Data, b[i].Data)
	}
	d := AdagradOptions{LR: .1, Epsilon: 1e-8}
	a = agree(t, []Matrix{w, zero}, func(p *Pool, x []Matrix) {
		AdagradRows(p, d, all[10:20], x[0], g.View(10, 0, 10, dim), x[1])
	})
	b = agree(t, []Matrix{w, zero}, func(p *Pool, x []Matrix) { Adagrad(p, d, x[0].Data, g.Data, x[1].Data) })
	checkBits(t, "rows stepped", a[0].Data[10*dim:20*dim], b[0].Data[10*dim:20*dim])
	checkBits(t, "rows left", a[0].Data[:10*dim], w.Data[:10*dim])
	checkBits(t, "rows left", a[0].Data[20*dim:], w.Data[20*dim:])
	mustPanic(t, "row", func() { AdagradRows(nil, d, []uint32{rows}, w, g.View(0, 0, 1, dim), zero) })
}

func TestColumnSum(t *testing.T) {
	for _, s := range []struct{ rows, cols int }{{0, 3}, {1, 1}, {511, 7}, {513, 16}, {5000, 33}} {
		x := strided(newRand(7), s.rows, s.cols, 1)
		want := make([]float64, s.cols)
		for i := range s.rows {
			for j, v := range x.Row(i) {
				want[j] += float64(v)
			}
		}
		out := agree(t, []Matrix{column(make([]float32, s.cols))}, func(p *Pool, o []Matrix) { ColumnSum(p, x, o[0].Data) })
		checkNear(t, "column sum", out[0].Data, want, 1e-4)
	}
}

func TestSegmentMax(t *testing.T) {
	for _, dim := range []int{1, 7, 16, 50} {
		r := newRand(uint64(dim))
		g := randomGraph(r, 60, 80, 9)
		x := strided(r, 80, dim, 2)
		x.Row(3)[0] = float32(math.NaN())
		dOut := strided(r, 60, dim, 1)
		rev := CSR{Indptr: make([]int32, 81), Indices: make([]int32, len(g.Indices))}
		edges := make([]int32, len(g.Indices))
		TransposeEdges(nil, g, rev, edges)
		out := agree(t, []Matrix{strided(r, 60, dim, 3), strided(r, 80, dim, 0)}, func(p *Pool, o []Matrix) {
			arg := make([]int32, 60*dim)
			SegmentMax(p, MaxOptions{Arg: arg}, g, x.AsRows(), o[0])
			clear(o[1].Data)
			SegmentMaxBackward(p, rev, edges, dOut, arg, o[1])
		})
		want, grad := make([]float64, 60*dim), make([]float64, 80*dim)
		for d := range 60 {
			for j := range dim {
				best := -1
				for e := g.Indptr[d]; e < g.Indptr[d+1]; e++ {
					v := x.Row(int(g.Indices[e]))[j]
					if best < 0 || v != v || v > x.Row(best)[j] {
						best = int(g.Indices[e])
					}
					if v != v {
						break
					}
				}
				if best >= 0 {
					want[d*dim+j] = float64(x.Row(best)[j])
					grad[best*dim+j] += float64(dOut.Row(d)[j])
				}
			}
		}
		checkNear(t, "max", compact(out[0]), want, 0)
		checkNear(t, "gradient", compact(out[1]), grad, 1e-5)
	}
}

func TestNorms(t *testing.T) {
	const rows = 40
	for _, dim := range []int{5, 16, 37} {
		r := newRand(uint64(dim))
		x, gamma, beta, weight := Dense(randoms(r, rows*dim), rows, dim), randoms(r, dim), randoms(r, dim), randoms(r, rows*dim)
		for name, layer := range map[string]bool{"layer": true, "batch": false} {
			n := dim
			if layer {
				n = rows
			}
			rstds, xhat, mean, variance := make([]float32, n), clone(x), make([]float32, dim), make([]float32, dim)
			forward := func(p *Pool) Matrix {
				y := Dense(make([]float32, rows*dim), rows, dim)
				if layer {
					LayerNorm(p, 1e-5, x, gamma, beta, xhat, y, rstds)
				} else {
					BatchNorm(p, BatchNormOptions{Epsilon: 1e-5, Momentum: .1}, x, gamma, beta, mean, variance, xhat, y, rstds)
				}
				return y
			}
			out := agree(t, []Matrix{x, Dense(weight, rows, dim), column(make([]float32, dim)), column(make([]float32, dim))}, func(p *Pool, o []Matrix) {
				o[0].Data = forward(p).Data
				if layer {
					LayerNormBackward(p, gamma, xhat, rstds, o[1], o[2].Data, o[3].Data)
				} else {
					BatchNormBackward(p, gamma, xhat, rstds, o[1], o[2].Data, o[3].Data)
				}
			})
			f := func() []float32 { return forward(nil).Data }
			numericGradient(t, name+" x", x.Data, out[1].Data, weight, f)
			numericGradient(t, name+" gamma", gamma, out[2].Data, weight, f)
			numericGradient(t, name+" beta", beta, out[3].Data, weight, f)
		}
		// With statistics that have settled, inference does what training does.
		mean, variance := make([]float32, dim), make([]float32, dim)
		y, z := clone(x), clone(x)
		for range 400 {
			BatchNorm(nil, BatchNormOptions{Epsilon: 1e-5, Momentum: .1}, x, gamma, beta, mean, variance, clone(x), y, make([]float32, dim))
		}
		BatchNorm(nil, BatchNormOptions{Epsilon: 1e-5, Inference: true}, x, gamma, beta, mean, variance, clone(x), z, make([]float32, dim))
		want := make([]float64, len(y.Data))
		for i, v := range y.Data {
			want[i] = float64(v)
		}
		checkNear(t, "inference", z.Data, want, 3e-2)
	}
}

func TestScores(t *testing.T) {
	r := newRand(9)
	const rows, dim, chunks = 24, 10, 4
	x, y := strided(r, rows, dim, 1), strided(r, rows, dim, 2)
	dot, dist := make([]float64, rows), make([]float64, rows)
	var pairs []float64
	for i := range rows {
		for j, v := range x.Row(i) {
			w := float64(y.Row(i)[j])
			dot[i] += float64(v) * w
			dist[i] += (float64(v) - w) * (float64(v) - w)
		}
		for k := range rows {
			s := 0.0
			for j, v := range x.Row(i) {
				d := float64(v) - float64(y.Row(k)[j])
				s += d * d
			}
			pairs = append(pairs, s)
		}
	}
	out := agree(t, []Matrix{column(make([]float32, rows)), column(make([]float32, rows))}, func(p *Pool, o []Matrix) {
		RowDot(p, x, y, o[0].Data)
		RowSquaredDistance(p, x, y, o[1].Data)
	})
	checkNear(t, "dot", out[0].Data, dot, 1e-5)
	checkNear(t, "distance", out[1].Data, dist, 1e-5)
	for _, p := range pools() {
		all := strided(r, rows, rows, 1)
		PairwiseSquaredDistance(p, x, y, all)
		checkNear(t, "pairs", compact(all), pairs, 1e-5)
		checkGaps(t, all)

		c := strided(r, rows, rows/chunks, 1)
		GemmBatch(p, GemmOptions{TransB: true}, chunks, x, y, c)
		for i := range rows {
			first := i / (rows / chunks) * (rows / chunks)
			for j := range rows / chunks {
				s := 0.0
				for k, v := range x.Row(i) {
					s += float64(v) * float64(y.Row(first + j)[k])
				}
				checkNear(t, "batch", []float32{c.Row(i)[j]}, []float64{s}, 1e-5)
			}
		}
	}
	for _, conjugate := range []bool{false, true} {
		zero := Dense(make([]float32, rows*dim), rows, dim)
		z := agree(t, []Matrix{zero}, func(p *Pool, o []Matrix) { ComplexMulAdd(p, conjugate, o[0], x, y) })[0]
		for i := range rows {
			for j := range dim / 2 {
				a, b := complex(float64(x.Row(i)[j]), float64(x.Row(i)[j+dim/2])), complex(float64(y.Row(i)[j]), float64(y.Row(i)[j+dim/2]))
				if conjugate {
					b = complex(real(b), -imag(b))
				}
				checkNear(t, "complex", []float32{z.Row(i)[j], z.Row(i)[j+dim/2]}, []float64{real(a * b), imag(a * b)}, 1e-5)
			}
		}
	}
	mustPanic(t, "chunks", func() { GemmBatch(nil, GemmOptions{}, 5, x, y, x) })
}

func TestActivations(t *testing.T) {
	x := randoms(newRand(10), 50_001)
	for name, f := range map[string]struct {
		run  func(p *Pool, y, x []float32)
		want func(float64) float64
	}{
		"exp": {Exp, math.Exp}, "tanh": {Tanh, math.Tanh}, "sigmoid": {Sigmoid, func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }},
		"relu":      {func(p *Pool, y, x []float32) { copy(y, x); ReLU(p, y) }, func(v float64) float64 { return max(v, 0) }},
		"leaky":     {func(p *Pool, y, x []float32) { copy(y, x); LeakyReLU(p, .1, y) }, func(v float64) float64 { return max(v, .1*v) }},
		"scale":     {func(p *Pool, y, x []float32) { copy(y, x); Scale(p, 3, y) }, func(v float64) float64 { return 3 * v }},
		"axpy":      {func(p *Pool, y, x []float32) { copy(y, x); Axpy(p, 2, x, y) }, func(v float64) float64 { return 3 * v }},
		"add":       {func(p *Pool, y, x []float32) { copy(y, x); Add(p, y, x) }, func(v float64) float64 { return 2 * v }},
		"mul":       {func(p *Pool, y, x []float32) { copy(y, x); Mul(p, y, x) }, func(v float64) float64 { return v * v }},
		"tanhBack":  {func(p *Pool, y, x []float32) { copy(y, x); TanhBackward(p, x, y) }, func(v float64) float64 { return v - v*v*v }},
		"mulAdd":    {func(p *Pool, y, x []float32) { copy(y, x); MulAdd(p, y, x, x) }, func(v float64) float64 { return v + v*v }},
		"reluGrad":  {func(p *Pool, y, x []float32) { copy(y, x); ReLUBackward(p, 2, x, y) }, func(v float64) float64 { return max(2*v, 0) }},
		"biasReLU":  {func(p *Pool, y, x []float32) { copy(y, x); BiasReLU(p, Dense(y, len(y), 1), []float32{1}) }, func(v float64) float64 { return max(v+1, 0) }},
		"leakyGrad": {func(p *Pool, y, x []float32) { copy(y, x); LeakyReLUBackward(p, .1, x, y) }, func(v float64) float64 { return max(v, .1*v) }},
	} {
		out := agree(t, []Matrix{column(make([]float32, len(x)))}, func(p *Pool, o []Matrix) { f.run(p, o[0].Data, x) })
		want := make([]float64, len(x))
		for i, v := range x {
			want[i] = f.want(float64(v))
		}
		checkNear(t, name, out[0].Data, want, 1e-6)
	}
}
