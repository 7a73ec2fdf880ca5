package numpy

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
)

const (
	// RowBytesMax bounds a row, which is read at once, in bytes.
	RowBytesMax = 16 << 20
	// transposeBytes of rows are put together at once from columns.
	transposeBytes = 4 << 20
)

// Stream calls fn with all the rows, as many at once as step bytes hold (but one at least);
// first is the row that b begins with. Columns that are packed are first unpacked into env's scratch directory.
func (a *Array) Stream(ctx context.Context, env ingest.Env, step int64, fn func(first int64, b []byte) error) error {
	row := a.Dim() * int64(a.Elem.Size())
	if row > RowBytesMax {
		return ingest.Inputf(a.Path, "shape %v: rows of %d bytes, at most %d are read", a.Shape, row, RowBytesMax)
	}
	if row == 0 {
		return nil
	}
	if a.Columns {
		return a.transpose(ctx, env, max(1, max(step, transposeBytes)/row), fn)
	}
	return a.inOrder(ctx, a.Rows(), row, max(1, step/row), fn)
}

// Elements calls fn with all the elements in the order of the file; first is the index of b's first.
func (a *Array) Elements(ctx context.Context, fn func(first int64, b []byte) error) error {
	size := int64(a.Elem.Size())
	return a.inOrder(ctx, a.Rows()*a.Dim(), size, files.ReadBytes/size, fn)
}

// InOrder reads n items of so many bytes, per of them at once.
func (a *Array) inOrder(ctx context.Context, n, bytes, per int64, fn func(first int64, b []byte) error) (err error) {
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
				return ingest.Inputf(a.Path, "truncated: element %d is not there, expected shape %v", (first*bytes+int64(k))/int64(a.Elem.Size()), a.Shape)
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
func (a *Array) transpose(ctx context.Context, env ingest.Env, per int64, fn func(first int64, b []byte) error) (err error) {
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
	rows, dim, size := a.Rows(), a.Dim(), int64(a.Elem.Size())
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
func (a *Array) readElements(f vfs.File, first, n int64, buf []byte) ([]byte, error) {
	size := int64(a.Elem.Size())
	if int64(cap(buf)) < n*size {
		buf = make([]byte, n*size)
	}
	buf = buf[:n*size]
	k, err := f.ReadAt(buf, a.offset+first*size)
	if err != nil && int64(k) < n*size {
		if errors.Is(err, io.EOF) {
			return nil, ingest.Inputf(a.Path, "truncated: element %d is not there, expected shape %v", first+int64(k)/size, a.Shape)
		}
		return nil, fmt.Errorf("read %s: %w", a.Path, err)
	}
	return buf, nil
}

// plain makes an array that can be read at any place: itself, or a copy
// unpacked into the scratch directory.
func (a *Array) plain(ctx context.Context, env ingest.Env) (_ *Array, err error) {
	if !a.packed() {
		return a, nil
	}
	if env.ScratchDir == "" {
		return nil, fmt.Errorf("%s: needs a scratch directory to unpack", a.Path)
	}
	name := fnv.New64a()
	_, _ = name.Write([]byte(a.Path))
	out := &Array{FS: env.FS, Path: env.FS.PathJoin(env.ScratchDir, fmt.Sprintf("unpacked-%016x", name.Sum64())), Elem: a.Elem, Shape: a.Shape, Columns: a.Columns}
	f, err := env.FS.Create(out.Path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", a.Path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	err = a.Elements(ctx, func(_ int64, b []byte) error {
		if _, err := f.Write(b); err != nil {
			return fmt.Errorf("unpack %s: %w", a.Path, err)
		}
		return nil
	})
	return out, err
}
