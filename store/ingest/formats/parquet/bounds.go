package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// The decoder of Parquet's metadata allocates what their lengths say before it reads what should
// follow, and recurses as deep as a schema does. So metadata are walked before
// they are decoded: nothing is allocated here, and what passes can say no more than its own bytes hold.
const (
	footerBytesMax = 64 << 20 // a column of a row group takes about 100 bytes
	footerItemsMax = 1 << 20  // elements of all lists together: columns of schema and row groups, their encodings; decoded, up to .5 KiB each
	thriftDepthMax = 32       // of structures in structures; Parquet's own are 8 deep
	schemaDepthMax = 64       // of columns in columns
)

// checkFooter refuses a file whose footer cannot be decoded within bounds.
func checkFooter(r io.ReaderAt, size int64) error {
	const trailer = 8 // length of the footer, magic
	var end [trailer]byte
	if size < trailer+4 {
		return fmt.Errorf("%d bytes", size)
	}
	if _, err := r.ReadAt(end[:], size-trailer); err != nil {
		return err
	}
	if magic := string(end[4:]); magic != "PAR1" {
		return fmt.Errorf("it ends in %q, expected PAR1", magic)
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if length > size-trailer-4 || length > footerBytesMax {
		return fmt.Errorf("a footer of %d bytes in a file of %d, expected at most %d", length, size, min(size-trailer-4, footerBytesMax))
	}
	b := make([]byte, length)
	if _, err := r.ReadAt(b, size-trailer-length); err != nil {
		return err
	}
	w := thriftWalk{b: b, items: footerItemsMax}
	if err := w.structure(0); err != nil {
		return fmt.Errorf("footer: %w", err)
	}
	var meta format.FileMetaData
	if err := thrift.NewDecoder((&thrift.CompactProtocol{}).NewReaderFromBytes(b)).Decode(&meta); err != nil {
		return fmt.Errorf("footer: %w", err)
	}
	return checkSchema(&meta)
}

// checkSchema refuses trees of columns that are deeper than a table's are, and trees that are none.
func checkSchema(meta *format.FileMetaData) error {
	left := []int64{1} // children that each open level still expects
	for k, e := range meta.Schema {
		for len(left) > 0 && left[len(left)-1] == 0 {
			left = left[:len(left)-1]
		}
		if len(left) == 0 {
			return fmt.Errorf("column %d of the schema (%.40q) has no parent", k, e.Name)
		}
		left[len(left)-1]--
		children := int64(0)
		if e.NumChildren.Valid {
			children = int64(e.NumChildren.V)
		}
		if children < 0 || children > int64(len(meta.Schema)-1-k) {
			return fmt.Errorf("column %.40q has %d columns, %d follow", e.Name, children, len(meta.Schema)-1-k)
		}
		if left = append(left, children); len(left) > schemaDepthMax {
			return fmt.Errorf("columns in columns, deeper than %d", schemaDepthMax)
		}
	}
	for _, n := range left {
		if n > 0 {
			return errors.New("the schema has fewer columns than it says")
		}
	}
	return nil
}

// thriftWalk goes over a message of Thrift's compact protocol without building it.
type thriftWalk struct {
	b     []byte
	items int64 // elements of lists that may still come
}

// Types of the compact protocol.
const (
	thriftStop = iota
	thriftTrue
	thriftFalse
	thriftByte
	thriftI16
	thriftI32
	thriftI64
	thriftDouble
	thriftBinary
	thriftList
	thriftSet
	thriftMap
	thriftStruct
)

var errThriftEnds = errors.New("it ends inside a value")

func (w *thriftWalk) byte() (byte, error) {
	if len(w.b) == 0 {
		return 0, errThriftEnds
	}
	c := w.b[0]
	w.b = w.b[1:]
	return c, nil
}

func (w *thriftWalk) varint() (uint64, error) {
	x, n := binary.Uvarint(w.b)
	if n <= 0 {
		return 0, errThriftEnds
	}
	w.b = w.b[n:]
	return x, nil
}

func (w *thriftWalk) skip(n uint64) error {
	if n > uint64(len(w.b)) {
		return fmt.Errorf("a value of %d bytes where %d are left", n, len(w.b))
	}
	w.b = w.b[n:]
	return nil
}

// structure walks the fields of a struct to its end.
func (w *thriftWalk) structure(depth int) error {
	if depth > thriftDepthMax {
		return fmt.Errorf("structures in structures, deeper than %d", thriftDepthMax)
	}
	for {
		head, err := w.byte()
		if err != nil {
			return err
		}
		if head == thriftStop {
			return nil
		}
		if head>>4 == 0 { // the field's number stands apart
			if _, err := w.varint(); err != nil {
				return err
			}
		}
		if kind := head & 15; kind == thriftTrue || kind == thriftFalse { // the value is the type
			continue
		} else if err := w.value(kind, depth+1); err != nil {
			return err
		}
	}
}

// value walks a value of a type; in lists a bool is a byte.
func (w *thriftWalk) value(kind byte, depth int) error {
	switch kind {
	case thriftTrue, thriftFalse, thriftByte:
		return w.skip(1)
	case thriftI16, thriftI32, thriftI64:
		_, err := w.varint()
		return err
	case thriftDouble:
		return w.skip(8)
	case thriftBinary:
		n, err := w.varint()
		if err != nil {
			return err
		}
		return w.skip(n)
	case thriftStruct:
		return w.structure(depth)
	case thriftList, thriftSet:
		head, err := w.byte()
		if err != nil {
			return err
		}
		n := uint64(head >> 4)
		if n == 15 {
			if n, err = w.varint(); err != nil {
				return err
			}
		}
		return w.elements(n, depth, head&15)
	case thriftMap:
		n, err := w.varint()
		if err != nil || n == 0 {
			return err
		}
		kinds, err := w.byte()
		if err != nil {
			return err
		}
		return w.elements(n, depth, kinds>>4, kinds&15)
	}
	return fmt.Errorf("a value of type %d", kind)
}

// Elements walks n times values of the given types, each of which takes a byte at least.
func (w *thriftWalk) elements(n uint64, depth int, kinds ...byte) error {
	if depth > thriftDepthMax {
		return fmt.Errorf("lists in lists, deeper than %d", thriftDepthMax)
	}
	if n > uint64(len(w.b)) || n > math.MaxInt32 {
		return fmt.Errorf("a list of %d where %d bytes are left", n, len(w.b))
	}
	if w.items -= int64(n); w.items < 0 {
		return fmt.Errorf("more than %d elements of lists", footerItemsMax)
	}
	for range n {
		for _, k := range kinds {
			if err := w.value(k, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
