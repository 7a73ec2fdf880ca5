//go:build !noasm

package kernels

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// HasBF16 reports whether the processor multiplies tiles of bfloat16 (Intel's AMX) and the system lets this process: the state of
// its tiles, 8 KiB a thread, is switched only for processes that asked.
var HasBF16 = sync.OnceValue(func() bool {
	const reqXCompPerm, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM of XFEATURE_XTILEDATA: <asm/prctl.h>
	x := &cpu.X86
	if !x.HasAMXTile || !x.HasAMXBF16 || !x.HasAVX512BF16 || Detect() < ISAAVX512 {
		return false
	}
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, reqXCompPerm, tileData, 0)
	return errno == 0
})

// A tile holds 16 rows of 32 bfloat16. C is made in blocks of two by two tiles: 32 rows by 32 columns of float32. For
// each 32 of the inner dimension a block of A is two tiles of rows, a block of B two of columns, whose rows hold two of the
// inner dimension each, column by column.
const (
	bf16Side  = 32   // rows and columns of a block of C, and of the inner dimension in a tile
	bf16Tiles = 2048 // bytes of two tiles
	bf16KC    = 512  // of the inner dimension at once: gemmMC rows of A and gemmNC columns of B so long stay in L2
	bf16MC    = 128
)

// tileBF16 is the argument of tilesBF16, which knows its layout: blocks of 32 rows of C, one below the other,
//
//	C = (load ? C : 0) + Σ_k A[k]·B[k]
type tileBF16 struct {
	a, b, c unsafe.Pointer
	ldc     int // bytes from one row of C to the next
	k       int // pairs of tiles
	blocks  int
	strideA int // bytes from one block's pairs of tiles to the next one's
	load    uint64
}

//go:noescape
func tilesBF16(tile *byte)

// rowsBF16 writes a tile: rows ≤ 16 of float32, stride bytes apart, of which bit j of columns tells whether there is column j; 0 elsewhere.
//
//go:noescape
func rowsBF16(dst, src unsafe.Pointer, stride, rows int, columns uint32)

// pairsBF16 writes a tile: rows ≤ 32 of at most 16 columns, two rows by turns in one of the tile.
//
//go:noescape
func pairsBF16(dst, src unsafe.Pointer, stride, rows int, columns uint32)

// packBF16 writes tiles of op(m)'s lines from … from+lines−1 ≤ from+31, places l … l+depth−1 of the inner dimension: two tiles, of 16
// lines each, for each 32 places. A line is a row of m, or a column where inner says that rows are the inner dimension. byLine
// says that a tile's row is a line, as A's are; else it is two places.
func packBF16(dst []float32, m Matrix, inner, byLine bool, from, lines, l, depth int) {
	at := 0
	for k := 0; k < depth; k += bf16Side {
		places := min(bf16Side, depth-k)
		for half := 0; half < bf16Side; half += 16 {
			n := max(0, min(16, lines-half))
			i, j, rows, columns := from+half, l+k, n, places
			if inner {
				i, j, rows, columns = j, i, columns, rows
			}
			var src unsafe.Pointer
			if n > 0 {
				src = unsafe.Pointer(&m.Data[i*m.Stride+j])
			} else {
				rows = 0
			}
			mask, to := uint32(1)<<columns-1, unsafe.Pointer(&dst[at])
			if inner {
				pairsBF16(to, src, 4*m.Stride, rows, mask)
			} else {
				rowsBF16(to, src, 4*m.Stride, rows, mask)
			}
			if inner == byLine {
				transpose16x16AVX512((*byte)(to))
			}
			at += bf16Tiles / 2 / 4
		}
	}
}

// gemmBF16 is gemm of operands rounded to bfloat16: products and sums are of float32. Denormal numbers are 0.
func gemmBF16(p *Pool, o GemmOptions, a, b, c Matrix, k int) {
	m, n := c.Rows, c.Cols
	const floats = bf16Tiles / 4 // of a pair of tiles
	pairs := func(k int) int { return (k-1)/bf16Side + 1 }
	panels := func(n int) int { return (n-1)/bf16Side + 1 }
	packed := p.floats(pairs(min(k, bf16KC)) * panels(min(n, gemmNC)) * floats)
	defer p.putFloats(packed)
	for j := 0; j < n; j += gemmNC {
		width := min(gemmNC, n-j)
		for l := 0; l < k; l += bf16KC {
			depth := min(bf16KC, k-l)
			panel := pairs(depth) * floats
			p.For(panels(width), 4, func(lo, hi int) {
				for q := lo; q < hi; q++ {
					packBF16(packed[q*panel:], b, !o.TransB, false, j+q*bf16Side, min(bf16Side, width-q*bf16Side), l, depth)
				}
			})
			p.For(m, bf16MC, func(lo, hi int) {
				strip := p.floats(panels(hi-lo) * panel)
				defer p.putFloats(strip)
				for i := lo; i < hi; i += bf16Side {
					packBF16(strip[(i-lo)/bf16Side*panel:], a, o.TransA, true, i, min(bf16Side, hi-i), l, depth)
				}
				stripBF16(strip, packed[:panels(width)*panel], c.View(lo, j, hi-lo, width), pairs(depth), l > 0 || o.Accumulate)
				if l+depth == k {
					o.finish(p.kernels(), c.View(lo, j, hi-lo, width), j)
				}
			})
		}
	}
}

// stripBF16 multiplies rows of A with a block of B, packed both, k pairs of tiles long.
func stripBF16(a, b []float32, c Matrix, k int, load bool) {
	panel := k * bf16Tiles / 4
	whole := c.Rows / bf16Side
	g := tileBF16{k: k, strideA: k * bf16Tiles}
	if load {
		g.load = 1
	}
	run := func() { tilesBF16((*byte)(unsafe.Pointer(&g))) }
	for q := 0; q < c.Cols; q += bf16Side {
		g.b = unsafe.Pointer(&b[q/bf16Side*panel])
		done := 0
		if q+bf16Side <= c.Cols && whole > 0 {
			g.a, g.c, g.ldc, g.blocks = unsafe.Pointer(&a[0]), unsafe.Pointer(&c.Data[q]), 4*c.Stride, whole
			run()
			done = whole
		}
		// What is left is smaller than a block, which is computed beside C.
		var edge [bf16Side * bf16Side]float32
		for i := done * bf16Side; i < c.Rows; i += bf16Side {
			part := c.View(i, q, min(bf16Side, c.Rows-i), min(bf16Side, c.Cols-q))
			if load {
				for r := range part.Rows {
					copy(edge[r*bf16Side:], part.Row(r))
				}
			}
			g.a, g.c, g.ldc, g.blocks = unsafe.Pointer(&a[i/bf16Side*panel]), unsafe.Pointer(&edge[0]), 4*bf16Side, 1
			run()
			for r := range part.Rows {
				copy(part.Row(r), edge[r*bf16Side:])
			}
		}
	}
}
