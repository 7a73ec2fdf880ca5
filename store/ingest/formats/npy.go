package formats

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/npy"
	"github.com/gstore/gstore/store/ingest"
)

// array is an array in a .npy file, in a member of an .npz archive, or in a file
// without a header: elements end to end, row by row or, if columns, column by column.
type array struct {
	fs      vfs.FS
	path    string
	elem    blocks.ElemType
	shape   []int64 // at most 2 dimensions, their product × element size < 2⁶²
	columns bool    // numpy's Fortran order
	header  int64   // bytes before the first element, in the unpacked file or member
	offset  int64   // of the first element in the file, where it can be read at its place

	// archive is the file that holds the array, where path is only its name in
	// messages: a member of an .npz.
	archive string
	// member, if not nil, opens the member of the archive front to back, and compares its
	// checksum at its end. A deflated one can be read in no other way.
	member   func() (io.ReadCloser, error)
	deflated bool
	checked  atomic.Bool // the checksum was compared
}

// file is where the array is.
func (a *array) file() string {
	if a.archive != "" {
		return a.archive
	}
	return a.path
}

// packed reports whether the elements can only be read front to back.
func (a *array) packed() bool { return a.deflated || packed(a.file()) }

// open opens the array for reading from its first element to its last, and then [array.end].
func (a *array) open() (io.ReadCloser, error) {
	var f io.ReadCloser
	var err error
	switch {
	case a.member != nil:
		f, err = a.member()
	case a.packed():
		f, err = open(a.fs, a.path)
	default:
		f, err := openAt(a)
		if err != nil {
			return nil, err
		}
		r := bufio.NewReaderSize(io.NewSectionReader(f, a.offset, a.bytes()), 64<<10)
		return &unpacked{Reader: r, done: func() error { return nil }, file: f, path: a.path}, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, f, a.header); err != nil {
		return nil, errors.Join(ingest.Inputf(a.path, "truncated in the header: %v", err), f.Close())
	}
	return f, nil
}

// end expects the end of what [array.open] opened: there checksums are compared.
func (a *array) end(f io.Reader) error {
	n, err := io.ReadFull(f, make([]byte, 1))
	switch {
	case n > 0:
		return ingest.Inputf(a.path, "bytes after %d rows", a.rows())
	case err != io.EOF:
		return err
	}
	a.checked.Store(true)
	return nil
}

// check compares the checksum of a member that is read at its places, unless that was done.
func (a *array) check(ctx context.Context) error {
	if a.member == nil || a.deflated || a.checked.Load() {
		return nil
	}
	return a.elements(ctx, func(int64, []byte) error { return nil })
}

// openArray reads the header of a .npy file, which may be packed, and compares a
// plain one's size with its shape.
func openArray(fs vfs.FS, path string) (_ *array, err error) {
	f, err := open(fs, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a, err := readHeader(f)
	if err != nil {
		return nil, ingest.Inputf(path, "%v", err)
	}
	a.fs, a.path = fs, path
	if !packed(path) {
		info, err := fs.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		if want := a.offset + a.bytes(); info.Size() != want {
			return nil, ingest.Inputf(path, "%d bytes, expected %d for %v of shape %v (is the file truncated?)", info.Size(), want, a.elem, a.shape)
		}
	}
	return a, nil
}

// readHeader decodes the header at the front of r.
func readHeader(r io.Reader) (*array, error) {
	h, err := npy.Read(r)
	if err != nil {
		return nil, err
	}
	return &array{elem: h.Elem, shape: h.Shape, columns: h.Columns, header: h.Bytes, offset: h.Bytes}, nil
}

func (a *array) rows() int64 { return a.shape[0] }

// dim is the number of elements of a row.
func (a *array) dim() int64 {
	if len(a.shape) == 1 {
		return 1
	}
	return a.shape[1]
}

func (a *array) bytes() int64 { return a.rows() * a.dim() * int64(a.elem.Size()) }

func (a *array) integer() bool {
	switch a.elem {
	case blocks.Int32, blocks.Uint32, blocks.Int64, blocks.Uint64:
		return true
	}
	return false
}
