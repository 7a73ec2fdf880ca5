package nn

import "github.com/gstore/gstore/gpu"

// geluTerms are the coefficients of x, x³, x⁵, … of a polynomial u(x) with Φ(x) ≈ (1 + tanh u(x))/2, Φ being the normal distribution
// function. They were fitted by least squares with weights that make the largest error of x·Φ(x) small: 3e-6, where the usual two
// terms have 2.7e-4. The last is positive, so that u grows where the fit ends.
var geluTerms = []float32{.7978281360213482, .036468790671929756, -.00012486141514092956, -3.058105390746865e-05, 1.1190850988730739e-06}

// gelu returns x·Φ(x) of a contiguous x (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016), and tanh u(x), which
// [geluBackward] takes.
func gelu(p *Pass, x gpu.Tensor) (y, t gpu.Tensor) {
	q, a := p.Queue, p.Arena
	if t = polynomial(p, x, geluTerms); q.Err() != nil {
		return y, t
	}
	q.Mul(t, x)
	q.Tanh(t)
	twice := a.Matrix(q, x.Rows, x.Cols)
	q.Copy(twice, x)
	q.MulAdd(twice, x, t)
	y = a.Matrix(q, x.Rows, x.Cols)
	q.Fill(y, 0)
	q.Axpy(.5, twice, y)
	return y, t
}

// geluBackward returns the gradient of x from that of [gelu]'s result, d: d·(1 + t + x·u'(x)·(1 − t²))/2.
func geluBackward(p *Pass, x, t, d gpu.Tensor) gpu.Tensor {
	q, a := p.Queue, p.Arena
	var slopes []float32
	for i, c := range geluTerms {
		slopes = append(slopes, float32(2*i+1)*c)
	}
	w, one, out := polynomial(p, x, slopes), a.Matrix(q, x.Rows, x.Cols), a.Matrix(q, x.Rows, x.Cols)
	if q.Err() != nil {
		return out
	}
	q.Mul(w, x)
	q.TanhBackward(t, w)
	q.Fill(one, 1)
	q.Axpy(1, t, one)
	q.Axpy(1, one, w)
	q.Mul(w, d)
	q.Fill(out, 0)
	q.Axpy(.5, w, out)
	return out
}

// polynomial returns c_0 + c_1·x² + c_2·x⁴ + …, element by element, by Horner's rule.
func polynomial(p *Pass, x gpu.Tensor, c []float32) gpu.Tensor {
	q, a := p.Queue, p.Arena
	square, sum, next := a.Matrix(q, x.Rows, x.Cols), a.Matrix(q, x.Rows, x.Cols), a.Matrix(q, x.Rows, x.Cols)
	if q.Err() != nil {
		return sum
	}
	q.Copy(square, x)
	q.Mul(square, x)
	q.Fill(sum, c[len(c)-1])
	for i := len(c) - 2; i >= 0; i-- {
		q.Fill(next, c[i])
		q.MulAdd(next, sum, square)
		sum, next = next, sum
	}
	return sum
}
