package kernels

import (
	"fmt"
	"math"
	"testing"
)

// special are the values at which loops go wrong.
var special = []float32{0, float32(math.Copysign(0, -1)), 1, -1, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 88.7, 88.73, -87.3, -87.4, -104, 1e-20}

// TestLoops compares every inner loop with the reference, bit by bit, at
// lengths around the vectors' and with special values at every place.
func TestLoops(t *testing.T) {
	reference := genericTable()
	for isa := ISAAVX2; isa <= Detect(); isa++ {
		k := tableFor(isa)
		r := newRand(3)
		for n := range 70 {
			for round := range 4 {
				in := make([][]float32, 4)
				for i := range in {
					in[i] = randoms(r, n+20) // the rest must stay
					if round > 1 {
						for range n/4 + 1 {
							in[i][r.IntN(n+1)] = special[r.IntN(len(special))]
						}
					}
					if i >= 2 { // second moments
						for j, v := range in[i] {
							in[i][j] = float32(math.Abs(float64(v)))
						}
					}
				}
				bits := make([]byte, 16*((n+127)/128+1))
				for i := range bits {
					bits[i] = byte(r.Uint32())
				}
				for name, run := range map[string]func(k *table, a, b, c, d []float32) float32{
					"add":               func(k *table, a, b, c, d []float32) float32 { k.add(a, b); return 0 },
					"mul":               func(k *table, a, b, c, d []float32) float32 { k.mul(a, b); return 0 },
					"axpy":              func(k *table, a, b, c, d []float32) float32 { k.axpy(a, b, 1.7); return 0 },
					"tanhBackward":      func(k *table, a, b, c, d []float32) float32 { k.tanhBackward(a, b); return 0 },
					"mulAdd":            func(k *table, a, b, c, d []float32) float32 { k.mulAdd(a, b, c); return 0 },
					"scale":             func(k *table, a, b, c, d []float32) float32 { k.scale(a, 1.7); return 0 },
					"relu":              func(k *table, a, b, c, d []float32) float32 { k.relu(a); return 0 },
					"biasReLU":          func(k *table, a, b, c, d []float32) float32 { k.biasReLU(a, b); return 0 },
					"reluBackward":      func(k *table, a, b, c, d []float32) float32 { k.reluBackward(a, b, 2.5); return 0 },
					"leakyReLU":         func(k *table, a, b, c, d []float32) float32 { k.leakyReLU(a, .2); return 0 },
					"leakyReLUBackward": func(k *table, a, b, c, d []float32) float32 { k.leakyReLUBackward(a, b, .2); return 0 },
					"maskScale":         func(k *table, a, b, c, d []float32) float32 { k.maskScale(a, bits, 2); return 0 },
					"laneSum":           func(k *table, a, b, c, d []float32) float32 { return k.laneSum(a) },
					"dot":               func(k *table, a, b, c, d []float32) float32 { return k.dot(a, b) },
					"squaredDistance":   func(k *table, a, b, c, d []float32) float32 { return k.squaredDistance(a, b) },
					"rowMax":            func(k *table, a, b, c, d []float32) float32 { return k.rowMax(a) + 0 },
					"expSum":            func(k *table, a, b, c, d []float32) float32 { return k.expSum(b, a, .3) },
					"squaredDeviation":  func(k *table, a, b, c, d []float32) float32 { return k.squaredDeviation(a, .4) },
					"normalize":         func(k *table, a, b, c, d []float32) float32 { k.normalize(a, b, .3, 1.7); return 0 },
					"normalizeColumns":  func(k *table, a, b, c, d []float32) float32 { k.normalizeColumns(a, b, c, d); return 0 },
					"addSquares":        func(k *table, a, b, c, d []float32) float32 { k.addSquares(a, b, c); return 0 },
					"scaleShift":        func(k *table, a, b, c, d []float32) float32 { k.scaleShift(a, b, c, d); return 0 },
					"normalizeBackward": func(k *table, a, b, c, d []float32) float32 {
						k.normalizeBackward(a, b, .1, .2, 1.3)
						return 0
					},
					"normalizeColumnsBackward": func(k *table, a, b, c, d []float32) float32 {
						k.normalizeColumnsBackward(a, b, c, d, b)
						return 0
					},
					"exp":     func(k *table, a, b, c, d []float32) float32 { k.exp(a, b); return 0 },
					"sigmoid": func(k *table, a, b, c, d []float32) float32 { k.sigmoid(a, b); return 0 },
					"tanh":    func(k *table, a, b, c, d []float32) float32 { k.tanh(a, b); return 0 },
					"adam": func(k *table, a, b, c, d []float32) float32 {
						k.adam(a, b, c, d, .9, .1, .99, .01, .1, .003, 1.3, 1e-8)
						return 0
					},
					"adagrad":     func(k *table, a, b, c, d []float32) float32 { k.adagrad(a, c, b, .1, 1e-8, .01); return 0 },
					"sgd":         func(k *table, a, b, c, d []float32) float32 { k.sgd(a, b, .1, .01); return 0 },
					"sgdMomentum": func(k *table, a, b, c, d []float32) float32 { k.sgdMomentum(a, b, c, .1, .01, .9); return 0 },
				} {
					var got, want [4][]float32
					for i := range in {
						got[i], want[i] = append([]float32(nil), in[i]...), append([]float32(nil), in[i]...)
					}
					g := run(k, got[0][:n], got[1][:n], got[2][:n], got[3][:n])
					w := run(reference, want[0][:n], want[1][:n], want[2][:n], want[3][:n])
					what := fmt.Sprintf("%v %s of %d", isa, name, n)
					checkBits(t, what+": result", []float32{g}, []float32{w})
					for i := range got {
						checkBits(t, fmt.Sprintf("%s: argument %d", what, i), got[i], want[i])
					}
				}
			}
		}
		for _, n := range []int{0, 1, 15, 16, 17, 1000} {
			x := make([]uint32, n)
			for i := range x {
				x[i] = r.Uint32()
			}
			if g, w := k.maxUint32(x), maxUint32Generic(x); g != w {
				t.Fatalf("%v: maximum of %d words is %d, expected %d", isa, n, g, w)
			}
		}
		for _, threshold := range []uint32{0, 1, 13107, 32768, 65535, 65536} {
			got, want := make([]byte, 160), make([]byte, 160)
			k.maskBits(got, 1<<20, 0x12345678, 0x9abcdef0, threshold)
			maskBitsGeneric(want, 1<<20, 0x12345678, 0x9abcdef0, threshold)
			if string(got) != string(want) {
				t.Fatalf("%v: masks at threshold %d differ:\n%x\n%x", isa, threshold, got, want)
			}
		}
	}
}

