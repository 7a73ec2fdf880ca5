package history

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/spill"
)

// historyEdges is how many edges are added up at a time, and historyEdgeBytes what their ends take.
const (
	historyEdges     = 1 << 20
	historyEdgeBytes = 2 * 4 * historyEdges
)

// Takes implements [eval.Sink].
func (h *Layer) Takes(layer int) bool { return layer == h.Input+h.Layer }

// Chooses implements [eval.Chooser]: of absent neighbours of training nodes alone. Nodes whose rows the plan leaves out need none.
func (h *Layer) Chooses(layer int) (needs func(p int, node uint64) bool, wants func(to, from int) bool) {
	if h.every || h.groups != nil || h.Known != nil || !h.Takes(layer) {
		return nil, nil
	}
	needs = func(p int, node uint64) bool { return len(h.steps[p]) > 0 && h.training.Has(node) }
	return needs, func(to, from int) bool { return len(h.steps[to]) > 0 && !h.resident[h.steps[to][0]][from] }
}

// Add implements [eval.Sink]: it adds the states of tile From to the sums of tile To's destinations that will not see
// them, and finishes the rows after the last source tile.
func (h *Layer) Add(ctx context.Context, q *gpu.Queue, a *gpu.Arena, x eval.Addition) error {
	start := time.Now()
	defer func() { h.spent += time.Since(start) }()
	cols := 0
	for _, t := range x.In.Tables {
		cols += t.Cols
	}
	if cols != h.Dim {
		return fmt.Errorf("train: history of %d columns, states have %d: %w", h.Dim, cols, gpu.ErrShape)
	}
	if !(x.First && x.Last) && h.sums == nil {
		var err error
		if h.sums, err = spill.New(uint64(h.Len()), int64(4*h.sumColumns()), false, h.dir); err != nil {
			return err
		}
	}
	for p := x.To.Lo; p < x.To.Hi; p++ {
		for k, s := range h.steps[p] {
			if err := h.addPartition(ctx, q, a, x, p, h.first[p][k], h.resident[s]); err != nil {
				return err
			}
		}
	}
	return nil
}

// addPartition adds to the rows of partition p, from row k on, those of a step with such partitions in memory.
func (h *Layer) addPartition(ctx context.Context, q *gpu.Queue, a *gpu.Arena, x eval.Addition, p, k int, resident []bool) error {
	most := len(h.Window.slab.Bytes()) / (4 * h.sumColumns()) // as many as a node has destinations, or more
	node := 0
	for end := k + h.in(p); k < end; {
		n := min(most, end-k)
		sums := h.Window.floats()[:n*h.sumColumns()]
		if x.First {
			clear(sums)
		} else if err := h.sums.Read(blocks.Bytes(sums), uint64(k)); err != nil {
			return err
		}
		h.indptr, h.indices, h.dstDegrees = append(h.indptr[:0], 0), h.indices[:0], h.dstDegrees[:0]
		done := 0
		for ; done < n && (done == 0 || len(h.indices) < historyEdges); node++ {
			size := h.size(p, node)
			if done+size > n { // the next piece's
				break
			}
			if size == 0 {
				continue
			}
			degrees, missing := h.collect(p, node, x, resident, size)
			if h.symmetric {
				h.dstDegrees = append(h.dstDegrees, x.DstDegrees[x.Position(uint64(h.parts[p].First)+uint64(node))])
			}
			for i := range size {
				counts := sums[done*h.sumColumns()+h.Dim:]
				counts[0], counts[1] = counts[0]+float32(degrees[i]), counts[1]+float32(missing[i])
				done++
			}
		}
		if err := h.addUp(ctx, q, a, x, sums[:done*h.sumColumns()], uint64(k)); err != nil {
			return err
		}
		k += done
	}
	return nil
}

// collect appends the edges of a node's destinations from nodes of tile From that are not resident when it is trained. It returns the
// numbers of all and of these, by destination, until it is called again; neighbours that are not resident and have no state count for neither.
func (h *Layer) collect(p, node int, x eval.Addition, resident []bool, size int) (degrees, missing []int) {
	degrees, missing = h.counts[:size], h.counts[size:2*size]
	clear(h.counts[:2*size])
	if h.groups != nil {
		for i, r := range h.groups.of(p, &h.parts[p], node) {
			h.place[r] = i
		}
	}
	d := x.Position(uint64(h.parts[p].First) + uint64(node))
	begin, part := x.Indptr[d], x.From.Lo
	if x.Unlisted != nil && x.First { // they are resident
		degrees[0] += int(x.Unlisted[d])
	}
	edges := x.Indices[begin:x.Indptr[d+1]]
	h.marks = h.marks[:0]
	for e, u := range edges {
		of := 0
		if h.groups != nil {
			relation := x.Relations[int(begin)+e]
			if h.without != nil && h.without[relation] {
				h.marks = append(h.marks, -1)
				continue
			}
			of = h.place[relation]
		}
		part = x.Owner(part, u)
		mark := int32(-1)
		switch {
		case resident[part]:
			degrees[of]++
		case h.Known != nil && !h.Known.Has(x.Node(u)):
		default:
			degrees[of]++
			missing[of]++
			mark = int32(of)
		}
		h.marks = append(h.marks, mark)
	}
	// Destination by destination, each one's edges in their order.
	for i := range size {
		if missing[i] > 0 {
			for e, u := range edges {
				if h.marks[e] == int32(i) {
					h.indices = append(h.indices, u)
				}
			}
		}
		h.indptr = append(h.indptr, int32(len(h.indices)))
	}
	return degrees, missing
}

