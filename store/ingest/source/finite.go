package source

import (
	"encoding/binary"
	"math"

	"github.com/gstore/gstore/blocks"
)

// NotFinite returns the index of the first element that is NaN or infinite, whose exponent
// is all ones; −1 if there is none.
func NotFinite(elem blocks.ElemType, rows []byte) int {
	exponent, size := exponentBits(elem), elem.Size()
	if exponent == 0 {
		return -1
	}
	// The elements of 8 bytes at once: with one added to its last bit an exponent carries into the sign's place if it is all
	// ones, and never out of the element.
	ones := exponent & -exponent
	for width := 8 * size; width < 64; width *= 2 {
		exponent, ones = exponent|exponent<<width, ones|ones<<width
	}
	signs := exponent + ones
	i := 0
	for b := rows; len(b) >= 32; b = b[32:] {
		at := func(k int) uint64 { return binary.LittleEndian.Uint64(b[8*k:])&exponent + ones }
		if (at(0)|at(1)|at(2)|at(3))&signs != 0 {
			break
		}
		i += 32 / size
	}
	for ; (i+1)*size <= len(rows); i++ {
		if x := elem.Float64(rows[i*size:]); math.IsNaN(x) || math.IsInf(x, 0) {
			return i
		}
	}
	return -1
}

// exponentBits masks the exponent of a float; 0 for integers.
func exponentBits(elem blocks.ElemType) uint64 {
	switch elem {
	case blocks.Float64:
		return 0x7ff << 52
	case blocks.Float32:
		return 0xff << 23
	case blocks.Float16:
		return 0x1f << 10
	case blocks.BFloat16:
		return 0xff << 7
	}
	return 0
}
