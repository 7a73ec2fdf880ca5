// Package precompute makes columns that training can read instead of computing them in every mini-batch.
package precompute

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
)

// suffix names the column that holds a feature's mean over neighbours: "x" → "x.hop1". Sums that a model makes have its name behind it.
const suffix = ".hop1"

// Column names what [Hop] makes of a feature: "x.hop1", of gcn and gin "x.hop1.gcn" and "x.hop1.gin".
func Column(feature string, kind eval.HopKind) string {
	if kind.Sum != "" {
		return feature + suffix + "." + kind.Sum
	}
	return feature + suffix
}

// Feature is the inverse of Column: it returns the feature that a column's name says it is made of, and whether it is of that kind.
func Feature(column string, kind eval.HopKind) (string, bool) {
	return strings.CutSuffix(column, Column("", kind))
}

// ErrRange says that what was computed is too large for the type that it is to be stored as; float32 holds it.
var ErrRange = fmt.Errorf("%w: out of range", store.ErrInvalid)

// IsHop reports whether a column is one that [Hop] made, or was when it was exported.
func IsHop(c *store.ColumnInfo) bool {
	for _, sum := range append(nn.Models(func(k *nn.Kind) bool { return k.Hop == nn.HopSum }), "") {
		if _, ok := Feature(c.Name, eval.HopKind{Sum: sum}); ok {
			return true
		}
	}
	return false
}

// Options says what [Hop] makes. The zero value of a field means its default.
type Options struct {
	Features []string // columns whose means are taken; default: all of role feature that are no hop
	// Elem is what the means are stored as: float32, float16 or bfloat16, which training reads as
	// they are. Default: each feature's own type.
	Elem blocks.ElemType
	// Model is whose first layer reads the columns: "sage" (default) a mean, "gcn" or "gin" a sum instead of the features.
	Model string
	// EdgeWeights weighs neighbours by their edges' weights, as models with [nn.Config].EdgeWeights do.
	EdgeWeights bool
	// EachRelation takes a mean over neighbours by each relation, see [RelationMean], instead of one over all: what the model rsage reads.
	EachRelation bool
	MemoryBytes  int64  // bound of resident memory; default: [budget.Unasked]
	Scratch      string // directory for temporary files; default: [store.Store.ScratchDir]
	// FS is where the store is; nil = the operating system's.
	FS vfs.FS
}

// model describes a model that reads the columns.
func (o *Options) model() nn.Config { return nn.Config{Model: o.Model, EdgeWeights: o.EdgeWeights} }

// kind is what the columns hold.
func (o *Options) kind() eval.HopKind {
	m := o.model()
	return eval.KindOf(&m)
}

// hasHop reports whether models of a kind read a column that holds what their first layer makes of all neighbours.
func hasHop(k *nn.Kind) bool { return k.Hop == nn.HopMean || k.Hop == nn.HopSum }

// Hop adds to the store in dir a version with a feature
// column more for each of o.Features, or several with o.EachRelation: for every node the exact mean of the feature over its neighbours, 0
// for nodes without any, or the sum that o.Model makes (docs/lab/findings.md, "First hop precomputed"), computed in float32 and rounded
// once to o.Elem. It streams over the store like an evaluation, once a feature. It returns the columns' names;
// one that is there already is left alone, or replaced if another o.Elem, or o.EdgeWeights, is asked for. What
// o.Elem cannot hold is [ErrRange], and nothing is changed.
func Hop(ctx context.Context, dir string, dev gpu.Device, o Options) (names []string, err error) {
	st, err := store.Open(dir, store.Options{FS: o.FS, Scratch: o.Scratch})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if o.MemoryBytes == 0 {
		o.MemoryBytes, _ = budget.Unasked(st.Manifest(), 0)
	}
	model := o.model()
	if kind := model.Kind(); !hasHop(&kind) || o.EdgeWeights && kind.Weights == "" {
		return nil, fmt.Errorf("train: precompute: model %q reads no precomputed hop with edge weights %v: %s read one, and %s with edge weights: %w", o.Model, o.EdgeWeights,
			nn.Only(hasHop), nn.Only(func(k *nn.Kind) bool { return hasHop(k) && k.Weights != "" }), store.ErrInvalid)
	}
	hops, err := plan(st.Manifest(), o)
	if err != nil {
		return nil, err
	}
	var wanted []hop
	for _, h := range hops {
		names = append(names, h.name)
		if !h.there {
			wanted = append(wanted, h)
		}
	}
	if len(wanted) == 0 {
		return names, nil
	}
	w, err := store.OpenWriter(dir, store.WriterOptions{FS: o.FS})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if w.Base() == nil || w.Base().Version != st.Manifest().Version {
		return nil, fmt.Errorf("train: precompute: the store got another version meanwhile; try again")
	}
	m := w.Base().Clone()
	var made, of []string // files, features
	for _, h := range wanted {
		file, err := h.make(ctx, st, dev, w, m, o)
		if err != nil {
			for _, f := range made { // no version will name them
				err = errors.Join(err, w.FS().Remove(w.DataPath(f)))
			}
			return nil, fmt.Errorf("train: precompute %s: %w", h.name, err)
		}
		made, of = append(made, file), append(of, h.column.Name)
	}
	m.Note = o.kind().Derived(strings.Join(of, ", "))
	return names, w.Commit(ctx, m)
}

