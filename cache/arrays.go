package cache

import (
	"errors"
	"unsafe"

	"github.com/gstore/gstore/blocks/blockio"
)

// arrays are the books' memory: zeroed, off the Go heap, resident page by page as it is used.
type arrays struct{ slabs []*blockio.Slab }

// array adds n zeroed elements.
func array[T uint32 | row](a *arrays, n int) ([]T, error) {
	if n == 0 {
		return nil, nil
	}
	var zero T
	s, err := blockio.AllocSlab(int64(n)*int64(unsafe.Sizeof(zero)), blockio.SlabOptions{Lazy: true})
	if err != nil {
		return nil, err
	}
	a.slabs = append(a.slabs, s)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(s.Bytes()))), n), nil
}

// Close frees them; the second call does nothing.
func (a *arrays) Close() error {
	var err error
	for _, s := range a.slabs {
		err = errors.Join(err, s.Free())
	}
	a.slabs = nil
	return err
}
