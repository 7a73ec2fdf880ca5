package gputest

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

// linkRows tests the operations that decoders are made of, on rows with gaps where they are allowed.
func linkRows(b *bench) {
	for _, s := range [][2]int{{1, 2}, {7, 6}, {64, 100}, {33, 258}, {0, 4}} {
		n, c := s[0], s[1]
		xt, x := b.matrix(n, c, 0)
		yt, y := b.matrix(n, c, 0)
		dt, d := b.matrix(n, c, 0)
		each := func(f func(i int) float64) []float64 {
			want := make([]float64, n*c)
			for i := range want {
				want[i] = f(i)
			}
			return want
		}
		what := func(op string) string { return fmt.Sprintf("%s %dx%d", op, n, c) }
		b.q.MulAdd(dt, xt, yt)
		b.near(what("mul add"), b.read(dt), each(func(i int) float64 { return float64(d[i]) + float64(x[i])*float64(y[i]) }), 1e-5)
		dt, d = b.matrix(n, c, 0)
		b.q.Mul(dt, xt)
		b.near(what("mul"), b.read(dt), each(func(i int) float64 { return float64(d[i]) * float64(x[i]) }), 1e-6)
		tt, t := b.matrix(n, c, 0)
		b.q.Tanh(tt)
		b.near(what("tanh"), b.read(tt), each(func(i int) float64 { return math.Tanh(float64(t[i])) }), 1e-5)
		dt, d = b.matrix(n, c, 0)
		b.q.TanhBackward(xt, dt)
		b.near(what("tanh backward"), b.read(dt), each(func(i int) float64 { return float64(d[i]) * (1 - float64(x[i])*float64(x[i])) }), 1e-5)

		xg, x := b.matrix(n, c, 3)
		yg, y := b.matrix(n, c, 1)
		for _, conjugate := range []bool{false, true} {
			dg, d := b.matrix(n, c, 2)
			b.q.ComplexMulAdd(conjugate, dg, xg, yg)
			b.near(what(fmt.Sprintf("complex mul add, conjugate %v", conjugate)), b.read(dg), each(func(i int) float64 {
				re, im := i/c*c+i%c%(c/2), i/c*c+i%c%(c/2)+c/2
				v := complex(float64(y[re]), float64(y[im]))
				if conjugate {
					v = complex(real(v), -imag(v))
				}
				v *= complex(float64(x[re]), float64(x[im]))
				if i == re {
					return float64(d[i]) + real(v)
				}
				return float64(d[i]) + imag(v)
			}), 1e-5)
		}
		dot := make([]float64, n)
		for i := range x {
			dot[i/c] += float64(x[i]) * float64(y[i])
		}
		for gap := range 2 {
			out, _ := b.matrix(n, 1, gap)
			b.q.RowDot(xg, yg, out)
			b.near(what("row dot"), b.read(out), dot, 1e-4)
		}
		by, scales := b.matrix(n, 1, 2)
		dg, d := b.matrix(n, c, 1)
		b.q.ScaleRowsAdd(-.5, by, xg, dg)
		b.near(what("scale rows add"), b.read(dg), each(func(i int) float64 { return float64(d[i]) - .5*float64(scales[i/c])*float64(x[i]) }), 1e-5)

		const m = 5
		zt, z := b.matrix(m, c, 2)
		out, _ := b.matrix(n, m, 1)
		want := make([]float64, n*m)
		for i := range want {
			for j := range c {
				e := float64(x[i/m*c+j]) - float64(z[i%m*c+j])
				want[i] -= e * e
			}
		}
		b.q.SquaredDistances(-1, xg, zt, out)
		b.near(what("squared distances"), b.read(out), want, 1e-4)
	}
}

