// Package spill keeps temporary rows of a fixed size, one a node, off the Go heap: in memory where the
// budget allows it, otherwise in an unlinked temporary file, which is gone whatever ends the process. A table
// may also be a view of what lies elsewhere, such as a table of embeddings.
//
// A Table is for one goroutine.
package spill

import (
	"fmt"
	"os"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
)

// Table is a temporary table of rows of RowBytes; nil is one that is closed.
type Table struct {
	RowBytes int64
	slab     *blockio.Slab
	file     *os.File
	fill     func(b []byte, first uint64) error

	read, written int64 // bytes of the file
}

// New makes a table; dir is where a file would lie ([store.Store.ScratchDir]).
func New(rows uint64, rowBytes int64, inMemory bool, dir string) (*Table, error) {
	t := &Table{RowBytes: rowBytes}
	var err error
	if inMemory {
		t.slab, err = blockio.AllocSlab(max(int64(rows)*rowBytes, 1), blockio.SlabOptions{})
		return t, err
	}
	if t.file, err = blocks.Unnamed(dir, "gstore-states-"); err != nil {
		return nil, fmt.Errorf("spill: temporary file: %w", err)
	}
	return t, nil
}

// View is a table to read from: fill reads whole rows from row first on into b.
func View(rowBytes int64, fill func(b []byte, first uint64) error) *Table {
	return &Table{RowBytes: rowBytes, fill: fill}
}

// InPlace returns n rows from row first on where they lie in memory, nil if they don't.
func (t *Table) InPlace(first uint64, n int) []byte {
	if t.slab == nil {
		return nil
	}
	at := int64(first) * t.RowBytes
	return t.slab.Bytes()[at : at+int64(n)*t.RowBytes]
}

// Read copies rows from row first on into b, whole rows.
func (t *Table) Read(b []byte, first uint64) error {
	if t.slab != nil {
		copy(b, t.slab.Bytes()[int64(first)*t.RowBytes:])
		return nil
	}
	if t.fill != nil {
		return t.fill(b, first)
	}
	if _, err := t.file.ReadAt(b, int64(first)*t.RowBytes); err != nil {
		return fmt.Errorf("spill: read from row %d: %w", first, err)
	}
	t.read += int64(len(b))
	return nil
}

// Kept reports whether the table holds its rows, not who fills them.
func (t *Table) Kept() bool { return t.fill == nil }

// Rows returns n rows from row first on: in place, or read into *buf.
func (t *Table) Rows(buf **blockio.Slab, first uint64, n int) ([]byte, error) {
	if b := t.InPlace(first, n); b != nil {
		return b, nil
	}
	if err := Grow(buf, int64(n)*t.RowBytes); err != nil {
		return nil, err
	}
	b := (*buf).Bytes()[:int64(n)*t.RowBytes]
	return b, t.Read(b, first)
}

// Write stores whole rows from row first on.
func (t *Table) Write(b []byte, first uint64) error {
	if t.slab != nil {
		copy(t.slab.Bytes()[int64(first)*t.RowBytes:], b)
		return nil
	}
	if _, err := t.file.WriteAt(b, int64(first)*t.RowBytes); err != nil {
		return fmt.Errorf("spill: write from row %d: %w", first, err)
	}
	t.written += int64(len(b))
	return nil
}

// Memory returns the bytes of memory that a table holds.
func (t *Table) Memory() int64 {
	if t == nil || t.slab == nil {
		return 0
	}
	return int64(len(t.slab.Bytes()))
}

// Moved returns the bytes read from and written to a table in a file.
func (t *Table) Moved() (read, written int64) {
	if t == nil {
		return 0, 0
	}
	return t.read, t.written
}

// Close frees the table.
func (t *Table) Close() {
	if t == nil {
		return
	}
	if t.slab != nil {
		_ = t.slab.Free() // temporary: nothing is lost
	}
	if t.file != nil {
		_ = t.file.Close()
	}
}

// Grow makes *s at least size bytes; its content is lost if it was smaller.
func Grow(s **blockio.Slab, size int64) error {
	if *s != nil {
		if int64(len((*s).Bytes())) >= size {
			return nil
		}
		if err := (*s).Free(); err != nil {
			return err
		}
		*s = nil
	}
	var err error
	*s, err = blockio.AllocSlab(size, blockio.SlabOptions{})
	return err
}
