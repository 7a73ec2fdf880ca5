package nn

import "github.com/gstore/gstore/gpu"

// cubes adds to d the gradient of λ·Σ|x|³, 3λ·x·|x|, element by element; x and d are [n×c] and contiguous. It is the
// nuclear 3-norm of Lacroix et al. (ICML 2018, eq. 7) on the factors of a mini-batch's examples, so that a node's is
// weighted by how often it occurs (there section 4.2). |x| is that of a real number, also of the two parts of a complex
// one.
func cubes(p *Pass, lambda float32, x, d gpu.Tensor) {
	q := p.Queue
	minus, square := p.Arena.Matrix(q, x.Rows, x.Cols), p.Arena.Matrix(q, x.Rows, x.Cols)
	if q.Err() != nil {
		return
	}
	for _, sign := range []float32{1, -1} { // x² where x is positive, then where −x is
		q.Fill(minus, 0)
		q.Axpy(sign, x, minus)
		q.Copy(square, x)
		q.Mul(square, x)
		q.ReLUBackward(3*lambda, minus, square)
		q.Axpy(sign, square, d)
	}
}