// linkScatter tests sums into rows, and steps on rows of a table.
func linkScatter(b *bench) {
	const rows, c = 9, 37
	for _, n := range []int{0, 1, 40, 700, 1100, 5000} {
		dt, d := b.matrix(rows, c, 2)
		st, s := b.matrix(n, c, 1)
		index := make([]uint32, n)
		want := toFloat64(d)
		for i := range index {
			index[i] = uint32(b.r.Below(rows - 1)) // the last row gets nothing, others many
			if n > 1000 && b.r.Below(4) > 0 {      // one most
				index[i] = 3
			}
			for j := range c {
				want[int(index[i])*c+j] += float64(s[i*c+j])
			}
		}
		if n > 0 {
			b.q.ScatterAddRows(dt, b.a.Uint32s(b.q, index), st)
		}
		b.near(fmt.Sprintf("scatter %d rows", n), b.read(dt), want, 1e-4)
	}
	o := gpu.AdagradOptions{LR: .1, Epsilon: 1e-3}
	step := func(w, g, s float64) (float64, float64) {
		s += g * g
		return w - float64(o.LR)*g/(math.Sqrt(s)+float64(o.Epsilon)), s
	}
	// sums makes squares, and the first of them 0.
	sums := func(gap int) (gpu.Tensor, []float32) {
		t, x := b.matrix(rows, c, gap)
		for i := range x {
			if x[i] *= x[i]; i%5 == 0 {
				x[i] = 0
			}
		}
		dense := b.a.Matrix(b.q, rows, c)
		b.q.Upload(dense, bytesOf(x))
		b.q.Copy(t, dense)
		return t, x
	}
	wt, w := b.matrix(rows, c, 3)
	sum, s := sums(3)
	index := []uint32{4, 0, 8, 3}
	gt, g := b.matrix(len(index), c, 1)
	wantW, wantS := toFloat64(w), toFloat64(s)
	for i, row := range index {
		for j := range c {
			at := int(row)*c + j
			wantW[at], wantS[at] = step(wantW[at], float64(g[i*c+j]), wantS[at])
		}
	}
	b.q.AdagradRows(o, wt, b.a.Uint32s(b.q, index), gt, sum)
	b.near("adagrad rows: table", b.read(wt), wantW, 1e-5)
	b.near("adagrad rows: sums", b.read(sum), wantS, 1e-5)

	wt, w = b.matrix(rows, c, 1)
	mt, m := b.matrix(rows, c, 2)
	vt, v := sums(0)
	gt, g = b.matrix(len(index), c, 3)
	adam := gpu.AdamOptions{LR: .1, Beta1: .9, Beta2: .99, Epsilon: 1e-3, Step: 3}
	wantW, wantM, wantV := toFloat64(w), toFloat64(m), toFloat64(v)
	for i, row := range index {
		for j := range c {
			at, d := int(row)*c+j, float64(g[i*c+j])
			wantM[at] = .9*wantM[at] + .1*d
			wantV[at] = .99*wantV[at] + .01*d*d
			wantW[at] -= .1 * wantM[at] / (1 - math.Pow(.9, 3)) / (math.Sqrt(wantV[at]/(1-math.Pow(.99, 3))) + 1e-3)
		}
	}
	b.q.AdamRows(adam, wt, b.a.Uint32s(b.q, index), gt, mt, vt)
	b.near("adam rows: table", b.read(wt), wantW, 1e-4)
	b.near("adam rows: first moments", b.read(mt), wantM, 1e-5)
	b.near("adam rows: second moments", b.read(vt), wantV, 1e-5)

	wt, w = b.matrix(rows, c, 0)
	sum, s = sums(0)
	gt, g = b.matrix(rows, c, 0)
	wantW, wantS = toFloat64(w), toFloat64(s)
	for i := range w {
		wantW[i], wantS[i] = step(wantW[i], float64(g[i]), wantS[i])
	}
	b.q.Adagrad(o, wt, gt, sum)
	b.near("adagrad: parameters", b.read(wt), wantW, 1e-5)
	b.near("adagrad: sums", b.read(sum), wantS, 1e-5)
}

