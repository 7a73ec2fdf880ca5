//go:build cuda

package cuda

import (
	"math"

	"gorgonia.org/cu"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/cuda/driver"
)

type args = driver.Args

func (s *stream) Copy(dst, src gpu.Tensor) {
	if !s.begin(opCopy) {
		return
	}
	if dst.Contiguous() && src.Contiguous() {
		s.issued(s.dev.ctx.Copy(at(dst), at(src), dst.Bytes(), s.cu))
		return
	}
	var a args
	matrix(&a, dst)
	s.rows("copy_rows", dst.Rows, dst.Cols, matrix(&a, src))
}

func (s *stream) Fill(dst gpu.Tensor, value float32) {
	if !s.begin(opFill) {
		return
	}
	if dst.Contiguous() {
		s.issued(s.dev.ctx.Fill32(at(dst), math.Float32bits(value), int64(dst.Len()), s.cu))
		return
	}
	var a args
	s.rows("fill_rows", dst.Rows, dst.Cols, matrix(&a, dst).F32(value))
}

func (s *stream) DivideRows(t, divisors gpu.Tensor) {
	if s.begin(opDivideRows) {
		var a args
		s.rows("divide_rows", t.Rows, t.Cols, matrix(&a, t).Ptr(at(divisors)))
	}
}

func (s *stream) AddBias(relu bool, bias, t gpu.Tensor) {
	if s.begin(opAddBias) {
		var a args
		s.rows("add_bias", t.Rows, t.Cols, matrix(&a, t).Ptr(at(bias)).I32(btoi(relu)))
	}
}

func btoi(v bool) int {
	if v {
		return 1
	}
	return 0
}

// Tiles of products: see kernels/gemm.cu.
const (
	smallTile = 64
	largeTile = 128
	tileDepth = 16
	tileStage = 3
	// gemmFill is the number of tiles below which a product does not fill a GPU: then small tiles serve, and a
	// long inner dimension is cut. A constant, not the number of processors: results depend on shapes only.
	gemmFill   = 132
	gemmPiece  = 512 // inner elements a piece, at least
	gemmPieces = 160 // at most
	// A processor has room for so many large tiles' blocks at once, and for twice as many small ones'.
	gemmBlocks = 2
)

// gemmShape returns tile, pieces of the inner dimension and the length of a piece. The inner dimension where A is transposed, of
// gradients of weights, else A's rows, may be nodes, to which rows of zeros are added where steps are recorded: where it is cut
// depends on their [gpu.SizeClass] alone, so that these change no bit.
func gemmShape(transA bool, m, n, k int) (tile, pieces, piece int) {
	inner := k
	if transA {
		inner = gpu.SizeClass(k)
	} else {
		m = gpu.SizeClass(m)
	}
	tiles := func(t int) int { return ((m + t - 1) / t) * ((n + t - 1) / t) }
	tile, pieces, piece = largeTile, 1, k
	if tiles(largeTile) < gemmFill && !(transA && m > smallTile && n > smallTile && inner >= gemmFill*gemmPiece) {
		tile = smallTile
	}
	fill := gemmBlocks * gemmFill
	if tile == smallTile {
		fill *= 2
	}
	if t := tiles(tile); t < gemmFill && inner >= 2*gemmPiece {
		pieces = min(inner/gemmPiece, gemmPieces, (fill+t-1)/t)
		piece = ((inner+pieces-1)/pieces + tileDepth - 1) / tileDepth * tileDepth
		pieces = (k + piece - 1) / piece
	}
	return tile, pieces, piece
}

func (s *stream) Gemm(o gpu.GemmOptions, a, b, c gpu.Tensor) {
	if s.begin(opGemm) {
		s.gemm(s.dev.matmul, o, a, b, c)
	}
}

