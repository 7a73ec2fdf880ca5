package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// window is the part of a history's rows that is in memory, in the order of their nodes' rows
// in the macro-batch; while the history is filled, the sums of a few nodes.
type window struct {
	rows int // that it has room for
	slab *blockio.Slab
	mem  gpu.Memory
	at   []uint32 // the macro-batch's row of each node in it, ascending
	read int64    // bytes, by steps
	// Of a layer that tells relations apart: where each node's rows begin, one more than there are nodes, and the relations that they are of.
	begin     []uint32
	relations []uint16
	missing   []uint16 // history.more's
}

func (w *window) open(dev gpu.Device, size int) (err error) {
	if w.slab, err = blockio.AllocSlab(int64(size), blockio.SlabOptions{}); err != nil {
		return err
	}
	w.mem, err = dev.Map(w.slab.Bytes())
	return err
}

func (w *window) close() (err error) {
	if w.mem != nil {
		err = w.mem.Free()
	}
	if w.slab != nil {
		err = errors.Join(err, w.slab.Free())
	}
	w.mem, w.slab = nil, nil
	return err
}

// table views the window as n rows of RowBytes that begin with dim elements.
func (w *window) table(n, dim, rowBytes int, elem blocks.ElemType) gpu.Tensor {
	return gpu.Tensor{Mem: w.mem, Rows: n, Cols: dim, Stride: rowBytes / elem.Size(), Elem: elem}
}

// floats views the window as float32, which its memory, whole pages, can always be.
func (w *window) floats() []float32 {
	x, _ := blocks.View[float32](w.slab.Bytes()[:len(w.slab.Bytes())&^3])
	return x
}

// Node returns the place among the window's nodes of that in a row of the macro-batch; where nodes have one row, it is the row's too.
func (w *window) Node(row uint32) (int, bool) { return slices.BinarySearch(w.at, row) }

// windowRows is how many destinations a step of so many partitions may have (0: of all).
func (h *Layer) windowRows(resident int) int {
	counts := make([]int, len(h.parts))
	for p := range h.parts {
		counts[p] = h.in(p)
	}
	return Fullest(counts, resident)
}

// Fullest is the sum of the n largest counts, of all if n is 0. It sorts counts.
func Fullest(counts []int, n int) (sum int) {
	slices.SortFunc(counts, func(a, b int) int { return b - a })
	if n > 0 && n < len(counts) {
		counts = counts[:n]
	}
	for _, c := range counts {
		sum += c
	}
	return sum
}

// count is the destinations of partitions.
func (h *Layer) count(parts []store.PartitionID) (n int) {
	for _, p := range parts {
		n += h.in(int(p))
	}
	return n
}

// Enter reads the rows that mb's step has.
func (h *Layer) Enter(mb *buffer.MacroBatch) error {
	w, of := &h.Window, h.destinations(&mb.Step)
	w.at, w.begin, w.relations = w.at[:0], append(w.begin[:0], 0), w.relations[:0]
	parts := slices.Clone(mb.Partitions)
	slices.SortFunc(parts, func(a, b buffer.ResidentPartition) int { return int(a.Base) - int(b.Base) })
	at := 0
	for _, p := range parts {
		if !slices.Contains(of, p.ID) {
			continue
		}
		n, first := h.in(int(p.ID)), h.begins[p.ID] // training nodes have rows of one step
		if h.every {
			k := slices.Index(h.steps[p.ID], mb.StepIndex)
			if k < 0 {
				return fmt.Errorf("train: history: step %d has partition %d, which it has not in the plan that the history was filled for", mb.StepIndex, p.ID)
			}
			first = h.first[p.ID][k]
		}
		b := w.slab.Bytes()[at*h.RowBytes():]
		if err := h.Rows.Read(b[:n*h.RowBytes()], uint64(first)); err != nil {
			return err
		}
		at += n
		for i := range int(p.Nodes) {
			if h.training != nil && !h.training.Has(uint64(p.First)+uint64(i)) {
				continue // others, with an edge or without one, are destinations
			}
			w.at = append(w.at, p.Base+uint32(i))
			if h.groups != nil {
				w.relations = append(w.relations, h.groups.of(int(p.ID), &h.parts[p.ID], i)...)
				w.begin = append(w.begin, uint32(len(w.relations)))
			}
		}
	}
	w.read += int64(at) * int64(h.RowBytes())
	return nil
}

// Set are those of a model's layers; none: nil.
type Set []*Layer

// NewSet makes those that options say, for a model that e evaluates.
func NewSet(ctx context.Context, src eval.Source, dev gpu.Device, e *eval.Evaluator, of []Options) (hs Set, err error) {
	var groups *relationGroups
	if n := of[0].Relations; n > 0 {
		if groups, err = newRelationGroups(ctx, e, src.Manifest().Partitions, n); err != nil {
			return nil, fmt.Errorf("train: history: %w", err)
		}
	}
	for _, o := range of {
		h, err := New(ctx, src, dev, groups.less(src.Manifest().Partitions, o.without), o)
		if err != nil {
			return nil, errors.Join(err, hs.Close())
		}
		hs = append(hs, h)
	}
	return hs, nil
}

// Takes implements [eval.Sink].
func (hs Set) Takes(layer int) bool {
	return slices.ContainsFunc(hs, func(h *Layer) bool { return h.Takes(layer) })
}

// Chooses implements [eval.Chooser].
func (hs Set) Chooses(layer int) (needs func(p int, node uint64) bool, wants func(to, from int) bool) {
	if len(hs) != 1 { // of relations: all layers'
		return nil, nil
	}
	return hs[0].Chooses(layer)
}

// Add implements [eval.Sink].
func (hs Set) Add(ctx context.Context, q *gpu.Queue, a *gpu.Arena, x eval.Addition) error {
	for _, h := range hs {
		if h.Takes(x.Layer) {
			return h.Add(ctx, q, a, x)
		}
	}
	return nil
}

func (hs Set) Begin(plan buffer.Plan) (err error) {
	for _, h := range hs {
		if err == nil {
			err = h.Begin(plan)
		}
	}
	return err
}

func (hs Set) Enter(mb *buffer.MacroBatch) (err error) {
	for _, h := range hs {
		if err == nil {
			err = h.Enter(mb)
		}
	}
	return err
}

func (hs Set) Close() (err error) {
	for _, h := range hs {
		err = errors.Join(err, h.Close())
	}
	return err
}

// Memory is what is in memory for the whole run.
func (hs Set) Memory() (n int64) {
	for i, h := range hs {
		if n += h.memory(); h.groups != nil && !slices.ContainsFunc(hs[:i], func(o *Layer) bool { return o.groups == h.groups }) {
			n += h.groups.memory()
		}
	}
	return n
}

// RowBytesRead returns what steps read of the rows so far.
func (hs Set) RowBytesRead() (n int64) {
	for _, h := range hs {
		n += h.Window.read
	}
	return n
}

// Took says how long filling them for this epoch was, where nothing else came of it.
func (hs Set) Took(d time.Duration) {
	for _, h := range hs {
		h.spent = 0
	}
	hs[0].spent = d
}

// Seconds returns the time spent on filling them for this epoch.
func (hs Set) Seconds() (s float64) {
	for _, h := range hs {
		s += h.spent.Seconds()
	}
	return s
}
