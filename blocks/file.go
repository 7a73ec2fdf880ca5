package blocks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// File is an open block file. Its methods may be called from any number of
// goroutines; it keeps one descriptor until Close, and stays readable when the
// file's name is removed.
type File struct {
	file   vfs.File
	path   string
	header Header
	info   FileInfo
	foot   *footer
	index  map[uint64]int // extent id → position; nil where position k holds id k
}

// Open opens a block file and checks its header, trailer and footer; payload
// is checked as it is read. Damage is a [*CorruptError], another format version
// [ErrFormatVersion].
func Open(fs vfs.FS, path string) (*File, error) {
	if !littleEndian() {
		return nil, fmt.Errorf("blocks: %w: big-endian", ErrUnsupported)
	}
	vf, err := fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	f := &File{file: vf, path: path}
	if err := f.load(); err != nil {
		_ = vf.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) load() error {
	stat, err := f.file.Stat()
	if err != nil {
		return fmt.Errorf("open %s: %w", f.path, err)
	}
	size := stat.Size()
	var headerCRC uint32
	if f.header, headerCRC, err = readHeader(f.file, f.path, size); err != nil {
		return err
	}
	if size < HeaderBytes+footerFixedBytes+trailerBytes {
		return locate(corruptf("footer", -1, "the file has %d bytes: it was cut short or not finished", size), f.path, "", 0)
	}
	tail := make([]byte, trailerBytes)
	if err := f.readAt(tail, size-trailerBytes, "trailer"); err != nil {
		return err
	}
	t, err := decodeTrailer(tail, size)
	if err != nil {
		return locate(err, f.path, "", 0)
	}
	if t.fileID != f.header.FileID {
		return locate(corruptf("trailer", size-trailerBytes, "it belongs to file %d, this is file %d", t.fileID, f.header.FileID), f.path, "", 0)
	}
	b := make([]byte, t.length) // ≤ size, so a lying length allocates no more than the file has
	if err := f.readAt(b, t.offset, "footer"); err != nil {
		return err
	}
	if sum := Checksum(b); sum != t.crc {
		return locate(corruptf("footer", t.offset, "checksum %08x, expected %08x", sum, t.crc), f.path, "", 0)
	}
	if f.foot, err = decodeFooter(b, &f.header, headerCRC, t.offset); err != nil {
		return locate(err, f.path, "", 0)
	}
	f.info = FileInfo{Size: size, FooterChecksum: t.crc}
	return f.indexExtents()
}

func (f *File) indexExtents() error {
	dense := true
	for i, e := range f.foot.extents {
		dense = dense && e.ID == uint64(i)
	}
	if dense {
		return nil
	}
	f.index = make(map[uint64]int, len(f.foot.extents))
	for i, e := range f.foot.extents {
		if _, dup := f.index[e.ID]; dup {
			return locate(corruptf("footer", -1, "%s is listed twice", f.header.ExtentName(e.ID)), f.path, "", 0)
		}
		f.index[e.ID] = i
	}
	return nil
}

// readAt fills b from offset; a file that ends early is corrupt.
func (f *File) readAt(b []byte, offset int64, what string) error {
	return readFull(f.file, f.path, b, offset, what)
}

// readFull is readAt for a file that is not a File.
func readFull(f vfs.File, path string, b []byte, offset int64, what string) error {
	n, err := f.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return locate(corruptf(what, offset, "the file ends after %d of %d bytes", n, len(b)), path, "", 0)
	}
	return fmt.Errorf("read %s: %s at byte %d: %w", path, what, offset, err)
}

// ReadAt fills b from an offset of the file, unchecked: for callers who check what
// they read by CheckChunks, VerifyPart or VerifyExtent. A file that ends early is a
// [*CorruptError].
func (f *File) ReadAt(b []byte, offset int64) error { return f.readAt(b, offset, "file") }

// Header returns what the file says it holds.
func (f *File) Header() Header { return f.header }

// Descriptor returns the file's descriptor, for opening the same file again in
// another mode even where its name is gone; false where the file system has
// none. It stays the File's.
func (f *File) Descriptor() (fd uintptr, ok bool) {
	fd = f.file.Fd()
	return fd, fd != vfs.InvalidFd
}

// Path returns the path the file was opened by.
func (f *File) Path() string { return f.path }

