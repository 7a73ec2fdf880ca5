package train

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// historyEdges is how many edges are added up at a time.
const historyEdges = 1 << 20

// history holds, for every training node, what its neighbours that will not
// be in memory when it is trained contribute to the last layer's mean
// (FINDINGS, "Historical aggregates"): the sum of their states below that
// layer, computed exactly with the model as it was at the start of the epoch.
//
// An epoch trains each partition in one step of its plan, so that the step's
// resident partitions are known beforehand and one row of 4·dim bytes a training node is enough.
// The rows lie in a temporary file, by partition; memory holds those that a step
// trains, and 16 bytes a training node.
type history struct {
	dev   gpu.Device
	parts []store.PartitionInfo
	dim   int

	begins  []int // by partition: position of its first training node; one more than there are partitions
	mem     *blockio.Slab
	nodes   []uint64  // internal ids of training nodes, ascending
	degrees []float32 // of each in the whole graph
	missing []float32 // how many neighbours are not resident in its step
	sums    *states   // a row a training node
	window  historyWindow

	// Of the plan.
	step     []int    // by partition: the step that trains it, −1: none
	resident [][]bool // by step and partition

	spent           time.Duration // filling it for this epoch
	indptr, indices []int32       // of the edges that are added up
	rows            []uint32      // of a batch
	divisors, own   []float32     // of a batch, until its Sync
}

// historyOptions configures a history. Zero values: the first split column, no bound
// of memory, steps of any size.
type historyOptions struct {
	split       string
	dim         int // columns of the hidden states
	memoryBytes int64
	resident    int    // partitions in memory at once, pinned ones included; 0: not known yet
	tempDir     string // for the rows; "": the system's
}

// newHistory finds the training nodes of a split column and makes room for their rows. A
// memory budget that cannot hold what a step needs is [store.ErrBudget].
func newHistory(ctx context.Context, src Source, dev gpu.Device, o historyOptions) (_ *history, err error) {
	m := src.Manifest()
	h := &history{dev: dev, parts: m.Partitions, dim: o.dim, begins: []int{0}, step: make([]int, len(m.Partitions))}
	defer func() {
		if err != nil {
			err = firstError(err, h.close())
		}
	}()
	column, err := m.SplitColumn(o.split)
	if err != nil {
		return nil, fmt.Errorf("train: history: %w", err)
	}
	var buf []byte
	each := func(fn func(p int, split []byte)) error {
		for p := range m.Partitions {
			if buf, err = src.ReadColumn(ctx, column.Name, store.PartitionID(p), buf); err != nil {
				return err
			}
			fn(p, buf)
		}
		return nil
	}
	n := 0
	if err := each(func(_ int, split []byte) {
		for _, s := range split {
			if s == store.SplitTrain {
				n++
			}
		}
		h.begins = append(h.begins, n)
	}); err != nil {
		return nil, err
	}
	h.window.rows = h.windowRows(o)
	if need := h.bytes() + programBytes; o.memoryBytes > 0 && need >= o.memoryBytes {
		return nil, fmt.Errorf("train: history within %d bytes: %w: %d training nodes, %d of them in a step, with %d hidden columns take %d beside the program", o.memoryBytes, store.ErrBudget, n, h.window.rows, o.dim, h.bytes())
	}
	if n == 0 {
		return nil, fmt.Errorf("train: history: %w: training nodes in split column %s", store.ErrNotFound, column.Name)
	}
	if h.mem, err = blockio.AllocSlab(16*int64(n), blockio.SlabOptions{}); err != nil {
		return nil, err
	}
	b := h.mem.Bytes()
	if h.nodes, err = blocks.View[uint64](b[:8*n]); err != nil {
		return nil, err
	}
	h.degrees, h.missing = asFloat32(b[8*n:12*n]), asFloat32(b[12*n:16*n])
	at := 0
	if err := each(func(p int, split []byte) {
		for i, s := range split {
			if s == store.SplitTrain && at < n {
				h.nodes[at] = uint64(m.Partitions[p].First) + uint64(i)
				at++
			}
		}
	}); err != nil {
		return nil, err
	}
	if err := h.window.open(dev, o.dim); err != nil {
		return nil, err
	}
	h.sums, err = newStates(uint64(n), int64(o.dim)*4, false, o.tempDir)
	return h, err
}

// len returns the number of training nodes.
func (h *history) len() int { return h.begins[len(h.begins)-1] }

// bytes returns what the history holds outside the Go heap, and the edges of one addition.
func (h *history) bytes() int64 {
	return h.memory() + 2*4*historyEdges
}

