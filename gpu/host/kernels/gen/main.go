// Command gen writes the assembly of package kernels for amd64, and its Go
// declarations: every loop once for AVX2 and once for AVX-512.
//
//	go run ./gen -dir .     (or go generate, in the package's folder)
//
// Each loop follows its portable reference (*_generic.go) operation by operation,
// so that rounding is the same.
package main

import (
	"flag"
	"log"
	"path/filepath"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// target is an instruction set to write loops for.
type target struct {
	suffix string
	wide   bool // ZMM registers and mask registers
}

var targets = []target{{"AVX2", false}, {"AVX512", true}}

// lanes is the number of floats of a vector.
func (t target) lanes() int {
	if t.wide {
		return 16
	}
	return 8
}

func (t target) bytes() int { return 4 * t.lanes() }

func (t target) vec() reg.VecVirtual {
	if t.wide {
		return ZMM()
	}
	return YMM()
}

func (t target) vecs(n int) []reg.VecVirtual {
	out := make([]reg.VecVirtual, n)
	for i := range out {
		out[i] = t.vec()
	}
	return out
}

func (t target) zero(v reg.VecVirtual) {
	if t.wide {
		VPXORD(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
}

// broadcast loads a float32 argument into every lane.
func (t target) broadcast(param string) reg.VecVirtual {
	v := t.vec()
	VBROADCASTSS(address(param), v)
	return v
}

// address is where an argument lies.
func address(param string) Mem {
	at, err := Param(param).Resolve()
	if err != nil {
		log.Fatal(err)
	}
	return at.Addr
}

// constant makes a vector of one 32-bit value.
func (t target) constant(bits uint32) reg.VecVirtual {
	r, x, v := GP32(), XMM(), t.vec()
	MOVL(U32(bits), r)
	VMOVD(r, x)
	VPBROADCASTD(x, v)
	return v
}

const attrConstant = attr.RODATA | attr.NOPTR

func main() {
	dir := flag.String("dir", ".", "folder of package kernels")
	flag.Parse()
	log.SetFlags(0)
	_ = flag.Set("pkg", "kernels")
	_ = flag.Set("out", filepath.Join(*dir, "kernels_amd64.s"))
	_ = flag.Set("stubs", filepath.Join(*dir, "kernels_amd64.go"))

	ConstraintExpr("!noasm")
	tailMasks()
	expConstants()
	for _, t := range targets {
		gemm(t)
		rows(t)
		elementwise(t)
		reductions(t)
		segment(t)
		peakFMA(t)
		dropout(t)
		transpose(t)
	}
	Generate()
}

// function starts a function called name plus the target's suffix.
func (t target) function(name, signature, doc string) {
	TEXT(name+t.suffix, attr.NOSPLIT, signature)
	Pragma("noescape")
	Doc(name + t.suffix + " " + doc)
}

// tailMasks is eight words of ones and eight of zeros: read at word 8−n it is
// the AVX2 mask of n lanes; then the bits 1<<0 … 1<<7 for dropout masks, and 0…15.
func tailMasks() {
	GLOBL("tail", attrConstant)
	for i := range 8 {
		DATA(4*i, U32(0xffffffff))
	}
	for i := range 8 {
		DATA(32+4*i, U32(0))
	}
	GLOBL("lanebits", attrConstant)
	for i := range 8 {
		DATA(4*i, U32(1<<i))
	}
	GLOBL("iota", attrConstant)
	for i := range 16 {
		DATA(4*i, U32(uint32(i)))
	}
}
