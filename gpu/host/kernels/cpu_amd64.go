//go:build !noasm

package kernels

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// Detect returns the best instruction set of this processor and build.
func Detect() ISA {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA || !x.HasBMI2:
		return ISAGeneric
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL:
		return ISAAVX512
	}
	return ISAAVX2 // F16C is older than AVX2 on every processor
}

func tableFor(i ISA) *table {
	switch i {
	case ISAAVX2:
		return avx2Table()
	case ISAAVX512:
		return avx512Table()
	}
	return genericTable()
}

func avx2Table() *table {
	t := genericTable()
	t.gemm = gemmKernel{mr: 6, nr: 16, run: gemmAVX2}
	t.maxUint32 = maxUint32AVX2
	t.gather = wideGather(8, t.gather, [numRowTypes]gatherKernel{gatherFloat32AVX2, gatherFloat16AVX2, gatherBFloat16AVX2, gatherInt8AVX2})
	t.sum = wideSum(8, t.sum, [numRowTypes]sumKernel{sumFloat32AVX2, sumFloat16AVX2, sumBFloat16AVX2, sumInt8AVX2})
	t.sumWeighted = wideSumWeighted(8, t.sumWeighted, [numRowTypes]sumWeightedKernel{sumWeightedFloat32AVX2, sumWeightedFloat16AVX2, sumWeightedBFloat16AVX2, sumWeightedInt8AVX2})
	t.sumFused, t.fusedLanes = sumFusedAVX2, 8
	t.add, t.mul, t.axpy, t.mulAdd, t.tanhBackward, t.scale = addAVX2, mulAVX2, axpyAVX2, mulAddAVX2, tanhBackwardAVX2, scaleAVX2
	t.relu, t.biasReLU, t.reluBackward = reluAVX2, biasReLUAVX2, reluBackwardAVX2
	t.leakyReLU, t.leakyReLUBackward = leakyReLUAVX2, leakyReLUBackwardAVX2
	t.maskBits, t.maskScale = maskBitsAVX2, maskScaleAVX2
	t.laneSum, t.dot, t.squaredDistance = laneSumAVX2, dotAVX2, squaredDistanceAVX2
	t.maxInto, t.addWhere = maxIntoAVX2, addWhereAVX2
	t.peakFMA, t.peakFlops = peakFMAAVX2, 12*2*8
	t.rowMax, t.expSum = rowMaxAVX2, expSumAVX2
	t.squaredDeviation, t.normalize, t.normalizeColumns, t.addSquares = squaredDeviationAVX2, normalizeAVX2, normalizeColumnsAVX2, addSquaresAVX2
	t.scaleShift, t.normalizeBackward, t.normalizeColumnsBackward = scaleShiftAVX2, normalizeBackwardAVX2, normalizeColumnsBackwardAVX2
	t.exp, t.sigmoid, t.tanh = expAVX2, sigmoidAVX2, tanhAVX2
	t.adam, t.adagrad, t.sgd, t.sgdMomentum = adamAVX2, adagradAVX2, sgdAVX2, sgdMomentumAVX2
	return t
}

func avx512Table() *table {
	t := avx2Table() // for rows of 8 to 15
	t.gemm, t.gemmNarrow = gemmKernel{mr: 12, nr: 32, run: gemmAVX512}, t.gemm
	t.maxUint32 = maxUint32AVX512
	t.gather = wideGather(16, t.gather, [numRowTypes]gatherKernel{gatherFloat32AVX512, gatherFloat16AVX512, gatherBFloat16AVX512, gatherInt8AVX512})
	t.sum = wideSum(16, t.sum, [numRowTypes]sumKernel{sumFloat32AVX512, sumFloat16AVX512, sumBFloat16AVX512, sumInt8AVX512})
	t.sumWeighted = wideSumWeighted(16, t.sumWeighted, [numRowTypes]sumWeightedKernel{sumWeightedFloat32AVX512, sumWeightedFloat16AVX512, sumWeightedBFloat16AVX512, sumWeightedInt8AVX512})
	t.sumFused, t.fusedLanes = sumFusedAVX512, 16
	t.add, t.mul, t.axpy, t.mulAdd, t.tanhBackward, t.scale = addAVX512, mulAVX512, axpyAVX512, mulAddAVX512, tanhBackwardAVX512, scaleAVX512
	t.relu, t.biasReLU, t.reluBackward = reluAVX512, biasReLUAVX512, reluBackwardAVX512
	t.leakyReLU, t.leakyReLUBackward = leakyReLUAVX512, leakyReLUBackwardAVX512
	t.maskBits, t.maskScale = maskBitsAVX512, maskScaleAVX512
	t.laneSum, t.dot, t.squaredDistance = laneSumAVX512, dotAVX512, squaredDistanceAVX512
	t.maxInto, t.addWhere = maxIntoAVX512, addWhereAVX512
	t.peakFMA, t.peakFlops = peakFMAAVX512, 12*2*16
	t.rowMax, t.expSum = rowMaxAVX512, expSumAVX512
	t.squaredDeviation, t.normalize, t.normalizeColumns, t.addSquares = squaredDeviationAVX512, normalizeAVX512, normalizeColumnsAVX512, addSquaresAVX512
	t.scaleShift, t.normalizeBackward, t.normalizeColumnsBackward = scaleShiftAVX512, normalizeBackwardAVX512, normalizeColumnsBackwardAVX512
	t.exp, t.sigmoid, t.tanh = expAVX512, sigmoidAVX512, tanhAVX512
	t.adam, t.adagrad, t.sgd, t.sgdMomentum = adamAVX512, adagradAVX512, sgdAVX512, sgdMomentumAVX512
	return t
}

