package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Values in one of Parquet's delta encodings (apache/parquet-format, Encodings.md) say themselves how many they are, whatever
// the page's header says, and those of DELTA_BYTE_ARRAY repeat beginnings of the value before: the decoder allocates what
// a few bytes ask for. Pages of them are unpacked and walked before.

// isDelta reports whether an encoding is one of them.
func isDelta(e format.Encoding) bool {
	return e == format.DeltaBinaryPacked || e == format.DeltaLengthByteArray || e == format.DeltaByteArray
}

// deltaPage is a page whose values are delta encoded.
type deltaPage struct {
	encoding         format.Encoding
	codec            format.CompressionCodec // of what is packed
	packed, unpacked int64                   // bytes behind the levels that are not packed
	values           int                     // at most
	repeats, nulls   bool                    // levels of them stand before the values, behind a length
}

// check refuses values that decode to more than a page may take, and returns what they decode to beside what is counted for
// every value, in bytes. r reads the page behind the levels that are not packed.
func (p *deltaPage) check(r io.ReaderAt) (int64, error) {
	b := make([]byte, p.packed)
	if _, err := io.ReadFull(io.NewSectionReader(r, 0, p.packed), b); err != nil {
		return 0, err
	}
	if p.codec != format.Uncompressed {
		var err error
		if b, err = parquet.LookupCompressionCodec(p.codec).Decode(make([]byte, 0, p.unpacked), b); err != nil {
			return 0, err
		}
	}
	for _, levels := range []bool{p.repeats, p.nulls} {
		if !levels {
			continue
		}
		if len(b) < 4 || int64(binary.LittleEndian.Uint32(b)) > int64(len(b)-4) {
			return 0, errors.New("levels are longer than the page")
		}
		b = b[4+binary.LittleEndian.Uint32(b):]
	}
	if len(b) == 0 { // nothing but nulls
		return 0, nil
	}
	// Of numbers and of lengths, whose strings lie in the page, there must be no more than it has values; of the
	// beginnings that strings share, and of what is left of them, that is so and they come to a size.
	if p.encoding != format.DeltaByteArray {
		w := deltaWalk{b: b}
		return 0, w.header(p.values)
	}
	w, total := deltaWalk{b: b}, int64(0)
	for range 2 {
		sum, err := w.lengths(p.values)
		if err != nil {
			return 0, err
		}
		if total += sum; total > pageBytesMax {
			return 0, fmt.Errorf("strings of %d bytes or more, expected at most %d", total, pageBytesMax)
		}
	}
	return total, nil
}

// deltaWalk walks DELTA_BINARY_PACKED numbers.
type deltaWalk struct {
	b              []byte
	perBlock, mini int // numbers a block, and mini-blocks it has
	total          int
	first          int64
}

var errDelta = errors.New("delta encoded numbers end early, or their header is none")

// header reads the header, which must promise at most so many numbers.
func (w *deltaWalk) header(most int) error {
	var u [3]uint64
	for i := range u {
		v, n := binary.Uvarint(w.b)
		if n <= 0 {
			return errDelta
		}
		u[i], w.b = v, w.b[n:]
	}
	first, n := binary.Varint(w.b)
	if n <= 0 || u[0] == 0 || u[0] > math.MaxUint16+1 || u[0]%128 != 0 || u[1] == 0 || u[1] > u[0]/32 {
		return errDelta
	}
	if u[2] > uint64(most) {
		return fmt.Errorf("%d delta encoded values in a page of %d", u[2], most)
	}
	w.b, w.perBlock, w.mini, w.total, w.first = w.b[n:], int(u[0]), int(u[1]), int(u[2]), first
	return nil
}

// lengths walks int32 numbers, none below 0, to their end and returns their sum.
func (w *deltaWalk) lengths(most int) (sum int64, err error) {
	if err := w.header(most); err != nil || w.total == 0 {
		return 0, err
	}
	value := int32(w.first)
	if int64(value) != w.first || value < 0 {
		return 0, errDelta
	}
	sum = int64(value)
	for left := w.total - 1; left > 0; {
		least, n := binary.Varint(w.b)
		if n <= 0 || len(w.b) < n+w.mini {
			return 0, errDelta
		}
		widths := w.b[n : n+w.mini]
		w.b = w.b[n+w.mini:]
		for _, width := range widths {
			each := w.perBlock / w.mini
			size := each * int(width) / 8
			if width > 32 {
				return 0, errDelta
			}
			packed := w.b[:min(size, len(w.b))] // the last one may be cut
			w.b = w.b[len(packed):]
			for i := range min(each, left) {
				if value += int32(least) + int32(bitsAt(packed, i*int(width), uint(width))); value < 0 {
					return 0, errDelta
				}
				sum += int64(value)
			}
			if left -= each; left <= 0 {
				break
			}
		}
	}
	return sum, nil
}

// bitsAt returns width ≤ 32 bits of b from bit at on, the lowest first, zeros behind its end.
func bitsAt(b []byte, at int, width uint) uint32 {
	var word [8]byte
	copy(word[:], b[min(at/8, len(b)):])
	return uint32(binary.LittleEndian.Uint64(word[:]) >> (at % 8) & (1<<width - 1))
}
