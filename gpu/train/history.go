package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// history holds, for every training node, what its neighbours that will not
// be in memory when it is trained contribute to the last layer's mean
// (docs/findings.md, "Historical aggregates"): the sum of their states below that
// layer over the node's degree, computed exactly with the model as it was at the start of the epoch.
//
// An epoch trains each partition in one step of its plan, so that the step's
// resident partitions are known beforehand and one row a training node is enough: dim
// elements of elem, and the float32 by which the mean over resident neighbours is divided.
// The rows lie in a temporary file, by partition and node; memory holds those that a step
// trains, and of the others one bit a node of the graph.
type history struct {
	dev   gpu.Device
	parts []store.PartitionInfo
	dim   int
	elem  blocks.ElemType // of a row: float32, float16 or bfloat16

	begins   []int        // by partition: position of its first training node; one more than there are partitions
	training *bits        // whether a node is one
	known    *bits        // whether a node has a state; nil: all have
	rows     *spill.Table // a row a training node
	sums     *spill.Table // while tiles are added up: a sum a training node, see sumColumns; nil until there are two
	dir      string       // for the files
	window   historyWindow

	// Of the plan.
	step     []int    // by partition: the step that trains it, −1: none
	resident [][]bool // by step and partition

	spent           time.Duration // filling it for this epoch
	indptr, indices []int32       // of the edges that are added up
	slots           []uint32      // of a batch
	divisors        []float32     // of a batch until its Sync; degrees of a piece
}

// historyOptions configures a history. Zero values: the first split column, float32, steps of any size.
type historyOptions struct {
	split    string
	dim      int             // columns of the hidden states
	elem     blocks.ElemType // of rows
	resident int             // partitions in memory at once, pinned ones included; 0: all
}

// newHistory counts the training nodes of a split column and makes room for their rows: for those of a step, in memory.
func newHistory(ctx context.Context, src eval.Source, dev gpu.Device, o historyOptions) (_ *history, err error) {
	m := src.Manifest()
	if o.elem == blocks.Invalid {
		o.elem = blocks.Float32
	}
	h := &history{dev: dev, parts: m.Partitions, dim: o.dim, elem: o.elem, begins: []int{0}, step: make([]int, len(m.Partitions)), dir: src.ScratchDir()}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	column, err := m.SplitColumn(o.split)
	if err != nil {
		return nil, fmt.Errorf("train: history: %w", err)
	}
	if h.training, err = newBits(m.Nodes); err != nil {
		return nil, err
	}
	var split []byte
	for p, info := range m.Partitions {
		if split, err = src.ReadColumn(ctx, column.Name, store.PartitionID(p), split); err != nil {
			return nil, err
		}
		n := h.begins[p]
		for i, s := range split {
			if s == store.SplitTrain {
				h.training.set(uint64(info.First) + uint64(i))
				n++
			}
		}
		h.begins = append(h.begins, n)
	}
	n := h.len()
	if n == 0 {
		return nil, fmt.Errorf("train: history: %w: training nodes in split column %s", store.ErrNotFound, column.Name)
	}
	h.window.rows = h.windowRows(o.resident)
	if err := h.window.open(dev, max(h.window.rows*h.rowBytes(), h.sumColumns()*4)); err != nil {
		return nil, err
	}
	h.rows, err = spill.New(uint64(n), int64(h.rowBytes()), false, h.dir)
	return h, err
}

// bits has one a node, by internal id.
type bits struct{ *blockio.Slab }

func newBits(nodes uint64) (*bits, error) {
	s, err := blockio.AllocSlab((int64(nodes)+7)/8, blockio.SlabOptions{})
	return &bits{s}, err
}

func (b *bits) set(v uint64)      { b.Bytes()[v/8] |= 1 << (v % 8) }
func (b *bits) has(v uint64) bool { return b.Bytes()[v/8]>>(v%8)&1 > 0 }

// close frees b, which may be nil.
func (b *bits) close() error {
	if b == nil || b.Slab == nil {
		return nil
	}
	return b.Free()
}

// len returns the number of training nodes.
func (h *history) len() int { return h.begins[len(h.begins)-1] }

// rowBytes is what a training node's row takes.
func (h *history) rowBytes() int { return historyRowBytes(h.dim, h.elem) }

// sumColumns is the float32 of a row that is being added up: the sum, the degree and how many
// neighbours will not be in memory.
func (h *history) sumColumns() int { return h.dim + 2 }

// bytes returns what the history holds, and the edges of one addition.
func (h *history) bytes() int64 {
	return h.memory() + historyEdgeBytes
}

// memory is what is in memory for the whole run: the window's rows and where their nodes are, and a few
// numbers a partition; 0 for nil.
func (h *history) memory() int64 {
	if h == nil {
		return 0
	}
	return historyBytes(h.window.rows, h.rowBytes(), h.parts, len(h.resident))
}

// historyBytes is what is in memory of a history with a window of rows, for a plan of steps.
func historyBytes(rows, rowBytes int, parts []store.PartitionInfo, steps int) int64 {
	nodes := uint64(0)
	for _, p := range parts {
		nodes += p.Nodes
	}
	return int64(rows)*int64(rowBytes+4) + int64(nodes+7)/8 + int64(len(parts))*int64(16+steps)
}

