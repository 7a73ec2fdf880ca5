package macro

import (
	"slices"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Bias returns a plan's Edge Permutation Bias (MariusGNN section 6), 0 ≤ B ≤ 1:
// how unevenly an epoch's examples are spread over the nodes. Every node keeps
// a tally of the share of its edges trained so far; after each step the
// difference between the largest and the smallest tally is taken; B is the
// largest such difference. B = z means that z+a of one node's edges were trained before a of
// another's. As in the paper degrees are taken as uniform, so that a node's tally is its
// partition's. It is 0 for node tasks and for a single step.
func Bias(plan buffer.Plan, partitions int) float64 {
	return BiasOf(plan, partitions, func(buffer.BucketID) float64 { return 1 })
}

// BiasOf is [Bias] with the buckets' true weights, such as their numbers of
// edges: a partition's tally is the share of all edge ends in it that were trained.
// Partitions without edges are left out.
func BiasOf(plan buffer.Plan, partitions int, weight func(buffer.BucketID) float64) float64 {
	total := make([]float64, partitions)
	canonical := true // no bucket below the diagonal: an undirected store
	for _, s := range plan.Steps {
		for _, b := range s.Buckets {
			canonical = canonical && b.Src <= b.Dst
		}
	}
	add := func(tally []float64, b buffer.BucketID) {
		w := weight(b)
		tally[b.Src] += w
		// A canonical (i,i) holds each inner edge once, as (i,j) holds each edge
		// between i and j; weighed like the others it must count once.
		if b.Src != b.Dst || !canonical || partitions == 1 {
			tally[b.Dst] += w
		}
	}
	for _, s := range plan.Steps {
		for _, b := range s.Buckets {
			add(total, b)
		}
	}
	tally := make([]float64, partitions)
	bias := 0.0
	for _, s := range plan.Steps {
		for _, b := range s.Buckets {
			add(tally, b)
		}
		low, high := 1.0, 0.0
		for i, t := range tally {
			if total[i] > 0 {
				low, high = min(low, t/total[i]), max(high, t/total[i])
			}
		}
		bias = max(bias, high-low)
	}
	return bias
}

// Shape is what [Kept] has to know of a store.
type Shape struct {
	Undirected bool                                    // an edge is in the bucket of either direction
	Edges      func(src, dst store.PartitionID) uint64 // of a bucket
	Training   []float64                               // by partition, the share of its nodes that train
}

// Kept is the share of the edges into training nodes whose source mini-batches reach when they train. Of each partition training nodes are taken
// to have its mean number of edges. Without any edge it is 1.
func Kept(plan buffer.Plan, z Shape) float64 {
	into := func(src, dst store.PartitionID) float64 {
		n := float64(z.Edges(src, dst))
		if z.Undirected {
			n += float64(z.Edges(dst, src)) // the diagonal's both ends are here: twice, as it must be
		}
		return n
	}
	kept, all := 0., 0.
	for _, s := range plan.Steps {
		for _, dst := range s.Train {
			if z.Training[dst] == 0 {
				continue
			}
			for src := range z.Training {
				all += z.Training[dst] * into(store.PartitionID(src), dst)
			}
			for _, src := range s.Reached() {
				kept += z.Training[dst] * into(src, dst)
			}
		}
	}
	if all == 0 {
		return 1
	}
	return kept / all
}

// Sizes are the bytes of a store's parts.
type Sizes struct {
	Node   []int64                   // per partition: columns that are read with it (features, labels, embeddings)
	Bucket func(src, dst int) int64  // bytes of a bucket as read
	Edges  func(src, dst int) uint64 // edges of a bucket, for the bias; nil = uniform
	Write  bool                      // partitions are written back when they leave (learned embeddings)
}

// Costs are what an epoch of a plan moves, starting from an empty buffer.
type Costs struct {
	Steps      int
	Loads      int   // partitions read, pinned and first ones included
	Swaps      int   // partitions read after the first step
	SwapsBound int   // no plan with this capacity has fewer
	NodeBytes  int64 // columns read
	EdgeBytes  int64 // buckets read: those with both ends resident that were not in the step before
	WriteBytes int64 // partitions written back
	Peak       int64 // largest sum of resident node and bucket bytes
	Examples   []int // per step: partitions or buckets trained, times passes
	Bias       float64
}

// Cost adds up a plan of a store with the given number of partitions.
func Cost(plan buffer.Plan, partitions int, z Sizes) Costs {
	c := Costs{Steps: len(plan.Steps), Bias: Bias(plan, partitions)}
	if z.Edges != nil {
		c.Bias = BiasOf(plan, partitions, func(b buffer.BucketID) float64 { return float64(z.Edges(int(b.Src), int(b.Dst))) })
	}
	loose := partitions - len(plan.Pinned)
	var before []store.PartitionID
	link := false
	for k, s := range plan.Steps {
		var peak int64
		was := func(p store.PartitionID) bool { _, ok := slices.BinarySearch(before, p); return ok }
		for _, j := range s.Resident {
			peak += z.Node[j]
			if !was(j) {
				c.Loads++
				c.NodeBytes += z.Node[j]
				if k > 0 {
					c.Swaps++
				}
			}
			for _, i := range s.Resident {
				b := z.Bucket(int(i), int(j))
				peak += b
				if !was(i) || !was(j) {
					c.EdgeBytes += b
				}
			}
		}
		c.Peak = max(c.Peak, peak)
		link = link || len(s.Buckets) > 0
		c.Examples = append(c.Examples, max(1, s.Passes)*(len(s.Train)+len(s.Buckets)))
		before = s.Resident
	}
	if z.Write { // every load is written back once, at eviction or at the epoch's end
		c.WriteBytes = c.NodeBytes
	}
	switch {
	case link:
		c.SwapsBound = SwapsBound(partitions, plan.Capacity)
	case plan.Policy != TrainNodes:
		c.SwapsBound = max(0, loose-plan.Capacity)
	}
	return c
}

// SwapsBound is the least number of partitions that must be read after the
// first step so that all pairs of p partitions meet in a buffer of c (Marius,
// OSDI 2021, section 4.1): the first step covers c(c−1)/2 of the p(p−1)/2
// pairs, every swap at most c−1 more.
func SwapsBound(p, c int) int {
	if c >= p {
		return 0
	}
	if c < 2 {
		return 0 // impossible; New refuses it
	}
	return (p*(p-1)/2 - c*(c-1)/2 + c - 2) / (c - 1)
}