func TestExp(t *testing.T) {
	for x := float32(-90); x < 90; x += .00137 {
		got, want := float64(exp32(x)), math.Exp(float64(x))
		if want < 0x1p-126 {
			if got > 0x1p-126 {
				t.Fatalf("exp(%v) = %v, expected %v", x, got, want)
			}
			continue
		}
		if want > math.MaxFloat32 {
			if !math.IsInf(got, 1) {
				t.Fatalf("exp(%v) = %v, expected +Inf", x, got)
			}
			continue
		}
		if math.Abs(got-want)/want > 2*0x1p-23 {
			t.Fatalf("exp(%v) = %v, expected %v: off by %.2g", x, got, want, (got-want)/want)
		}
	}
}

// The published known answers of Philox4x32 are for ten rounds; the rounds are
// the same, so check them by running three more.
func TestPhilox(t *testing.T) {
	c, k0, k1 := [4]uint32{}, uint32(0), uint32(0)
	round := func() {
		p0, p1 := uint64(c[0])*0xD2511F53, uint64(c[2])*0xCD9E8D57
		c = [4]uint32{uint32(p1>>32) ^ c[1] ^ k0, uint32(p1), uint32(p0>>32) ^ c[3] ^ k1, uint32(p0)}
		k0, k1 = k0+0x9E3779B9, k1+0xBB67AE85
	}
	for range philoxRounds {
		round()
	}
	if got := philox([4]uint32{}, 0); got != c {
		t.Fatalf("philox is %08x, expected %08x", got, c)
	}
	for range 10 - philoxRounds {
		round()
	}
	if want := [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}; c != want {
		t.Fatalf("ten rounds give %08x, expected %08x (Random123, kat_vectors)", c, want)
	}
}

func TestSigmoidTanh(t *testing.T) {
	for x := float32(-95); x < 95; x += .00717 {
		y := []float32{0, 0}
		sigmoidGeneric(y[:1], []float32{x})
		y[1] = tanh32(x)
		for i, want := range []float64{1 / (1 + math.Exp(-float64(x))), math.Tanh(float64(x))} {
			if got := float64(y[i]); math.Abs(got-want) > 4e-7*math.Abs(want)+0x1p-126 {
				t.Fatalf("function %d at %v is %v, expected %v", i, x, got, want)
			}
		}
	}
}
