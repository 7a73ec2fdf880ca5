package mini

import (
	"slices"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// reference is neighbour sampling written plainly: one node at a time, Go maps
// for numbering and for what was drawn. It makes the draws in the documented order
// (keyed by hop and position in the frontier; Floyd's algorithm), so that
// Sampler must agree with it exactly.
func reference(cfg Config, key Key, g Graph, seeds []uint32) Batch {
	layers := len(cfg.Fanouts)
	b := Batch{Key: key, Seeds: slices.Clone(seeds), Input: slices.Clone(seeds), Blocks: make([]Block, layers)}
	number := map[uint32]int32{}
	for i, v := range seeds {
		number[v] = int32(i)
	}
	for h := range layers {
		blk := Block{NumDst: len(b.Input), Indptr: []int32{0}}
		place := keyed.New(cfg.Seed).With(uint64(key.Epoch)).With(uint64(key.Step)).With(uint64(key.Pass)).With(uint64(key.Batch)).With(uint64(h))
		met := 0 // destinations whose edges are drawn: with Dense those of the hop before
		if h > 0 && cfg.Sampler == Dense {
			before := b.Blocks[layers-h]
			met, blk.Indptr, blk.Degrees = before.NumDst, slices.Clone(before.Indptr), slices.Clone(before.Degrees)
			blk.Indices, blk.Relations = slices.Clone(before.Indices), slices.Clone(before.Relations)
		}
		for i := met; i < blk.NumDst; i++ {
			v := b.Input[i]
			r := place.Rand(uint64(i))
			degree := g.In.Degree(v)
			edges := func(a *buffer.Adjacency, fanout int, relationsFrom int) {
				for _, p := range floyd(&r, int(a.Degree(v)), fanout) {
					k := a.Spans[v].Begin + int64(p)
					src := a.Indices[k]
					if _, ok := number[src]; !ok {
						number[src] = int32(len(b.Input))
						b.Input = append(b.Input, src)
					}
					blk.Indices = append(blk.Indices, number[src])
					if g.In.Relations != nil {
						blk.Relations = append(blk.Relations, a.Relations[k]+uint16(relationsFrom))
					}
				}
			}
			edges(g.In, cfg.Fanouts[h], 0)
			if g.Out != nil {
				fanout := cfg.Fanouts[h]
				if cfg.OutFanouts != nil {
					fanout = cfg.OutFanouts[h]
				}
				if fanout != 0 {
					degree += g.Out.Degree(v)
					edges(g.Out, fanout, g.Relations)
				}
			}
			blk.Indptr = append(blk.Indptr, int32(len(blk.Indices)))
			blk.Degrees = append(blk.Degrees, int32(degree))
		}
		blk.NumSrc = len(b.Input)
		b.Blocks[layers-1-h] = blk
	}
	return b
}

// floyd returns k different offsets below n, all of them in order if k is All or ≥ n.
func floyd(r *keyed.Rand, n, k int) []int {
	var out []int
	if k == All || k >= n {
		for i := range n {
			out = append(out, i)
		}
		return out
	}
	taken := map[int]bool{}
	for j := n - k; j < n; j++ {
		t := int(r.Below(uint64(j) + 1))
		if taken[t] {
			t = j
		}
		taken[t] = true
		out = append(out, t)
	}
	return out
}
