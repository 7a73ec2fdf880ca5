package blocks

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Extent is a contiguous range of a block file: one partition's bytes, or one
// part of a list.
type Extent struct {
	ID     uint64 // the partition, or the ordinal of the part
	Offset int64  // of its first byte in the file; a multiple of Alignment
	Length int64  // payload bytes; zeros follow up to a multiple of Alignment
	Rows   uint64 // nodes or edges

	chunk int64 // index of its first chunk checksum in the file
}

// End returns the offset after the extent's padding: where the next begins.
func (e Extent) End() int64 { return e.Offset + AlignUp(e.Length) }

// footer is the table of a file's extents and chunk checksums.
//
//	fixed part, footerFixedBytes:
//	  file id u64, extents u64, chunks u64, header checksum u32, zero u32
//	extents × {id u64, offset u64, length u64, rows u64}
//	chunks × crc u32
//
// It is followed at once by the trailer, the file's last trailerBytes bytes:
//
//	footer offset u64, footer length u64, file id u64, footer crc u32,
//	version u16, zeros, crc of the 52 bytes before it u32, magic 8 bytes
type footer struct {
	fileID    uint64
	headerCRC uint32
	extents   []Extent
	sums      []uint32
}

// Byte offsets in the footer's fixed part and the trailer. Part of the format;
// never renumber.
const (
	ftrFileID    = 0
	ftrExtents   = 8
	ftrChunks    = 16
	ftrHeaderCRC = 24
	ftrZero      = 28

	trlOffset   = 0
	trlLength   = 8
	trlFileID   = 16
	trlCRC      = 24
	trlVersion  = 28
	trlZero     = 30
	trlChecksum = 52
	trlMagic    = 56
)

func (f *footer) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, footerFixedBytes+len(f.extents)*extentEntryBytes+len(f.sums)*4)
	b = le.AppendUint64(b, f.fileID)
	b = le.AppendUint64(b, uint64(len(f.extents)))
	b = le.AppendUint64(b, uint64(len(f.sums)))
	b = le.AppendUint32(b, f.headerCRC)
	b = le.AppendUint32(b, 0)
	for _, e := range f.extents {
		b = le.AppendUint64(b, e.ID)
		b = le.AppendUint64(b, uint64(e.Offset))
		b = le.AppendUint64(b, uint64(e.Length))
		b = le.AppendUint64(b, e.Rows)
	}
	for _, s := range f.sums {
		b = le.AppendUint32(b, s)
	}
	return b
}

// decodeFooter checks and decodes the footer of a file of kind h. offset is
// where the footer lies in the file, hence where the extents end.
func decodeFooter(b []byte, h *Header, headerCRC uint32, offset int64) (*footer, error) {
	fail := func(format string, args ...any) (*footer, error) {
		return nil, corruptf("footer", offset, format, args...)
	}
	le := binary.LittleEndian
	if len(b) < footerFixedBytes {
		return fail("%d bytes, expected at least %d", len(b), footerFixedBytes)
	}
	f := &footer{fileID: le.Uint64(b[ftrFileID:]), headerCRC: le.Uint32(b[ftrHeaderCRC:])}
	if f.fileID != h.FileID || f.headerCRC != headerCRC {
		return fail("it belongs to file %d with header checksum %08x, this is file %d with %08x",
			f.fileID, f.headerCRC, h.FileID, headerCRC)
	}
	if z := le.Uint32(b[ftrZero:]); z != 0 {
		return fail("reserved field is %d, expected 0", z)
	}
	extents, chunks := le.Uint64(b[ftrExtents:]), le.Uint64(b[ftrChunks:])
	rest := uint64(len(b) - footerFixedBytes)
	if extents > rest/extentEntryBytes || chunks > rest/4 || extents*extentEntryBytes+chunks*4 != rest {
		return fail("%d extents and %d chunks do not fill its %d bytes", extents, chunks, len(b))
	}
	f.extents = make([]Extent, extents)
	at, chunk := int64(HeaderBytes), int64(0)
	for i := range f.extents {
		q := b[footerFixedBytes+i*extentEntryBytes:]
		length := le.Uint64(q[16:])
		e := Extent{ID: le.Uint64(q), Offset: int64(le.Uint64(q[8:])), Rows: le.Uint64(q[24:]), chunk: chunk}
		if e.Offset != at {
			return fail("extent %d begins at %d, expected %d", i, e.Offset, at)
		}
		if length > uint64(math.MaxInt64-Alignment-at) {
			return fail("extent %d is %d bytes long", i, length)
		}
		e.Length = int64(length)
		if err := checkExtent(h, e); err != nil {
			return fail("%v", err)
		}
		f.extents[i] = e
		at = e.End()
		chunk += chunkCount(e.Length)
		if at > offset {
			return fail("extent %d ends at %d, behind the footer at %d", i, at, offset)
		}
	}
	if at != offset || chunk != int64(chunks) {
		return fail("extents end at %d with %d chunks, expected %d and %d", at, chunk, offset, chunks)
	}
	f.sums = make([]uint32, chunks)
	for i := range f.sums {
		f.sums[i] = le.Uint32(b[footerFixedBytes+int(extents)*extentEntryBytes+4*i:])
	}
	return f, nil
}

