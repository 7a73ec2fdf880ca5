package blocks

import (
	"slices"
	"testing"
)

// TestElemTypeNames: each type has a name that means it, and no other name means one.
func TestElemTypeNames(t *testing.T) {
	for e := Float32; e <= Uint64; e++ {
		if got, err := ParseElemType(e.String()); err != nil || got != e {
			t.Errorf("%v is read as %v (%v)", e, got, err)
		}
	}
	for _, name := range []string{"invalid", "", "float", "elemtype(12)"} {
		if got, err := ParseElemType(name); err == nil {
			t.Errorf("%q is read as %v", name, got)
		}
	}
}

// TestWiden: rows of every type of features become float32s, those of Int8 by their column's scale.
func TestWiden(t *testing.T) {
	for _, c := range []struct {
		elem  ElemType
		row   []byte
		scale []float32
		want  []float32
	}{
		{Float32, Bytes([]float32{-1.5, 7}), nil, []float32{-1.5, 7}},
		{Float16, Bytes([]uint16{Float16Bits(-1.5), Float16Bits(7)}), nil, []float32{-1.5, 7}},
		{BFloat16, Bytes([]uint16{BFloat16Bits(-1.5), BFloat16Bits(7)}), nil, []float32{-1.5, 7}},
		{Float64, Bytes([]float64{-1.5, .1}), nil, []float32{-1.5, .1}},
		{Int64, Bytes([]int64{-3, 1<<24 + 1}), nil, []float32{-3, 1 << 24}},
		{Int8, []byte{0xfd, 5}, []float32{.5, 3}, []float32{-1.5, 15}},
		{Int8, []byte{0xfd, 5}, nil, []float32{-3, 5}},
	} {
		got := make([]float32, 2)
		if c.elem.Widen(got, c.row, c.scale); !slices.Equal(got, c.want) {
			t.Errorf("%v, scale %v: %v, expected %v", c.elem, c.scale, got, c.want)
		}
	}
}
