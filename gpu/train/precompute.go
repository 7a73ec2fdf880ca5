package train

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// HopSuffix names the column that holds a feature's mean over neighbours: "x" → "x.hop1".
const HopSuffix = ".hop1"

// meanLayer passes the exact neighbourhood mean of its input through.
type meanLayer struct{ nn.SAGE }

// HopOptions says what [PrecomputeHop] makes. The zero value of a field means its default.
type HopOptions struct {
	Feature string // column whose mean is taken; default "x"
	// Elem is what the means are stored as: float32, float16 or bfloat16, which training reads as
	// they are. Default: the feature's own type.
	Elem        blocks.ElemType
	Threads     int   // default: all processors
	MemoryBytes int64 // bound of resident memory; default: none
}

// PrecomputeHop adds to the store in dir a version with one more feature
// column: for every node the exact mean of a feature over its neighbours, 0 for
// nodes without any (docs/findings.md, "First hop precomputed"), computed in float32 and rounded
// once to o.Elem. It streams over the store like an evaluation. It returns the column's name;
// a column that is there already is left alone, or replaced if another o.Elem is asked for. A mean
// that o.Elem cannot hold is an error, and nothing is changed.
func PrecomputeHop(ctx context.Context, dir string, o HopOptions) (name string, err error) {
	if o.Feature == "" {
		o.Feature = "x"
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	column, err := st.Manifest().Column(o.Feature)
	if err != nil {
		return "", err
	}
	if err := CheckFeature(column.Name, column.Elem); err != nil {
		return "", err
	}
	name = o.Feature + HopSuffix
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
	if err := CheckFeature(name, o.Elem); err != nil {
		return "", err
	}
	w, err := store.OpenWriter(dir, store.WriterOptions{})
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
	if err := writeHop(ctx, st, bw, column, o); err != nil {
		return "", errors.Join(fmt.Errorf("train: precompute %s: %w", name, err), bw.Abort())
	}
	info, err := bw.Close()
	if err != nil {
		return "", err
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

// CheckFeature says whether training reads a feature column of a type.
func CheckFeature(name string, elem blocks.ElemType) error {
	switch elem {
	case blocks.Float32, blocks.Float16, blocks.BFloat16, blocks.Int8:
		return nil
	}
	return fmt.Errorf("train: feature %s holds %v, expected float32, float16, bfloat16 or int8", name, elem)
}

// writeHop computes the means tile by tile and appends them by partition.
func writeHop(ctx context.Context, st *store.Store, bw *blocks.Writer, column *store.ColumnInfo, o HopOptions) (err error) {
	dev := host.New(host.Options{Threads: o.Threads})
	defer func() { err = errors.Join(err, dev.Close()) }()
	q, err := gpu.NewQueue(dev)
	if err != nil {
		return err
	}
	plan := func(memory int64) (*Evaluator, error) {
		return NewEvaluator(st, dev, EvaluatorOptions{Unlabelled: true, Features: []string{column.Name}, MemoryBytes: share(memory, 1)}, column.Dim)
	}
	e, err := plan(o.MemoryBytes)
	if err != nil {
		return leastMemory(err, o.MemoryBytes, func(memory int64) error {
			_, err := plan(memory) // holds nothing yet
			return err
		})
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	r := &evaluation{Evaluator: e, queue: q}
	params := nn.NewParams(dev) // the layer's own weights are not used
	layer := &meanLayer{*nn.NewSAGE(params, 0, column.Dim, column.Dim, nn.Activation{}, 0)}
	parts := st.Manifest().Partitions
	for i, t := range e.tiles {
		acc, degrees, free, err := r.accumulators(layer, t)
		if err != nil {
			return err
		}
		err = func() error {
			defer free()
			for k := range e.tiles {
				if err := r.accumulate(ctx, layer, k, i, acc, degrees); err != nil {
					return err
				}
			}
			deg, err := dev.Map(blocks.Bytes(degrees))
			if err != nil {
				return err
			}
			q.DivideRows(acc, gpu.VectorOf(deg, 0, len(degrees), blocks.Float32))
			for p := t.lo; p < t.hi; p++ {
				if err := writeRows(ctx, q, bw, uint64(p), acc.View(int(uint64(parts[p].First)-t.base), 0, int(parts[p].Nodes), acc.Cols), e.chunkRows, o.Elem); err != nil {
					return err
				}
			}
			return nil
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

// writeRows appends a device matrix as an extent of elem, chunk by chunk.
func writeRows(ctx context.Context, q *gpu.Queue, bw *blocks.Writer, id uint64, t gpu.Tensor, chunk int, elem blocks.ElemType) error {
	if err := bw.Begin(id); err != nil {
		return err
	}
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