// HistoryCost is what [Config.History] takes, by the plan alone.
type HistoryCost struct {
	RowBytes     int   `json:"row_bytes"`     // of a training node
	WindowRows   int   `json:"window_rows"`   // the most training nodes that a step may have
	MemoryBytes  int64 `json:"memory_bytes"`  // held for the whole run
	EpochBytes   int64 `json:"epoch_bytes"`   // of rows, in a temporary file: an epoch's steps read them
	TrainingRows int64 `json:"training_rows"` // one a training node
}

// costHistory forecasts a history of rows of dim elements of elem for partitions with training nodes as
// they say, at most resident of them in memory at once, pinned ones included, in so many steps an epoch.
func costHistory(parts []store.PartitionInfo, dim int, elem blocks.ElemType, resident, steps int) HistoryCost {
	counts := make([]int, len(parts))
	c := HistoryCost{RowBytes: historyRowBytes(dim, elem)}
	for p, info := range parts {
		counts[p] = int(info.Train)
		c.TrainingRows += int64(info.Train)
	}
	c.WindowRows = fullest(counts, resident)
	c.MemoryBytes = historyBytes(c.WindowRows, c.RowBytes, parts, steps)
	c.EpochBytes = c.TrainingRows * int64(c.RowBytes)
	return c
}

// budgetBytes is what a run's budget counts for it: with the edges of one addition.
func (c HistoryCost) budgetBytes() int64 { return c.MemoryBytes + historyEdgeBytes }

// String says what it takes.
func (c HistoryCost) String() string {
	const mib = 1 << 20
	return fmt.Sprintf("history holds %.2f MiB: rows of %d bytes of at most %d training nodes a step; an epoch's steps read the rows of all %d, %.1f MiB, which lie in a temporary file",
		float64(c.MemoryBytes)/mib, c.RowBytes, c.WindowRows, c.TrainingRows, float64(c.EpochBytes)/mib)
}

func historyRowBytes(dim int, elem blocks.ElemType) int { return dim*elem.Size() + 4 }

// cost is what the history takes in plans of so many steps.
func (h *history) cost(steps int) HistoryCost {
	n, row := int64(h.len()), h.rowBytes()
	return HistoryCost{RowBytes: row, WindowRows: h.window.rows, MemoryBytes: historyBytes(h.window.rows, row, h.parts, steps), EpochBytes: n * int64(row), TrainingRows: n}
}

// rowBytesRead returns what steps read of the rows so far; 0 for nil.
func (h *history) rowBytesRead() int64 {
	if h == nil {
		return 0
	}
	return h.window.read
}

// seconds returns the time spent on filling it for this epoch; 0 for nil.
func (h *history) seconds() float64 {
	if h == nil {
		return 0
	}
	return h.spent.Seconds()
}

func (h *history) close() error {
	err := errors.Join(h.window.close(), h.training.close(), h.known.close())
	h.rows.Close()
	h.sums.Close()
	h.rows, h.sums, h.training, h.known = nil, nil, nil, nil
	return err
}

// begin prepares filling the history for an epoch with the given plan.
func (h *history) begin(plan buffer.Plan) error {
	h.spent = 0
	for p := range h.step {
		h.step[p] = -1
	}
	h.resident = h.resident[:0]
	for s, step := range plan.Steps {
		if n := h.trainingNodes(step.Train); n > h.window.rows {
			return fmt.Errorf("train: history: %w: step %d trains %d nodes, memory was set aside for %d: give more memory or fewer resident partitions", store.ErrBudget, s, n, h.window.rows)
		}
		in := make([]bool, len(h.parts))
		for _, p := range step.Reached() {
			in[p] = true
		}
		h.resident = append(h.resident, in)
		for _, p := range step.Train {
			if h.step[p] >= 0 {
				return fmt.Errorf("train: history: plan %s trains partition %d in steps %d and %d, expected one step an epoch", plan.Policy, p, h.step[p], s)
			}
			h.step[p] = s
		}
	}
	return nil
}

// of returns what completes the means of a batch's seeds in a layer.
func (h *history) of(q *gpu.Queue, a *gpu.Arena, seeds []uint32, layer int) *nn.History {
	h.slots, h.divisors = h.slots[:0], h.divisors[:0]
	for _, row := range seeds {
		slot, ok := h.window.slot(row)
		if !ok {
			q.Fail(fmt.Errorf("train: history: seed in row %d is no training node of the step", row))
			return nil
		}
		h.slots, h.divisors = append(h.slots, uint32(slot)), append(h.divisors, h.divisor(slot))
	}
	n := len(seeds)
	rest, divisors := a.Matrix(q, n, h.dim), a.Float32s(q, h.divisors)
	q.Gather(rest, h.window.table(h.window.rows, h.dim, h.rowBytes(), h.elem), a.Uint32s(q, h.slots))
	return &nn.History{Layer: layer, Divisors: divisors, Rest: rest}
}