// linkLoss tests the losses of a positive and its negatives, some of them masked, into scores
// themselves and beside them.
func linkLoss(b *bench) {
	for _, s := range [][2]int{{1, 2}, {70, 6}, {130, 501}, {3, 1}} {
		n, k := s[0], s[1]
		for loss := gpu.SoftmaxLoss; loss <= gpu.MarginLoss; loss++ {
			o := gpu.LinkLossOptions{Loss: loss, Margin: .7}
			t, x := b.matrix(n, k, 1)
			var mask []uint32
			for i := range n * k {
				if i%k > 0 && b.r.Below(8) == 0 {
					mask = append(mask, uint32(i))
					x[i] = gpu.Masked
				}
			}
			if len(mask) > 0 {
				b.q.SetElements(t, b.a.Uint32s(b.q, mask), gpu.Masked)
			}
			want, total, first := make([]float64, n*k), 0., 0
			for i := range n {
				l, won := lossOf(o, x[i*k:(i+1)*k], want[i*k:(i+1)*k])
				if total += l; won {
					first++
				}
			}
			what := fmt.Sprintf("%v loss %dx%d", loss, n, k)
			stat := b.a.Vector(b.q, 2, blocks.Float64)
			beside, _ := b.matrix(n, k, 2)
			for _, grad := range []gpu.Tensor{beside, t} {
				b.q.LinkLoss(o, t, grad, stat)
				var got [2]float64
				b.q.Download(unsafe.Slice((*byte)(unsafe.Pointer(&got)), 16), stat)
				b.near(what+": gradient", b.read(grad), want, 1e-4)
				if math.Abs(got[0]-total) > 1e-4*(1+total) || got[1] != float64(first) {
					b.Fatalf("%s: stat %v, expected %v and %d", what, got, total, first)
				}
			}
		}
	}
}

// linkLossOverflow tests that a run that diverged shows in the loss.
func linkLossOverflow(b *bench) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, row := range [][]float32{{nan, 1, 2}, {1, nan, 2}, {1, 2, nan}, {nan, nan, nan}, {-inf, -inf, -inf}, {-inf, 1, 2}, {-inf, gpu.Masked, 1}} {
		for loss := gpu.SoftmaxLoss; loss <= gpu.MarginLoss; loss++ {
			scores := b.a.Matrix(b.q, 1, len(row))
			b.q.Upload(scores, bytesOf(row))
			stat := b.a.Vector(b.q, 2, blocks.Float64)
			b.q.LinkLoss(gpu.LinkLossOptions{Loss: loss, Margin: 1}, scores, scores, stat)
			var got [2]float64
			b.q.Download(unsafe.Slice((*byte)(unsafe.Pointer(&got)), 16), stat)
			b.sync()
			if !math.IsNaN(got[0]) && !math.IsInf(got[0], 0) {
				b.Errorf("%v loss of scores %v is %v, expected no finite number", loss, row, got[0])
			}
		}
	}
}

// lossOf is a row's loss in float64, its gradient d, and whether the positive scores highest.
func lossOf(o gpu.LinkLossOptions, x []float32, d []float64) (loss float64, first bool) {
	var negatives []int
	first = true
	for j := 1; j < len(x); j++ {
		if x[j] > gpu.Masked {
			negatives = append(negatives, j)
			first = first && x[j] < x[0]
		}
	}
	s, n := float64(x[0]), float64(max(len(negatives), 1))
	sigmoid := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	switch o.Loss {
	case gpu.SoftmaxLoss:
		sum := math.Exp(s)
		for _, j := range negatives {
			sum += math.Exp(float64(x[j]))
		}
		for _, j := range append(negatives, 0) {
			d[j] = math.Exp(float64(x[j])) / sum
		}
		d[0]--
		return math.Log(sum) - s, first
	case gpu.LogisticLoss:
		loss, d[0] = math.Log1p(math.Exp(-s)), -sigmoid(-s)
		for _, j := range negatives {
			loss += math.Log1p(math.Exp(float64(x[j]))) / n
			d[j] = sigmoid(float64(x[j])) / n
		}
	case gpu.MarginLoss:
		for _, j := range negatives {
			if over := float64(o.Margin) - s + float64(x[j]); over > 0 {
				loss += over / n
				d[j] = 1 / n
				d[0] -= 1 / n
			}
		}
	}
	return loss, first
}
