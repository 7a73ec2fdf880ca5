package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// peakChains is the number of independent accumulators of peakFMA: more than latency × issue rate.
const peakChains = 12

// peakFMA writes a loop of nothing but fused multiply-adds.
func peakFMA(t target) {
	t.function("peakFMA", "func(rounds int)", "does rounds × 12 vectors of fused multiply-adds.")
	n := Load(Param("rounds"), GP64()).(reg.GPVirtual)
	acc, x := t.vecs(peakChains), t.vec()
	for _, a := range append(acc, x) {
		t.zero(a)
	}
	Label("loop")
	for _, a := range acc {
		VFMADD231PS(x, x, a)
	}
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
