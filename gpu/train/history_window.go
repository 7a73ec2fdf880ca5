package train

import (
	"slices"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/store"
)

// A budget that does not say how many partitions it will hold sets aside
// this share of it for a history's rows.
const historyShare = 16

// historyWindow is the part of a history's rows that is in memory.
type historyWindow struct {
	rows int // that it has room for
	slab *blockio.Slab
	mem  gpu.Memory
	at   map[store.PartitionID]int // first row of each partition in it
	read int64                     // bytes, by steps
}

func (w *historyWindow) open(dev gpu.Device, dim int) (err error) {
	if w.slab, err = blockio.AllocSlab(int64(w.rows)*int64(dim)*4, blockio.SlabOptions{}); err != nil {
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
		err = firstError(err, w.slab.Free())
	}
	w.mem, w.slab = nil, nil
	return err
}

// table returns the first n rows.
func (w *historyWindow) table(n, dim int) gpu.Tensor { return gpu.MatrixOf(w.mem, 0, n, dim) }

// bytes returns rows lo … hi−1.
func (w *historyWindow) bytes(lo, hi, dim int) []byte {
	row := 4 * dim
	return w.slab.Bytes()[lo*row : hi*row]
}

// windowRows is how many training nodes a step may have: those of as many of the
// fullest partitions as are resident.
func (h *history) windowRows(o historyOptions) int {
	counts := make([]int, len(h.parts))
	for p := range h.parts {
		counts[p] = h.begins[p+1] - h.begins[p]
	}
	slices.SortFunc(counts, func(a, b int) int { return b - a })
	if o.resident > 0 && o.resident < len(counts) {
		counts = counts[:o.resident]
	}
	rows := 0
	for _, n := range counts {
		rows += n
	}
	if o.memoryBytes > 0 && o.resident == 0 {
		rows = min(rows, max(int(o.memoryBytes/historyShare/int64(4*o.dim)), counts[0]))
	}
	return rows
}

// trainingNodes counts those of partitions.
func (h *history) trainingNodes(parts []store.PartitionID) (n int) {
	for _, p := range parts {
		n += h.begins[p+1] - h.begins[p]
	}
	return n
}

// load reads the rows of training nodes lo … hi−1 into the window from row at on.
func (h *history) load(at, lo, hi int) error {
	return h.sums.read(h.window.bytes(at, at+hi-lo, h.dim), uint64(lo))
}

// enter reads the rows of the partitions that a step trains.
func (h *history) enter(train []store.PartitionID) error {
	w := &h.window
	w.at = make(map[store.PartitionID]int, len(train))
	at := 0
	for _, p := range train {
		lo, hi := h.begins[p], h.begins[p+1]
		if err := h.load(at, lo, hi); err != nil {
			return err
		}
		w.at[p] = at
		at += hi - lo
	}
	w.read += int64(at) * int64(4*h.dim)
	return nil
}
