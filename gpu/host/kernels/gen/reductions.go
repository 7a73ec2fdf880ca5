package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func reductions(t target) {
	maxUint32(t)
	rowMax(t)
	for _, l := range []laneSum{
		{"laneSum", "func(x []float32) float32", []string{"x"}, "", false, func(t target, v []reg.VecVirtual, s reg.VecVirtual, table reg.GPVirtual) {}},
		{"dot", "func(x, y []float32) float32", []string{"x", "y"}, "", false, func(t target, v []reg.VecVirtual, s reg.VecVirtual, table reg.GPVirtual) {
			VMULPS(v[1], v[0], v[0])
		}},
		{"squaredDistance", "func(x, y []float32) float32", []string{"x", "y"}, "", false, func(t target, v []reg.VecVirtual, s reg.VecVirtual, table reg.GPVirtual) {
			VSUBPS(v[1], v[0], v[0])
			VMULPS(v[0], v[0], v[0])
		}},
		{"squaredDeviation", "func(x []float32, mean float32) float32", []string{"x"}, "mean", false, func(t target, v []reg.VecVirtual, s reg.VecVirtual, table reg.GPVirtual) {
			VSUBPS(s, v[0], v[0])
			VMULPS(v[0], v[0], v[0])
		}},
		{"expSum", "func(dst, x []float32, shift float32) float32", []string{"x"}, "shift", true, func(t target, v []reg.VecVirtual, s reg.VecVirtual, table reg.GPVirtual) {
			VSUBPS(s, v[0], v[0])
			t.exp(v[0], table)
		}},
	} {
		l.emit(t)
	}
}

// laneSum describes a sum over a row of a value made from equally long slices,
// 16 elements at a time into 16 partial sums.
type laneSum struct {
	name, signature string
	slices          []string
	scalar          string // a float32 argument, or none
	store           bool   // also write the values to dst, and use the table of exp
	body            func(t target, v []reg.VecVirtual, s reg.VecVirtual, table reg.GPVirtual)
}

