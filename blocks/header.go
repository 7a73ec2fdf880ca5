package blocks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Header says what a block file holds. It is written once, when the file is
// created.
type Header struct {
	Kind Kind
	// FileID is the store's number for the file; it ties header and footer
	// together so that a mix of two files is noticed.
	FileID uint64
	Elem   ElemType // element type; Invalid for Topology
	Dim    uint32   // elements a row; 0 for Topology and for strings
	// Partitions is the store's number of partitions: the number of extents of
	// a complete Topology, EdgeColumn, NodeColumn or ExternalIDs file.
	Partitions uint32
	// ExtentRows is the number of rows of each extent but the last (IDMap); 0
	// for kinds whose extents vary.
	ExtentRows uint64
	// Name is the column's short name ("x", "label", "valid"); may be empty.
	Name string
}

// RowBytes returns the bytes of one row of a kind whose rows have one size,
// and 0 for Topology and strings.
func (h *Header) RowBytes() int64 { return int64(h.Elem.Size()) * int64(h.Dim) }

// ExtentName returns how messages name extent id: "topology 3", "node column x 12".
func (h *Header) ExtentName(id uint64) string {
	if h.Name == "" {
		return fmt.Sprintf("%v %d", h.Kind, id)
	}
	return fmt.Sprintf("%v %s %d", h.Kind, h.Name, id)
}

// strings reports whether extents are [Strings].
func (h *Header) strings() bool { return h.Kind == ExternalIDs && h.Elem == Uint8 }

// Validate reports what makes the header impossible to write.
func (h *Header) Validate() error {
	if len(h.Name) > NameBytesMax {
		return fmt.Errorf("column name of %d bytes (most: %d)", len(h.Name), NameBytesMax)
	}
	if !utf8.ValidString(h.Name) {
		return fmt.Errorf("column name %q is not UTF-8", h.Name)
	}
	bad := func(want string) error {
		return fmt.Errorf("%v of element type %v, dim %d (expected %s)", h.Kind, h.Elem, h.Dim, want)
	}
	switch h.Kind {
	case Topology:
		if h.Elem != Invalid || h.Dim != 0 {
			return bad("invalid, 0")
		}
		if h.Partitions == 0 {
			return fmt.Errorf("topology of 0 partitions")
		}
	case EdgeColumn, NodeColumn, Embedding:
		if h.Elem.Size() == 0 || h.Dim == 0 {
			return bad("a known type and dim ≥ 1")
		}
	case ExternalIDs:
		integers := (h.Elem == Uint64 || h.Elem == Int64) && h.Dim == 1
		if !integers && !(h.Elem == Uint8 && h.Dim == 0) {
			return bad("uint64 or int64 with dim 1, or uint8 with dim 0 for strings")
		}
	case IDMap:
		if (h.Elem != Uint32 && h.Elem != Uint64) || h.Dim != 1 {
			return bad("uint32 or uint64 with dim 1")
		}
		if h.ExtentRows == 0 {
			return fmt.Errorf("id map of 0 rows an extent")
		}
	case EdgeList:
		if h.Elem != Uint64 || (h.Dim != 2 && h.Dim != 3) {
			return bad("uint64 with dim 2 or 3")
		}
	default:
		return fmt.Errorf("unknown kind %d", uint16(h.Kind))
	}
	return nil
}

// Byte offsets of the header's fields. Part of the format; never renumber.
const (
	hdrMagic      = 0  // 8 bytes
	hdrVersion    = 8  // u16
	hdrKind       = 10 // u16
	hdrElem       = 12 // u16
	hdrNameLength = 14 // u16
	hdrFileID     = 16 // u64
	hdrDim        = 24 // u32
	hdrPartitions = 28 // u32
	hdrExtentRows = 32 // u64
	hdrAlignment  = 40 // u32
	hdrChunk      = 44 // u32
	hdrName       = 48 // NameBytesMax bytes, then zeros
	hdrChecksum   = HeaderBytes - 4
)