// memory is what is in memory of training nodes' rows; 0 for nil.
func (h *history) memory() int64 {
	if h == nil {
		return 0
	}
	return 16*int64(h.len()) + 4*int64(h.dim)*int64(h.window.rows)
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

func (h *history) close() (err error) {
	err = h.window.close()
	if h.mem != nil {
		err = firstError(err, h.mem.Free())
	}
	h.sums.close()
	h.sums, h.mem = nil, nil
	return err
}

// begin empties the history for an epoch with the given plan.
func (h *history) begin(plan store.Plan) error {
	h.spent = 0
	if err := h.sums.zero(int64(h.len())); err != nil {
		return err
	}
	for p := range h.step {
		h.step[p] = -1
	}
	h.resident = h.resident[:0]
	for s, step := range plan.Steps {
		if n := h.trainingNodes(step.Train); n > h.window.rows {
			return fmt.Errorf("train: history: %w: step %d trains %d nodes, memory was set aside for %d: give more memory or fewer resident partitions", store.ErrBudget, s, n, h.window.rows)
		}
		in := make([]bool, len(h.parts))
		for _, p := range step.Resident {
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
	clear(h.degrees)
	clear(h.missing)
	return nil
}

// add adds the states of tile from to the sums of tile to's training nodes
// that will not see them: in is the states of from's nodes, c the edges between
// the tiles.
func (h *history) add(ctx context.Context, q *gpu.Queue, a *gpu.Arena, from, to tile, c csr, in gpu.Tensor) error {
	start := time.Now()
	defer func() { h.spent += time.Since(start) }()
	if in.Cols != h.dim {
		return fmt.Errorf("train: history of %d columns, hidden states have %d: %w", h.dim, in.Cols, gpu.ErrShape)
	}
	for p := to.lo; p < to.hi; p++ {
		for k := h.begins[p]; k < h.begins[p+1]; {
			h.indptr, h.indices = append(h.indptr[:0], 0), h.indices[:0]
			first := k
			for ; k < h.begins[p+1] && k-first < h.window.rows && (k == first || len(h.indices) < historyEdges); k++ {
				h.collect(k, p, from, to, c)
			}
			if len(h.indices) == 0 {
				continue
			}
			if err := h.load(0, first, k); err != nil {
				return err
			}
			g := gpu.Graph{NumDst: k - first, NumSrc: from.nodes, Indptr: a.Int32s(q, h.indptr), Indices: a.Int32s(q, h.indices)}
			q.Aggregate(gpu.AggregateOptions{Accumulate: true}, g, in, h.window.table(k-first, h.dim))
			if err := q.Sync(ctx); err != nil {
				return err
			}
			if err := h.sums.write(h.window.bytes(0, k-first, h.dim), uint64(first)); err != nil {
				return err
			}
			if err := a.Reset(); err != nil {
				return err
			}
		}
	}
	return q.Sync(ctx)
}

// collect appends training node k, of partition p, with its edges from nodes
// of tile from that are not resident when it is trained.
func (h *history) collect(k, p int, from, to tile, c csr) {
	d := h.nodes[k] - to.base
	edges := c.indices[c.indptr[d]:c.indptr[d+1]]
	h.degrees[k] += float32(len(edges))
	if s := h.step[p]; s >= 0 {
		resident, part := h.resident[s], from.lo
		for _, u := range edges {
			part = h.owner(part, from, from.base+uint64(u))
			if !resident[part] {
				h.indices = append(h.indices, u)
			}
		}
	}
	all := int32(len(h.indices))
	h.missing[k] += float32(all - h.indptr[len(h.indptr)-1])
	h.indptr = append(h.indptr, all)
}

// owner returns the partition of a node of a tile; guess is tried first.
func (h *history) owner(guess int, t tile, node uint64) int {
	if g := &h.parts[guess]; uint64(g.First) <= node && node < uint64(g.First)+g.Nodes {
		return guess
	}
	i, found := slices.BinarySearchFunc(h.parts[t.lo:t.hi], node, func(p store.PartitionInfo, v uint64) int {
		switch {
		case uint64(p.First)+p.Nodes <= v:
			return -1
		case uint64(p.First) > v:
			return 1
		}
		return 0
	})
	if !found {
		return guess // not reached: edges lie inside the tile
	}
	return t.lo + i
}

// of returns what completes the means of a batch's seeds, rows of mb, in a layer.
func (h *history) of(q *gpu.Queue, a *gpu.Arena, mb *store.MacroBatch, seeds []uint32, layer int) *nn.History {
	h.rows, h.divisors, h.own = h.rows[:0], h.divisors[:0], h.own[:0]
	for _, row := range seeds {
		k, at, ok := h.position(mb, row)
		if !ok {
			q.Fail(fmt.Errorf("train: history: seed in row %d is no training node", row))
			return nil
		}
		divisor, degree := float32(1), h.degrees[k]
		if have := degree - h.missing[k]; have > 0 {
			divisor = degree / have
		}
		h.rows, h.divisors, h.own = append(h.rows, uint32(at)), append(h.divisors, divisor), append(h.own, degree)
	}
	n := len(seeds)
	rest := a.Matrix(q, n, h.dim)
	q.Gather(rest, h.window.table(h.window.rows, h.dim), a.Uint32s(q, h.rows))
	degrees, divisors := a.Vector(q, n, blocks.Float32), a.Vector(q, n, blocks.Float32)
	q.Upload(degrees, blocks.Bytes(h.own))
	q.Upload(divisors, blocks.Bytes(h.divisors))
	q.DivideRows(rest, degrees)
	return &nn.History{Layer: layer, Divisors: divisors, Rest: rest}
}

// position returns the place of the training node in a row of mb, among all and in the window.
func (h *history) position(mb *store.MacroBatch, row uint32) (k, at int, ok bool) {
	for i := range mb.Partitions {
		p := &mb.Partitions[i]
		if row < p.Base || row-p.Base >= p.Nodes {
			continue
		}
		lo := h.begins[p.ID]
		begin, in := h.window.at[p.ID]
		k, found := slices.BinarySearch(h.nodes[lo:h.begins[p.ID+1]], uint64(p.First)+uint64(row-p.Base))
		return lo + k, begin + k, in && found
	}
	return 0, 0, false
}
