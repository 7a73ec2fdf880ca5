package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func reductions(t target) {
	maxUint32(t)
}

func maxUint32(t target) {
	t.function("maxUint32", "func(x []uint32) uint32", "is table.maxUint32.")
	x := Load(Param("x").Base(), GP64()).(reg.GPVirtual)
	n := Load(Param("x").Len(), GP64()).(reg.GPVirtual)
	i, best, v := GP64(), GP32(), GP32()
	m := t.vec()
	t.zero(m)
	XORL(best, best)
	XORQ(i, i)
	SUBQ(U8(t.lanes()), n)
	JLT(LabelRef("tail"))
	Label("vector")
	VPMAXUD(Mem{Base: x, Index: i, Scale: 4}, m, m)
	ADDQ(U8(t.lanes()), i)
	CMPQ(i, n)
	JLE(LabelRef("vector"))
	y := m.AsY()
	z := YMM()
	if t.wide {
		VEXTRACTI64X4(U8(1), m, z)
		VPMAXUD(z, y, y)
	}
	a, b := y.(reg.Vec).AsX(), XMM()
	VEXTRACTI128(U8(1), y, b)
	VPMAXUD(b, a, a)
	VPSHUFD(U8(0x4e), a, b)
	VPMAXUD(b, a, a)
	VPSHUFD(U8(0xb1), a, b)
	VPMAXUD(b, a, a)
	VMOVD(a, best)
	Label("tail")
	ADDQ(U8(t.lanes()), n)
	Label("scalar")
	CMPQ(i, n)
	JGE(LabelRef("done"))
	MOVL(Mem{Base: x, Index: i, Scale: 4}, v)
	CMPL(v, best)
	CMOVLHI(v, best)
	INCQ(i)
	JMP(LabelRef("scalar"))
	Label("done")
	VZEROUPPER()
	Store(best, ReturnIndex(0))
	RET()
}
