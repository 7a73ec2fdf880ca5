package blocks

import "math"

// Float16Value widens an IEEE 754 binary16; every value is exact.
func Float16Value(h uint16) float32 {
	sign, exp, frac := uint32(h&0x8000)<<16, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case 0:
		f := float32(frac) * 0x1p-24
		return math.Float32frombits(sign | math.Float32bits(f))
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// MaxFloat16 is the largest finite float16.
const MaxFloat16 = 65504

// Float16Bits rounds to the nearest binary16, ties to even; 65520 and more become
// infinite, a NaN the quiet one.
func Float16Bits(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x477ff000: // 65520 and more
		return sign | 0x7c00
	case b >= 0x38800000: // normal: 2⁻¹⁴ and more
		b += 0xfff + b>>13&1
		return sign | uint16((b-0x38000000)>>13)
	}
	// Subnormal: adding 0.5 puts the last bit of 2⁻²⁴ at the last bit of the mantissa.
	return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
}

// BFloat16Value widens a bfloat16, the upper half of a float32.
func BFloat16Value(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// BFloat16Bits rounds to the nearest bfloat16, ties to even; what is too large becomes
// infinite, a NaN a quiet one.
func BFloat16Bits(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16 | 0x40)
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
