package kernels

import (
	"math"
	"unsafe"
)

// The row types: at returns element j of the row that starts at p. Rows may
// start at any byte.
type (
	float32Row  struct{}
	float16Row  struct{}
	bfloat16Row struct{}
	int8Row     struct{}
)

type rowReader interface {
	at(p unsafe.Pointer, j int) float32
}

func (float32Row) at(p unsafe.Pointer, j int) float32 { return *(*float32)(unsafe.Add(p, 4*j)) }
func (float16Row) at(p unsafe.Pointer, j int) float32 {
	return float16ToFloat32(*(*uint16)(unsafe.Add(p, 2*j)))
}
func (bfloat16Row) at(p unsafe.Pointer, j int) float32 {
	return math.Float32frombits(uint32(*(*uint16)(unsafe.Add(p, 2*j))) << 16)
}
func (int8Row) at(p unsafe.Pointer, j int) float32 { return float32(*(*int8)(unsafe.Add(p, j))) }

// float16ToFloat32 widens an IEEE 754 binary16; a NaN becomes quiet and keeps its payload.
func float16ToFloat32(h uint16) float32 {
	sign, exp, frac := uint32(h&0x8000)<<16, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch {
	case exp == 0: // zero or subnormal: frac·2⁻²⁴, exact in float32
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(f))
	case exp == 0x1f && frac == 0:
		return math.Float32frombits(sign | 0x7f800000)
	case exp == 0x1f:
		return math.Float32frombits(sign | 0x7fc00000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

func isFloat32[R rowReader]() bool {
	var r R
	_, ok := any(r).(float32Row)
	return ok
}

func gatherGeneric[R rowReader](dst []float32, ldd, dim int, idx []uint32, src []byte, stride int, scale float32) {
	var r R
	if dim == 0 {
		return
	}
	if isFloat32[R]() {
		for i, k := range idx {
			from := unsafe.Slice((*float32)(unsafe.Pointer(&src[int(k)*stride])), dim)
			copy(dst[i*ldd:i*ldd+dim], from)
		}
		return
	}
	for i, k := range idx {
		from := unsafe.Pointer(&src[int(k)*stride])
		out := dst[i*ldd : i*ldd+dim]
		for j := range out {
			out[j] = scale * r.at(from, j)
		}
	}
}

func sumGeneric[R rowReader](out, from []float32, idx []uint32, n int, src []byte, stride int, scale float32) {
	var r R
	if copy(out, from) == 0 {
		clear(out)
	}
	if len(out) == 0 {
		return
	}
	for _, k := range idx[:n] {
		row := unsafe.Pointer(&src[int(k)*stride])
		for j := range out {
			out[j] += r.at(row, j)
		}
	}
	for j := range out {
		out[j] *= scale
	}
}

func sumWeightedGeneric[R rowReader](out, from []float32, idx []uint32, n int, src []byte, stride int, scale float32, w []float32, ldw int) {
	var r R
	if copy(out, from) == 0 {
		clear(out)
	}
	if len(out) == 0 {
		return
	}
	for e, k := range idx[:n] {
		row := unsafe.Pointer(&src[int(k)*stride])
		c := scale * w[e*ldw]
		for j := range out {
			out[j] += float32(c * r.at(row, j))
		}
	}
}

func maxUint32Generic(x []uint32) uint32 {
	m := uint32(0)
	for _, v := range x {
		m = max(m, v)
	}
	return m
}