// addUp adds the collected edges to sums, the start of the window, of destinations from row k on, and stores them.
func (h *Layer) addUp(ctx context.Context, q *gpu.Queue, a *gpu.Arena, x eval.Addition, sums []float32, k uint64) error {
	n := len(sums) / h.sumColumns()
	table := h.Window.table(n, h.Dim, 4*h.sumColumns(), blocks.Float32)
	if len(h.indices) > 0 {
		g := gpu.Graph{NumDst: n, NumSrc: x.From.Nodes, Indptr: a.Int32s(q, h.indptr), Indices: a.Int32s(q, h.indices)}
		o := gpu.AggregateOptions{Accumulate: true}
		if h.symmetric {
			g.SrcDegrees, g.DstDegrees = a.Int32s(q, x.SrcDegrees), a.Int32s(q, h.dstDegrees)
			o.Weights = a.Matrix(q, len(h.indices), 1)
			q.EdgeWeights(gpu.EdgeWeightOptions{Symmetric: true}, g, o.Weights)
		}
		at := 0
		for _, t := range x.In.Tables {
			q.Aggregate(o, g, t, table.View(0, at, n, t.Cols))
			at += t.Cols
		}
	}
	if x.Last {
		h.Divisors = h.Divisors[:0]
		of := h.Dim // the degree
		if h.Attention {
			of++ // how many are missing
		}
		for i := range n {
			h.Divisors = append(h.Divisors, sums[i*h.sumColumns()+of])
		}
		if !h.undivided {
			degrees := a.Vector(q, n, blocks.Float32)
			q.Upload(degrees, blocks.Bytes(h.Divisors))
			q.DivideRows(table, degrees)
		}
	}
	if err := q.Sync(ctx); err != nil {
		return err
	}
	if err := a.Reset(); err != nil {
		return err
	}
	if x.Last {
		return h.Rows.Write(h.Finish(sums), k)
	}
	return h.sums.Write(blocks.Bytes(sums), k)
}

// Finish makes rows of divided sums, in place, and returns their bytes.
func (h *Layer) Finish(sums []float32) []byte {
	out, row := blocks.Bytes(sums), h.RowBytes()
	n := len(sums) / h.sumColumns()
	for i := range n {
		x := sums[i*h.sumColumns():][:h.sumColumns()]
		degree, missing := x[h.Dim], x[h.Dim+1]
		divisor := float32(1)
		if have := degree - missing; have > 0 {
			divisor = degree / have
		}
		if h.Attention {
			divisor = missing
		}
		if h.Relations > 0 && missing == 0 {
			divisor = 0 // nothing is to be completed
		}
		// Bytes written lie before those still to be read: rows shrink, and so do elements.
		b := out[i*row:][:row]
		switch {
		case missing == 0: // so it is with many nodes, above all where there are hubs
			clear(b)
		case h.Elem == blocks.Float16:
			for j, v := range x[:h.Dim] {
				binary.LittleEndian.PutUint16(b[2*j:], blocks.Float16Bits(max(-blocks.MaxFloat16, min(v, blocks.MaxFloat16))))
			}
		case h.Elem == blocks.BFloat16:
			for j, v := range x[:h.Dim] {
				binary.LittleEndian.PutUint16(b[2*j:], blocks.BFloat16Bits(v))
			}
		default:
			copy(b, blocks.Bytes(x[:h.Dim]))
		}
		binary.LittleEndian.PutUint32(b[row-4:], math.Float32bits(divisor))
	}
	return out[:n*row]
}

// Divisor is what a row of the window says: by what a mean over resident neighbours is divided; of attention how many are absent.
func (h *Layer) Divisor(slot int) float32 {
	row := h.RowBytes()
	return math.Float32frombits(binary.LittleEndian.Uint32(h.Window.slab.Bytes()[(slot+1)*row-4:]))
}
