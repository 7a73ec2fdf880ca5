// Package npy reads and writes the header of NumPy's .npy files, after which
// the elements stand end to end. See NEP 1, "A Simple File Format for NumPy
// Arrays", versions 1 to 3.
//
//	"\x93NUMPY"  6 bytes
//	version      2 bytes, major and minor
//	length       2 bytes (version 1) or 4, little-endian
//	dictionary   length bytes of Python, padded with spaces, "\n" at the end:
//	             {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//
// A header is data of somebody else: [Read] allocates what it has read, and a
// shape that it returns has fewer than 2⁶² bytes.
package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gstore/gstore/blocks"
)

// Magic begins every .npy file.
const Magic = "\x93NUMPY"

// headerMax bounds a header's length, in bytes; numpy itself refuses more than 10000.
const headerMax = 1 << 20

// Header describes an array of one or two dimensions.
type Header struct {
	Elem  blocks.ElemType // of bool arrays Uint8
	Shape []int64         // one or two dimensions, each ≥ 0
	// Columns says that the elements of a column stand together ("Fortran
	// order"); else those of a row. It is only set where that makes a difference: with two dimensions > 1.
	Columns bool
	// Bytes is the length of the header: where the first element stands.
	Bytes int64
}

// Rows is the first dimension.
func (h *Header) Rows() int64 { return h.Shape[0] }

// Dim is the number of elements of a row.
func (h *Header) Dim() int64 {
	if len(h.Shape) == 1 {
		return 1
	}
	return h.Shape[1]
}

// DataBytes is the size of all elements.
func (h *Header) DataBytes() int64 { return h.Rows() * h.Dim() * int64(h.Elem.Size()) }

// Read decodes the header at the front of r, and reads no byte behind it.
func Read(r io.Reader) (Header, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Header{}, fmt.Errorf("not a .npy file: %w", err)
	}
	if string(head[:6]) != Magic {
		return Header{}, fmt.Errorf("not a .npy file: it begins with %q", head[:6])
	}
	width := 2
	switch head[6] {
	case 1:
	case 2, 3:
		width = 4
	default:
		return Header{}, fmt.Errorf(".npy format version %d, expected 1 to 3", head[6])
	}
	var size [4]byte
	if _, err := io.ReadFull(r, size[:width]); err != nil {
		return Header{}, fmt.Errorf("truncated in the header: %w", err)
	}
	length := int64(binary.LittleEndian.Uint32(size[:])) // of two bytes the upper ones are 0
	if length > headerMax {
		return Header{}, fmt.Errorf("header of %d bytes, at most %d are believed", length, headerMax)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return Header{}, fmt.Errorf("truncated in the header: %w", err)
	}
	h, err := parse(string(text))
	if err != nil {
		return Header{}, fmt.Errorf("header %.200q: %w", bytes.TrimSpace(text), err)
	}
	h.Bytes = int64(len(head)) + int64(width) + length
	return h, nil
}

// parse reads the dictionary.
func parse(s string) (h Header, err error) {
	descr, err := field(s, "descr")
	if err != nil {
		return h, err
	}
	if len(descr) < 2 || descr[0] != '\'' && descr[0] != '"' {
		return h, errors.New("structured element types are not supported")
	}
	name := descr[1:]
	if end := strings.IndexAny(name, `'"`); end >= 0 {
		name = name[:end]
	}
	if h.Elem, err = elemOf(name); err != nil {
		return h, err
	}
	shape, err := field(s, "shape")
	if err != nil {
		return h, err
	}
	end := strings.IndexByte(shape, ')')
	if shape[0] != '(' || end < 0 {
		return h, errors.New("no shape in parentheses")
	}
	if h.Shape, err = dimensions(shape[1:end], int64(h.Elem.Size())); err != nil {
		return h, err
	}
	order, err := field(s, "fortran_order")
	if err != nil {
		return h, err
	}
	h.Columns = strings.HasPrefix(order, "True") && len(h.Shape) == 2 && h.Shape[0] > 1 && h.Shape[1] > 1
	return h, nil
}

// dimensions reads "3, 4" or "3,", of elements of so many bytes.
func dimensions(s string, elem int64) (shape []int64, err error) {
	total := elem
	for d := range strings.SplitSeq(s, ",") {
		if d = strings.TrimSpace(d); d == "" {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(d, "L"), 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("dimension %q", d)
		}
		if n > 0 && total > math.MaxInt64/2/n {
			return nil, fmt.Errorf("shape (%s) has too many bytes", s)
		}
		total *= max(n, 1) // a dimension of 0 does not excuse the others
		if shape = append(shape, n); len(shape) > 2 {
			break
		}
	}
	if len(shape) == 0 || len(shape) > 2 {
		return nil, fmt.Errorf("shape (%s), expected 1 or 2 dimensions", s)
	}
	return shape, nil
}

// field returns what follows a key of the dictionary; never empty.
func field(s, key string) (string, error) {
	for _, quote := range []string{"'", `"`} {
		if _, rest, ok := strings.Cut(s, quote+key+quote); ok {
			if rest, ok = strings.CutPrefix(strings.TrimSpace(rest), ":"); ok {
				if rest = strings.TrimSpace(rest); rest != "" {
					return rest, nil
				}
			}
		}
	}
	return "", fmt.Errorf("no %s", key)
}

// types pairs numpy's names with element types; the first name of a type is the one that is written.
var types = []struct {
	descr string
	elem  blocks.ElemType
}{
	{"<f4", blocks.Float32}, {"<f2", blocks.Float16}, {"<f8", blocks.Float64},
	{"|i1", blocks.Int8}, {"<i1", blocks.Int8}, {"|u1", blocks.Uint8}, {"<u1", blocks.Uint8}, {"|b1", blocks.Uint8}, {"<u2", blocks.Uint16},
	{"<i4", blocks.Int32}, {"<u4", blocks.Uint32}, {"<i8", blocks.Int64}, {"<u8", blocks.Uint64},
}

func elemOf(descr string) (blocks.ElemType, error) {
	for _, t := range types {
		if t.descr == descr {
			return t.elem, nil
		}
	}
	return blocks.Invalid, fmt.Errorf("elements of type %q, expected little-endian f2 f4 f8 i1 u1 u2 i4 u4 i8 u8 or bool", descr)
}

// Descr is numpy's name of an element type; "" where it has none (bfloat16).
func Descr(elem blocks.ElemType) string {
	for _, t := range types {
		if t.elem == elem {
			return t.descr
		}
	}
	return ""
}

// align is what the format asks a header's length to be a multiple of.
const align = 64

// HeaderBytes is the length of a header with room for any shape: of files
// whose number of rows is known only when they are closed.
const HeaderBytes = 2 * align

// Append appends the header, version 1, of an array whose rows stand together: as short as
// the format allows, or of HeaderBytes if padded. elem must be one that numpy has.
func Append(dst []byte, elem blocks.ElemType, padded bool, shape ...uint64) []byte {
	tuple := ""
	for i, n := range shape {
		if i > 0 {
			tuple += ", "
		}
		tuple += strconv.FormatUint(n, 10)
	}
	if len(shape) == 1 {
		tuple += ","
	}
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", Descr(elem), tuple)
	const before = len(Magic) + 4 // version and length
	total := (before + len(dict) + 1 + align - 1) / align * align
	if padded {
		total = max(total, HeaderBytes)
	}
	dst = append(append(dst, Magic...), 1, 0)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(total-before))
	dst = append(dst, dict...)
	return append(append(dst, strings.Repeat(" ", total-before-len(dict)-1)...), '\n')
}
