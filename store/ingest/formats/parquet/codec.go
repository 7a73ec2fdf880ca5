package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// checkPacked refuses compressed bytes of a page that would unpack to more than its header says. The
// decoder of Parquet believes what stands in them: Snappy's and Zstandard's lengths, and it tries LZ4
// with ever larger buffers while it fails, without end. at reads them from their first byte.
//
// Snappy and Zstandard, which nearly all files are packed with, cost a look at headers. LZ4
// and Brotli say nothing of their size: they are unpacked once more. Deflate unpacks to at most
// 1032 times its bytes, whatever they are. The result is what unpacking takes, in bytes.
func checkPacked(codec format.CompressionCodec, at io.ReaderAt, packed, unpacked int64) (int64, error) {
	if codec == format.Uncompressed {
		return 0, nil
	}
	if packed <= 0 { // the decoder would wait for bytes forever
		return 0, fmt.Errorf("%d compressed bytes", packed)
	}
	r := io.NewSectionReader(at, 0, packed)
	switch codec {
	case format.Snappy:
		var head [binary.MaxVarintLen64]byte
		n, _ := r.ReadAt(head[:], 0)
		if size, k := binary.Uvarint(head[:n]); k <= 0 || size > uint64(unpacked) {
			return 0, fmt.Errorf("snappy of %d bytes, expected at most %d", size, unpacked)
		}
	case format.Zstd:
		return checkZstd(r, unpacked)
	case format.Brotli:
		n, err := io.CopyN(io.Discard, brotli.NewReader(r), unpacked+1)
		if err == nil {
			return 0, fmt.Errorf("brotli of %d bytes or more, expected at most %d", n, unpacked)
		} else if err != io.EOF {
			return 0, fmt.Errorf("brotli: %w", err)
		}
	case format.Lz4Raw:
		src, dst := make([]byte, packed), make([]byte, unpacked)
		if _, err := io.ReadFull(r, src); err != nil {
			return 0, err
		}
		if _, err := lz4.UncompressBlock(src, dst); err != nil {
			return 0, fmt.Errorf("lz4 of %d bytes: %w", unpacked, err)
		}
	}
	return unpacked, nil
}

// zstdBlockMax is the largest block of Zstandard, unpacked (RFC 8878, section 3.1.1.2.4).
const zstdBlockMax = 128 << 10

// checkZstd adds up what the frames in r unpack to: what they say of themselves, which must not be more than
// expected, or what their blocks can at most. Only headers are looked at (RFC 8878, section 3.1.1).
func checkZstd(r *io.SectionReader, unpacked int64) (int64, error) {
	total, said := uint64(0), uint64(0)
	head := make([]byte, zstd.HeaderMaxSize)
	for at := int64(0); at < r.Size(); {
		n, _ := r.ReadAt(head, at)
		var h zstd.Header
		if err := h.Decode(head[:n]); err != nil {
			return 0, fmt.Errorf("zstd: %w", err)
		}
		at += int64(h.HeaderSize)
		if h.Skippable {
			at += int64(h.SkippableSize)
			continue
		}
		blocks := uint64(0)
		for last := false; !last; {
			var b [3]byte
			if _, err := r.ReadAt(b[:], at); err != nil {
				return 0, errors.New("zstd: it ends inside a frame")
			}
			x := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
			last = x&1 != 0
			size, kind := int64(x>>3), x>>1&3
			switch at += 3; kind {
			case 0: // as it is
				at, blocks = at+size, blocks+uint64(size)
			case 1: // one byte, repeated
				at, blocks = at+1, blocks+uint64(size)
			default:
				at, blocks = at+size, blocks+zstdBlockMax
			}
		}
		if h.HasCheckSum {
			at += 4
		}
		if h.HasFCS {
			if h.FrameContentSize > uint64(unpacked)-said {
				return 0, fmt.Errorf("zstd of %d bytes, expected at most %d", h.FrameContentSize, uint64(unpacked)-said)
			}
			blocks = h.FrameContentSize
			said += blocks
		}
		total += blocks
	}
	return int64(total), nil
}

// bytesAt reads from the bytes at hand, and what is behind them from the file.
type bytesAt struct {
	have *bytes.Reader
	file io.ReaderAt
	at   int64 // of have's first byte in the file
}

// ReadAt implements io.ReaderAt.
func (r bytesAt) ReadAt(b []byte, off int64) (int, error) {
	if off+int64(len(b)) <= r.have.Size() {
		return r.have.ReadAt(b, off)
	}
	return r.file.ReadAt(b, r.at+off)
}
