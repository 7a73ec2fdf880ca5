package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// pools returns one pool for every instruction set of this machine, and
// thread counts 1, 2 and 4 of the best one: results of all must agree.
func pools() []*Pool {
	var out []*Pool
	for isa := ISAGeneric; isa <= Detect(); isa++ {
		out = append(out, NewPool(Options{Threads: 1, ISA: isa}))
	}
	for _, n := range []int{2, 4} {
		out = append(out, NewPool(Options{Threads: n}))
	}
	return append(out, nil)
}

func (p *Pool) name() string { return fmt.Sprintf("%v/%d threads", p.ISA(), p.Threads()) }

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func randoms(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// strided makes a rows×cols matrix with a gap of NaN after each row: what
// must be neither read nor written.
func strided(r *rand.Rand, rows, cols, gap int) Matrix {
	m := Matrix{Data: randoms(r, max(rows*(cols+gap)-gap, 0)), Rows: rows, Cols: cols, Stride: cols + gap}
	for i := range max(rows-1, 0) {
		for j := range gap {
			m.Data[i*m.Stride+cols+j] = float32(math.NaN())
		}
	}
	return m
}

func clone(m Matrix) Matrix {
	m.Data = append([]float32(nil), m.Data...)
	return m
}

func checkGaps(t *testing.T, m Matrix) {
	t.Helper()
	for i := range max(m.Rows-1, 0) {
		for j := m.Cols; j < m.Stride; j++ {
			if v := m.Data[i*m.Stride+j]; v == v {
				t.Fatalf("wrote %v behind row %d", v, i)
			}
		}
	}
}

// checkBits fails unless the two have the same bits, any NaN equal to any other.
func checkBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, expected %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
			t.Fatalf("%s: element %d of %d is %v (%08x), expected %v (%08x)", what, i, len(got), got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

// checkNear fails unless |got−want| ≤ tol·(1+|want|) everywhere, NaN matching NaN.
func checkNear(t *testing.T, what string, got []float32, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, expected %d", what, len(got), len(want))
	}
	for i := range got {
		g, w := float64(got[i]), want[i]
		if math.IsNaN(g) && math.IsNaN(w) || g == w {
			continue
		}
		if !(math.Abs(g-w) <= tol*(1+math.Abs(w))) {
			t.Fatalf("%s: element %d of %d is %v, expected %v", what, i, len(got), g, w)
		}
	}
}

func mustPanic(t *testing.T, what string, fn func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	fn()
}

func TestForCoversOnce(t *testing.T) {
	for _, p := range pools() {
		for _, n := range []int{0, 1, 7, 64, 1000} {
			for _, grain := range []int{0, 1, 7, 5000} {
				seen := make([]int32, n)
				p.For(n, grain, func(lo, hi int) {
					for i := lo; i < hi; i++ {
						seen[i]++
					}
				})
				for i, c := range seen {
					if c != 1 {
						t.Fatalf("%s: n %d grain %d: element %d visited %d times", p.name(), n, grain, i, c)
					}
				}
			}
		}
	}
}
