package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// prefetchAhead is how many rows ahead of the one being read its like is
// prefetched: into the second-level cache, which has more misses in flight
// than the first (docs/design/gpu.md, "gpu/host"). 8 to 32 are equally good.
const prefetchAhead = 16

// rowKind is an element type of feature rows.
type rowKind struct {
	name string
	size int
}

var rowKinds = []rowKind{{"Float32", 4}, {"Float16", 2}, {"BFloat16", 2}, {"Int8", 1}}

// load reads one vector of elements, converted.
func (k rowKind) load(m Mem, v reg.VecVirtual) {
	switch k.name {
	case "Float32":
		VMOVUPS(m, v)
	case "Float16":
		VCVTPH2PS(m, v)
	case "BFloat16":
		VPMOVZXWD(m, v)
		VPSLLD(U8(16), v, v)
	case "Int8":
		VPMOVSXBD(m, v)
		VCVTDQ2PS(v, v)
	}
}

// rows writes gather, sum and weighted sum of rows of every type, for rows of
// at least one vector. What is left behind the last whole vector is
// covered by one more vector that ends with the row and overlaps the one before.
func rows(t target) {
	for _, k := range rowKinds {
		gather(t, k)
		sum(t, k, false, false)
		sum(t, k, true, false)
		if k.name == "Float32" {
			sum(t, k, true, true)
		}
	}
}

// rowAddress sets p to src + idx[e]·stride.
func rowAddress(p, src, idx, e, stride reg.Register) {
	MOVL(Mem{Base: idx, Index: e, Scale: 4}, p.(reg.GPVirtual).As32())
	IMULQ(stride, p)
	ADDQ(src, p)
}

// aheadOf sets q to min(e+prefetchAhead, last).
func aheadOf(q, e, last reg.GPVirtual) {
	LEAQ(Mem{Base: e, Disp: prefetchAhead}, q)
	CMPQ(q, last)
	CMOVQGT(last, q)
}

func gather(t target, k rowKind) {
	t.function("gather"+k.name, "func(dst []float32, ldd, dim int, idx []uint32, src []byte, stride int, scale float32)",
		"is table.gather for rows of at least one vector.")
	dst := Load(Param("dst").Base(), GP64()).(reg.GPVirtual)
	ldd := Load(Param("ldd"), GP64()).(reg.GPVirtual)
	dim := Load(Param("dim"), GP64()).(reg.GPVirtual)
	idx := Load(Param("idx").Base(), GP64()).(reg.GPVirtual)
	last := Load(Param("idx").Len(), GP64()).(reg.GPVirtual)
	src := Load(Param("src").Base(), GP64()).(reg.GPVirtual)
	stride := Load(Param("stride"), GP64()).(reg.GPVirtual)
	scale := t.broadcast("scale")
	SHLQ(U8(2), ldd)
	DECQ(last)
	e, p, q, j, whole := GP64(), GP64(), GP64(), GP64(), GP64()
	v := t.vec()
	XORQ(e, e)
	MOVQ(dim, whole)
	SUBQ(U8(t.lanes()), whole) // the last vector starts here
	Label("row")
	CMPQ(e, last)
	JGT(LabelRef("done"))
	aheadOf(q, e, last)
	rowAddress(q, src, idx, q, stride)
	rowAddress(p, src, idx, e, stride)
	XORQ(j, j)
	Label("vector")
	at := Mem{Base: p, Index: j, Scale: uint8(k.size)}
	PREFETCHT1(Mem{Base: q, Index: j, Scale: uint8(k.size)})
	k.load(at, v)
	if k.name != "Float32" {
		VMULPS(scale, v, v)
	}
	VMOVUPS(v, Mem{Base: dst, Index: j, Scale: 4})
	CMPQ(j, whole)
	JGE(LabelRef("next"))
	ADDQ(U8(t.lanes()), j)
	CMPQ(j, whole)
	CMOVQGT(whole, j)
	JMP(LabelRef("vector"))
	Label("next")
	ADDQ(ldd, dst)
	INCQ(e)
	JMP(LabelRef("row"))
	Label("done")
	VZEROUPPER()
	RET()
}

