package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The constants of exp32 (exp_generic.go, which explains them), each 16 times.
const (
	expMax = iota
	expMin
	expLog2e
	expMagic
	expLn2High
	expLn2Low
	expC0
	expC1
	expC2
	expC3
	expC4
	expC5
	expOne
	expBias
	expInf
	tanhLimit
	tanhC0
	tanhC1
	tanhC2
	tanhC3
	tanhC4
	expTwo
	numExp
)

func expConstants() {
	GLOBL("expconst", attrConstant)
	for i, v := range [numExp]float32{88.72283, -87.33654, 1.44269504088896341, 12582912, 0.693359375, -2.12194440e-4,
		1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1, 0, float32(math.Inf(1)),
		.625, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1, 2} {
		bits := math.Float32bits(v)
		if i == expBias {
			bits = 127
		}
		for j := range 16 {
			DATA(64*i+4*j, U32(bits))
		}
	}
}

// exp replaces x by exp32(x).
func (t target) exp(x reg.VecVirtual, table reg.GPVirtual) {
	c := func(i int) Mem { return Mem{Base: table, Disp: 64 * i} }
	xc, n, r, y, z := t.vec(), t.vec(), t.vec(), t.vec(), t.vec()
	VMINPS(c(expMax), x, xc)
	VMAXPS(c(expMin), xc, xc)
	VMULPS(c(expLog2e), xc, n)
	VADDPS(c(expMagic), n, n)
	VSUBPS(c(expMagic), n, n)
	VMULPS(c(expLn2High), n, z)
	VSUBPS(z, xc, r)
	VMULPS(c(expLn2Low), n, z)
	VSUBPS(z, r, r)
	VMULPS(c(expC0), r, y)
	VADDPS(c(expC1), y, y)
	for i := expC2; i <= expC5; i++ {
		VMULPS(r, y, y)
		VADDPS(c(i), y, y)
	}
	VMULPS(r, r, z)
	VMULPS(z, y, y)
	VADDPS(r, y, y)
	VADDPS(c(expOne), y, y)
	VCVTPS2DQ(n, n)
	VPSRAD(U8(1), n, z)
	VPSUBD(z, n, n)
	for _, e := range []reg.VecVirtual{z, n} {
		VPADDD(c(expBias), e, e)
		VPSLLD(U8(23), e, e)
		VMULPS(e, y, y)
	}
	// Beyond the range, and NaN.
	inf := t.vec()
	VMOVUPS(c(expInf), inf)
	if t.wide {
		low, high, nan := K(), K(), K()
		VCMPPS(U8(cmpLT), c(expMin), x, low)
		VPXORD(y, y, low, y)
		VCMPPS(U8(cmpGT), c(expMax), x, high)
		VMOVAPS(inf, high, y)
		VCMPPS(U8(cmpUnord), x, x, nan)
		VMOVAPS(x, nan, y)
		VMOVAPS(y, x)
		return
	}
	m := t.vec()
	VCMPPS(U8(cmpLT), c(expMin), x, m)
	VANDNPS(y, m, y)
	VCMPPS(U8(cmpGT), c(expMax), x, m)
	VBLENDVPS(m, inf, y, y)
	VCMPPS(U8(cmpUnord), x, x, m)
	VBLENDVPS(m, x, y, x)
}

// tanh sets y = tanh32(x) and spoils x.
func (t target) tanh(x, y reg.VecVirtual, table reg.GPVirtual) {
	c := func(i int) Mem { return Mem{Base: table, Disp: 64 * i} }
	z, minus, limit := t.vec(), t.vec(), t.vec()
	VMULPS(x, x, z)
	VMULPS(c(tanhC0), z, y)
	VADDPS(c(tanhC1), y, y)
	for i := tanhC2; i <= tanhC4; i++ {
		VMULPS(z, y, y)
		VADDPS(c(i), y, y)
	}
	VMULPS(z, y, y)
	VMULPS(x, y, y)
	VADDPS(x, y, y)
	VMOVUPS(c(tanhLimit), limit)
	t.zero(minus)
	VSUBPS(limit, minus, minus)
	e, one := t.vec(), t.vec()
	VADDPS(x, x, e)
	t.exp(e, table)
	VMOVUPS(c(expOne), one)
	VADDPS(one, e, e)
	VMOVUPS(c(expTwo), z)
	VDIVPS(e, z, e)
	VSUBPS(e, one, e)
	// |x| < limit keeps the polynomial.
	if t.wide {
		small, both := K(), K()
		VCMPPS(U8(cmpLT), limit, x, small)
		VCMPPS(U8(cmpGT), minus, x, both)
		KANDW(small, both, both)
		VMOVAPS(y, both, e)
		VMOVAPS(e, y)
		return
	}
	VCMPPS(U8(cmpLT), limit, x, limit)
	VCMPPS(U8(cmpGT), minus, x, minus)
	VANDPS(limit, minus, minus)
	VBLENDVPS(minus, y, e, y)
}
