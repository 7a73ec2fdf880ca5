package partitioner

import (
	"unsafe"

	"github.com/gstore/gstore/blocks/blockio"
)

// arrays hands out large arrays outside the Go heap, which all end together.
type arrays struct {
	slabs []*blockio.Slab
	err   error // the first failure; arrays are empty from then on
}

func (a *arrays) bytes(n int64) []byte {
	if a.err != nil || n == 0 {
		return nil
	}
	s, err := blockio.AllocSlab(n, blockio.SlabOptions{Lazy: true})
	if err != nil {
		a.err = err
		return nil
	}
	a.slabs = append(a.slabs, s)
	return s.Bytes()
}

func (a *arrays) uint32s(n int) []uint32 {
	b := a.bytes(4 * int64(n))
	if b == nil {
		return nil
	}
	return unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), n)
}

func (a *arrays) float32s(n int) []float32 {
	b := a.bytes(4 * int64(n))
	if b == nil {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), n)
}

func (a *arrays) free() {
	for _, s := range a.slabs {
		_ = s.Free() // munmap of our own mapping: nothing a caller could do
	}
	a.slabs = nil
}

// float32Bits is the same memory as bits.
func float32Bits(x []float32) []uint32 {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*uint32)(unsafe.Pointer(&x[0])), len(x))
}
