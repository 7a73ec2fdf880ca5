package train

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// historyWindow is the part of a history's rows that is in memory, in the order of their nodes' rows
// in the macro-batch; while the history is filled, the sums of a few nodes.
type historyWindow struct {
	rows int // that it has room for
	slab *blockio.Slab
	mem  gpu.Memory
	at   []uint32 // the macro-batch's row of each node in it, ascending
	read int64    // bytes, by steps
}

func (w *historyWindow) open(dev gpu.Device, size int) (err error) {
	if w.slab, err = blockio.AllocSlab(int64(size), blockio.SlabOptions{}); err != nil {
		return err
	}
	w.mem, err = dev.Map(w.slab.Bytes())
	return err
}

func (w *historyWindow) close() (err error) {
	if w.mem != nil {
		err = w.mem.Free()
	}
	if w.slab != nil {
		err = errors.Join(err, w.slab.Free())
	}
	w.mem, w.slab = nil, nil
	return err
}

// table views the window as n rows of rowBytes that begin with dim elements.
func (w *historyWindow) table(n, dim, rowBytes int, elem blocks.ElemType) gpu.Tensor {
	return gpu.Tensor{Mem: w.mem, Rows: n, Cols: dim, Stride: rowBytes / elem.Size(), Elem: elem}
}

// floats views the window as float32, which its memory, whole pages, can always be.
func (w *historyWindow) floats() []float32 {
	x, _ := blocks.View[float32](w.slab.Bytes()[:len(w.slab.Bytes())&^3])
	return x
}

// slot returns the place of the training node in a row of the macro-batch.
func (w *historyWindow) slot(row uint32) (int, bool) { return slices.BinarySearch(w.at, row) }

// windowRows is how many training nodes a step of so many partitions may have (0: of all).
func (h *history) windowRows(resident int) int {
	counts := make([]int, len(h.parts))
	for p := range h.parts {
		counts[p] = h.begins[p+1] - h.begins[p]
	}
	return fullest(counts, resident)
}

// fullest is the sum of the n largest counts, of all if n is 0. It sorts counts.
func fullest(counts []int, n int) (sum int) {
	slices.SortFunc(counts, func(a, b int) int { return b - a })
	if n > 0 && n < len(counts) {
		counts = counts[:n]
	}
	for _, c := range counts {
		sum += c
	}
	return sum
}

// trainingNodes counts those of partitions.
func (h *history) trainingNodes(parts []store.PartitionID) (n int) {
	for _, p := range parts {
		n += h.begins[p+1] - h.begins[p]
	}
	return n
}

// enter reads the rows of the nodes that mb's step trains.
func (h *history) enter(mb *buffer.MacroBatch) error {
	w := &h.window
	w.at = append(w.at[:0], mb.Seeds...)
	slices.Sort(w.at)
	parts := slices.Clone(mb.Partitions)
	slices.SortFunc(parts, func(a, b buffer.ResidentPartition) int { return int(a.Base) - int(b.Base) })
	at := 0
	for _, p := range parts {
		if !slices.Contains(mb.Step.Train, p.ID) {
			continue
		}
		n := h.begins[p.ID+1] - h.begins[p.ID]
		b := w.slab.Bytes()[at*h.rowBytes():]
		if err := h.rows.Read(b[:n*h.rowBytes()], uint64(h.begins[p.ID])); err != nil {
			return err
		}
		at += n
	}
	if at != len(w.at) {
		return fmt.Errorf("train: history: a step of partitions %v has %d training nodes, expected %d", mb.Step.Train, len(w.at), at)
	}
	w.read += int64(at) * int64(h.rowBytes())
	return nil
}
