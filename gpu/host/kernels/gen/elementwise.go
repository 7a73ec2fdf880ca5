package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// loop describes an elementwise loop over equally long slices.
type loop struct {
	name, signature string
	slices          []string // arguments; the length is the first one's
	stored          int      // how many of them, from the first, are written back
	scalars         []string // float32 arguments
	// body turns loaded vectors v (one a slice) into their new values, in place; s are the scalars.
	body func(t target, v, s []reg.VecVirtual)
}

func (l loop) emit(t target) {
	t.function(l.name, l.signature, "is its namesake in table.")
	n := Load(Param(l.slices[0]).Len(), GP64()).(reg.GPVirtual)
	ptr := make([]reg.GPVirtual, len(l.slices))
	for i, s := range l.slices {
		ptr[i] = Load(Param(s).Base(), GP64()).(reg.GPVirtual)
	}
	s := make([]reg.VecVirtual, len(l.scalars))
	for i, name := range l.scalars {
		s[i] = t.broadcast(name)
	}
	i := GP64()
	XORQ(i, i)
	SUBQ(U8(t.lanes()), n)
	JLT(LabelRef("tail"))
	at := func(k int) Mem { return Mem{Base: ptr[k], Index: i, Scale: 4} }
	Label("vector")
	v := t.vecs(len(ptr))
	for k := range v {
		VMOVUPS(at(k), v[k])
	}
	l.body(t, v, s)
	for k := range l.stored {
		VMOVUPS(v[k], at(k))
	}
	ADDQ(U8(t.lanes()), i)
	CMPQ(i, n)
	JLE(LabelRef("vector"))
	Label("tail")
	ADDQ(U8(t.lanes()), n)
	SUBQ(i, n)
	JE(LabelRef("done"))
	load, store := t.masked(n)
	v = t.vecs(len(ptr))
	for k := range v {
		load(at(k), v[k])
	}
	l.body(t, v, s)
	for k := range l.stored {
		store(v[k], at(k))
	}
	Label("done")
	VZEROUPPER()
	RET()
}

// masked makes loads (zero elsewhere) and stores of the first n < lanes elements.
func (t target) masked(n reg.GPVirtual) (load func(Mem, reg.VecVirtual), store func(reg.VecVirtual, Mem)) {
	if t.wide {
		one, k := GP32(), K()
		MOVL(U32(0xffff), one)
		BZHIL(n.As32(), one, one)
		KMOVW(one, k)
		return func(m Mem, v reg.VecVirtual) { VMOVUPS_Z(m, k, v) }, func(v reg.VecVirtual, m Mem) { VMOVUPS(v, k, m) }
	}
	table, mask := GP64(), YMM()
	LEAQ(NewDataAddr(Symbol{Name: "tail", Static: true}, 32), table)
	SHLQ(U8(2), n)
	SUBQ(n, table)
	VMOVUPS(Mem{Base: table}, mask)
	return func(m Mem, v reg.VecVirtual) { VMASKMOVPS(m, mask, v) }, func(v reg.VecVirtual, m Mem) { VMASKMOVPS(v, mask, m) }
}

// mulAdd sets d += a·b, rounding twice.
func mulAdd(t target, a, b, d reg.VecVirtual) {
	p := t.vec()
	VMULPS(a, b, p)
	VADDPS(p, d, d)
}

