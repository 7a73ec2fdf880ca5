package blocks

import (
	"encoding/binary"
	"math"
)

// Float64 decodes the element at the front of b, which has at least Size
// bytes; NaN for a type this version does not know. Integers beyond ±2⁵³ lose
// their last bits. Int8 is the stored number, without its column's scale.
func (t ElemType) Float64(b []byte) float64 {
	le := binary.LittleEndian
	switch t {
	case Float32:
		return float64(math.Float32frombits(le.Uint32(b)))
	case Float64:
		return math.Float64frombits(le.Uint64(b))
	case Float16:
		return float64(Float16Value(le.Uint16(b)))
	case BFloat16:
		return float64(BFloat16Value(le.Uint16(b)))
	case Int8:
		return float64(int8(b[0]))
	case Uint8:
		return float64(b[0])
	case Uint16:
		return float64(le.Uint16(b))
	case Int32:
		return float64(int32(le.Uint32(b)))
	case Uint32:
		return float64(le.Uint32(b))
	case Int64:
		return float64(int64(le.Uint64(b)))
	case Uint64:
		return float64(le.Uint64(b))
	}
	return math.NaN()
}

// Widen decodes a row of elements to float32s, element j of Int8 times scale[j]; a nil scale is 1 for all. Numbers of more digits than
// a float32 has are rounded.
func (t ElemType) Widen(dst []float32, row []byte, scale []float32) {
	size := t.Size()
	for j := range dst {
		if t == Float32 {
			dst[j] = math.Float32frombits(binary.LittleEndian.Uint32(row[4*j:]))
			continue
		}
		if dst[j] = float32(t.Float64(row[j*size:])); t == Int8 && scale != nil {
			dst[j] *= scale[j]
		}
	}
}
