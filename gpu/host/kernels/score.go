package kernels

import "fmt"

// Kernels of link prediction. A decoder is a map of (head, relation) to a query
// vector, [Mul] for DistMult (Yang et al., ICLR 2015), [ComplexMul] for
// ComplEx (Trouillon et al., ICML 2016), addition for TransE (Bordes et al.,
// NIPS 2013), nothing for a dot product, and a similarity of query and tail:
// [RowDot] of pairs and [GemmBatch] of chunks with their shared negatives, or
// the squared distances. [SoftmaxCrossEntropy] over a row of one
// positive and its negatives is the loss.

// RowDot sets out[i] to the dot product of rows i of x and y.
func RowDot(p *Pool, x, y Matrix, out []float32) {
	x.check("x")
	y.checkShape("y", x.Rows, x.Cols)
	checkLen("out", len(out), x.Rows)
	k := p.kernels()
	p.For(x.Rows, rowGrain(x.Cols), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			out[i] = k.dot(x.Row(i), y.Row(i))
		}
	})
}

// ScaleRowsAdd adds alpha·scales[i][0]·x[i] to row i of dst; scales has one column.
func ScaleRowsAdd(p *Pool, alpha float32, scales, x, dst Matrix) {
	x.check("x")
	dst.checkShape("dst", x.Rows, x.Cols)
	scales.checkShape("scales", x.Rows, 1)
	k := p.kernels()
	p.For(x.Rows, rowGrain(x.Cols), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			k.axpy(dst.Row(i), x.Row(i), alpha*scales.Row(i)[0])
		}
	})
}

// RowSquaredDistance sets out[i] to |x[i] − y[i]|².
func RowSquaredDistance(p *Pool, x, y Matrix, out []float32) {
	x.check("x")
	y.checkShape("y", x.Rows, x.Cols)
	checkLen("out", len(out), x.Rows)
	k := p.kernels()
	p.For(x.Rows, rowGrain(x.Cols), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			out[i] = k.squaredDistance(x.Row(i), y.Row(i))
		}
	})
}

// PairwiseSquaredDistance sets out[i][j] to |x[i] − y[j]|² for every pair, as
// |x|² + |y|² − 2·x·y: one product, and an error of some 2⁻²³·(|x|²+|y|²). Never negative.
func PairwiseSquaredDistance(p *Pool, x, y, out Matrix) {
	x.check("x")
	y.checkShape("y", y.Rows, x.Cols)
	out.checkShape("out", x.Rows, y.Rows)
	Gemm(p, GemmOptions{TransB: true}, x, y, out)
	k := p.kernels()
	norms := p.floats(y.Rows)
	defer p.putFloats(norms)
	p.For(y.Rows, rowGrain(y.Cols), func(lo, hi int) {
		for j := lo; j < hi; j++ {
			norms[j] = k.dot(y.Row(j), y.Row(j))
		}
	})
	p.For(x.Rows, rowGrain(max(x.Cols, y.Rows)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			n, row := k.dot(x.Row(i), x.Row(i)), out.Row(i)
			for j, dot := range row {
				d := n + norms[j] - float32(2*dot)
				if d < 0 {
					d = 0
				}
				row[j] = d
			}
		}
	})
}

// Mul sets dst *= x.
func Mul(p *Pool, dst, x []float32) {
	checkLen("x", len(x), len(dst))
	k := p.kernels()
	p.For(len(dst), elementGrain, func(lo, hi int) { k.mul(dst[lo:hi], x[lo:hi]) })
}

// MulAdd sets dst += x·y: the gradient of either factor of a product.
func MulAdd(p *Pool, dst, x, y []float32) {
	checkLen("x", len(x), len(dst))
	checkLen("y", len(y), len(dst))
	k := p.kernels()
	p.For(len(dst), elementGrain, func(lo, hi int) { k.mulAdd(dst[lo:hi], x[lo:hi], y[lo:hi]) })
}

// ComplexMulAdd adds x·y, or x·conj(y), to dst row by row, the first half of a
// row holding the real and the second the imaginary parts. The gradient of z =
// x·y with respect to x is dz·conj(y), and with respect to y dz·conj(x).
func ComplexMulAdd(p *Pool, conjugate bool, dst, x, y Matrix) {
	dst.check("dst")
	x.checkShape("x", dst.Rows, dst.Cols)
	y.checkShape("y", dst.Rows, dst.Cols)
	if dst.Cols%2 != 0 {
		panic(fmt.Sprintf("kernels: complex rows of %d columns, expected an even number", dst.Cols))
	}
	k, n := p.kernels(), dst.Cols/2
	p.For(dst.Rows, rowGrain(dst.Cols), func(lo, hi int) {
		minus := p.floats(n)
		defer p.putFloats(minus)
		for i := lo; i < hi; i++ {
			d, a, b := dst.Row(i), x.Row(i), y.Row(i)
			// (aR + i·aI)·(bR ± i·bI): the imaginary part of the second factor changes sign once.
			copy(minus, b[n:])
			k.scale(minus, -1)
			im, neg := b[n:], minus
			if conjugate {
				im, neg = minus, b[n:]
			}
			k.mulAdd(d[:n], a[:n], b[:n])
			k.mulAdd(d[:n], a[n:], neg)
			k.mulAdd(d[n:], a[:n], im)
			k.mulAdd(d[n:], a[n:], b[:n])
		}
	})
}

// GemmBatch computes [Gemm] for each of the chunks into which the rows of a, b
// and c are cut evenly: chunk i of c from chunk i of a and of b. Chunks are
// computed on one thread each.
func GemmBatch(p *Pool, o GemmOptions, chunks int, a, b, c Matrix) {
	for _, m := range []struct {
		name string
		m    Matrix
	}{{"a", a}, {"b", b}, {"c", c}} {
		m.m.check(m.name)
		if chunks < 1 || m.m.Rows%chunks != 0 {
			panic(fmt.Sprintf("kernels: %d chunks do not divide %d rows of %s", chunks, m.m.Rows, m.name))
		}
	}
	one := &Pool{threads: 1, isa: p.ISA(), k: p.kernels()}
	part := func(m Matrix, i int) Matrix {
		n := m.Rows / chunks
		return m.View(i*n, 0, n, m.Cols)
	}
	Gemm(one, o, part(a, 0), part(b, 0), part(c, 0)) // on this goroutine: wrong shapes panic here
	p.For(chunks-1, 1, func(i, _ int) { Gemm(one, o, part(a, i+1), part(b, i+1), part(c, i+1)) })
}
