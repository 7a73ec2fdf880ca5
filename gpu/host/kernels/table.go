package kernels

import "github.com/gstore/gstore/blocks"

// table holds the inner loops of one instruction set. Every entry works on
// one thread, checks nothing, and has its reference, with the same results
// bit by bit unless said otherwise, in the portable table.
//
// Sums over a row ("lane sums") keep 16 partial sums, partial l taking the
// elements j ≡ l mod 16 in ascending order, and end with the tree of
// [laneSum]: what one AVX-512 register or two AVX2 registers do.
type table struct {
	// gemm computes C[i][j] (+)= Σ_l A(i,l)·B(l,j) for rows×(panels·nr) elements; see gemm.go.
	gemm gemmKernel
	// gemmNarrow is a kernel of fewer columns for what is left at the right of C; nr 0: none.
	gemmNarrow gemmKernel

	maxUint32 func(x []uint32) uint32 // 0 for none

	// gather writes rows idx of src to dst rows of len dim at stride ldd
	// (elements), multiplied by scale unless the type is Float32.
	gather [numRowTypes]gatherKernel
	// sum sets out = scale·(from + Σ rows idx[:n]), added from the left; idx[n:] are rows that will be
	// wanted next, for prefetching. from is 0 if nil, and overlaps out nowhere.
	sum [numRowTypes]sumKernel
	// sumWeighted sets out = from + Σ w[k·ldw]·(scale·row idx[k]), likewise.
	sumWeighted [numRowTypes]sumWeightedKernel
	// sumFused is sumWeighted of float32, rounded as gemm's products are, for rows of at least fusedLanes.
	sumFused   sumWeightedKernel
	fusedLanes int

	add               func(dst, x []float32)                                 // dst += x
	mul               func(dst, x []float32)                                 // dst *= x
	axpy              func(dst, x []float32, a float32)                      // dst += a·x
	mulAdd            func(dst, x, y []float32)                              // dst += x·y
	tanhBackward      func(d, y []float32)                                   // d −= y²·d
	scale             func(dst []float32, a float32)                         // dst *= a
	relu              func(x []float32)                                      // x = max(0, x), NaN stays
	biasReLU          func(x, bias []float32)                                // x = max(0, x+bias)
	reluBackward      func(d, y []float32, scale float32)                    // d = y ≤ 0 ? 0 : scale·d
	leakyReLU         func(x []float32, slope float32)                       // x = x < 0 ? slope·x : x
	leakyReLUBackward func(d, y []float32, slope float32)                    // d = y < 0 ? slope·d : d
	maskBits          func(bits []byte, group, key0, key1, threshold uint32) // dropout_generic.go
	maskScale         func(x []float32, bits []byte, scale float32)          // x = bit ? scale·x : 0

	laneSum                  func(x []float32) float32                     // lane sum of x
	dot                      func(x, y []float32) float32                  // lane sum of x·y
	squaredDistance          func(x, y []float32) float32                  // lane sum of (x−y)²
	squaredDeviation         func(x []float32, mean float32) float32       // lane sum of (x−mean)²
	rowMax                   func(x []float32) float32                     // -Inf for none; NaN if one is NaN
	expSum                   func(dst, x []float32, shift float32) float32 // dst = exp(x−shift); returns the lane sum
	normalize                func(y, x []float32, mean, rstd float32)      // y = (x−mean)·rstd
	normalizeColumns         func(y, x, mean, rstd []float32)
	addSquares               func(dst, x, mean []float32)             // dst += (x−mean)²
	scaleShift               func(y, x, gamma, beta []float32)        // y = x·gamma+beta
	normalizeBackward        func(d, xhat []float32, a, b, c float32) // d = c·(d−a−b·xhat)
	normalizeColumnsBackward func(d, xhat, a, b, c []float32)
	exp, sigmoid, tanh       func(y, x []float32)

	maxInto  func(best, x []float32, from []int32, edge int32) // segment.go
	addWhere func(dst, x []float32, from []int32, edge int32)  // dst += x where from is edge

	peakFMA   func(rounds int) // ceiling.go; nil: none
	peakFlops int              // operations a round

	adam        func(w, m, v, g []float32, beta1, rest1, beta2, rest2, decay, lr, inv2, eps float32)
	adagrad     func(w, s, g []float32, lr, eps, decay float32)
	sgd         func(w, g []float32, lr, decay float32)
	sgdMomentum func(w, m, g []float32, lr, decay, momentum float32)
}

type (
	gatherKernel      = func(dst []float32, ldd, dim int, idx []uint32, src []byte, stride int, scale float32)
	sumKernel         = func(out, from []float32, idx []uint32, n int, src []byte, stride int, scale float32)
	sumWeightedKernel = func(out, from []float32, idx []uint32, n int, src []byte, stride int, scale float32, w []float32, ldw int)
)

// Row types of the tables above.
const (
	rowFloat32 = iota
	rowFloat16
	rowBFloat16
	rowInt8
	numRowTypes
)

func rowType(t blocks.ElemType) int {
	switch t {
	case blocks.Float16:
		return rowFloat16
	case blocks.BFloat16:
		return rowBFloat16
	case blocks.Int8:
		return rowInt8
	}
	return rowFloat32
}

// laneSum adds 16 partial sums in the order of a halving reduction.
func laneSum(s *[16]float32) float32 {
	for n := 8; n > 0; n /= 2 {
		for i := range n {
			s[i] += s[i+n]
		}
	}
	return s[0]
}
