// Package sparse holds a feature most of whose elements are 0, such as a bag of words, by those that are not: rows of 3,703 columns of
// which 32 are words take 260 bytes instead of 14.5 KiB, and a first layer multiplies these alone ([gpu.Queue.SparseGemm]).
package sparse

import (
	"context"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/store"
)

const (
	// ColumnsMin is the fewest columns of a feature that is worth it.
	ColumnsMin = 64
	// Share is the part of the elements that may be other than 0: products by single elements take some twenty times as long as those of
	// whole tiles.
	Share = 1. / 32
	// sampleRuns of sampleRows consecutive rows say what share is.
	sampleRuns, sampleRows = 32, 16
	// readBytes are read at a time.
	readBytes = 1 << 20
)

// Counts are how many elements of a feature are not 0.
type Counts struct {
	Rows, Cols int
	Elements   int64
	Most       int // of one row
}

// Bytes is what the feature's rows take.
func (c Counts) Bytes() int64 { return 4*int64(c.Rows+1) + 8*c.Elements }

// DenseBytes is what they take with their zeros.
func (c Counts) DenseBytes() int64 { return 4 * int64(c.Rows) * int64(c.Cols) }

// Of is about what so many rows of the column take, of which c counted some.
func (c Counts) Of(rows uint64) int64 {
	return int64(float64(c.Bytes()) * float64(rows) / float64(max(c.Rows, 1)))
}

// Within is how many elements so many rows have at most.
func (c Counts) Within(rows int) int64 { return min(c.Elements, int64(rows)*int64(c.Most)) }

// SortBytes is what a product takes of so many of the rows, which are sorted by column for the gradient.
func (c Counts) SortBytes(rows int) int64 { return 8*c.Within(rows) + 4*int64(c.Cols) }

// Add counts rows of float32. Only +0 is 0: other bits are kept.
func (c *Counts) Add(rows []float32) {
	for ; len(rows) > 0; rows = rows[c.Cols:] {
		n := 0
		for _, x := range rows[:c.Cols] {
			if math.Float32bits(x) != 0 {
				n++
			}
		}
		c.Row(n)
	}
}

// Row counts a row of so many elements other than 0.
func (c *Counts) Row(elements int) {
	c.Rows, c.Elements, c.Most = c.Rows+1, c.Elements+int64(elements), max(c.Most, elements)
}

// Few reports whether few enough elements are not 0.
func (c Counts) Few() bool {
	return c.Elements <= math.MaxInt32 && float64(c.Elements) <= Share*float64(c.Rows)*float64(c.Cols)
}

// Fits reports whether a column can be held so: float32 of all nodes.
func Fits(c *store.ColumnInfo) bool {
	return c.Elem == blocks.Float32 && c.Dim >= ColumnsMin && c.Scale == nil && c.NodeType == "" && !c.Runs
}

// Sample is what some rows from all over a column have.
type Sample struct {
	Counts
	Squares float64 // the sum of their elements' squares
}

// SquaredNorm is the mean of the rows' squared norms.
func (s *Sample) SquaredNorm() float64 { return s.Squares / float64(max(1, s.Rows)) }

// Sampled counts rows from all over the column: the same for every run on a version of a store.
func Sampled(ctx context.Context, st *store.Store, c *store.ColumnInfo) (*Sample, error) {
	var nodes []store.NodeID
	n := st.Manifest().Nodes
	for run := range uint64(sampleRuns) {
		for v := n * run / sampleRuns; v < min(n*run/sampleRuns+sampleRows, n*(run+1)/sampleRuns); v++ {
			nodes = append(nodes, store.NodeID(v))
		}
	}
	of := &Sample{Counts: Counts{Cols: c.Dim}}
	var buf []byte
	for len(nodes) > 0 {
		k := min(len(nodes), max(1, readBytes/c.RowBytes()))
		rows, err := features(ctx, st, c, nodes[:k], &buf)
		if err != nil {
			return nil, err
		}
		of.Add(rows)
		for _, x := range rows {
			of.Squares += float64(x) * float64(x)
		}
		nodes = nodes[k:]
	}
	return of, nil
}

// Count counts all of a column. It reads it once.
func Count(ctx context.Context, st *store.Store, c *store.ColumnInfo) (Counts, error) {
	of := Counts{Cols: c.Dim}
	err := each(ctx, st, c, func(rows []float32) { of.Add(rows) })
	return of, err
}

