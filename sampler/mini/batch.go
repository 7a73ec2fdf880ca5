// Package mini samples mini-batches from a macro-batch: stage two of
// multistage sampling.
package mini

// Block is one hop's message-flow graph in DGL's convention: a bipartite graph
// from NumSrc source nodes to NumDst destination nodes, the destinations being
// the first NumDst sources in the same order. Compressed by destination.
type Block struct {
	NumDst, NumSrc int
	Indptr         []int32 // len NumDst+1; edges of destination d are Indptr[d]:Indptr[d+1]
	Indices        []int32 // len edges; source positions, 0 ≤ s < NumSrc
	// Relations is parallel to Indices; nil if the graph has one relation.
	Relations []uint16
	// Degrees holds each destination's full in-degree in the macro-batch (before sampling); len NumDst.
	Degrees []int32
}

// Batch is what one optimiser step trains on. Blocks[0] is the input block
// (farthest from the seeds), the last one ends in the seeds: len = layers.
// Its memory belongs to the sampler that filled it and is reused.
type Batch struct {
	Seeds  []uint32 // rows of the macro-batch: the last block's destinations
	Blocks []Block
	Input  []uint32 // rows of the macro-batch whose features feed Blocks[0]: its sources
}

// SampledEdges returns the number of edges over all blocks.
func (b *Batch) SampledEdges() int {
	n := 0
	for i := range b.Blocks {
		n += len(b.Blocks[i].Indices)
	}
	return n
}
