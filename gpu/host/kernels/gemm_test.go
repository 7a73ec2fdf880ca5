package kernels

import (
	"fmt"
	"math"
	"testing"

	"github.com/gstore/gstore/blocks/race"
)

// referenceGemm computes in float64.
func referenceGemm(o GemmOptions, a, b, c Matrix) []float64 {
	k := a.Cols
	if o.TransA {
		k = a.Rows
	}
	out := make([]float64, 0, c.Rows*c.Cols)
	for i := range c.Rows {
		for j := range c.Cols {
			s := 0.0
			if o.Accumulate {
				s = float64(c.Data[i*c.Stride+j])
			}
			for l := range k {
				x, y := a.Data, b.Data
				ia, ib := i*a.Stride+l, l*b.Stride+j
				if o.TransA {
					ia = l*a.Stride + i
				}
				if o.TransB {
					ib = j*b.Stride + l
				}
				s += float64(x[ia]) * float64(y[ib])
			}
			if o.Bias != nil {
				s += float64(o.Bias[j])
			}
			if o.ReLU && s <= 0 {
				s = 0
			}
			out = append(out, s)
		}
	}
	return out
}

// gemmShape is of a product of m×k by k×n.
type gemmShape struct{ m, n, k int }

// gemmVariants is how many combinations of options there are.
const gemmVariants = 32

// gemmVariant makes one of them, with operands of random numbers, in half of the variants with gaps.
func gemmVariant(variant int, s gemmShape) (o GemmOptions, a, b, c Matrix) {
	o = GemmOptions{TransA: variant&1 != 0, TransB: variant&2 != 0, Accumulate: variant&4 != 0, ReLU: variant&8 != 0}
	gap := 3 * (variant >> 3 & 1)
	r := newRand(uint64(variant))
	if variant&16 != 0 {
		o.Bias = randoms(r, s.n)
	}
	am, ak, bk, bn := s.m, s.k, s.k, s.n
	if o.TransA {
		am, ak = ak, am
	}
	if o.TransB {
		bk, bn = bn, bk
	}
	return o, strided(r, am, ak, gap), strided(r, bk, bn, gap), strided(r, s.m, s.n, gap)
}

func compact(m Matrix) []float32 {
	out := make([]float32, 0, m.Rows*m.Cols)
	for i := range m.Rows {
		out = append(out, m.Row(i)...)
	}
	return out
}

func TestGemm(t *testing.T) {
	shapes := []gemmShape{
		{0, 3, 4}, {3, 0, 4}, {3, 4, 0}, {1, 1, 1}, {1, 47, 100}, {5, 3, 7}, {6, 16, 8}, {7, 17, 9},
		{12, 32, 256}, {13, 33, 257}, {50, 47, 128}, {98, 64, 300}, {14, 530, 65}, {13, 20, 600},
	}
	for _, s := range shapes {
		for variant := range gemmVariants {
			o, a, b, c := gemmVariant(variant, s)
			want := referenceGemm(o, a, b, c)
			var fused []float32
			for _, p := range pools() {
				got := clone(c)
				Gemm(p, o, a, b, got)
				what := fmt.Sprintf("%s %+v %+v", p.name(), s, o)
				checkNear(t, what, compact(got), want, 2e-5)
				checkGaps(t, got)
				if p.ISA() != ISAGeneric { // the same bits in AVX2 and AVX-512, for any number of threads
					if fused == nil {
						fused = compact(got)
					}
					checkBits(t, what, compact(got), fused)
				}
			}
		}
	}
}

// A weight gradient: an inner dimension long enough to be cut.
func TestGemmSplit(t *testing.T) {
	const m, n, k = 13, 21, 3*gemmSplitK + 17
	if gemmParts(m, n, k) < 2 {
		t.Fatal("the shape is not split: the test is void")
	}
	r := newRand(1)
	a, b, c := strided(r, k, m, 2), strided(r, k, n, 1), strided(r, m, n, 1)
	for _, o := range []GemmOptions{{TransA: true}, {TransA: true, Accumulate: true, Bias: randoms(r, n), ReLU: true}} {
		want := referenceGemm(o, a, b, c)
		var fused []float32
		for _, p := range pools() {
			got := clone(c)
			Gemm(p, o, a, b, got)
			checkNear(t, p.name(), compact(got), want, 1e-3)
			checkGaps(t, got)
			if p.ISA() != ISAGeneric {
				if fused == nil {
					fused = compact(got)
				}
				checkBits(t, p.name(), compact(got), fused)
			}
		}
	}
}

// A row of a product that is long within is the same whatever rows are beside it.
func TestGemmRowsAlone(t *testing.T) {
	race.SkipArithmetic(t)
	const m, n, k = 3000, 100, 3*gemmSplitK + 17
	r := newRand(1)
	a, b := strided(r, m, k, 0), strided(r, k, n, 0)
	for _, p := range pools() {
		all, alone := strided(r, m, n, 0), strided(r, 1, n, 0)
		Gemm(p, GemmOptions{}, a, b, all)
		Gemm(p, GemmOptions{}, a.View(17, 0, 1, k), b, alone)
		checkBits(t, p.name(), compact(alone), all.Row(17))
	}
}

func TestGemmNaN(t *testing.T) {
	for _, p := range pools() {
		r := newRand(2)
		a, b, c := strided(r, 20, 30, 0), strided(r, 30, 40, 0), strided(r, 20, 40, 0)
		a.Data[7*30+3] = float32(math.NaN())
		b.Data[5*40+11] = float32(math.Inf(1))
		Gemm(p, GemmOptions{ReLU: true}, a, b, c)
		for j := range 40 {
			if v := c.Data[7*40+j]; v == v {
				t.Fatalf("%s: NaN in row 7 of a gave %v in column %d of c", p.name(), v, j)
			}
		}
		for i := range 20 {
			if v := c.Data[i*40+11]; i != 7 && v != 0 && !math.IsInf(float64(v), 1) {
				t.Fatalf("%s: Inf in column 11 of b gave %v in row %d", p.name(), v, i)
			}
		}
	}
}

func TestGemmShapes(t *testing.T) {
	d := make([]float32, 100)
	mustPanic(t, "inner", func() { Gemm(nil, GemmOptions{}, Dense(d, 3, 4), Dense(d, 5, 6), Dense(d, 3, 6)) })
	mustPanic(t, "c", func() { Gemm(nil, GemmOptions{}, Dense(d, 3, 4), Dense(d, 4, 6), Dense(d, 3, 5)) })
	mustPanic(t, "bias", func() { Gemm(nil, GemmOptions{Bias: d[:5]}, Dense(d, 3, 4), Dense(d, 4, 6), Dense(d, 3, 6)) })
	mustPanic(t, "memory", func() { Gemm(nil, GemmOptions{}, Dense(d[:11], 3, 4), Dense(d, 4, 6), Dense(d, 3, 6)) })
	mustPanic(t, "stride", func() {
		Gemm(nil, GemmOptions{}, Matrix{Data: d, Rows: 3, Cols: 4, Stride: 3}, Dense(d, 4, 6), Dense(d, 3, 6))
	})
}
