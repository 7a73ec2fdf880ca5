package precompute

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// TestEncodeFloats: in place, and what a type cannot hold is refused, not made infinite.
func TestEncodeFloats(t *testing.T) {
	for _, c := range []struct {
		elem blocks.ElemType
		in   []float32
		want []byte // nil: refused
	}{
		{blocks.Float32, []float32{1, -2}, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}},
		{blocks.Float16, []float32{1, -2, .1}, []byte{0, 0x3c, 0, 0xc0, 0x66, 0x2e}},
		{blocks.BFloat16, []float32{1, -2, .1}, []byte{0x80, 0x3f, 0, 0xc0, 0xcd, 0x3d}},
		{blocks.Float16, []float32{65519, 70000}, nil},
		{blocks.BFloat16, []float32{math.MaxFloat32}, nil},
		{blocks.Float16, nil, []byte{}},
	} {
		got, err := encodeFloats(append([]float32(nil), c.in...), c.elem)
		if c.want == nil {
			if !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%v of %v: error %v, expected ErrInvalid", c.in, c.elem, err)
			}
			continue
		}
		if err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%v as %v: %x, %v; expected %x", c.in, c.elem, got, err, c.want)
		}
	}
}