// encode returns the header's bytes; the header must be valid.
func (h *Header) encode() []byte {
	b := make([]byte, HeaderBytes)
	le := binary.LittleEndian
	copy(b[hdrMagic:], headerMagic)
	le.PutUint16(b[hdrVersion:], FormatVersion)
	le.PutUint16(b[hdrKind:], uint16(h.Kind))
	le.PutUint16(b[hdrElem:], uint16(h.Elem))
	le.PutUint16(b[hdrNameLength:], uint16(len(h.Name)))
	le.PutUint64(b[hdrFileID:], h.FileID)
	le.PutUint32(b[hdrDim:], h.Dim)
	le.PutUint32(b[hdrPartitions:], h.Partitions)
	le.PutUint64(b[hdrExtentRows:], h.ExtentRows)
	le.PutUint32(b[hdrAlignment:], Alignment)
	le.PutUint32(b[hdrChunk:], ChunkBytes)
	copy(b[hdrName:], h.Name)
	le.PutUint32(b[hdrChecksum:], Checksum(b[:hdrChecksum]))
	return b
}

// decodeHeader checks and decodes a header. The magic is checked before the
// version and the version before the checksum, so that a file of another kind
// or time is called that and not damaged.
func decodeHeader(b []byte) (Header, error) {
	fail := func(format string, args ...any) (Header, error) {
		return Header{}, corruptf("header", 0, format, args...)
	}
	if len(b) < HeaderBytes {
		return fail("%d bytes, expected %d", len(b), HeaderBytes)
	}
	b = b[:HeaderBytes]
	le := binary.LittleEndian
	if string(b[:len(headerMagic)]) != headerMagic {
		return fail("not a block file: it begins with %q, expected %q", b[:len(headerMagic)], headerMagic)
	}
	sum, want := Checksum(b[:hdrChecksum]), le.Uint32(b[hdrChecksum:])
	if v := le.Uint16(b[hdrVersion:]); v != FormatVersion && sum == want {
		return Header{}, fmt.Errorf("%w %d (this build reads %d)", ErrFormatVersion, v, FormatVersion)
	}
	if sum != want {
		return fail("checksum %08x, expected %08x", sum, want)
	}
	n := int(le.Uint16(b[hdrNameLength:]))
	if n > NameBytesMax {
		return fail("name of %d bytes, most %d", n, NameBytesMax)
	}
	if a, c := le.Uint32(b[hdrAlignment:]), le.Uint32(b[hdrChunk:]); a != Alignment || c != ChunkBytes {
		return fail("alignment %d and chunk %d, expected %d and %d", a, c, Alignment, ChunkBytes)
	}
	for i, c := range b[hdrName+n : hdrChecksum] {
		if c != 0 {
			return fail("byte %d is %#02x, expected 0", hdrName+n+i, c)
		}
	}
	h := Header{
		Kind:       Kind(le.Uint16(b[hdrKind:])),
		FileID:     le.Uint64(b[hdrFileID:]),
		Elem:       ElemType(le.Uint16(b[hdrElem:])),
		Dim:        le.Uint32(b[hdrDim:]),
		Partitions: le.Uint32(b[hdrPartitions:]),
		ExtentRows: le.Uint64(b[hdrExtentRows:]),
		Name:       string(b[hdrName : hdrName+n]),
	}
	if err := h.Validate(); err != nil {
		return fail("%v", err)
	}
	return h, nil
}

// ReadHeader returns the checked header of the block file path, of any kind.
func ReadHeader(fs vfs.FS, path string) (_ Header, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return Header{}, fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	stat, err := f.Stat()
	if err != nil {
		return Header{}, fmt.Errorf("open %s: %w", path, err)
	}
	h, _, err := readHeader(f, path, stat.Size())
	return h, err
}

// readHeader reads the header of a file of size bytes, and its checksum.
func readHeader(f vfs.File, path string, size int64) (Header, uint32, error) {
	if size < HeaderBytes {
		return Header{}, 0, locate(corruptf("header", 0, "the file has %d bytes, a header alone %d", size, HeaderBytes), path, "", 0)
	}
	b := make([]byte, HeaderBytes)
	if err := readFull(f, path, b, 0, "header"); err != nil {
		return Header{}, 0, err
	}
	h, err := decodeHeader(b)
	if errors.Is(err, ErrFormatVersion) {
		return h, 0, fmt.Errorf("open %s: %w", path, err)
	}
	return h, le32(b[hdrChecksum:]), locate(err, path, "", 0)
}
