package kernels

import (
	"fmt"
	"math"
	"testing"

	"github.com/gstore/gstore/blocks"
)

// rounded is m with every element rounded to bfloat16 and back.
func rounded(m Matrix) Matrix {
	out := clone(m)
	for i, v := range out.Data {
		if v == v { // gaps are NaN
			out.Data[i] = blocks.BFloat16Value(blocks.BFloat16Bits(v))
		}
	}
	return out
}

func bf16Pools(t *testing.T) []*Pool {
	if !HasBF16() {
		t.Skip("this processor, or its system, has no tiles of bfloat16 (AMX)")
	}
	return []*Pool{NewPool(Options{Threads: 1, BF16: true}), NewPool(Options{Threads: 3, BF16: true})}
}

// Products of bfloat16 are those of the rounded operands, summed in float32, the same bits for any number of threads.
func TestGemmBF16(t *testing.T) {
	pools := bf16Pools(t)
	shapes := []gemmShape{
		{0, 3, 4}, {3, 0, 4}, {3, 4, 0}, {1, 1, 1}, {1, 47, 100}, {16, 16, 32}, {32, 32, 32}, {17, 31, 33}, {64, 64, 64}, {15, 17, 9},
		{33, 65, 511}, {31, 32, 513}, {161, 64, 40}, {14, 530, 65}, {260, 20, 600}, {21, 13, 3*gemmSplitK + 17},
	}
	for _, s := range shapes {
		for variant := range gemmVariants {
			if s.k > gemmSplitK && variant > 5 { // long enough for few
				break
			}
			o, a, b, c := gemmVariant(variant, s)
			want := referenceGemm(o, rounded(a), rounded(b), c)
			var first []float32
			for _, p := range pools {
				got := clone(c)
				Gemm(p, o, a, b, got)
				what := fmt.Sprintf("%d threads, %+v %+v", p.Threads(), s, o)
				checkNear(t, what, compact(got), want, 1e-6*math.Sqrt(float64(s.k+100)))
				checkGaps(t, got)
				if first == nil {
					first = compact(got)
				}
				checkBits(t, what, compact(got), first)
			}
		}
	}
}

// What is not a number stays one, and reaches its row or column only.
func TestGemmBF16NaN(t *testing.T) {
	p := bf16Pools(t)[0]
	for _, bits := range []uint32{0x7fffffff, 0x7f800001, 0xffc00000} { // the second is one in bits that bfloat16 lacks
		r := newRand(2)
		a, b, c := strided(r, 40, 50, 0), strided(r, 50, 40, 0), strided(r, 40, 40, 0)
		a.Data[7*50+3] = math.Float32frombits(bits)
		b.Data[5*40+11] = float32(math.Inf(1))
		Gemm(p, GemmOptions{}, a, b, c)
		for i := range 40 {
			for j := range 40 {
				v := float64(c.Data[i*40+j])
				switch {
				case i == 7 && !math.IsNaN(v):
					t.Fatalf("%#x in row 7 of a gave %v in column %d of c", bits, v, j)
				case i != 7 && j == 11 && !math.IsInf(v, 0), i != 7 && j != 11 && (math.IsInf(v, 0) || math.IsNaN(v)):
					t.Fatalf("Inf in column 11 of b gave %v in row %d, column %d of c", v, i, j)
				}
			}
		}
	}
}
