package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const cmpOrd = 0x07

// segment writes the loops of SegmentMax and its gradient, whose edge numbers
// are integers: one vector at a time, the rest under a mask.
func segment(t target) {
	edgeLoop(t, "maxInto", "func(best, x []float32, from []int32, edge int32)", "best", true,
		func(best, x, from, edge reg.VecVirtual) {
			if t.wide {
				k, take := K(), K()
				VCMPPS(U8(cmpNLE), best, x, k)
				VCMPPS(U8(cmpOrd), best, best, k, take)
				VMOVAPS(x, take, best)
				VMOVAPS(edge, take, from)
				return
			}
			take, m := YMM(), YMM()
			VCMPPS(U8(cmpNLE), best, x, take)
			VCMPPS(U8(cmpOrd), best, best, m)
			VANDPS(m, take, take)
			VBLENDVPS(take, x, best, best)
			VBLENDVPS(take, edge, from, from)
		})
	edgeLoop(t, "addWhere", "func(dst, x []float32, from []int32, edge int32)", "dst", false,
		func(dst, x, from, edge reg.VecVirtual) {
			if t.wide {
				k := K()
				VPCMPEQD(edge, from, k)
				VADDPS(x, dst, k, dst)
				return
			}
			m, sum := YMM(), YMM()
			VPCMPEQD(edge, from, m)
			VADDPS(x, dst, sum)
			VBLENDVPS(m, sum, dst, dst)
		})
}

func edgeLoop(t target, name, signature, first string, storeFrom bool, body func(dst, x, from, edge reg.VecVirtual)) {
	t.function(name, signature, "is its namesake in table.")
	dst := Load(Param(first).Base(), GP64()).(reg.GPVirtual)
	n := Load(Param("x").Len(), GP64()).(reg.GPVirtual)
	x := Load(Param("x").Base(), GP64()).(reg.GPVirtual)
	from := Load(Param("from").Base(), GP64()).(reg.GPVirtual)
	number, low, edge := GP32(), XMM(), t.vec()
	Load(Param("edge"), number)
	VMOVD(number, low)
	VPBROADCASTD(low, edge)
	i := GP64()
	XORQ(i, i)
	at := func(p reg.GPVirtual) Mem { return Mem{Base: p, Index: i, Scale: 4} }
	d, v, f := t.vec(), t.vec(), t.vec()
	SUBQ(U8(t.lanes()), n)
	JLT(LabelRef("tail"))
	Label("vector")
	VMOVUPS(at(dst), d)
	VMOVUPS(at(x), v)
	VMOVUPS(at(from), f)
	body(d, v, f, edge)
	VMOVUPS(d, at(dst))
	if storeFrom {
		VMOVUPS(f, at(from))
	}
	ADDQ(U8(t.lanes()), i)
	CMPQ(i, n)
	JLE(LabelRef("vector"))
	Label("tail")
	ADDQ(U8(t.lanes()), n)
	SUBQ(i, n)
	JE(LabelRef("done"))
	load, store := t.masked(n)
	load(at(dst), d)
	load(at(x), v)
	load(at(from), f)
	body(d, v, f, edge)
	store(d, at(dst))
	if storeFrom {
		store(f, at(from))
	}
	Label("done")
	VZEROUPPER()
	RET()
}
