package blocks

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// Number is an element type that columns are viewed as.
type Number interface {
	~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// View returns b as elements of type T, in place. b must begin at a multiple of
// T's size in memory and hold a whole number of elements; otherwise View
// returns an error.
func View[T Number](b []byte) ([]T, error) {
	size := int(unsafe.Sizeof(*new(T)))
	if len(b)%size != 0 {
		return nil, fmt.Errorf("blocks: %d bytes are no whole number of %d-byte elements", len(b), size)
	}
	if len(b) == 0 {
		return nil, nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%uintptr(size) != 0 {
		return nil, fmt.Errorf("blocks: buffer does not begin at a multiple of %d bytes", size)
	}
	return unsafe.Slice((*T)(p), len(b)/size), nil
}

// Bytes returns the bytes of elements, in place: what a column's payload is on
// disk (hosts are little-endian).
func Bytes[T Number](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// Strings is an extent of strings, viewed in place:
//
//	(n+1) × u64 end offsets into the text, the first 0, ascending
//	text
type Strings struct {
	offsets []byte
	text    []byte
	n       int
}

// OpenStrings checks and decodes an extent of n strings; it refers to b.
func OpenStrings(b []byte, n uint64) (Strings, error) {
	if uint64(len(b))/8 <= n {
		return Strings{}, corruptf("", 0, "%d bytes for %d strings", len(b), n)
	}
	s := Strings{offsets: b[:8*(n+1)], text: b[8*(n+1):], n: int(n)}
	prev := uint64(0)
	for i := range s.n + 1 {
		at := s.offset(i)
		if at < prev || at > uint64(len(s.text)) || (i == 0 && at != 0) {
			return Strings{}, corruptf("", int64(8*i), "string %d ends at %d of %d bytes, the one before at %d", i, at, len(s.text), prev)
		}
		prev = at
	}
	if prev != uint64(len(s.text)) {
		return Strings{}, corruptf("", int64(8*n), "strings end at %d of %d bytes", prev, len(s.text))
	}
	return s, nil
}

func (s *Strings) offset(i int) uint64 { return binary.LittleEndian.Uint64(s.offsets[8*i:]) }

// Len returns the number of strings.
func (s *Strings) Len() int { return s.n }

// At returns string i, in place.
func (s *Strings) At(i int) []byte { return s.text[s.offset(i):s.offset(i+1)] }

// StringOffsets returns the offsets part of an extent of strings, to be written
// before the text, which is the strings' concatenation.
func StringOffsets(lengths []int) []byte {
	b := make([]byte, 0, 8*(len(lengths)+1))
	at := uint64(0)
	b = binary.LittleEndian.AppendUint64(b, 0)
	for _, n := range lengths {
		at += uint64(n)
		b = binary.LittleEndian.AppendUint64(b, at)
	}
	return b
}
