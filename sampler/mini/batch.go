package mini

// Block is one hop's message-flow graph in DGL's convention: a bipartite graph
// from NumSrc source nodes to NumDst destination nodes, the destinations being
// the first NumDst sources in the same order. Compressed by destination.
type Block struct {
	NumDst, NumSrc int
	Indptr         []int32 // len NumDst+1; edges of destination d are Indptr[d]:Indptr[d+1]
	Indices        []int32 // len edges; source positions, 0 ≤ s < NumSrc
	// Relations is parallel to Indices; nil if the graph has one relation.
	// An edge of [Graph.Out] bears its relation plus Graph.Relations.
	Relations []uint16
	// Weights is parallel to Indices where [Config.Weights] asks for them: what each edge weighs, as [buffer.Weight] has it.
	Weights []float32
	// Places is parallel to Indices where [Config.Places] asks for them: where in the macro-batch's Indices each edge lies; of an edge of
	// [Graph.Out] the complement of it.
	Places []int64
	// Times is parallel to Indices where seeds have moments ([Sampler.SampleAt]): when each edge was.
	Times []int64
	// Visits is parallel to Indices where walks found the neighbours ([Pinsage]): how often they came there, a neighbour's importance.
	Visits []int32
	// Degrees holds each destination's full degree in the macro-batch (before
	// sampling, both directions where both are sampled); len NumDst.
	Degrees []int32
}

// Removed in place of a source marks an edge that [Block.Compact] takes out.
const Removed = -1

// Compact takes out the edges whose source is [Removed]; destinations' degrees
// fall by theirs. Sources stay, with edges or without.
func (k *Block) Compact() {
	to := int32(0)
	begin := k.Indptr[0]
	for d := range k.NumDst {
		end := k.Indptr[d+1]
		for e := begin; e < end; e++ {
			if k.Indices[e] == Removed {
				k.Degrees[d]--
				continue
			}
			k.Indices[to] = k.Indices[e]
			if k.Relations != nil {
				k.Relations[to] = k.Relations[e]
			}
			if len(k.Weights) > 0 {
				k.Weights[to] = k.Weights[e]
			}
			if len(k.Places) > 0 {
				k.Places[to] = k.Places[e]
			}
			if len(k.Times) > 0 {
				k.Times[to] = k.Times[e]
			}
			if len(k.Visits) > 0 {
				k.Visits[to] = k.Visits[e]
			}
			to++
		}
		begin, k.Indptr[d+1] = end, to
	}
	k.Indices = k.Indices[:to]
	if k.Relations != nil {
		k.Relations = k.Relations[:to]
	}
	if len(k.Weights) > 0 {
		k.Weights = k.Weights[:to]
	}
	if len(k.Places) > 0 {
		k.Places = k.Places[:to]
	}
	if len(k.Times) > 0 {
		k.Times = k.Times[:to]
	}
	if len(k.Visits) > 0 {
		k.Visits = k.Visits[:to]
	}
}

// Batch is what one optimiser step trains on. Blocks[0] is the input block
// (farthest from the seeds), the last one ends in the seeds: len = layers.
//
// A Batch is filled by [Sampler.Sample], which reuses its memory; the zero
// Batch is ready to be filled. One that a [Loader] hands out belongs to the
// loader and is valid until the next call of Next.
type Batch struct {
	Key    Key
	Seeds  []uint32 // rows of the macro-batch: the last block's destinations
	Blocks []Block
	Input  []uint32 // rows of the macro-batch whose features feed Blocks[0]: its sources
	Times  []int64  // of each input where seeds have moments: its own, or that of the edge that led to it
	// Nested says that each block is the beginning of Blocks[0], in its memory: destination d has the same edges in all that have
	// it, and Indptr, Indices, Relations and Degrees of a block are prefixes of those of the block before it ([Dense]). Changing one
	// changes others.
	Nested bool
	// Listed is, where there is [Config.Prune], how many edges the lists have that were drawn from, and Pruned how many of
	// these lay outside the parts that it left.
	Listed, Pruned int64
	// Extra is the [SeedSource]'s: what it knows of the batch beyond seeds, kept
	// so that its memory is reused too. The sampler does not touch it.
	Extra any
}

// SampledEdges returns the number of edges drawn: over all blocks, those that nested ones share once.
func (b *Batch) SampledEdges() int {
	n := 0
	if b.Nested {
		return len(b.Blocks[0].Indices)
	}
	for i := range b.Blocks {
		n += len(b.Blocks[i].Indices)
	}
	return n
}

// reset makes b an empty batch of layers blocks, keeping its memory.
func (b *Batch) reset(key Key, layers int) {
	b.Key = key
	b.Seeds = b.Seeds[:0]
	b.Input = b.Input[:0]
	b.Times = b.Times[:0]
	b.Listed, b.Pruned = 0, 0
	if b.Nested { // the memory is the first block's
		clear(b.Blocks[1:])
		b.Nested = false
	}
	if cap(b.Blocks) < layers {
		b.Blocks = make([]Block, layers)
	}
	b.Blocks = b.Blocks[:layers]
}

// reset makes k an empty block of dst destinations, keeping its memory.
func (k *Block) reset(dst int, relations bool) {
	k.NumDst, k.NumSrc = dst, dst
	k.Indptr = append(resize(k.Indptr, dst+1)[:0], 0)
	k.Degrees = resize(k.Degrees, dst)[:0]
	k.Indices, k.Weights, k.Places, k.Visits = k.Indices[:0], k.Weights[:0], k.Places[:0], k.Visits[:0]
	switch {
	case !relations:
		k.Relations = nil
	case k.Relations == nil:
		k.Relations = make([]uint16, 0, cap(k.Indices))
	default:
		k.Relations = k.Relations[:0]
	}
}

// resize returns s with length n and unspecified contents, growing by an
// eighth more than asked so that batches of nearly equal sizes settle.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/8)
	}
	return s[:n]
}
