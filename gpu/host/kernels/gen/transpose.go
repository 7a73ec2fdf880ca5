package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transpose writes the transposition in place of 16 rows of 16 words of 32 bits: pairs of words, pairs of those, and twice
// quarters of a register find their places.
func transpose(t target) {
	if !t.wide {
		return
	}
	t.function("transpose16x16", "func(tile *byte)", "transposes 16 rows of 16 words of 32 bits, 64 bytes apart, in place.")
	p := Load(Param("tile"), GP64()).(reg.GPVirtual)
	row := func(i int) Mem { return Mem{Base: p, Disp: 64 * i} }
	r, u := t.vecs(16), t.vecs(16)
	for i := range r {
		VMOVDQU32(row(i), r[i])
	}
	for i := 0; i < 16; i += 2 {
		VPUNPCKLDQ(r[i+1], r[i], u[i])
		VPUNPCKHDQ(r[i+1], r[i], u[i+1])
	}
	for i := 0; i < 16; i += 4 {
		VPUNPCKLQDQ(u[i+2], u[i], r[i])
		VPUNPCKHQDQ(u[i+2], u[i], r[i+1])
		VPUNPCKLQDQ(u[i+3], u[i+1], r[i+2])
		VPUNPCKHQDQ(u[i+3], u[i+1], r[i+3])
	}
	const even, odd = 0x88, 0xdd // quarters 0 and 2 of both operands, 1 and 3
	for i := range 4 {
		VSHUFI32X4(U8(even), r[4+i], r[i], u[i])
		VSHUFI32X4(U8(odd), r[4+i], r[i], u[4+i])
		VSHUFI32X4(U8(even), r[12+i], r[8+i], u[8+i])
		VSHUFI32X4(U8(odd), r[12+i], r[8+i], u[12+i])
	}
	for i := range 4 {
		VSHUFI32X4(U8(even), u[8+i], u[i], r[i])
		VSHUFI32X4(U8(even), u[12+i], u[4+i], r[4+i])
		VSHUFI32X4(U8(odd), u[8+i], u[i], r[8+i])
		VSHUFI32X4(U8(odd), u[12+i], u[4+i], r[12+i])
	}
	for i, v := range r {
		VMOVDQU32(v, row(i))
	}
	VZEROUPPER()
	RET()
}