// Info returns size and footer checksum, to compare with a manifest.
func (f *File) Info() FileInfo { return f.info }

// Extents returns the extents in file order; the slice is the file's own.
func (f *File) Extents() []Extent { return f.foot.extents }

// Rows returns the total of the extents' rows.
func (f *File) Rows() uint64 {
	var n uint64
	for _, e := range f.foot.extents {
		n += e.Rows
	}
	return n
}

// Extent returns the extent with an id, and whether there is one.
func (f *File) Extent(id uint64) (Extent, bool) {
	if f.index == nil {
		if id >= uint64(len(f.foot.extents)) {
			return Extent{}, false
		}
		return f.foot.extents[id], true
	}
	i, ok := f.index[id]
	if !ok {
		return Extent{}, false
	}
	return f.foot.extents[i], true
}

// ReadExtent reads a whole extent into dst, growing it if it is too small, and
// checks every chunk. It returns the payload, which is the caller's.
func (f *File) ReadExtent(e Extent, dst []byte) ([]byte, error) {
	if int64(cap(dst)) < e.Length {
		dst = alignedBytes(int(e.Length))
	}
	dst = dst[:e.Length]
	if err := f.readAt(dst, e.Offset, f.header.ExtentName(e.ID)); err != nil {
		return nil, err
	}
	if err := f.CheckChunks(e, 0, dst); err != nil {
		return nil, err
	}
	return dst, nil
}

// ReadRange reads bytes [from, to) of an extent's payload through checked
// chunks: it reads the chunks that overlap the range into a buffer and returns
// the part asked for. For small look-ups; bulk reads go through an engine.
func (f *File) ReadRange(e Extent, from, to int64) ([]byte, error) {
	return f.ReadRangeInto(e, from, to, nil)
}

// ReadRangeInto is ReadRange into the caller's buffer, which [RangeBytes] is
// enough for; a smaller one is replaced. Where buf begins at a multiple of 8 in memory,
// so does the result if from is one.
func (f *File) ReadRangeInto(e Extent, from, to int64, buf []byte) ([]byte, error) {
	if from < 0 || to < from || to > e.Length {
		return nil, fmt.Errorf("read %s: bytes %d to %d of %s, which has %d", f.path, from, to, f.header.ExtentName(e.ID), e.Length)
	}
	lo := from / ChunkBytes * ChunkBytes
	hi := min(e.Length, (to+ChunkBytes-1)/ChunkBytes*ChunkBytes)
	if int64(len(buf)) < hi-lo {
		buf = alignedBytes(int(hi - lo))
	}
	b := buf[:hi-lo]
	if err := f.readAt(b, e.Offset+lo, f.header.ExtentName(e.ID)); err != nil {
		return nil, err
	}
	if err := f.CheckChunks(e, lo, b); err != nil {
		return nil, err
	}
	return b[from-lo : to-lo], nil
}

// RangeBytes is the size of a buffer for ReadRangeInto of n bytes from anywhere.
func RangeBytes(n int64) int64 { return n + 2*ChunkBytes }

// CheckChunks checks the chunks that lie wholly in b, which holds the extent's
// bytes from offset from, a multiple of ChunkBytes. b may reach into the
// padding after the payload; a chunk cut off at b's end is not checked.
func (f *File) CheckChunks(e Extent, from int64, b []byte) error {
	if from < 0 || from%ChunkBytes != 0 {
		return fmt.Errorf("check %s: offset %d is not a multiple of %d", f.path, from, ChunkBytes)
	}
	for from < e.Length {
		n := min(ChunkBytes, e.Length-from)
		if n > int64(len(b)) {
			return nil
		}
		k := from / ChunkBytes
		if sum, want := Checksum(b[:n]), f.foot.sums[e.chunk+k]; sum != want {
			return &CorruptError{Path: f.path, Extent: f.header.ExtentName(e.ID), Offset: e.Offset + from,
				Reason: fmt.Sprintf("chunk %d (%d bytes) has checksum %08x, expected %08x", k, n, sum, want)}
		}
		from += n
		b = b[n:]
	}
	return nil
}

// Close closes the file.
func (f *File) Close() error {
	if err := f.file.Close(); err != nil {
		return fmt.Errorf("close %s: %w", f.path, err)
	}
	return nil
}