// hop is a column to make.
type hop struct {
	name     string
	column   *store.ColumnInfo // whose mean it is
	elem     blocks.ElemType
	there    bool          // with elements of elem
	relation *RelationMean // nil: it is over all neighbours
}

// plan lists the columns that o asks for.
func plan(m *store.Manifest, o Options) (hops []hop, err error) {
	features := o.Features
	if len(features) == 0 {
		for _, c := range m.ColumnsOf(store.RoleFeature) {
			if !IsHop(c) {
				features = append(features, c.Name)
			}
		}
	}
	if len(features) == 0 {
		return nil, fmt.Errorf("train: precompute: %w: the store has no feature columns", store.ErrNotFound)
	}
	var columns []*store.ColumnInfo
	for _, name := range features {
		c, err := m.Column(name)
		if err != nil {
			return nil, fmt.Errorf("train: precompute: %w", err)
		}
		if err := nn.CheckFeature(name, c.Elem); err != nil {
			return nil, err
		}
		columns = append(columns, c)
		h := hop{name: Column(name, o.kind()), column: c, elem: o.Elem}
		old, err := m.Column(h.name)
		h.there = err == nil && o.kind().Holds(old) && (o.Elem == blocks.Invalid || o.Elem == old.Elem)
		hops = append(hops, h)
	}
	if o.EachRelation {
		if hops, err = ofRelations(m, columns, o); err != nil {
			return nil, err
		}
	}
	for i := range hops {
		h := &hops[i]
		if h.there {
			continue
		}
		if h.elem == blocks.Invalid {
			h.elem = meanElem(h.column)
		}
		if h.elem == blocks.Int8 {
			return nil, fmt.Errorf("train: precompute %s as %v: expected float32, float16 or bfloat16", h.name, h.elem)
		}
		if err := nn.CheckFeature(h.name, h.elem); err != nil {
			return nil, err
		}
	}
	return hops, nil
}

// meanElem returns the type that means of a column are stored as unasked: the column's own, or of int8, where they need finer steps than
// their terms, float16, or float32 where a term can be too large for float16.
func meanElem(c *store.ColumnInfo) blocks.ElemType {
	if c.Elem != blocks.Int8 {
		return c.Elem
	}
	for _, scale := range c.Scale {
		if math.MaxInt8*math.Abs(float64(scale)) > blocks.MaxFloat16 {
			return blocks.Float32
		}
	}
	return blocks.Float16
}

// make writes the column's file and enters it in m, in place of one that was there. A failure leaves no file.
func (h *hop) make(ctx context.Context, st *store.Store, dev gpu.Device, w *store.Writer, m *store.Manifest, o Options) (string, error) {
	info := h.info(m, o, "")
	file, bw, err := w.CreateFile("column-"+h.name, blocks.Header{Kind: blocks.NodeColumn, Elem: h.elem, Dim: uint32(info.Dim), Partitions: uint32(len(m.Partitions)), Name: h.name})
	if err != nil {
		return "", err
	}
	info.Files = []string{file}
	if err := h.write(ctx, st, dev, bw, &info, o); err != nil {
		return "", errors.Join(err, bw.Abort())
	}
	written, err := bw.Close()
	if err != nil { // such as a full disk: what was written is of no use
		return "", errors.Join(err, w.FS().RemoveAll(w.DataPath(file)))
	}
	if old, err := m.Column(h.name); err == nil {
		files := slices.Clone(old.Files)
		m.Files = slices.DeleteFunc(m.Files, func(f store.FileRef) bool { return slices.Contains(files, f.Name) })
		m.Columns = slices.DeleteFunc(m.Columns, func(c store.ColumnInfo) bool { return c.Name == h.name })
	}
	m.Files, m.Columns = append(m.Files, store.Ref(file, written)), append(m.Columns, info)
	return file, nil
}

