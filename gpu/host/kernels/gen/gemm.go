package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets in gemmTile.
const (
	tileA, tileB, tileC, tileBias    = 0, 8, 16, 24
	tileRSA, tileCSA, tileLDC, tileK = 32, 40, 48, 64
	tileLoad, tileReLU               = 72, 73
)

// gemm writes the tiles of two vectors' width: 6, 4, 2, 1 rows for AVX2 (12 of
// 16 registers hold C), 12, 8, 4, 2, 1 for AVX-512 (24 of 32).
func gemm(t target) {
	heights := []int{6, 4, 2, 1}
	if t.wide {
		heights = []int{12, 8, 4, 2, 1}
	}
	for _, h := range heights {
		gemmTile(t, h)
	}
}

// rowPointers makes addresses of h rows: one base for every three rows and the
// stride as an index.
func rowPointers(base reg.GPVirtual, stride reg.GPVirtual, h int) (bases []reg.GPVirtual, at func(r, disp int) Mem) {
	bases = []reg.GPVirtual{base}
	for len(bases)*3 < h {
		next := GP64()
		LEAQ(Mem{Base: bases[len(bases)-1], Index: stride, Scale: 2}, next)
		ADDQ(stride, next)
		bases = append(bases, next)
	}
	return bases, func(r, disp int) Mem {
		m := Mem{Base: bases[r/3], Disp: disp}
		if s := r % 3; s > 0 {
			m.Index, m.Scale = stride, uint8(s)
		}
		return m
	}
}

func gemmTile(t target, h int) {
	t.function(fmt.Sprintf("gemm%dx%d", h, 2*t.lanes()), "func(tile *byte)",
		fmt.Sprintf("is a gemmKernel of %d rows; tile is a *gemmTile.", h))
	g := Load(Param("tile"), GP64())
	acc := t.vecs(2 * h)
	addressC := func() func(r, disp int) Mem {
		c, ldc := GP64(), GP64()
		MOVQ(Mem{Base: g, Disp: tileC}, c)
		MOVQ(Mem{Base: g, Disp: tileLDC}, ldc)
		SHLQ(U8(2), ldc)
		_, at := rowPointers(c, ldc, h)
		return at
	}
	atC := addressC()
	CMPB(Mem{Base: g, Disp: tileLoad}, U8(0))
	JE(LabelRef("zero"))
	for r := range h {
		VMOVUPS(atC(r, 0), acc[2*r])
		VMOVUPS(atC(r, t.bytes()), acc[2*r+1])
	}
	JMP(LabelRef("start"))
	Label("zero")
	for _, v := range acc {
		t.zero(v)
	}
	Label("start")
	a, b, rsa, csa, k := GP64(), GP64(), GP64(), GP64(), GP64()
	MOVQ(Mem{Base: g, Disp: tileA}, a)
	MOVQ(Mem{Base: g, Disp: tileB}, b)
	MOVQ(Mem{Base: g, Disp: tileRSA}, rsa)
	MOVQ(Mem{Base: g, Disp: tileCSA}, csa)
	MOVQ(Mem{Base: g, Disp: tileK}, k)
	SHLQ(U8(2), rsa)
	SHLQ(U8(2), csa)
	bases, atA := rowPointers(a, rsa, h)
	b0, b1, x := t.vec(), t.vec(), t.vec()
	Label("loop")
	VMOVUPS(Mem{Base: b}, b0)
	VMOVUPS(Mem{Base: b, Disp: t.bytes()}, b1)
	for r := range h {
		VBROADCASTSS(atA(r, 0), x)
		VFMADD231PS(b0, x, acc[2*r])
		VFMADD231PS(b1, x, acc[2*r+1])
	}
	for _, p := range bases {
		ADDQ(csa, p)
	}
	ADDQ(I32(int32(2*t.bytes())), b)
	DECQ(k)
	JNZ(LabelRef("loop"))

	bias := GP64()
	MOVQ(Mem{Base: g, Disp: tileBias}, bias)
	TESTQ(bias, bias)
	JE(LabelRef("unbiased"))
	VMOVUPS(Mem{Base: bias}, b0)
	VMOVUPS(Mem{Base: bias, Disp: t.bytes()}, b1)
	for r := range h {
		VADDPS(b0, acc[2*r], acc[2*r])
		VADDPS(b1, acc[2*r+1], acc[2*r+1])
	}
	Label("unbiased")
	CMPB(Mem{Base: g, Disp: tileReLU}, U8(0))
	JE(LabelRef("store"))
	t.zero(x)
	for _, v := range acc {
		VMAXPS(v, x, v) // the second source, v, wins where it is NaN
	}
	Label("store")
	atC = addressC() // again: the loop needs the registers
	for r := range h {
		VMOVUPS(acc[2*r], atC(r, 0))
		VMOVUPS(acc[2*r+1], atC(r, t.bytes()))
	}
	VZEROUPPER()
	RET()
}
