// Package numpy reads arrays: .npy files and raw ones, plain or packed, members of .npz archives, scipy's sparse matrices
// among these, and the folder of arrays that gstore export writes. Headers are package blocks/npy's.
//
// An [Array] knows its shape before its elements are read, and its size on disk is compared with the shape, so that no
// header makes its reader allocate what the file does not hold.
package numpy

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
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// Array is an array in a .npy file, in a member of an .npz archive, or in a file
// without a header: elements end to end, row by row or, if columns, column by column.
type Array struct {
	FS      vfs.FS
	Path    string
	Elem    blocks.ElemType
	Shape   []int64 // at most 2 dimensions, their product × element size < 2⁶²
	Columns bool    // numpy's Fortran order
	header  int64   // bytes before the first element, in the unpacked file or member
	offset  int64   // of the first element in the file, where it can be read at its place

	// Archive is the file that holds the array, where path is only its name in
	// messages: a member of an .npz.
	archive string
	// member, if not nil, opens the member of the archive front to back, and compares its
	// checksum at its end. A deflated one can be read in no other way.
	member   func() (io.ReadCloser, error)
	deflated bool
	checked  atomic.Bool // the checksum was compared
}

// AddFiles is where the array is.
func (a *Array) file() string {
	if a.archive != "" {
		return a.archive
	}
	return a.Path
}

// Packed reports whether the elements can only be read front to back.
func (a *Array) packed() bool { return a.deflated || files.Packed(a.file()) }

// Open opens the array for reading from its first element to its last, and then [array.end].
func (a *Array) open() (io.ReadCloser, error) {
	var f io.ReadCloser
	var err error
	switch {
	case a.member != nil:
		f, err = a.member()
	case a.packed():
		f, err = files.Open(a.FS, a.Path)
	default:
		f, err := openAt(a)
		if err != nil {
			return nil, err
		}
		r := bufio.NewReaderSize(io.NewSectionReader(f, a.offset, a.bytes()), 64<<10)
		return &files.Unpacked{Reader: r, Done: func() error { return nil }, File: f, Path: a.Path}, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, f, a.header); err != nil {
		return nil, errors.Join(ingest.Inputf(a.Path, "truncated in the header: %v", err), f.Close())
	}
	return f, nil
}

// end expects the end of what [array.open] opened: there checksums are compared.
func (a *Array) end(f io.Reader) error {
	n, err := io.ReadFull(f, make([]byte, 1))
	switch {
	case n > 0:
		return ingest.Inputf(a.Path, "bytes after %d rows", a.Rows())
	case err != io.EOF:
		return err
	}
	a.checked.Store(true)
	return nil
}

// check compares the checksum of a member that is read at its places, unless that was done.
func (a *Array) check(ctx context.Context) error {
	if a.member == nil || a.deflated || a.checked.Load() {
		return nil
	}
	return a.Elements(ctx, func(int64, []byte) error { return nil })
}

// OpenArray reads the header of a .npy file, which may be packed, and compares a
// plain one's size with its shape.
func OpenArray(fs vfs.FS, path string) (_ *Array, err error) {
	f, err := files.Open(fs, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a, err := readHeader(f)
	if err != nil {
		return nil, ingest.Inputf(path, "%v", err)
	}
	a.FS, a.Path = fs, path
	if !files.Packed(path) {
		info, err := fs.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		if want := a.offset + a.bytes(); info.Size() != want {
			return nil, ingest.Inputf(path, "%d bytes, expected %d for %v of shape %v (is the file truncated?)", info.Size(), want, a.Elem, a.Shape)
		}
	}
	return a, nil
}

// readHeader decodes the header at the front of r.
func readHeader(r io.Reader) (*Array, error) {
	h, err := npy.Read(r)
	if err != nil {
		return nil, err
	}
	return &Array{Elem: h.Elem, Shape: h.Shape, Columns: h.Columns, header: h.Bytes, offset: h.Bytes}, nil
}

// Rows is the length of the first dimension.
func (a *Array) Rows() int64 { return a.Shape[0] }

// Dim is the number of elements of a row.
func (a *Array) Dim() int64 {
	if len(a.Shape) == 1 {
		return 1
	}
	return a.Shape[1]
}

func (a *Array) bytes() int64 { return a.Rows() * a.Dim() * int64(a.Elem.Size()) }

// Integer reports whether elements are integers.
func (a *Array) Integer() bool {
	switch a.Elem {
	case blocks.Int32, blocks.Uint32, blocks.Int64, blocks.Uint64:
		return true
	}
	return false
}

func openAt(a *Array) (vfs.File, error) {
	f, err := a.FS.Open(a.file())
	if err != nil {
		return nil, fmt.Errorf("open input: %w", err)
	}
	return f, nil
}

// small reads a short array of integers whole.
func (a *Array) small(most int64) (ids []uint64, err error) {
	if !a.Integer() || a.Rows()*a.Dim() > most {
		return nil, ingest.Inputf(a.Path, "%v of shape %v, expected at most %d integers", a.Elem, a.Shape, most)
	}
	err = a.Stream(context.Background(), ingest.Env{}, files.ReadBytes, func(_ int64, b []byte) error {
		ids = parts.Widen(ids, a.Elem, b)
		return nil
	})
	return ids, err
}

// One reads an array of one number: a size of the one graph that there is.
func (a *Array) One() (int64, error) {
	n, err := a.small(1)
	if err == nil && (len(n) != 1 || int64(n[0]) < 0) {
		err = ingest.Inputf(a.Path, "%v, expected the size of one graph", n)
	}
	if err != nil {
		return 0, err
	}
	return int64(n[0]), nil
}

// OpenFlat is OpenArray of a file that may lack the header: then it holds rows of dim elements, end to end.
func OpenFlat(fs vfs.FS, path string, elem blocks.ElemType, dim int64) (_ *Array, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open input: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	magic := make([]byte, len(npy.Magic))
	if n, err := f.ReadAt(magic, 0); files.Packed(path) || n == len(magic) && string(magic) == npy.Magic {
		return OpenArray(fs, path)
	} else if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read input: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	a := &Array{FS: fs, Path: path, Elem: elem, Shape: []int64{info.Size() / (dim * int64(elem.Size())), dim}}
	if dim == 1 {
		a.Shape = a.Shape[:1]
	}
	if a.bytes() != info.Size() {
		return nil, ingest.Inputf(path, "%d bytes, without a header, are no whole number of rows of %d %v", info.Size(), dim, elem)
	}
	return a, nil
}