// each reads a column from front to back.
func each(ctx context.Context, st *store.Store, c *store.ColumnInfo, fn func(rows []float32)) error {
	n, per := st.Manifest().Nodes, uint64(max(1, readBytes/c.RowBytes()))
	nodes, buf := make([]store.NodeID, 0, per), []byte(nil)
	for at := uint64(0); at < n; at += per {
		nodes = nodes[:0]
		for v := at; v < min(n, at+per); v++ {
			nodes = append(nodes, store.NodeID(v))
		}
		rows, err := features(ctx, st, c, nodes, &buf)
		if err != nil {
			return err
		}
		fn(rows)
	}
	return nil
}

func features(ctx context.Context, st *store.Store, c *store.ColumnInfo, nodes []store.NodeID, buf *[]byte) (rows []float32, err error) {
	if *buf, err = st.Features(ctx, c.Name, nodes, *buf); err != nil {
		return nil, fmt.Errorf("train: feature %s: %w", c.Name, err)
	}
	return blocks.View[float32](*buf)
}

// Table is a feature's rows, by internal id, in memory off the Go heap.
type Table struct {
	cols     int
	slab     *blockio.Slab
	mems     []gpu.Memory
	elements gpu.Sparse // of no rows
}

// Open reads a column whose elements were counted into memory, which dev reads in place.
func Open(ctx context.Context, st *store.Store, dev gpu.Device, c *store.ColumnInfo, of Counts, threads int) (_ *Table, err error) {
	t := &Table{cols: of.Cols}
	defer func() {
		if err != nil {
			_ = t.Close()
		}
	}()
	if t.slab, err = blockio.AllocSlab(of.Bytes(), blockio.SlabOptions{Threads: threads}); err != nil {
		return nil, err
	}
	words, err := blocks.View[int32](t.slab.Bytes())
	if err != nil {
		return nil, err
	}
	n := int(of.Elements)
	indptr, columns := words[:of.Rows+1], words[of.Rows+1:of.Rows+1+n]
	values, err := blocks.View[float32](t.slab.Bytes()[4*(of.Rows+1+n):])
	if err != nil {
		return nil, err
	}
	row, at := 0, 0
	err = each(ctx, st, c, func(rows []float32) {
		for ; len(rows) > 0 && row < of.Rows; rows, row = rows[t.cols:], row+1 {
			for j, x := range rows[:t.cols] {
				if math.Float32bits(x) == 0 {
					continue
				}
				if at < n {
					columns[at], values[at] = int32(j), x
				}
				at++
			}
			indptr[row+1] = int32(at)
		}
	})
	if err != nil {
		return nil, err
	}
	if row != of.Rows || at != n {
		return nil, fmt.Errorf("train: feature %s has %d rows of %d elements other than 0, had %d of %d when they were counted: %w", c.Name, row, at, of.Rows, n, store.ErrCorrupt)
	}
	t.elements = gpu.Sparse{Cols: t.cols, Indptr: t.vector(dev, &err, blocks.Bytes(indptr), blocks.Int32),
		Columns: t.vector(dev, &err, blocks.Bytes(columns), blocks.Int32), Values: t.vector(dev, &err, blocks.Bytes(values), blocks.Float32)}
	return t, err
}

// vector maps b into dev.
func (t *Table) vector(dev gpu.Device, err *error, b []byte, elem blocks.ElemType) gpu.Tensor {
	if *err != nil || len(b) == 0 {
		return gpu.Tensor{}
	}
	var m gpu.Memory
	if m, *err = dev.Map(b); *err != nil {
		return gpu.Tensor{}
	}
	t.mems = append(t.mems, m)
	return gpu.VectorOf(m, 0, len(b)/elem.Size(), elem)
}

// Bytes is what it takes.
func (t *Table) Bytes() int64 { return int64(len(t.slab.Bytes())) }

// Rows are the rows of an index, uint32[1×n].
func (t *Table) Rows(index gpu.Tensor) gpu.Sparse {
	s := t.elements
	s.Index = index
	return s
}

// Close frees the memory. Nothing may read it any more.
func (t *Table) Close() error {
	if t == nil {
		return nil
	}
	for _, m := range t.mems { // borrowed: nothing can fail
		_ = m.Free()
	}
	t.mems = nil
	return t.slab.Free()
}
