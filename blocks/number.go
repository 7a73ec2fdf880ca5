package blocks

import "math"

// A number may stand where class ids do, in an int32 of which −1 says that there is none: its code is ≥ 0, the float32 less the last
// bit of its significand. So it is within 2⁻²³ of the number, relatively, and integers up to 2²³ are exact.

// NumberCode is the code of a number, ties to even; −1 for NaN and what rounds to infinity.
func NumberCode(x float32) int32 {
	b := math.Float32bits(x + 0) // −0 is 0
	if b>>23&0xff == 0xff {
		return -1
	}
	code := int32((b + b>>1&1) >> 1)
	if code>>22&0xff == 0xff {
		return -1
	}
	return code
}

// CodedNumber is the number of a code; NaN of −1.
func CodedNumber(code int32) float32 {
	if code < 0 {
		return float32(math.NaN())
	}
	return math.Float32frombits(uint32(code) << 1)
}

// CheckNumberCode reports whether NumberCode may have returned code.
func CheckNumberCode(code int32) bool { return code == -1 || code >= 0 && code>>22&0xff != 0xff }