// gemmAVX2 runs a tile of up to 6 rows: the whole one at once, a rest in parts.
func gemmAVX2(g *gemmTile) {
	if g.rows == 6 {
		gemm6x16AVX2((*byte)(unsafe.Pointer(g)))
		return
	}
	for p := *g; p.rows > 0; {
		b := (*byte)(unsafe.Pointer(&p))
		switch {
		case p.rows >= 6:
			gemm6x16AVX2(b)
			p.skip(6)
		case p.rows >= 4:
			gemm4x16AVX2(b)
			p.skip(4)
		case p.rows >= 2:
			gemm2x16AVX2(b)
			p.skip(2)
		default:
			gemm1x16AVX2(b)
			p.skip(1)
		}
	}
}

// gemmAVX512 runs a tile of up to 12 rows.
func gemmAVX512(g *gemmTile) {
	if g.rows == 12 { // nearly always: no copy of the tile
		gemm12x32AVX512((*byte)(unsafe.Pointer(g)))
		return
	}
	for p := *g; p.rows > 0; {
		b := (*byte)(unsafe.Pointer(&p))
		switch {
		case p.rows >= 12:
			gemm12x32AVX512(b)
			p.skip(12)
		case p.rows >= 8:
			gemm8x32AVX512(b)
			p.skip(8)
		case p.rows >= 4:
			gemm4x32AVX512(b)
			p.skip(4)
		case p.rows >= 2:
			gemm2x32AVX512(b)
			p.skip(2)
		default:
			gemm1x32AVX512(b)
			p.skip(1)
		}
	}
}

// skip moves the tile down by n rows.
func (g *gemmTile) skip(n int) {
	g.rows -= n
	if g.rows > 0 { // never point behind the matrix
		g.a, g.c = unsafe.Add(g.a, 4*n*g.rsa), unsafe.Add(g.c, 4*n*g.ldc)
	}
}

// wideGather makes gathers that take the reference for rows shorter than a vector.
func wideGather(lanes int, narrow, wide [numRowTypes]gatherKernel) (out [numRowTypes]gatherKernel) {
	for i := range out {
		narrow, wide := narrow[i], wide[i]
		out[i] = func(dst []float32, ldd, dim int, idx []uint32, src []byte, stride int, scale float32) {
			if dim < lanes {
				narrow(dst, ldd, dim, idx, src, stride, scale)
				return
			}
			wide(dst, ldd, dim, idx, src, stride, scale)
		}
	}
	return out
}

func wideSum(lanes int, narrow, wide [numRowTypes]sumKernel) (out [numRowTypes]sumKernel) {
	for i := range out {
		narrow, wide := narrow[i], wide[i]
		out[i] = func(dst, from []float32, idx []uint32, n int, src []byte, stride int, scale float32) {
			if len(dst) < lanes {
				narrow(dst, from, idx, n, src, stride, scale)
				return
			}
			wide(dst, from, idx, n, src, stride, scale)
		}
	}
	return out
}

func wideSumWeighted(lanes int, narrow, wide [numRowTypes]sumWeightedKernel) (out [numRowTypes]sumWeightedKernel) {
	for i := range out {
		narrow, wide := narrow[i], wide[i]
		out[i] = func(dst, from []float32, idx []uint32, n int, src []byte, stride int, scale float32, w []float32, ldw int) {
			if len(dst) < lanes {
				narrow(dst, from, idx, n, src, stride, scale, w, ldw)
				return
			}
			wide(dst, from, idx, n, src, stride, scale, w, ldw)
		}
	}
	return out
}