func (s *stream) gemm(how MatMul, o gpu.GemmOptions, a, b, c gpu.Tensor) {
	m, n, k := c.Rows, c.Cols, a.Cols
	if o.TransA {
		k = a.Rows
	}
	tile, pieces, piece := gemmShape(o.TransA, m, n, k)
	if o.TransA && o.TransB {
		how, tile = Exact, smallTile
	}
	kernel, block := "gemm_"+how.String()+"_"+map[bool]string{false: "n", true: "t"}[o.TransA]+map[bool]string{false: "n", true: "t"}[o.TransB], 128
	if tile == largeTile {
		kernel, block = kernel+"_large", 256
	} else {
		kernel += "_small"
	}
	out, ldc, direct := at(c), c.Stride, pieces == 1
	if !direct {
		out, ldc = s.temporary(4 * int64(pieces) * int64(m) * int64(n))[0], n
	}
	vectors := 0
	if aligned(a) {
		vectors |= 1
	}
	if aligned(b) {
		vectors |= 2
	}
	var p args
	matrix(p.I32(m).I32(n).I32(k).I32(piece), a)
	matrix(&p, b)
	if direct {
		p.Ptr(at(o.Bias)).Ptr(out).I64(ldc).I32(btoi(o.Accumulate)).I32(btoi(o.ReLU)).I32(vectors)
	} else {
		p.Ptr(0).Ptr(out).I64(ldc).I32(0).I32(0).I32(vectors)
	}
	grid := ((m + tile - 1) / tile) * ((n + tile - 1) / tile)
	s.launch(kernel, driver.Shape{Grid: [3]int{grid, 1, pieces}, Threads: block, Shared: gemmShared(tile, o.TransA, o.TransB)}, &p)
	if !direct {
		var p args
		p.Ptr(out).I32(pieces).I32(m).I32(n).Ptr(at(o.Bias))
		s.launch("gemm_sum", s.over(m*n), matrix(&p, c).I32(btoi(o.Accumulate)).I32(btoi(o.ReLU)))
	}
}

// gemmShared returns the bytes of shared memory of a product's stages.
func gemmShared(tile int, transA, transB bool) int {
	along, across := tile*(tileDepth+4), tileDepth*(tile+8)
	a, b := along, across
	if transA {
		a = across
	}
	if transB {
		b = along
	}
	return 4 * tileStage * (a + b)
}

// Sums of columns: parts of columnPiece rows, see kernels/norm.cu.
const columnPiece = 512

const (
	sumPlain = iota
	sumProducts
	sumDeviations
)

// columnParts issues the parts of a sum over the rows of x; parts has columnBytes(x).
func (s *stream) columnParts(what int, x, y gpu.Tensor, mean, parts cu.DevicePtr) (count int) {
	count = (x.Rows + columnPiece - 1) / columnPiece
	if count == 0 {
		return 0
	}
	var a args
	a.I32(what)
	matrix(&a, x)
	matrix(&a, y)
	s.launch("column_parts", driver.Shape{Grid: [3]int{(x.Cols + 31) / 32, count}, Threads: threads}, a.Ptr(mean).I32(x.Rows).I32(x.Cols).Ptr(parts))
	return count
}

func columnBytes(x gpu.Tensor) int64 {
	return 4 * int64((x.Rows+columnPiece-1)/columnPiece) * int64(x.Cols)
}

// columnFinish sets dst, or adds to it, the sum of parts times by.
func (s *stream) columnFinish(parts cu.DevicePtr, count, cols int, by float32, accumulate bool, dst cu.DevicePtr) {
	var a args
	s.launch("column_finish", s.over(cols), a.Ptr(parts).I32(count).I32(cols).F32(by).I32(btoi(accumulate)).Ptr(dst))
}

func (s *stream) ColumnSum(src, dst gpu.Tensor) {
	if s.begin(opColumnSum) {
		parts := s.temporary(columnBytes(src))[0]
		s.columnFinish(parts, s.columnParts(sumPlain, src, gpu.Tensor{}, 0, parts), src.Cols, 1, false, at(dst))
	}
}

func (s *stream) Axpy(alpha float32, x, y gpu.Tensor) {
	if s.begin(opAxpy) {
		var a args
		s.flat("axpy", y.Len(), a.F32(alpha).Ptr(at(x)).Ptr(at(y)))
	}
}

func (s *stream) Dropout(o gpu.DropoutOptions, t gpu.Tensor) {
	// The probability in steps of 2⁻¹⁶ and the factor of kept elements, as the host has them.
	threshold, by := uint32(o.P*65536+.5), 1/(1-o.P)
	if threshold == 0 || !s.begin(opDropout) {
		return
	}
	var a args
	n := t.Len()
	s.launch("dropout", s.over((n+127)/128*16), a.Ptr(at(t)).I64(n).U32(uint32(o.Seed)).U32(uint32(o.Seed>>32)).Ptr(at(o.Base)).U32(threshold).F32(by))
}

