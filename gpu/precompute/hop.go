// Package precompute makes columns that training can read instead of computing them in every mini-batch.
package precompute

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
)

// Suffix names the column that holds a feature's mean over neighbours: "x" → "x.hop1".
const Suffix = ".hop1"

// Options says what [Hop] makes. The zero value of a field means its default.
type Options struct {
	Feature string // column whose mean is taken; default "x"
	// Elem is what the means are stored as: float32, float16 or bfloat16, which training reads as
	// they are. Default: the feature's own type.
	Elem        blocks.ElemType
	MemoryBytes int64  // bound of resident memory; default: none
	Scratch     string // directory for temporary files; default: [store.Store.ScratchDir]
	// FS is where the store is; nil = the operating system's.
	FS vfs.FS
}

// Hop adds to the store in dir a version with one more feature
// column: for every node the exact mean of a feature over its neighbours, 0 for
// nodes without any (docs/findings.md, "First hop precomputed"), computed in float32 and rounded
// once to o.Elem. It streams over the store like an evaluation. It returns the column's name;
// a column that is there already is left alone, or replaced if another o.Elem is asked for. A mean
// that o.Elem cannot hold is an error, and nothing is changed.
func Hop(ctx context.Context, dir string, dev gpu.Device, o Options) (name string, err error) {
	if o.Feature == "" {
		o.Feature = "x"
	}
	st, err := store.Open(dir, store.Options{FS: o.FS, Scratch: o.Scratch})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	column, err := st.Manifest().Column(o.Feature)
	if err != nil {
		return "", err
	}
	if err := nn.CheckFeature(column.Name, column.Elem); err != nil {
		return "", err
	}
	name = o.Feature + Suffix
	old, err := st.Manifest().Column(name)
	if err == nil && (o.Elem == blocks.Invalid || o.Elem == old.Elem) {
		return name, nil
	}
	if o.Elem == blocks.Invalid {
		o.Elem = column.Elem
		if o.Elem == blocks.Int8 { // means need finer steps than their terms
			o.Elem = blocks.Float16
		}
	}
	if o.Elem == blocks.Int8 {
		return "", fmt.Errorf("train: precompute %s as %v: expected float32, float16 or bfloat16", name, o.Elem)
	}
	if err := nn.CheckFeature(name, o.Elem); err != nil {
		return "", err
	}
	w, err := store.OpenWriter(dir, store.WriterOptions{FS: o.FS})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if w.Base() == nil || w.Base().Version != st.Manifest().Version {
		return "", fmt.Errorf("train: precompute %s: the store got another version meanwhile; try again", name)
	}
	m := w.Base().Clone()
	file, bw, err := w.CreateFile("column-"+name, blocks.Header{Kind: blocks.NodeColumn, Elem: o.Elem, Dim: uint32(column.Dim), Partitions: uint32(len(m.Partitions)), Name: name})
	if err != nil {
		return "", err
	}
	if err := write(ctx, st, dev, bw, column, o); err != nil {
		return "", errors.Join(fmt.Errorf("train: precompute %s: %w", name, err), bw.Abort())
	}
	info, err := bw.Close()
	if err != nil { // such as a full disk: what was written is of no use
		return "", errors.Join(fmt.Errorf("train: precompute %s: %w", name, err), w.FS().RemoveAll(w.DataPath(file)))
	}
	if old != nil {
		m.Files = slices.DeleteFunc(m.Files, func(f store.FileRef) bool { return slices.Contains(old.Files, f.Name) })
		m.Columns = slices.DeleteFunc(m.Columns, func(c store.ColumnInfo) bool { return c.Name == name })
	}
	m.Files = append(m.Files, store.Ref(file, info))
	m.Columns = append(m.Columns, store.ColumnInfo{Name: name, Role: store.RoleFeature, Elem: o.Elem, Dim: column.Dim, Derived: "mean of " + o.Feature + " over neighbours", Files: []string{file}})
	m.Note = "neighbourhood mean of " + o.Feature
	return name, w.Commit(ctx, m)
}

// write computes the means tile by tile and appends them by partition.
func write(ctx context.Context, st *store.Store, dev gpu.Device, bw *blocks.Writer, column *store.ColumnInfo, o Options) (err error) {
	q, err := gpu.NewQueue(dev)
	if err != nil {
		return err
	}
	plan := func(memory int64) (*eval.Evaluator, error) {
		eo := eval.Options{Unlabelled: true, Features: []string{column.Name}}
		if memory > 0 {
			eo.MemoryBytes = max(memory-budget.ProgramBytes, 1)
		}
		return eval.New(st, dev, eo, column.Dim)
	}
	e, err := plan(o.MemoryBytes)
	if err != nil {
		return budget.Smallest(err, o.MemoryBytes, func(memory int64) (budget.Account, error) {
			a := budget.Account{TotalBytes: memory}
			a.Hold("program", budget.ProgramBytes, false)
			_, err := plan(memory) // holds nothing yet
			a.Hold("tiles", max(a.LeftBytes(), 0), true)
			return a, err
		})
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return e.Means(ctx, q, func(p store.PartitionID, rows gpu.Tensor) error { return writeRows(ctx, q, bw, p, rows, o.Elem) })
}

// chunkBytes of rows are encoded at a time.
const chunkBytes = 4 << 20

// writeRows appends a device matrix as an extent of elem, chunk by chunk.
func writeRows(ctx context.Context, q *gpu.Queue, bw *blocks.Writer, id store.PartitionID, t gpu.Tensor, elem blocks.ElemType) error {
	if err := bw.Begin(uint64(id)); err != nil {
		return err
	}
	chunk := max(1, chunkBytes/(4*t.Cols))
	buf := make([]float32, min(chunk, t.Rows)*t.Cols)
	for lo := 0; lo < t.Rows; lo += chunk {
		n := min(chunk, t.Rows-lo)
		rows := buf[:n*t.Cols]
		q.Download(blocks.Bytes(rows), t.View(lo, 0, n, t.Cols))
		if err := q.Sync(ctx); err != nil {
			return err
		}
		b, err := encodeFloats(rows, elem)
		if err != nil {
			return fmt.Errorf("partition %d: %w", id, err)
		}
		if _, err := bw.Write(b); err != nil {
			return err
		}
	}
	return bw.End(uint64(t.Rows))
}

// encodeFloats rounds x to elem in place, and returns the bytes, a prefix of x's memory.
func encodeFloats(x []float32, elem blocks.ElemType) ([]byte, error) {
	b := blocks.Bytes(x)
	encode, infinite := blocks.Float16Bits, uint16(0x7c00)
	switch elem {
	case blocks.Float32:
		return b, nil
	case blocks.BFloat16:
		encode, infinite = blocks.BFloat16Bits, 0x7f80
	}
	for i, v := range x { // element i is read before bytes 2i and 2i+1 are written
		h := encode(v)
		if h&infinite == infinite {
			return nil, fmt.Errorf("%w: a mean of %g does not fit %v", store.ErrInvalid, v, elem)
		}
		binary.LittleEndian.PutUint16(b[2*i:], h)
	}
	return b[:2*len(x)], nil
}
