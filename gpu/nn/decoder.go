package nn

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gstore/gstore/gpu"
)

// Names of decoders.
const (
	DistMult = "distmult"
	ComplEx  = "complex"
	RotatE   = "rotate"
	TransE   = "transe"
	Dot      = "dot"
)

// Decoders lists the names that [NewDecoder] knows.
func Decoders() []string { return []string{DistMult, ComplEx, RotatE, TransE, Dot} }

// Decoder scores edges (a, r, b) from the vectors of their ends and of their relation, in
// two steps: a and r make a query, and a query is compared with candidates for b.
//
//	distmult  q = a∘r   q·b        Yang et al., ICLR 2015, eq. 4 (bilinear, diagonal)
//	complex   q = a·r   Re⟨q, b̄⟩   Trouillon et al., ICML 2016, eq. 9–11; halves of a row are real and imaginary parts
//	rotate    q = a·r   −|q−b|²    Sun et al., ICLR 2019, eq. 3, with the squared distance; numbers as complex's, and |r| = 1 of each
//	transe    q = a+r   −|q−b|²    Bordes et al., NIPS 2013, section 2, with the squared Euclidean distance
//	dot       q = a     q·b        no relations
//
// Heads are found like tails, from the tail and the vector of the inverse
// relation (Lacroix et al., ICML 2018, section 3.1, "reciprocal" relations).
//
// A Decoder has no state and no parameters: the relations' vectors are its
// caller's. Backward passes add to gradients unless they say that they set them.
type Decoder struct {
	name string
	dim  int
}

// NewDecoder returns the decoder called name for vectors of dim elements.
func NewDecoder(name string, dim int) (*Decoder, error) {
	switch {
	case !slices.Contains(Decoders(), name):
		return nil, fmt.Errorf("nn: decoder %q is not known (known: %s)", name, strings.Join(Decoders(), ", "))
	case dim < 1:
		return nil, fmt.Errorf("nn: decoder %s of %d dimensions: expected 1 or more", name, dim)
	case dim > columnsMax:
		return nil, fmt.Errorf("nn: decoder %s of %d dimensions: expected at most %d", name, dim, columnsMax)
	case (name == ComplEx || name == RotatE) && dim%2 != 0:
		return nil, fmt.Errorf("nn: decoder %s of %d dimensions: expected an even number, half of them are imaginary parts", name, dim)
	}
	return &Decoder{name, dim}, nil
}

// Name returns the decoder's name.
func (d *Decoder) Name() string { return d.name }

// Relations reports whether queries depend on relations.
func (d *Decoder) Relations() bool { return d.name != Dot }

// complex reports whether a row's halves are real and imaginary parts.
func (d *Decoder) complex() bool { return d.name == ComplEx || d.name == RotatE }

// distances reports whether scores are squared distances times −1; else they are products.
func (d *Decoder) distances() bool { return d.name == TransE || d.name == RotatE }

// Query returns the queries [n×dim] of ends a and relations r, both [n×dim], in p's arena. r
// is not looked at where there are no relations.
func (d *Decoder) Query(p *Pass, a, r gpu.Tensor) gpu.Tensor {
	q := p.Queue
	out := p.Arena.Matrix(q, a.Rows, d.dim)
	if d.complex() {
		q.Fill(out, 0)
		q.ComplexMulAdd(false, out, a, r)
		return out
	}
	q.Copy(out, a)
	switch d.name {
	case DistMult:
		q.Mul(out, r)
	case TransE:
		q.Axpy(1, r, out)
	}
	return out
}

// Distances reports whether scores are distances, not products.
func (d *Decoder) Distances() bool { return d.distances() }

// Ask adds to sum the query of a known end a and its relation's vector r, nil without relations, [dim] each, on the host.
func (d *Decoder) Ask(sum, a, r []float32) {
	half := d.dim / 2
	for i, x := range a {
		switch {
		case d.name == DistMult:
			x *= r[i]
		case d.name == TransE:
			x += r[i]
		case d.complex() && i < half:
			x = x*r[i] - a[half+i]*r[half+i]
		case d.complex():
			x = a[i-half]*r[i] + x*r[i-half]
		}
		sum[i] += x
	}
}

// Answer makes the sum of n queries, of [Decoder.Ask], a vector that scores well with them: by distance their mean, else their direction, of
// which square is the square of the length.
func (d *Decoder) Answer(sum []float32, n int, square float64) {
	by := 1 / float64(n)
	if !d.distances() {
		is := 0.
		for _, x := range sum {
			is += float64(x) * float64(x)
		}
		if by = 0; is > 0 {
			by = math.Sqrt(square / is)
		}
	}
	for i, x := range sum {
		sum[i] = float32(float64(x) * by)
	}
}

// QueryBackward adds the gradients of a and r, given that of Query's result, to da and dr.
func (d *Decoder) QueryBackward(p *Pass, a, r, dq, da, dr gpu.Tensor) {
	q := p.Queue
	switch d.name {
	case DistMult:
		q.MulAdd(da, dq, r)
		q.MulAdd(dr, dq, a)
	case ComplEx, RotatE:
		q.ComplexMulAdd(true, da, dq, r)
		q.ComplexMulAdd(true, dr, dq, a)
	case TransE:
		q.Axpy(1, dq, da)
		q.Axpy(1, dq, dr)
	case Dot:
		q.Axpy(1, dq, da)
	}
}

