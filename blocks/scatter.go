package blocks

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ScatterWriter writes a block file whose extents all grow at once: their
// lengths are known at the start, each has its place, and whole chunks are put
// there in any order. So rows that arrive in the order of external ids reach
// the extents of their partitions without a pass over scratch files.
//
// Large files are written past the page cache, as [Writer]'s: best from buffers that begin at a multiple of Alignment.
// The result is byte for byte what [Writer] makes of the same extents.
// Calls of WriteChunks may be concurrent if their chunks differ.
type ScatterWriter struct {
	fs     vfs.FS
	file   vfs.File
	path   string
	head   []byte
	foot   footer
	end    int64 // where the footer goes
	chunks int64
	done   atomic.Int64 // chunks written
	direct atomic.Bool  // whether O_DIRECT is set
	ending sync.Mutex   // held where it is cleared
	closed bool
}

// scatterDirectMin is from how many bytes on a file is written with O_DIRECT.
const scatterDirectMin = 8 << 20

// ExtentSize is the planned size of an extent.
type ExtentSize struct {
	ID    uint64
	Bytes int64
	Rows  uint64
}

// CreateScatter makes the block file path with extents in the given order,
// replacing one that exists.
func CreateScatter(fs vfs.FS, path string, h Header, extents []ExtentSize) (*ScatterWriter, error) {
	if !littleEndian() {
		return nil, fmt.Errorf("blocks: %w: big-endian", ErrUnsupported)
	}
	if err := h.Validate(); err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	w := &ScatterWriter{fs: fs, path: path, head: h.encode()}
	w.foot = footer{fileID: h.FileID, headerCRC: le32(w.head[hdrChecksum:])}
	w.end = HeaderBytes
	ids := make(map[uint64]struct{}, len(extents))
	for _, x := range extents {
		e := Extent{ID: x.ID, Offset: w.end, Length: x.Bytes, Rows: x.Rows, chunk: w.chunks}
		if _, dup := ids[x.ID]; dup {
			return nil, fmt.Errorf("create %s: %s planned twice", path, h.ExtentName(x.ID))
		}
		ids[x.ID] = struct{}{}
		if err := checkExtent(&h, e); err != nil {
			return nil, fmt.Errorf("create %s: %w", path, err)
		}
		w.foot.extents = append(w.foot.extents, e)
		w.end = e.End()
		w.chunks += chunkCount(x.Bytes)
	}
	w.foot.sums = make([]uint32, w.chunks)
	// A fresh inode, as Create makes one, that can be written at any place.
	if err := fs.Remove(path); err != nil {
		if _, statErr := fs.Stat(path); statErr == nil {
			return nil, fmt.Errorf("replace %s: %w", path, err)
		}
	}
	f, err := fs.OpenReadWrite(path, diskCategory)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	w.file = f
	if _, err := f.WriteAt(w.head, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), w.Abort())
	}
	if w.end >= scatterDirectMin {
		w.direct.Store(setDirect(f.Fd(), true) == nil)
	}
	return w, nil
}

// Path returns the file's path.
func (w *ScatterWriter) Path() string { return w.path }

// WriteChunks puts b at byte offset of the extent of ordinal k (in the order
// given to CreateScatter). offset is a multiple of ChunkBytes and b ends at one
// or at the extent's end; every chunk is written once.
func (w *ScatterWriter) WriteChunks(k int, offset int64, b []byte) error {
	if w.closed || w.file == nil {
		return fmt.Errorf("%s: %w", w.path, ErrClosed)
	}
	e := &w.foot.extents[k]
	end := offset + int64(len(b))
	if offset%ChunkBytes != 0 || end > e.Length || (end%ChunkBytes != 0 && end != e.Length) {
		return fmt.Errorf("write %s: bytes %d to %d of an extent of %d are no whole chunks", w.path, offset, end, e.Length)
	}
	first := e.chunk + offset/ChunkBytes
	for at, n := 0, int64(0); at < len(b); n++ {
		part := b[at:min(at+ChunkBytes, len(b))]
		w.foot.sums[first+n] = Checksum(part)
		at += len(part)
	}
	whole := len(b)
	if w.direct.Load() {
		whole &^= Alignment - 1
	}
	err := w.writeAt(b[:whole], e.Offset+offset)
	if err == nil && whole < len(b) { // the extent's end, and the zeros up to the next one
		last := alignedBytes(Alignment)
		copy(last, b[whole:])
		err = w.writeAt(last, e.Offset+offset+int64(whole))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	w.done.Add(chunkCount(int64(len(b))))
	return nil
}

// writeAt writes b; a file system that took O_DIRECT and refuses the write gets it again without.
func (w *ScatterWriter) writeAt(b []byte, at int64) error {
	direct := w.direct.Load() // before: another write that is refused may clear it meanwhile
	n, err := w.file.WriteAt(b, at)
	if n == 0 && errors.Is(err, syscall.EINVAL) && direct {
		if err := w.buffered(); err != nil {
			return err
		}
		_, err = w.file.WriteAt(b, at)
	}
	return err
}

// buffered ends direct writing: when it returns nil O_DIRECT is cleared, whoever did that.
func (w *ScatterWriter) buffered() error {
	w.ending.Lock()
	defer w.ending.Unlock()
	if !w.direct.Load() {
		return nil
	}
	if err := setDirect(w.file.Fd(), false); err != nil {
		return fmt.Errorf("clear O_DIRECT: %w", err)
	}
	w.direct.Store(false)
	return nil
}

// Close writes the footer, makes the file durable and closes it. A file some
// chunk of which was not written is an error.
func (w *ScatterWriter) Close() (FileInfo, error) {
	if w.closed || w.file == nil {
		return FileInfo{}, fmt.Errorf("%s: %w", w.path, ErrClosed)
	}
	if n := w.done.Load(); n != w.chunks {
		return FileInfo{}, fmt.Errorf("write %s: closed after %d of %d chunks", w.path, n, w.chunks)
	}
	foot := w.foot.encode()
	t := trailer{offset: w.end, fileID: w.foot.fileID, length: int64(len(foot)), crc: Checksum(foot)}
	tail := append(foot, t.encode()...)
	err := w.buffered()
	if err == nil {
		_, err = w.file.WriteAt(tail, w.end)
	}
	if err == nil {
		err = w.file.Sync()
	}
	if err != nil {
		return FileInfo{}, fmt.Errorf("write %s: %w", w.path, err)
	}
	err = w.file.Close()
	w.file = nil
	if err != nil { // Abort removes the file
		return FileInfo{}, fmt.Errorf("close %s: %w", w.path, err)
	}
	w.closed = true
	return FileInfo{Size: w.end + int64(len(tail)), FooterChecksum: t.crc}, nil
}

// Abort gives the file up and removes it. After a successful Close it does
// nothing, so it may be deferred.
func (w *ScatterWriter) Abort() error {
	if w.closed {
		return nil
	}
	w.closed = true
	var err error
	if w.file != nil {
		err = w.file.Close()
		w.file = nil
	}
	if rmErr := w.fs.Remove(w.path); rmErr != nil {
		return fmt.Errorf("remove unfinished %s: %w", w.path, rmErr)
	}
	return err
}