// checkExtent reports a length that does not fit the extent's rows and the
// file's kind.
func checkExtent(h *Header, e Extent) error {
	n := uint64(e.Length)
	switch {
	case h.Kind == Topology:
		if least := uint64(DirectoryBytes(h.Partitions)); n < least || e.Rows > n-least {
			return fmt.Errorf("%s: %d bytes for %d edges of %d partitions", h.ExtentName(e.ID), n, e.Rows, h.Partitions)
		}
	case h.strings():
		if n/8 <= e.Rows {
			return fmt.Errorf("%s: %d bytes for %d strings", h.ExtentName(e.ID), n, e.Rows)
		}
	default:
		row := uint64(h.RowBytes())
		if n%row != 0 || n/row != e.Rows {
			return fmt.Errorf("%s: %d bytes for %d rows of %d bytes", h.ExtentName(e.ID), n, e.Rows, row)
		}
	}
	return nil
}

// trailer locates the footer.
type trailer struct {
	offset, length int64
	fileID         uint64
	crc            uint32
}

func (t *trailer) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, trailerBytes)
	le.PutUint64(b[trlOffset:], uint64(t.offset))
	le.PutUint64(b[trlLength:], uint64(t.length))
	le.PutUint64(b[trlFileID:], t.fileID)
	le.PutUint32(b[trlCRC:], t.crc)
	le.PutUint16(b[trlVersion:], FormatVersion)
	le.PutUint32(b[trlChecksum:], Checksum(b[:trlChecksum]))
	copy(b[trlMagic:], trailerMagic)
	return b
}

// decodeTrailer checks and decodes the last trailerBytes bytes of a file of
// size bytes.
func decodeTrailer(b []byte, size int64) (trailer, error) {
	fail := func(format string, args ...any) (trailer, error) {
		return trailer{}, corruptf("trailer", size-trailerBytes, format, args...)
	}
	if len(b) != trailerBytes {
		return fail("%d bytes, expected %d", len(b), trailerBytes)
	}
	le := binary.LittleEndian
	if string(b[trlMagic:]) != trailerMagic {
		return fail("the file ends with %q, expected %q: it was cut short or not finished", b[trlMagic:], trailerMagic)
	}
	if sum, want := Checksum(b[:trlChecksum]), le.Uint32(b[trlChecksum:]); sum != want {
		return fail("checksum %08x, expected %08x", sum, want)
	}
	if v := le.Uint16(b[trlVersion:]); v != FormatVersion {
		return fail("format version %d, expected %d", v, FormatVersion)
	}
	for i := trlZero; i < trlChecksum; i++ {
		if b[i] != 0 {
			return fail("byte %d is %#02x, expected 0", i, b[i])
		}
	}
	offset, length := le.Uint64(b[trlOffset:]), le.Uint64(b[trlLength:])
	end := uint64(size - trailerBytes)
	if offset < HeaderBytes || offset%Alignment != 0 || offset > end || length != end-offset {
		return fail("footer of %d bytes at %d, expected it to end at %d", length, offset, end)
	}
	return trailer{offset: int64(offset), length: int64(length), fileID: le.Uint64(b[trlFileID:]), crc: le.Uint32(b[trlCRC:])}, nil
}
