package cache

import (
	"errors"
	"unsafe"

	"github.com/gstore/gstore/blocks/blockio"
)

// arrays are the books' memory: zeroed, off the Go heap, resident page by page as it is used.
type arrays struct {
	slabs []*blockio.Slab
	rest  []byte // of the last one, that no array has
}

// arrayAlign is what arrays begin at a multiple of: a cache line.
const arrayAlign = 64

// reserve makes room for arrays of so many bytes in all, with up to arrayAlign more for each. Whole huge pages: books are read and
// written at random, where small pages cost as much as the memory behind them.
func (a *arrays) reserve(bytes int64) error {
	const page = blockio.SlabAlignment
	s, err := blockio.AllocSlab((bytes+page-1)/page*page, blockio.SlabOptions{Lazy: true})
	if err != nil {
		return err
	}
	a.slabs, a.rest = append(a.slabs, s), s.Bytes()
	return nil
}

// reserved is what books of so many bytes take at most.
func reserved(bytes int64) int64 { return bytes + blockio.SlabAlignment }

// array takes n zeroed elements of what was reserved.
func array[T uint8 | uint16 | uint32 | row](a *arrays, n int) []T {
	if n == 0 {
		return nil
	}
	var zero T
	size := (n*int(unsafe.Sizeof(zero)) + arrayAlign - 1) &^ (arrayAlign - 1)
	b := a.rest[:size]
	a.rest = a.rest[size:]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// Close frees them; the second call does nothing.
func (a *arrays) Close() error {
	var err error
	for _, s := range a.slabs {
		err = errors.Join(err, s.Free())
	}
	a.slabs, a.rest = nil, nil
	return err
}