// evaluator computes the column's rows within so many bytes of memory, with the program; 0: no bound.
func (h *hop) evaluator(src eval.Source, dev gpu.Device, o Options, memory int64) (*eval.Evaluator, error) {
	eo := eval.Options{Unlabelled: true, Features: []string{h.column.Name}, Model: o.model()}
	dim := h.column.Dim
	if h.relation != nil {
		eo.Relation = 1 + h.relation.Relation
		dim++ // see [RelationMean]
	}
	if memory > 0 {
		eo.MemoryBytes = max(memory-budget.ProgramBytes, 1)
	}
	return eval.New(src, dev, eo, dim)
}

// planned is a store that is not there yet, of which nothing but the manifest is known.
type planned struct {
	eval.Source
	manifest *store.Manifest
}

func (p planned) Manifest() *store.Manifest { return p.manifest }

// LeastBytes is the smallest o.MemoryBytes with which [Hop] works on a store of manifest m, of which it looks at the schema, the
// columns, and the nodes and edges of partitions; 0 if no column is missing.
func LeastBytes(m *store.Manifest, dev gpu.Device, o Options) (bytes int64, err error) {
	hops, err := plan(m, o)
	if err != nil {
		return 0, err
	}
	for _, h := range hops {
		if h.there {
			continue
		}
		e, err := h.evaluator(planned{manifest: m}, dev, o, 0)
		if err != nil {
			return 0, err
		}
		bytes = max(bytes, budget.ProgramBytes+e.LeastBytes())
		if err := e.Close(); err != nil {
			return 0, err
		}
	}
	return bytes, nil
}

// write computes the means tile by tile and appends the rows of column info, by partition.
func (h *hop) write(ctx context.Context, st *store.Store, dev gpu.Device, bw *blocks.Writer, info *store.ColumnInfo, o Options) (err error) {
	q, err := gpu.NewQueue(dev)
	if err != nil {
		return err
	}
	open := func(memory int64) (*eval.Evaluator, error) { return h.evaluator(st, dev, o, memory) }
	e, err := open(o.MemoryBytes)
	if err != nil {
		return budget.Smallest(err, o.MemoryBytes, func(memory int64) (budget.Account, error) {
			a := budget.Account{TotalBytes: memory}
			a.Hold(budget.Program, budget.ProgramBytes, false)
			_, err := open(memory) // holds nothing yet
			a.Hold("tiles", max(a.LeftBytes(), 0), true)
			return a, err
		})
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return e.Hop(ctx, q, func(p store.PartitionID, rows gpu.Tensor, degrees []float32) error {
		stored := st.Manifest().NodeRows(info, p)
		first, n := int(stored.First), int(stored.Rows)
		if h.relation == nil {
			degrees = nil
		} else {
			degrees = degrees[first : first+n]
		}
		return writeRows(ctx, q, bw, p, rows.View(first, 0, n, rows.Cols), degrees, h.elem)
	})
}

// chunkBytes of rows are encoded at a time.
const chunkBytes = 4 << 20

// writeRows appends a device matrix as an extent of elem, chunk by chunk; with degrees, of its rows, as rows with an element more: 1
// where the degree is more than 0.
func writeRows(ctx context.Context, q *gpu.Queue, bw *blocks.Writer, id store.PartitionID, t gpu.Tensor, degrees []float32, elem blocks.ElemType) error {
	if err := bw.Begin(uint64(id)); err != nil {
		return err
	}
	cols := t.Cols
	if degrees != nil {
		cols++
	}
	chunk := max(1, chunkBytes/(4*cols))
	buf := make([]float32, min(chunk, t.Rows)*cols)
	for lo := 0; lo < t.Rows; lo += chunk {
		n := min(chunk, t.Rows-lo)
		rows := buf[:n*t.Cols]
		q.Download(blocks.Bytes(rows), t.View(lo, 0, n, t.Cols))
		if err := q.Sync(ctx); err != nil {
			return err
		}
		if degrees != nil {
			rows = withDegrees(buf[:n*cols], degrees[lo:lo+n])
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

// withDegrees moves the rows at the beginning of x, of one column less, apart, and ends each with 1, or 0 where its degree is.
func withDegrees(x, degrees []float32) []float32 {
	cols := len(x) / max(1, len(degrees))
	for i := len(degrees) - 1; i >= 0; i-- { // the last first: none is written over before it is moved
		row := x[i*cols : (i+1)*cols]
		copy(row, x[i*(cols-1):(i+1)*(cols-1)])
		row[cols-1] = min(degrees[i], 1)
	}
	return x
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
			return nil, fmt.Errorf("%w: %g does not fit %v", ErrRange, v, elem)
		}
		binary.LittleEndian.PutUint16(b[2*i:], h)
	}
	return b[:2*len(x)], nil
}
