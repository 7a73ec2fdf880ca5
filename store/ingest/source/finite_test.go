package source

import (
	"math"
	"testing"

	"github.com/gstore/gstore/blocks"
)

// An element that is no number is found wherever it stands, whatever its sign and the bits of its neighbours; large and small
// finite ones are not.
func TestNotFinite(t *testing.T) {
	for _, elem := range []blocks.ElemType{blocks.Float64, blocks.Float32, blocks.Float16, blocks.BFloat16} {
		size := elem.Size()
		put := func(rows []byte, i int, bits uint64) {
			for k := range size {
				rows[i*size+k] = byte(bits >> (8 * k))
			}
		}
		exponent := exponentBits(elem)
		sign := uint64(1) << (8*size - 1)
		most := sign - 1 - exponent&-exponent // the largest finite number: all ones but the sign and the exponent's last bit
		one := make([]byte, size)
		if put(one, 0, most); math.IsInf(elem.Float64(one), 0) || math.IsNaN(elem.Float64(one)) {
			t.Fatalf("%v: %x is %v", elem, most, elem.Float64(one))
		}
		for _, n := range []int{0, 1, 15, 16, 37} {
			rows := make([]byte, n*size)
			for i := range n {
				put(rows, i, []uint64{most, sign | most, 0, sign | 1}[i%4])
			}
			if got := NotFinite(elem, rows); got != -1 {
				t.Errorf("%v, %d finite elements: %d is not", elem, n, got)
			}
			for i := range n {
				old := append([]byte(nil), rows...)
				for _, bits := range []uint64{exponent, sign | exponent, exponent | 1, sign - 1} {
					put(rows, i, bits)
					if got := NotFinite(elem, rows); got != i {
						t.Errorf("%v, %d elements: %x at %d was found at %d", elem, n, bits, i, got)
					}
				}
				copy(rows, old)
			}
		}
	}
	if got := NotFinite(blocks.Int32, []byte{0xff, 0xff, 0xff, 0xff}); got != -1 {
		t.Errorf("integer %d is not finite", got)
	}
}
