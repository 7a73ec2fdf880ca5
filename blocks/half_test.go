package blocks

import (
	"math"
	"testing"
)

// TestHalfRoundTrip: every value of the 16-bit types survives widening and
// rounding, and describe's spelling agrees with an independent decoding.
func TestHalfRoundTrip(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		f := Float16Value(h)
		if nan := h&0x7c00 == 0x7c00 && h&0x3ff != 0; nan != (f != f) {
			t.Fatalf("float16 %04x widens to %v", h, f)
		} else if !nan && Float16Bits(f) != h {
			t.Fatalf("float16 %04x is %v and comes back as %04x", h, f, Float16Bits(f))
		}
		if exp := int(h >> 10 & 31); exp < 31 {
			want := math.Ldexp(float64(h&1023), -24)
			if exp > 0 {
				want = math.Ldexp(1024+float64(h&1023), exp-25)
			}
			if h>>15 == 1 {
				want = -want
			}
			if float64(f) != want {
				t.Fatalf("float16 %04x is %v, expected %v", h, f, want)
			}
		}
		b := BFloat16Value(h)
		if nan := h&0x7f80 == 0x7f80 && h&0x7f != 0; nan != (b != b) {
			t.Fatalf("bfloat16 %04x widens to %v", h, b)
		} else if !nan && BFloat16Bits(b) != h {
			t.Fatalf("bfloat16 %04x is %v and comes back as %04x", h, b, BFloat16Bits(b))
		}
	}
}

// TestHalfRounding: to the nearest value, ties to even, over the range of each type.
func TestHalfRounding(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		name string
		bits func(float32) uint16
		in   float32
		want uint16
	}{
		{"tie to even, down", Float16Bits, 1 + 0x1p-11, 0x3c00},
		{"tie to even, up", Float16Bits, 1 + 3*0x1p-11, 0x3c02},
		{"above the tie", Float16Bits, 1 + 0x1p-11 + 0x1p-20, 0x3c01},
		{"largest", Float16Bits, 65519, 0x7bff},
		{"too large", Float16Bits, 65520, 0x7c00},
		{"negative infinity", Float16Bits, -inf, 0xfc00},
		{"smallest subnormal", Float16Bits, 0x1p-24, 1},
		{"half of it, tie to even", Float16Bits, 0x1p-25, 0},
		{"a little more than half", Float16Bits, 0x1.8p-25, 1},
		{"subnormal that rounds to the smallest normal", Float16Bits, 0x1p-14 - 0x1p-26, 0x0400},
		{"minus zero", Float16Bits, float32(math.Copysign(0, -1)), 0x8000},
		{"not a number", Float16Bits, float32(math.NaN()), 0x7e00},
		{"bfloat16, tie to even, down", BFloat16Bits, 1 + 0x1p-8, 0x3f80},
		{"bfloat16, tie to even, up", BFloat16Bits, 1 + 3*0x1p-8, 0x3f82},
		{"bfloat16, too large", BFloat16Bits, math.MaxFloat32, 0x7f80},
		{"bfloat16, a NaN whose payload is cut off", BFloat16Bits, math.Float32frombits(0x7f800001), 0x7fc0},
	} {
		if got := c.bits(c.in); got != c.want {
			t.Errorf("%s: %v becomes %04x, expected %04x", c.name, c.in, got, c.want)
		}
	}
}