func (l laneSum) emit(t target) {
	t.function(l.name, l.signature, "is its namesake in table.")
	n := Load(Param(l.slices[0]).Len(), GP64()).(reg.GPVirtual)
	ptr := make([]reg.GPVirtual, len(l.slices))
	for i, s := range l.slices {
		ptr[i] = Load(Param(s).Base(), GP64()).(reg.GPVirtual)
	}
	var dst, table reg.GPVirtual
	var s reg.VecVirtual
	if l.scalar != "" {
		s = t.broadcast(l.scalar)
	}
	if l.store {
		dst = Load(Param("dst").Base(), GP64()).(reg.GPVirtual)
		table = GP64()
		LEAQ(NewDataAddr(Symbol{Name: "expconst", Static: true}, 0), table)
	}
	i, rest := GP64(), GP64()
	acc := t.vecs(16 / t.lanes())
	for _, a := range acc {
		t.zero(a)
	}
	XORQ(i, i)
	SUBQ(U8(16), n)
	JLT(LabelRef("tail"))
	v := t.vecs(len(ptr))
	at := func(p reg.GPVirtual, h int) Mem { return Mem{Base: p, Index: i, Scale: 4, Disp: h * t.bytes()} }
	Label("loop")
	for h, a := range acc {
		for k := range v {
			VMOVUPS(at(ptr[k], h), v[k])
		}
		l.body(t, v, s, table)
		if l.store {
			VMOVUPS(v[0], at(dst, h))
		}
		VADDPS(v[0], a, a)
	}
	ADDQ(U8(16), i)
	CMPQ(i, n)
	JLE(LabelRef("loop"))
	Label("tail")
	ADDQ(U8(16), n)
	SUBQ(i, n)
	JE(LabelRef("done"))
	for h, a := range acc {
		MOVQ(n, rest)
		if h > 0 {
			SUBQ(U8(8), rest)
			JLE(LabelRef("done"))
		} else if !t.wide {
			eight := GP64()
			MOVQ(U64(8), eight)
			CMPQ(rest, eight)
			CMOVQGT(eight, rest)
		}
		if t.wide {
			one, k := GP32(), K()
			MOVL(U32(0xffff), one)
			BZHIL(rest.As32(), one, one)
			KMOVW(one, k)
			for j := range v {
				VMOVUPS_Z(at(ptr[j], h), k, v[j])
			}
			l.body(t, v, s, table)
			if l.store {
				VMOVUPS(v[0], k, at(dst, h))
			}
			VADDPS(v[0], a, k, a)
			continue
		}
		where, mask := GP64(), YMM()
		LEAQ(NewDataAddr(Symbol{Name: "tail", Static: true}, 32), where)
		SHLQ(U8(2), rest)
		SUBQ(rest, where)
		VMOVUPS(Mem{Base: where}, mask)
		for j := range v {
			VMASKMOVPS(at(ptr[j], h), mask, v[j])
		}
		l.body(t, v, s, table)
		if l.store {
			VMASKMOVPS(v[0], mask, at(dst, h))
		}
		VANDPS(mask, v[0], v[0])
		VADDPS(v[0], a, a)
	}
	Label("done")
	low := t.fold(acc, func(b, a reg.Register) { VADDPS(b, a, a) })
	Store(low, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// fold reduces 16 lanes to one in the order of laneSum (table.go).
func (t target) fold(acc []reg.VecVirtual, op func(b, a reg.Register)) reg.Register {
	y := acc[0].AsY()
	if t.wide {
		z := YMM()
		VEXTRACTF64X4(U8(1), acc[0], z)
		op(z, y)
	} else if len(acc) == 2 {
		op(acc[1], y)
	}
	a, b := y.(reg.Vec).AsX(), XMM()
	VEXTRACTF128(U8(1), y, b)
	op(b, a)
	VPSHUFD(U8(0x4e), a, b)
	op(b, a)
	VPSHUFD(U8(0xb1), a, b)
	op(b, a)
	return a
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
	VMOVD(t.fold([]reg.VecVirtual{m}, func(b, a reg.Register) { VPMAXUD(b, a, a) }), best)
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

// rowMax keeps NaN apart: VMAXPS with the maximum as the second source passes over it.
func rowMax(t target) {
	t.function("rowMax", "func(x []float32) float32", "is table.rowMax.")
	x := Load(Param("x").Base(), GP64()).(reg.GPVirtual)
	n := Load(Param("x").Len(), GP64()).(reg.GPVirtual)
	i, nan := GP64(), GP32()
	m, low, v, bad := t.constant(0xff800000), t.constant(0xff800000), t.vec(), t.vec()
	t.zero(bad)
	take := func() {
		VMAXPS(m, v, m)
		if t.wide {
			k := K()
			VCMPPS(U8(cmpUnord), v, v, k)
			VMOVUPS(v, k, bad)
		} else {
			VCMPPS(U8(cmpUnord), v, v, v)
			VORPS(v, bad, bad)
		}
	}
	XORQ(i, i)
	SUBQ(U8(t.lanes()), n)
	JLT(LabelRef("tail"))
	Label("vector")
	VMOVUPS(Mem{Base: x, Index: i, Scale: 4}, v)
	take()
	ADDQ(U8(t.lanes()), i)
	CMPQ(i, n)
	JLE(LabelRef("vector"))
	Label("tail")
	ADDQ(U8(t.lanes()), n)
	SUBQ(i, n)
	JE(LabelRef("done"))
	if t.wide {
		one, k := GP32(), K()
		MOVL(U32(0xffff), one)
		BZHIL(n.As32(), one, one)
		KMOVW(one, k)
		VMOVUPS(low, v)
		VMOVUPS(Mem{Base: x, Index: i, Scale: 4}, k, v)
	} else {
		where, mask := GP64(), YMM()
		LEAQ(NewDataAddr(Symbol{Name: "tail", Static: true}, 32), where)
		SHLQ(U8(2), n)
		SUBQ(n, where)
		VMOVUPS(Mem{Base: where}, mask)
		VMASKMOVPS(Mem{Base: x, Index: i, Scale: 4}, mask, v)
		VBLENDVPS(mask, v, low, v)
	}
	take()
	Label("done")
	if t.wide {
		k := K()
		VCMPPS(U8(cmpUnord), bad, bad, k)
		KMOVW(k, nan)
	} else {
		VMOVMSKPS(bad, nan)
	}
	top := t.fold([]reg.VecVirtual{m}, func(b, a reg.Register) { VMAXPS(b, a, a) })
	TESTL(nan, nan)
	JE(LabelRef("ordered"))
	quiet := GP32()
	MOVL(U32(0x7fc00000), quiet)
	VMOVD(quiet, top)
	Label("ordered")
	Store(top, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