func (s *stream) ReLUBackward(by float32, y, d gpu.Tensor) {
	if s.begin(opReLUBackward) {
		var a args
		s.flat("relu_backward", d.Len(), a.F32(by).Ptr(at(y)).Ptr(at(d)))
	}
}

func (s *stream) LeakyReLUBackward(slope float32, y, d gpu.Tensor) {
	if s.begin(opLeakyReLUBackward) {
		var a args
		s.flat("leaky_backward", d.Len(), a.F32(slope).Ptr(at(y)).Ptr(at(d)))
	}
}

func (s *stream) LayerNorm(o gpu.LayerNormOptions, x, xhat, y, rstd gpu.Tensor) {
	if s.begin(opLayerNorm) {
		var a args
		matrix(&a, x)
		matrix(&a, xhat)
		matrix(&a, y).Ptr(at(rstd)).Ptr(at(o.Gamma)).Ptr(at(o.Beta)).F32(o.Epsilon).I32(btoi(o.ReLU)).I32(x.Rows).I32(x.Cols)
		s.launch("layer_norm", s.over(32*x.Rows), &a)
	}
}

// normParameters adds the columns' sums of d·xhat to dGamma and those of d to dBeta; where products and plain are
// given, they become the sums too.
func (s *stream) normParameters(xhat, d, dGamma, dBeta gpu.Tensor, parts, products, plain cu.DevicePtr) {
	for _, v := range []struct {
		what   int
		to     gpu.Tensor
		beside cu.DevicePtr
	}{{sumProducts, dGamma, products}, {sumPlain, dBeta, plain}} {
		count := s.columnParts(v.what, d, xhat, 0, parts)
		if v.beside != 0 {
			s.columnFinish(parts, count, d.Cols, 1, false, v.beside)
		}
		s.columnFinish(parts, count, d.Cols, 1, true, at(v.to))
	}
}

func (s *stream) LayerNormBackward(gamma, xhat, rstd, d, dGamma, dBeta gpu.Tensor) {
	if s.begin(opLayerNormBackward) {
		s.normParameters(xhat, d, dGamma, dBeta, s.temporary(columnBytes(d))[0], 0, 0)
		var a args
		matrix(&a, d)
		matrix(&a, xhat).Ptr(at(rstd)).Ptr(at(gamma)).I32(d.Rows).I32(d.Cols)
		s.launch("layer_norm_backward", s.over(32*d.Rows), &a)
	}
}

func (s *stream) BatchNorm(o gpu.BatchNormOptions, x, xhat, y, rstd gpu.Tensor) {
	if !s.begin(opBatchNorm) {
		return
	}
	t := s.temporary(columnBytes(x), 4*int64(x.Cols))
	parts, mean := t[0], t[1]
	if o.Inference {
		mean = at(o.Mean)
	} else {
		s.columnFinish(parts, s.columnParts(sumPlain, x, gpu.Tensor{}, 0, parts), x.Cols, 1/float32(x.Rows), false, mean)
		s.columnFinish(parts, s.columnParts(sumDeviations, x, gpu.Tensor{}, mean, parts), x.Cols, 1, false, at(rstd))
	}
	var a args
	a.I32(x.Rows).I32(x.Cols).F32(o.Momentum).F32(o.Epsilon).I32(btoi(o.Inference)).Ptr(mean).Ptr(at(rstd)).Ptr(at(o.Mean)).Ptr(at(o.Variance))
	s.launch("batch_stats", s.over(x.Cols), &a)
	var b args
	matrix(&b, x)
	matrix(&b, xhat)
	s.rows("batch_norm", x.Rows, x.Cols, matrix(&b, y).Ptr(mean).Ptr(at(rstd)).Ptr(at(o.Gamma)).Ptr(at(o.Beta)))
}

func (s *stream) BatchNormBackward(gamma, xhat, rstd, d, dGamma, dBeta gpu.Tensor) {
	if s.begin(opBatchNormBackward) {
		t := s.temporary(columnBytes(d), 4*int64(d.Cols), 4*int64(d.Cols))
		products, plain := t[1], t[2]
		s.normParameters(xhat, d, dGamma, dBeta, t[0], products, plain)
		var a args
		matrix(&a, d)
		s.rows("batch_norm_backward", d.Rows, d.Cols, matrix(&a, xhat).Ptr(plain).Ptr(products).Ptr(at(gamma)).Ptr(at(rstd)))
	}
}
