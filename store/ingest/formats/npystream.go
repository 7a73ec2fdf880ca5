package formats

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
)

const (
	// rowBytesMax bounds a row, which is read at once, in bytes.
	rowBytesMax = 16 << 20
	// transposeBytes of rows are put together at once from columns.
	transposeBytes = 4 << 20
)

// stream calls fn with all the rows, as many at once as step bytes hold (but one at least);
// first is the row that b begins with. Columns that are packed are first unpacked into env's scratch directory.
func (a *array) stream(ctx context.Context, env ingest.Env, step int64, fn func(first int64, b []byte) error) error {
	row := a.dim() * int64(a.elem.Size())
	if row > rowBytesMax {
		return ingest.Inputf(a.path, "shape %v: rows of %d bytes, at most %d are read", a.shape, row, rowBytesMax)
	}
	if row == 0 {
		return nil
	}
	if a.columns {
		return a.transpose(ctx, env, max(1, max(step, transposeBytes)/row), fn)
	}
	return a.inOrder(ctx, a.rows(), row, max(1, step/row), fn)
}

// elements calls fn with all the elements in the order of the file; first is the index of b's first.
func (a *array) elements(ctx context.Context, fn func(first int64, b []byte) error) error {
	size := int64(a.elem.Size())
	return a.inOrder(ctx, a.rows()*a.dim(), size, readBytes/size, fn)
}

// inOrder reads n items of so many bytes, per of them at once.
func (a *array) inOrder(ctx context.Context, n, bytes, per int64, fn func(first int64, b []byte) error) (err error) {
	f, err := a.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	per = min(per, n)
	buf := make([]uint64, (per*bytes+7)/8) // 8-byte aligned
	for first := int64(0); first < n; first += per {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := blocks.Bytes(buf)[:min(per, n-first)*bytes]
		if k, err := io.ReadFull(f, b); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return ingest.Inputf(a.path, "truncated: element %d is not there, expected shape %v", (first*bytes+int64(k))/int64(a.elem.Size()), a.shape)
			}
			return err
		}
		if err := fn(first, b); err != nil {
			return err
		}
	}
	return a.end(f)
}

// transpose reads an array whose columns stand one after another as rows, per of them at once.
func (a *array) transpose(ctx context.Context, env ingest.Env, per int64, fn func(first int64, b []byte) error) (err error) {
	if err := a.check(ctx); err != nil {
		return err
	}
	p, err := a.plain(ctx, env)
	if err != nil {
		return err
	}
	f, err := openAt(p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	rows, dim, size := a.rows(), a.dim(), int64(a.elem.Size())
	per = min(per, rows)
	buf := make([]uint64, (per*dim*size+7)/8) // 8-byte aligned
	var column []byte
	for first := int64(0); first < rows; first += per {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(per, rows-first)
		b := blocks.Bytes(buf)[:n*dim*size]
		for c := range dim {
			if column, err = p.readElements(f, c*rows+first, n, column); err != nil {
				return err
			}
			for i := range n {
				copy(b[(i*dim+c)*size:][:size], column[i*size:])
			}
		}
		if err := fn(first, b); err != nil {
			return err
		}
	}
	return nil
}

// readElements reads n elements from the first-th of the file into buf, which it may grow.
func (a *array) readElements(f vfs.File, first, n int64, buf []byte) ([]byte, error) {
	size := int64(a.elem.Size())
	if int64(cap(buf)) < n*size {
		buf = make([]byte, n*size)
	}
	buf = buf[:n*size]
	k, err := f.ReadAt(buf, a.offset+first*size)
	if err != nil && int64(k) < n*size {
		if errors.Is(err, io.EOF) {
			return nil, ingest.Inputf(a.path, "truncated: element %d is not there, expected shape %v", first+int64(k)/size, a.shape)
		}
		return nil, fmt.Errorf("read %s: %w", a.path, err)
	}
	return buf, nil
}

// plain makes an array that can be read at any place: itself, or a copy
// unpacked into the scratch directory.
func (a *array) plain(ctx context.Context, env ingest.Env) (_ *array, err error) {
	if !a.packed() {
		return a, nil
	}
	if env.ScratchDir == "" {
		return nil, fmt.Errorf("%s: needs a scratch directory to unpack", a.path)
	}
	name := fnv.New64a()
	_, _ = name.Write([]byte(a.path))
	out := &array{fs: env.FS, path: env.FS.PathJoin(env.ScratchDir, fmt.Sprintf("unpacked-%016x", name.Sum64())), elem: a.elem, shape: a.shape, columns: a.columns}
	f, err := env.FS.Create(out.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", a.path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	err = a.elements(ctx, func(_ int64, b []byte) error {
		if _, err := f.Write(b); err != nil {
			return fmt.Errorf("unpack %s: %w", a.path, err)
		}
		return nil
	})
	return out, err
}

// widen appends integer elements to dst as 64 bits; negative ones keep their sign.
func widen(dst []uint64, elem blocks.ElemType, b []byte) []uint64 {
	le := binary.LittleEndian
	switch elem {
	case blocks.Int64, blocks.Uint64:
		n := len(b) / 8
		dst = slices.Grow(dst, n)
		copy(blocks.Bytes(dst[len(dst):len(dst)+n]), b) // as it is: hosts are little-endian
		dst = dst[:len(dst)+n]
	case blocks.Int32:
		for ; len(b) >= 4; b = b[4:] {
			dst = append(dst, uint64(int64(int32(le.Uint32(b)))))
		}
	case blocks.Uint32:
		for ; len(b) >= 4; b = b[4:] {
			dst = append(dst, uint64(le.Uint32(b)))
		}
	case blocks.Uint8:
		for _, x := range b {
			dst = append(dst, uint64(x))
		}
	case blocks.Uint16:
		for ; len(b) >= 2; b = b[2:] {
			dst = append(dst, uint64(le.Uint16(b)))
		}
	case blocks.Int8:
		for _, x := range b {
			dst = append(dst, uint64(int64(int8(x))))
		}
	}
	return dst
}
