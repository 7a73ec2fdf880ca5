package mini

import (
	"fmt"

	"github.com/gstore/gstore/sampler/keyed"
)

// dense is the hops of [Dense]: all draw into b.Blocks[0], of which the other blocks are prefixes. Nodes keep their numbers from
// hop to hop, so that what was drawn for a node stands as it is for the layers to come. MariusGNN stacks the newest nodes in
// front and moves its offsets instead; its update after a layer (algorithm 2), which takes the oldest edges off, is here the
// shorter prefix.
func (s *Sampler) dense(place keyed.Key, g Graph, b *Batch) error {
	layers := len(b.Blocks)
	all, met := &b.Blocks[0], 0 // destinations whose edges are drawn
	for h := range layers {
		n := len(b.Input)
		if err := s.hop(place.With(uint64(h)), h, met, g, b, all); err != nil {
			return fmt.Errorf("hop %d: %w", h, err)
		}
		// The memory of all may move until the last hop is over: until then a block is its sizes.
		b.Blocks[layers-1-h].NumDst, b.Blocks[layers-1-h].NumSrc, met = n, len(b.Input), n
	}
	for i := 1; i < layers; i++ {
		k := &b.Blocks[i]
		k.Indptr, k.Degrees = all.Indptr[:k.NumDst+1], all.Degrees[:k.NumDst]
		edges := k.Indptr[k.NumDst]
		k.Indices = all.Indices[:edges]
		if all.Relations != nil {
			k.Relations = all.Relations[:edges]
		}
		if s.cfg.Weights {
			k.Weights = all.Weights[:edges]
		}
		if s.cfg.Places {
			k.Places = all.Places[:edges]
		}
	}
	b.Nested = true
	return nil
}
