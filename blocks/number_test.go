package blocks

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestNumberCode(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 1_000_000 {
		x := math.Float32frombits(rng.Uint32())
		if i < 1<<12 { // integers and simple fractions are exact
			x = float32(i-1<<11) / 8
		}
		code := NumberCode(x)
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			if code != -1 {
				t.Fatalf("%v has code %d, expected none", x, code)
			}
			continue
		}
		if code < 0 {
			t.Fatalf("%v has no code", x)
		}
		y := CodedNumber(code)
		if d := math.Abs(float64(y) - float64(x)); d > math.Abs(float64(x))/(1<<23) && d > 2e-45 {
			t.Fatalf("%v comes back as %v", x, y)
		}
		if i < 1<<12 && y != x {
			t.Fatalf("%v comes back as %v, expected no difference", x, y)
		}
		if again := NumberCode(y); again != code || !CheckNumberCode(code) {
			t.Fatalf("%v has code %d, its own number %d", x, code, again)
		}
	}
	for _, x := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32} {
		if code := NumberCode(x); code != -1 {
			t.Errorf("%v has code %d, expected none", x, code)
		}
	}
	if NumberCode(float32(math.Copysign(0, -1))) != 0 || !math.IsNaN(float64(CodedNumber(-1))) {
		t.Error("-0 is not 0, or none is a number")
	}
}
