package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const philoxRounds = 7

func dropout(t target) {
	maskBits(t)
	maskScale(t)
}

// philoxRound is one round on the counter vectors c with keys k.
func philoxRound(t target, c *[4]reg.VecVirtual, k, mul [2]reg.VecVirtual, odd reg.OpmaskVirtual) {
	var high, low [2]reg.VecVirtual
	for i := range 2 {
		even, rest := t.vec(), t.vec()
		VPMULUDQ(mul[i], c[2*i], even)
		VPSRLQ(U8(32), c[2*i], rest)
		VPMULUDQ(mul[i], rest, rest)
		high[i], low[i] = t.vec(), t.vec()
		VPSRLQ(U8(32), even, high[i])
		VPSLLQ(U8(32), rest, low[i])
		if t.wide {
			VPBLENDMD(rest, high[i], odd, high[i])
			VPBLENDMD(low[i], even, odd, low[i])
		} else {
			VPBLENDD(U8(0xaa), rest, high[i], high[i])
			VPBLENDD(U8(0xaa), low[i], even, low[i])
		}
	}
	xor := func(a, b reg.VecVirtual) {
		if t.wide {
			VPXORD(a, b, b)
		} else {
			VPXOR(a, b, b)
		}
	}
	xor(c[1], high[1])
	xor(k[0], high[1])
	xor(c[3], high[0])
	xor(k[1], high[0])
	*c = [4]reg.VecVirtual{high[1], low[1], high[0], low[0]}
}

func maskBits(t target) {
	t.function("maskBits", "func(bits []byte, group, key0, key1, threshold uint32)", "is table.maskBits.")
	bits := Load(Param("bits").Base(), GP64()).(reg.GPVirtual)
	n := Load(Param("bits").Len(), GP64()).(reg.GPVirtual)
	counter := Load(Param("group"), GP32()).(reg.GPVirtual)
	keys := [2]Mem{address("key0"), address("key1")}
	SHLL(U8(4), counter)
	mul := [2]reg.VecVirtual{t.constant(0xD2511F53), t.constant(0xCD9E8D57)}
	weyl := [2]reg.VecVirtual{t.constant(0x9E3779B9), t.constant(0xBB67AE85)}
	least := t.vec()
	limit, x, iota := GP32(), XMM(), GP64()
	Load(Param("threshold"), limit)
	if !t.wide {
		DECL(limit) // there is a signed "greater" only
	}
	VMOVD(limit, x)
	VPBROADCASTD(x, least)
	LEAQ(NewDataAddr(Symbol{Name: "iota", Static: true}, 0), iota)
	var odd reg.OpmaskVirtual
	if t.wide {
		odd = K()
		m := GP32()
		MOVL(U32(0xaaaa), m)
		KMOVW(m, odd)
	}
	SUBQ(U8(16), n)
	JLT(LabelRef("done"))
	Label("group")
	for half := range 16 / t.lanes() {
		k := [2]reg.VecVirtual{t.vec(), t.vec()}
		for i := range k {
			VBROADCASTSS(keys[i], k[i])
		}
		var c [4]reg.VecVirtual
		c[0] = t.vec()
		VMOVD(counter, x)
		VPBROADCASTD(x, c[0])
		VPADDD(Mem{Base: iota, Disp: 4 * t.lanes() * half}, c[0], c[0])
		for i := 1; i < 4; i++ {
			c[i] = t.vec()
			t.zero(c[i])
		}
		for r := range philoxRounds {
			if r > 0 {
				VPADDD(weyl[0], k[0], k[0])
				VPADDD(weyl[1], k[1], k[1])
			}
			philoxRound(t, &c, k, mul, odd)
		}
		for q := range 8 {
			v := t.vec()
			if q%2 == 0 {
				VPSLLD(U8(16), c[q/2], v)
				VPSRLD(U8(16), v, v)
			} else {
				VPSRLD(U8(16), c[q/2], v)
			}
			if t.wide {
				kept := K()
				VPCMPUD(U8(5), least, v, kept) // not less
				KMOVW(kept, Mem{Base: bits, Disp: 2 * q})
			} else {
				VPCMPGTD(least, v, v)
				m := GP32()
				VMOVMSKPS(v, m)
				MOVB(m.As8(), Mem{Base: bits, Disp: 2*q + half})
			}
		}
	}
	ADDQ(U8(16), bits)
	ADDL(U8(16), counter)
	SUBQ(U8(16), n)
	JGE(LabelRef("group"))
	Label("done")
	VZEROUPPER()
	RET()
}

func maskScale(t target) {
	t.function("maskScale", "func(x []float32, bits []byte, scale float32)", "is table.maskScale.")
	x := Load(Param("x").Base(), GP64()).(reg.GPVirtual)
	n := Load(Param("x").Len(), GP64()).(reg.GPVirtual)
	bits := Load(Param("bits").Base(), GP64()).(reg.GPVirtual)
	scale := t.broadcast("scale")
	var lane reg.VecVirtual
	if !t.wide {
		lane = t.vec()
		VMOVUPS(NewDataAddr(Symbol{Name: "lanebits", Static: true}, 0), lane)
	}
	v := t.vec()
	apply := func() {
		if t.wide {
			k := K()
			KMOVW(Mem{Base: bits}, k)
			VMULPS_Z(scale, v, k, v)
			return
		}
		m := YMM()
		VPBROADCASTB(Mem{Base: bits}, m)
		VPAND(lane, m, m)
		VPCMPEQD(lane, m, m)
		VMULPS(scale, v, v)
		VANDPS(m, v, v)
	}
	SUBQ(U8(t.lanes()), n)
	JLT(LabelRef("tail"))
	Label("vector")
	VMOVUPS(Mem{Base: x}, v)
	apply()
	VMOVUPS(v, Mem{Base: x})
	ADDQ(U8(t.bytes()), x)
	ADDQ(U8(t.lanes()/8), bits)
	SUBQ(U8(t.lanes()), n)
	JGE(LabelRef("vector"))
	Label("tail")
	ADDQ(U8(t.lanes()), n)
	JE(LabelRef("done"))
	load, store := t.masked(n)
	load(Mem{Base: x}, v)
	apply()
	store(v, Mem{Base: x})
	Label("done")
	VZEROUPPER()
	RET()
}
