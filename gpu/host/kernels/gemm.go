package kernels

import (
	"fmt"
	"unsafe"
)

// GemmOptions configures [Gemm].
type GemmOptions struct {
	TransA, TransB bool      // use the transpose of a, of b
	Accumulate     bool      // c += … instead of c = …
	Bias           []float32 // added to every row of c; c.Cols elements, or none
	ReLU           bool      // c = max(0, …), last
}

// gemmKernel is the inner loop of [Gemm]: a tile of up to mr rows and nr
// columns of C stays in registers while l runs over one block of the inner dimension.
//
// run computes, for r < rows and j < nr,
//
//	C[r·ldc + j] = (load ? C[r·ldc + j] : 0) + Σ_{l<k} A[r·rsa + l·csa] · B[l·nr + j]
//
// with l ascending and one accumulator an element, then adds bias[j] if bias
// is not nil, and takes max(0, ·) if relu. Strides are in elements. B is a packed panel.
type gemmKernel struct {
	mr, nr int
	run    func(g *gemmTile)
}

// gemmTile is the argument of a gemmKernel: its layout is known to package gen.
type gemmTile struct {
	a, b, c  unsafe.Pointer
	bias     unsafe.Pointer // nil: none
	rsa, csa int
	ldc      int
	rows, k  int
	load     bool
	relu     bool
}

// Blocking: a panel of B (gemmKC×nr floats, ≤ 32 KiB) stays in L1 or close to it while
// a strip of A runs past; a packed block of B (gemmKC×gemmNC, 512 KiB) stays in L2.
// A is read in place: its rows are used once a panel, and mini-batches make
// m large and n small, so packing it would cost more than it saves.
const (
	gemmKC = 256
	gemmNC = 512
	gemmMC = 96 // rows of a piece of work; a multiple of every kernel's mr
	// gemmSplitK is the length of the pieces of an inner dimension so long that
	// pieces are computed apart and added pairwise (weight gradients).
	gemmSplitK = 4096
)

// Gemm computes c = op(a)·op(b), c += op(a)·op(b) with Accumulate, then adds the
// bias to every row and applies ReLU. op transposes where asked. Shapes:
// op(a) m×k, op(b) k×n, c m×n. c overlaps neither a nor b. On a pool with BF16 a and b are rounded to bfloat16.
func Gemm(p *Pool, o GemmOptions, a, b, c Matrix) {
	a.check("a")
	b.check("b")
	m, k := a.Rows, a.Cols
	if o.TransA {
		m, k = k, m
	}
	kb, n := b.Rows, b.Cols
	if o.TransB {
		kb, n = n, kb
	}
	if k != kb {
		panic(fmt.Sprintf("kernels: gemm of op(a) %d×%d and op(b) %d×%d", m, k, kb, n))
	}
	c.checkShape("c", m, n)
	if o.Bias != nil {
		checkLen("bias", len(o.Bias), n)
	}
	if m == 0 || n == 0 {
		return
	}
	if parts := gemmParts(m, n, k); parts > 1 && o.TransA { // rows of others are the same whatever rows are beside them
		gemmSplit(p, o, a, b, c, k, parts)
		return
	}
	gemm(p, o, a, b, c, k)
}

// gemmParts returns into how many pieces the inner dimension is cut: a
// function of the shape alone, so that the result is too.
func gemmParts(m, n, k int) int {
	if k < 2*gemmSplitK || m*n > 1<<18 || m+n > k/2 {
		return 1
	}
	return min(k/gemmSplitK, 64)
}

// gemmSplit computes pieces of the inner dimension apart, each on one thread, and adds them pairwise.
func gemmSplit(p *Pool, o GemmOptions, a, b, c Matrix, k, parts int) {
	m, n := c.Rows, c.Cols
	buf := p.floats(parts * m * n)
	defer p.putFloats(buf)
	one := &Pool{threads: 1, isa: p.ISA(), k: p.kernels(), bf16: p.BF16()}
	piece := (k-1)/parts + 1
	parts = (k-1)/piece + 1
	part := func(i int) []float32 { return buf[i*m*n : (i+1)*m*n] }
	p.For(parts, 1, func(i, _ int) {
		lo, hi := i*piece, min((i+1)*piece, k)
		gemm(one, GemmOptions{TransA: o.TransA, TransB: o.TransB},
			innerRange(a, !o.TransA, lo, hi), innerRange(b, o.TransB, lo, hi), Dense(part(i), m, n), hi-lo)
	})
	for step := 1; step < parts; step *= 2 {
		p.For((parts-step+2*step-1)/(2*step), 1, func(i, _ int) {
			if i = 2 * step * i; i+step < parts {
				p.kernels().add(part(i), part(i+step))
			}
		})
	}
	t := p.kernels()
	p.For(m, rowGrain(n), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row, sum := c.Row(i), part(0)[i*n:(i+1)*n]
			if o.Accumulate {
				t.add(row, sum)
			} else {
				copy(row, sum)
			}
		}
		o.finish(t, c.View(lo, 0, hi-lo, n), 0)
	})
}

// finish adds the bias, from its element j on, to every row of c and applies ReLU.
func (o *GemmOptions) finish(t *table, c Matrix, j int) {
	var bias []float32
	if o.Bias != nil {
		bias = o.Bias[j : j+c.Cols]
	}
	for i := range c.Rows {
		switch row := c.Row(i); {
		case bias != nil && o.ReLU:
			t.biasReLU(row, bias)
		case bias != nil:
			t.add(row, bias)
		case o.ReLU:
			t.relu(row)
		}
	}
}