func elementwise(t target) {
	for _, l := range []loop{
		{"add", "func(dst, x []float32)", []string{"dst", "x"}, 1, nil, func(t target, v, s []reg.VecVirtual) {
			VADDPS(v[1], v[0], v[0])
		}},
		{"mul", "func(dst, x []float32)", []string{"dst", "x"}, 1, nil, func(t target, v, s []reg.VecVirtual) {
			VMULPS(v[1], v[0], v[0])
		}},
		{"axpy", "func(dst, x []float32, a float32)", []string{"dst", "x"}, 1, []string{"a"}, func(t target, v, s []reg.VecVirtual) {
			mulAdd(t, s[0], v[1], v[0])
		}},
		{"mulAdd", "func(dst, x, y []float32)", []string{"dst", "x", "y"}, 1, nil, func(t target, v, s []reg.VecVirtual) {
			mulAdd(t, v[1], v[2], v[0])
		}},
		{"tanhBackward", "func(d, y []float32)", []string{"d", "y"}, 1, nil, func(t target, v, s []reg.VecVirtual) {
			VMULPS(v[1], v[1], v[1])
			VMULPS(v[0], v[1], v[1])
			VSUBPS(v[1], v[0], v[0])
		}},
		{"scale", "func(dst []float32, a float32)", []string{"dst"}, 1, []string{"a"}, func(t target, v, s []reg.VecVirtual) {
			VMULPS(s[0], v[0], v[0])
		}},
		{"relu", "func(x []float32)", []string{"x"}, 1, nil, func(t target, v, s []reg.VecVirtual) {
			z := t.vec()
			t.zero(z)
			VMAXPS(v[0], z, v[0])
		}},
		{"biasReLU", "func(x, bias []float32)", []string{"x", "bias"}, 1, nil, func(t target, v, s []reg.VecVirtual) {
			z := t.vec()
			t.zero(z)
			VADDPS(v[1], v[0], v[0])
			VMAXPS(v[0], z, v[0])
		}},
		{"reluBackward", "func(d, y []float32, scale float32)", []string{"d", "y"}, 1, []string{"scale"}, func(t target, v, s []reg.VecVirtual) {
			z := t.vec()
			t.zero(z)
			t.select0(cmpNLE, v[1], z, s[0], v[0])
		}},
		{"leakyReLU", "func(x []float32, slope float32)", []string{"x"}, 1, []string{"slope"}, func(t target, v, s []reg.VecVirtual) {
			t.leaky(v[0], s[0], v[0])
		}},
		{"leakyReLUBackward", "func(d, y []float32, slope float32)", []string{"d", "y"}, 1, []string{"slope"}, func(t target, v, s []reg.VecVirtual) {
			t.leaky(v[1], s[0], v[0])
		}},
		{"sgd", "func(w, g []float32, lr, decay float32)", []string{"w", "g"}, 1, []string{"lr", "decay"}, func(t target, v, s []reg.VecVirtual) {
			mulAdd(t, s[1], v[0], v[1])
			VMULPS(s[0], v[1], v[1])
			VSUBPS(v[1], v[0], v[0])
		}},
		{"sgdMomentum", "func(w, m, g []float32, lr, decay, momentum float32)", []string{"w", "m", "g"}, 2, []string{"lr", "decay", "momentum"}, func(t target, v, s []reg.VecVirtual) {
			mulAdd(t, s[1], v[0], v[2])
			VMULPS(s[2], v[1], v[1])
			VADDPS(v[2], v[1], v[1])
			p := t.vec()
			VMULPS(s[0], v[1], p)
			VSUBPS(p, v[0], v[0])
		}},
		{"adagrad", "func(w, s, g []float32, lr, eps, decay float32)", []string{"w", "s", "g"}, 2, []string{"lr", "eps", "decay"}, func(t target, v, s []reg.VecVirtual) {
			mulAdd(t, s[2], v[0], v[2])
			mulAdd(t, v[2], v[2], v[1])
			root := t.vec()
			VSQRTPS(v[1], root)
			VADDPS(s[1], root, root)
			VMULPS(s[0], v[2], v[2])
			VDIVPS(root, v[2], v[2])
			VSUBPS(v[2], v[0], v[0])
		}},
		{"adam", "func(w, m, v, g []float32, beta1, rest1, beta2, rest2, decay, lr, inv2, eps float32)", []string{"w", "m", "v", "g"}, 3,
			[]string{"beta1", "rest1", "beta2", "rest2", "decay", "lr", "inv2", "eps"}, func(t target, v, s []reg.VecVirtual) {
				w, m, q, g := v[0], v[1], v[2], v[3]
				x := t.vec()
				mulAdd(t, s[4], w, g)
				VMULPS(s[0], m, m)
				mulAdd(t, s[1], g, m)
				VMULPS(g, g, g)
				VMULPS(s[2], q, q)
				mulAdd(t, s[3], g, q)
				VSQRTPS(q, x)
				VMULPS(s[6], x, x)
				VADDPS(s[7], x, x)
				VMULPS(s[5], m, g)
				VDIVPS(x, g, g)
				VSUBPS(g, w, w)
			}},
		{"normalize", "func(y, x []float32, mean, rstd float32)", []string{"y", "x"}, 1, []string{"mean", "rstd"}, func(t target, v, s []reg.VecVirtual) {
			VSUBPS(s[0], v[1], v[0])
			VMULPS(s[1], v[0], v[0])
		}},
		{"normalizeColumns", "func(y, x, mean, rstd []float32)", []string{"y", "x", "mean", "rstd"}, 1, nil, func(t target, v, s []reg.VecVirtual) {
			VSUBPS(v[2], v[1], v[0])
			VMULPS(v[3], v[0], v[0])
		}},
		{"addSquares", "func(dst, x, mean []float32)", []string{"dst", "x", "mean"}, 1, nil, func(t target, v, s []reg.VecVirtual) {
			VSUBPS(v[2], v[1], v[1])
			mulAdd(t, v[1], v[1], v[0])
		}},
		{"scaleShift", "func(y, x, gamma, beta []float32)", []string{"y", "x", "gamma", "beta"}, 1, nil, func(t target, v, s []reg.VecVirtual) {
			VMULPS(v[2], v[1], v[0])
			VADDPS(v[3], v[0], v[0])
		}},
		{"normalizeBackward", "func(d, xhat []float32, a, b, c float32)", []string{"d", "xhat"}, 1, []string{"a", "b", "c"}, func(t target, v, s []reg.VecVirtual) {
			VSUBPS(s[0], v[0], v[0])
			VMULPS(s[1], v[1], v[1])
			VSUBPS(v[1], v[0], v[0])
			VMULPS(s[2], v[0], v[0])
		}},
		{"normalizeColumnsBackward", "func(d, xhat, a, b, c []float32)", []string{"d", "xhat", "a", "b", "c"}, 1, nil, func(t target, v, s []reg.VecVirtual) {
			VSUBPS(v[2], v[0], v[0])
			VMULPS(v[3], v[1], v[1])
			VSUBPS(v[1], v[0], v[0])
			VMULPS(v[4], v[0], v[0])
		}},
		{"exp", "func(y, x []float32)", []string{"y", "x"}, 1, nil, func(t target, v, s []reg.VecVirtual) {
			t.exp(v[1], expTable())
			VMOVAPS(v[1], v[0])
		}},
		{"sigmoid", "func(y, x []float32)", []string{"y", "x"}, 1, nil, func(t target, v, s []reg.VecVirtual) {
			table := expTable()
			t.zero(v[0])
			VSUBPS(v[1], v[0], v[1])
			t.exp(v[1], table)
			one := t.vec()
			VMOVUPS(Mem{Base: table, Disp: 64 * expOne}, one)
			VADDPS(one, v[1], v[1])
			VDIVPS(v[1], one, v[0])
		}},
		{"tanh", "func(y, x []float32)", []string{"y", "x"}, 1, nil, func(t target, v, s []reg.VecVirtual) {
			t.tanh(v[1], v[0], expTable())
		}},
	} {
		l.emit(t)
	}
}