// sum writes the sum of rows, in blocks of columns that stay in registers while all rows pass. The last block may
// cover columns of the one before, which is why out and from are different memory. fused, of weighted sums of float32, rounds once a product, as
// gemm does.
func sum(t target, k rowKind, weighted, fused bool) {
	name, signature := "sum"+k.name, "func(out, from []float32, idx []uint32, n int, src []byte, stride int, scale float32)"
	if weighted {
		name, signature = "sumWeighted"+k.name, "func(out, from []float32, idx []uint32, n int, src []byte, stride int, scale float32, w []float32, ldw int)"
	}
	if fused {
		name = "sumFused"
	}
	t.function(name, signature, "is its namesake in table for rows of at least one vector.")
	idx := Load(Param("idx").Base(), GP64()).(reg.GPVirtual)
	last := Load(Param("idx").Len(), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	src := Load(Param("src").Base(), GP64()).(reg.GPVirtual)
	stride := Load(Param("stride"), GP64()).(reg.GPVirtual)
	scale := t.broadcast("scale")
	DECQ(last)
	var ldw, w reg.GPVirtual
	if weighted {
		ldw = Load(Param("ldw"), GP64()).(reg.GPVirtual)
		SHLQ(U8(2), ldw)
		w = GP64()
	}
	j, e, p, q := GP64(), GP64(), GP64(), GP64()
	XORQ(j, j)
	sizes := []int{8, 4, 2, 1}
	if t.wide {
		sizes = []int{16, 8, 4, 2, 1}
	}
	// One set of registers for all sizes: avo would take each size's own for live at once.
	all, v, c, dim := t.vecs(sizes[0]), t.vec(), t.vec(), GP64()
	for _, size := range sizes {
		label := func(s string) string { return fmt.Sprintf("%s%d", s, size) }
		Label(label("block"))
		MOVQ(j, e)
		ADDQ(U32(uint32(size*t.lanes())), e)
		Load(Param("out").Len(), dim)
		CMPQ(e, dim)
		JGT(LabelRef(label("smaller")))
		acc := all[:size]
		for _, a := range acc {
			t.zero(a)
		}
		Load(Param("from").Base(), p)
		TESTQ(p, p)
		JZ(LabelRef(label("fresh")))
		for i, a := range acc {
			VMOVUPS(Mem{Base: p, Index: j, Scale: 4, Disp: i * t.bytes()}, a)
		}
		Label(label("fresh"))
		if weighted {
			Load(Param("w").Base(), w)
		}
		XORQ(e, e)
		Label(label("loop"))
		CMPQ(e, n)
		JGE(LabelRef(label("end")))
		aheadOf(q, e, last)
		rowAddress(q, src, idx, q, stride)
		rowAddress(p, src, idx, e, stride)
		if weighted {
			VBROADCASTSS(Mem{Base: w}, c)
			VMULPS(scale, c, c)
			ADDQ(ldw, w)
		}
		width := t.lanes() * k.size
		for i, a := range acc {
			at := Mem{Base: p, Index: j, Scale: uint8(k.size), Disp: i * width}
			if i == 0 || i*width/64 != (i-1)*width/64 {
				PREFETCHT1(Mem{Base: q, Index: j, Scale: uint8(k.size), Disp: i * width})
			}
			switch {
			case fused:
				VFMADD231PS(at, c, a)
			case weighted:
				k.load(at, v)
				VMULPS(c, v, v)
				VADDPS(v, a, a)
			case k.name == "Float32":
				VADDPS(at, a, a)
			default:
				k.load(at, v)
				VADDPS(v, a, a)
			}
		}
		INCQ(e)
		JMP(LabelRef(label("loop")))
		Label(label("end"))
		Load(Param("out").Base(), p)
		for i, a := range acc {
			if !weighted {
				VMULPS(scale, a, a)
			}
			VMOVUPS(a, Mem{Base: p, Index: j, Scale: 4, Disp: i * t.bytes()})
		}
		ADDQ(U32(uint32(size*t.lanes())), j)
		if size == sizes[0] {
			JMP(LabelRef(label("block")))
		}
		Label(label("smaller"))
	}
	Load(Param("out").Len(), dim)
	CMPQ(j, dim)
	JE(LabelRef("done"))
	LEAQ(Mem{Base: dim, Disp: -t.lanes()}, j)
	JMP(LabelRef("block1"))
	Label("done")
	VZEROUPPER()
	RET()
}