// innerRange restricts the inner dimension, columns or rows of m, to [lo, hi).
func innerRange(m Matrix, columns bool, lo, hi int) Matrix {
	if columns {
		return m.View(0, lo, m.Rows, hi-lo)
	}
	return m.View(lo, 0, hi-lo, m.Cols)
}

func gemm(p *Pool, o GemmOptions, a, b, c Matrix, k int) {
	t, narrow := p.kernels().gemm, p.kernels().gemmNarrow
	m, n := c.Rows, c.Cols
	rsa, csa := a.Stride, 1
	if o.TransA {
		rsa, csa = 1, a.Stride
	}
	if k == 0 { // nothing to multiply, but c must still be set and the epilogue run
		a, b, csa, rsa = Dense(make([]float32, m), m, 1), Dense(make([]float32, n), 1, n), 1, 1
		o.TransB, k = false, 1
	}
	if p.BF16() {
		gemmBF16(p, o, a, b, c, k)
		return
	}
	nc := min(gemmNC, (n+t.nr-1)/t.nr*t.nr)
	packed := p.floats(min(gemmKC, k) * nc)
	defer p.putFloats(packed)
	for j := 0; j < n; j += nc {
		width := min(nc, n-j)
		panels := (width-1)/t.nr + 1
		for l := 0; l < k; l += gemmKC {
			depth := min(gemmKC, k-l)
			p.For(panels, 4, func(lo, hi int) {
				for q := lo; q < hi; q++ {
					cols := min(t.nr, width-q*t.nr)
					nr := t.of(cols, narrow).nr
					packPanel(packed[q*depth*t.nr:][:depth*nr], b, o.TransB, l, j+q*t.nr, depth, cols, nr)
				}
			})
			last := l+depth == k
			tile := gemmTile{rsa: rsa, csa: csa, ldc: c.Stride, k: depth, load: l > 0 || o.Accumulate, relu: o.ReLU && last}
			var bias []float32
			if last {
				bias = o.Bias
			}
			p.For(m, gemmMC, func(lo, hi int) {
				gemmStrip(p, t, narrow, tile, a.Data[lo*rsa+l*csa:], packed, c.Data[lo*c.Stride+j:], bias, j, hi-lo, width)
			})
		}
	}
}

// of returns the kernel for a panel of cols columns: narrow, if there is one, where the
// panel is a rest that fits in it. Tiles of every shape add in the same order.
func (t gemmKernel) of(cols int, narrow gemmKernel) gemmKernel {
	if cols <= narrow.nr {
		return narrow
	}
	return t
}

// gemmStrip multiplies rows of A with a packed block of B.
func gemmStrip(p *Pool, t, narrow gemmKernel, g gemmTile, a, packed, c, bias []float32, j, rows, width int) {
	depth, rsa, ldc := g.k, g.rsa, g.ldc
	for q := 0; q < width; q += t.nr {
		g.b = unsafe.Pointer(&packed[q*depth])
		cols := min(t.nr, width-q)
		of := t.of(cols, narrow)
		var edge []float32 // a tile and its bias, where C has fewer columns left than a tile
		if cols < of.nr {
			edge = p.floats((of.mr + 1) * of.nr)
		}
		g.bias = nil
		switch {
		case bias != nil && edge == nil:
			g.bias = unsafe.Pointer(&bias[j+q])
		case bias != nil:
			copy(edge[of.mr*of.nr:], bias[j+q:j+q+cols])
			g.bias = unsafe.Pointer(&edge[of.mr*of.nr])
		}
		for i := 0; i < rows; i += of.mr {
			g.a = unsafe.Pointer(&a[i*rsa])
			g.rows = min(of.mr, rows-i)
			if edge == nil {
				g.c, g.ldc = unsafe.Pointer(&c[i*ldc+q]), ldc
				of.run(&g)
				continue
			}
			if g.load {
				for r := range g.rows {
					copy(edge[r*of.nr:r*of.nr+cols], c[(i+r)*ldc+q:])
					clear(edge[r*of.nr+cols : (r+1)*of.nr])
				}
			}
			g.c, g.ldc = unsafe.Pointer(&edge[0]), of.nr
			of.run(&g)
			for r := range g.rows {
				copy(c[(i+r)*ldc+q:(i+r)*ldc+q+cols], edge[r*of.nr:])
			}
		}
		if edge != nil {
			p.putFloats(edge)
		}
	}
}

// packPanel copies depth×cols elements of op(b) from (l, j) into dst, row
// after row of nr, padded with zeros.
func packPanel(dst []float32, b Matrix, trans bool, l, j, depth, cols, nr int) {
	if trans {
		row := func(c int) []float32 { return b.Data[(j+c)*b.Stride+l:][:depth] }
		c := 0
		for ; c+4 <= cols; c += 4 { // four at once: dst is written in runs
			r0, r1, r2, r3 := row(c), row(c+1), row(c+2), row(c+3)
			r1, r2, r3 = r1[:len(r0)], r2[:len(r0)], r3[:len(r0)]
			for i, v := range r0 {
				to := dst[i*nr+c:][:4]
				to[0], to[1], to[2], to[3] = v, r1[i], r2[i], r3[i]
			}
		}
		for ; c < cols; c++ {
			for i, v := range row(c) {
				dst[i*nr+c] = v
			}
		}
		if cols < nr {
			for i := range depth {
				clear(dst[i*nr+cols : (i+1)*nr])
			}
		}
		return
	}
	for i := range depth {
		at := (l+i)*b.Stride + j
		to := dst[i*nr : (i+1)*nr]
		copy(to[:cols], b.Data[at:at+cols])
		clear(to[cols:])
	}
}
