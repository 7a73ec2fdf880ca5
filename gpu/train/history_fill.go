package train

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
)

// historyEdges is how many edges are added up at a time, and historyEdgeBytes what their ends take.
const (
	historyEdges     = 1 << 20
	historyEdgeBytes = 2 * 4 * historyEdges
)

// Add implements [eval.Sink]: it adds the states of tile From to the sums of tile To's training nodes that will not see
// them, and finishes the rows after the last source tile.
func (h *history) Add(ctx context.Context, q *gpu.Queue, a *gpu.Arena, x eval.Addition) error {
	start := time.Now()
	defer func() { h.spent += time.Since(start) }()
	if x.In.Cols != h.dim {
		return fmt.Errorf("train: history of %d columns, hidden states have %d: %w", h.dim, x.In.Cols, gpu.ErrShape)
	}
	if !(x.First && x.Last) && h.sums == nil {
		var err error
		if h.sums, err = spill.New(uint64(h.len()), int64(4*h.sumColumns()), false, h.dir); err != nil {
			return err
		}
	}
	most := len(h.window.slab.Bytes()) / (4 * h.sumColumns())
	for p := x.To.Lo; p < x.To.Hi; p++ {
		next := uint64(h.parts[p].First) // node
		for k := h.begins[p]; k < h.begins[p+1]; {
			n := min(most, h.begins[p+1]-k)
			sums := h.window.floats()[:n*h.sumColumns()]
			if x.First {
				clear(sums)
			} else if err := h.sums.Read(blocks.Bytes(sums), uint64(k)); err != nil {
				return err
			}
			h.indptr, h.indices = append(h.indptr[:0], 0), h.indices[:0]
			done := 0
			for ; done < n && (done == 0 || len(h.indices) < historyEdges); next++ {
				if h.training.has(next) {
					degree, missing := h.collect(next-x.To.Base, p, x)
					counts := sums[done*h.sumColumns()+h.dim:]
					counts[0], counts[1] = counts[0]+degree, counts[1]+missing
					done++
				}
			}
			if err := h.addUp(ctx, q, a, x, sums[:done*h.sumColumns()], uint64(k)); err != nil {
				return err
			}
			k += done
		}
	}
	return nil
}

// collect appends the edges of a training node, position d of tile to in partition p, from nodes
// of tile from that are not resident when it is trained. It returns the numbers of all and of these; neighbours that are not
// resident and have no state count for neither.
func (h *history) collect(d uint64, p int, x eval.Addition) (degree, missing float32) {
	edges := x.Indices[x.Indptr[d]:x.Indptr[d+1]]
	before, unknown := len(h.indices), 0
	if s := h.step[p]; s >= 0 {
		resident, part := h.resident[s], x.From.Lo
		for _, u := range edges {
			part = h.owner(part, x.From, x.From.Base+uint64(u))
			switch {
			case resident[part]:
			case h.known != nil && !h.known.has(x.From.Base+uint64(u)):
				unknown++
			default:
				h.indices = append(h.indices, u)
			}
		}
	}
	h.indptr = append(h.indptr, int32(len(h.indices)))
	return float32(len(edges) - unknown), float32(len(h.indices) - before)
}

// addUp adds the collected edges to sums, the start of the window, of training nodes from k on, and stores them.
func (h *history) addUp(ctx context.Context, q *gpu.Queue, a *gpu.Arena, x eval.Addition, sums []float32, k uint64) error {
	n := len(sums) / h.sumColumns()
	table := h.window.table(n, h.dim, 4*h.sumColumns(), blocks.Float32)
	if len(h.indices) > 0 {
		g := gpu.Graph{NumDst: n, NumSrc: x.From.Nodes, Indptr: a.Int32s(q, h.indptr), Indices: a.Int32s(q, h.indices)}
		q.Aggregate(gpu.AggregateOptions{Accumulate: true}, g, x.In, table)
	}
	if x.Last {
		h.divisors = h.divisors[:0]
		for i := range n {
			h.divisors = append(h.divisors, sums[i*h.sumColumns()+h.dim])
		}
		degrees := a.Vector(q, n, blocks.Float32)
		q.Upload(degrees, blocks.Bytes(h.divisors))
		q.DivideRows(table, degrees)
	}
	if err := q.Sync(ctx); err != nil {
		return err
	}
	if err := a.Reset(); err != nil {
		return err
	}
	if x.Last {
		return h.rows.Write(h.finish(sums), k)
	}
	return h.sums.Write(blocks.Bytes(sums), k)
}

// float16Max is the largest finite float16.
const float16Max = 65504

// finish makes rows of divided sums, in place, and returns their bytes.
func (h *history) finish(sums []float32) []byte {
	out, row := blocks.Bytes(sums), h.rowBytes()
	n := len(sums) / h.sumColumns()
	for i := range n {
		x := sums[i*h.sumColumns():][:h.sumColumns()]
		degree, missing := x[h.dim], x[h.dim+1]
		divisor := float32(1)
		if have := degree - missing; have > 0 {
			divisor = degree / have
		}
		// Bytes written lie before those still to be read: rows shrink, and so do elements.
		b := out[i*row:][:row]
		switch {
		case missing == 0: // so it is with many nodes, above all where there are hubs
			clear(b)
		case h.elem == blocks.Float16:
			for j, v := range x[:h.dim] {
				binary.LittleEndian.PutUint16(b[2*j:], blocks.Float16Bits(max(-float16Max, min(v, float16Max))))
			}
		case h.elem == blocks.BFloat16:
			for j, v := range x[:h.dim] {
				binary.LittleEndian.PutUint16(b[2*j:], blocks.BFloat16Bits(v))
			}
		default:
			copy(b, blocks.Bytes(x[:h.dim]))
		}
		binary.LittleEndian.PutUint32(b[row-4:], math.Float32bits(divisor))
	}
	return out[:n*row]
}

// divisor is what a row of the window says.
func (h *history) divisor(slot int) float32 {
	row := h.rowBytes()
	return math.Float32frombits(binary.LittleEndian.Uint32(h.window.slab.Bytes()[(slot+1)*row-4:]))
}

// owner returns the partition of a node of a tile; guess is tried first.
func (h *history) owner(guess int, t eval.Tile, node uint64) int {
	if g := &h.parts[guess]; uint64(g.First) <= node && node < uint64(g.First)+g.Nodes {
		return guess
	}
	i, found := slices.BinarySearchFunc(h.parts[t.Lo:t.Hi], node, func(p store.PartitionInfo, v uint64) int {
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
	return t.Lo + i
}