// Pairs sets out [n×1] to the scores of query i with candidate i; query and b are [n×dim].
func (d *Decoder) Pairs(p *Pass, query, b, out gpu.Tensor) {
	if !d.distances() {
		p.Queue.RowDot(query, b, out)
		return
	}
	diff, minus := d.difference(p, query, b)
	p.Queue.RowDot(diff, minus, out)
}

// difference returns query − b and b − query.
func (d *Decoder) difference(p *Pass, query, b gpu.Tensor) (diff, minus gpu.Tensor) {
	q := p.Queue
	diff, minus = p.Arena.Matrix(q, b.Rows, d.dim), p.Arena.Matrix(q, b.Rows, d.dim)
	q.Copy(diff, query)
	q.Axpy(-1, b, diff)
	q.Copy(minus, b)
	q.Axpy(-1, query, minus)
	return diff, minus
}

// PairsBackward adds to dQuery and dB [n×dim] the gradients that dOut [n×1] passes on.
func (d *Decoder) PairsBackward(p *Pass, query, b, dOut, dQuery, dB gpu.Tensor) {
	q := p.Queue
	if !d.distances() {
		q.ScaleRowsAdd(1, dOut, b, dQuery)
		q.ScaleRowsAdd(1, dOut, query, dB)
		return
	}
	diff, _ := d.difference(p, query, b)
	q.ScaleRowsAdd(-2, dOut, diff, dQuery)
	q.ScaleRowsAdd(2, dOut, diff, dB)
}

// Scores sets out [n×m] to the scores of every query [n×dim] with every candidate b [m×dim].
func (d *Decoder) Scores(p *Pass, query, b, out gpu.Tensor) {
	if d.distances() {
		p.Queue.SquaredDistances(-1, query, b, out)
		return
	}
	p.Queue.Gemm(gpu.GemmOptions{TransB: true}, query, b, out)
}

// ScoresBackward adds to dQuery [n×dim] what dOut [n×m] passes on to the queries, and
// sets dB [m×dim] to what it passes on to the candidates.
func (d *Decoder) ScoresBackward(p *Pass, query, b, dOut, dQuery, dB gpu.Tensor) {
	q := p.Queue
	if !d.distances() {
		q.Gemm(gpu.GemmOptions{Accumulate: true}, dOut, b, dQuery)
		q.Gemm(gpu.GemmOptions{TransA: true}, dOut, query, dB)
		return
	}
	// The gradient of −|q−b|² is 2(b−q) for q and 2(q−b) for b.
	side := func(o gpu.GemmOptions, self, other, to gpu.Tensor) {
		sums, ones, mixed := p.Arena.Matrix(q, self.Rows, 1), p.Arena.Matrix(q, other.Rows, 1), p.Arena.Matrix(q, self.Rows, d.dim)
		q.Fill(ones, 1)
		q.Gemm(o, dOut, ones, sums)
		q.Gemm(o, dOut, other, mixed)
		q.Axpy(2, mixed, to)
		q.ScaleRowsAdd(-2, sums, self, to)
	}
	side(gpu.GemmOptions{}, query, b, dQuery)
	q.Fill(dB, 0)
	side(gpu.GemmOptions{TransA: true}, b, query, dB)
}

// unitRounds are Newton's steps towards |r| = 1 behind each of an optimiser.
const unitRounds = 5

// Constrain makes the numbers of relations r [n×dim], as an optimiser's step left them, what the decoder asks: those of
// rotate are of modulus 1. It takes Newton's steps r·(3 − |r|²)/2, from moduli below √3, of which five bring .35 to 1.6 to
// within 10⁻² of 1, and .8 to 1.2 to float32's precision.
func (d *Decoder) Constrain(p *Pass, r gpu.Tensor) {
	if d.name != RotatE {
		return
	}
	q, half := p.Queue, d.dim/2
	var parts [2]gpu.Tensor
	for i := range parts {
		parts[i] = p.Arena.Matrix(q, r.Rows, half)
	}
	factor, square := p.Arena.Matrix(q, r.Rows, half), p.Arena.Matrix(q, r.Rows, half)
	if q.Err() != nil {
		return
	}
	for i, x := range parts {
		q.Copy(x, r.View(0, i*half, r.Rows, half))
	}
	for range unitRounds {
		q.Copy(square, parts[0])
		q.Mul(square, parts[0])
		q.MulAdd(square, parts[1], parts[1])
		q.Fill(factor, 1.5)
		q.Axpy(-.5, square, factor)
		for _, x := range parts {
			q.Mul(x, factor)
		}
	}
	for i, x := range parts {
		q.Copy(r.View(0, i*half, r.Rows, half), x)
	}
}

// settle makes a row of normal numbers what Constrain would: numbers of any modulus get modulus 1.
func (d *Decoder) settle(row []float32) {
	if d.name != RotatE {
		return
	}
	re, im := row[:d.dim/2], row[d.dim/2:]
	for i := range re {
		if modulus := math.Hypot(float64(re[i]), float64(im[i])); modulus > 0 {
			re[i], im[i] = float32(float64(re[i])/modulus), float32(float64(im[i])/modulus)
		} else {
			re[i] = 1
		}
	}
}
