package graph

import (
	"unsafe"

	"github.com/gstore/gstore/blocks/blockio"
)

// Arrays hands out large arrays outside the Go heap, which all end together.
type Arrays struct {
	slabs []*blockio.Slab
	Err   error // the first failure; arrays are empty from then on
}

// Bytes returns n zero bytes.
func (a *Arrays) Bytes(n int64) []byte {
	if a.Err != nil || n == 0 {
		return nil
	}
	s, err := blockio.AllocSlab(n, blockio.SlabOptions{Lazy: true})
	if err != nil {
		a.Err = err
		return nil
	}
	a.slabs = append(a.slabs, s)
	return s.Bytes()
}

// Uint32s returns n zeros.
func (a *Arrays) Uint32s(n int) []uint32 {
	b := a.Bytes(4 * int64(n))
	if b == nil {
		return nil
	}
	return unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), n)
}

// Float32s returns n zeros.
func (a *Arrays) Float32s(n int) []float32 {
	b := a.Bytes(4 * int64(n))
	if b == nil {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), n)
}

// Free gives all of them back.
func (a *Arrays) Free() {
	for _, s := range a.slabs {
		_ = s.Free() // munmap of our own mapping: nothing a caller could do
	}
	a.slabs = nil
}

// Float32Bits is the same memory as bits.
func Float32Bits(x []float32) []uint32 {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*uint32)(unsafe.Pointer(&x[0])), len(x))
}