// expTable loads the address of the constants of exp.
func expTable() reg.GPVirtual {
	table := GP64()
	LEAQ(NewDataAddr(Symbol{Name: "expconst", Static: true}, 0), table)
	return table
}

// Comparison predicates: not (a ≤ b), true for NaN; a < b; unordered.
const (
	cmpNLE   = 0x16
	cmpLT    = 0x11
	cmpGT    = 0x1e
	cmpUnord = 0x03
)

// select0 sets d = (a cmp b) ? f·d : +0.
func (t target) select0(cmp uint8, a, b, f, d reg.VecVirtual) {
	if t.wide {
		k := K()
		VCMPPS(U8(cmp), b, a, k)
		VMULPS_Z(f, d, k, d)
		return
	}
	m := YMM()
	VCMPPS(U8(cmp), b, a, m)
	VMULPS(f, d, d)
	VANDPS(m, d, d)
}

// leaky sets d *= slope where a < 0.
func (t target) leaky(a, slope, d reg.VecVirtual) {
	z := t.vec()
	t.zero(z)
	if t.wide {
		k := K()
		VCMPPS(U8(cmpLT), z, a, k)
		VMULPS(slope, d, k, d)
		return
	}
	m, p := YMM(), YMM()
	VCMPPS(U8(cmpLT), z, a, m)
	VMULPS(slope, d, p)
	VBLENDVPS(m, p, d, d)
}
