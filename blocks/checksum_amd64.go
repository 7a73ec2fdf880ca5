//go:build !noasm

package blocks

import (
	"math"

	"golang.org/x/sys/cpu"
)

// foldMin is the shortest input worth folding, in bytes: the last 64 are summed by hash/crc32.
var foldMin = chooseFoldMin()

func chooseFoldMin() int {
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512VL && x.HasAVX512VPCLMULQDQ {
		return 4 * foldBytes
	}
	return math.MaxInt
}

// foldUpdate is ChecksumUpdate for a multiple of foldBytes, at least one.
func foldUpdate(sum uint32, b []byte) uint32 {
	var r [64]byte
	foldAVX512(&r, &b[0], len(b), ^sum)
	return remainderSum(&r)
}

// foldAVX512 multiplies n bytes at b, a positive multiple of foldBytes, by x⁰ and leaves 64 bytes that are
// congruent to them modulo the polynomial; initial is added to the first four.
//
//go:noescape
func foldAVX512(r *[64]byte, b *byte, n int, initial uint32)
