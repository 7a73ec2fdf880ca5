package partitioner

import (
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner/graph"
)

// Assigner says which partition each node lies in. It is immutable and safe
// for concurrent use.
type Assigner interface {
	// Nodes is the number of nodes assigned.
	Nodes() uint64
	// Partitions is one more than the largest partition, pinned ones included.
	Partitions() int
	// Pinned lists the partitions that are resident for a whole run (hubs),
	// ascending; they are the last ids. Not to be modified.
	Pinned() []blocks.PartitionID
	// Assign stores the partitions of nodes first … first+len(dst)−1, which
	// must be < Nodes(). Large ranges amortise the call.
	Assign(first uint64, dst []blocks.PartitionID)
}

// Sized is an Assigner that knows how many nodes it gives each partition without assigning them.
type Sized interface {
	Assigner
	Size(p blocks.PartitionID) uint64
}

// even is the split of n positions into p consecutive ranges whose sizes differ by at most one.
type even struct {
	n, large, quota uint64 // the first `large` ranges have quota+1 positions, the others quota
	partitions      int
}

func newEven(n uint64, p int) (even, error) {
	if n > MaxNodes {
		return even{}, fmt.Errorf("%w: %d nodes, at most %d are possible", ErrOption, n, uint64(MaxNodes))
	}
	if p < 1 || p > MaxPartitions {
		return even{}, fmt.Errorf("%w: %d partitions, expected 1 to %d", ErrOption, p, MaxPartitions)
	}
	if uint64(p) > n && n > 0 {
		return even{}, fmt.Errorf("%w: %d partitions for %d nodes would leave partitions empty", ErrOption, p, n)
	}
	return even{n: n, large: n % uint64(p), quota: n / uint64(p), partitions: p}, nil
}

func (e *even) of(x uint64) blocks.PartitionID {
	if split := e.large * (e.quota + 1); x >= split {
		return blocks.PartitionID(e.large + (x-split)/e.quota)
	}
	return blocks.PartitionID(x / (e.quota + 1))
}

// Size implements [Sized].
func (e *even) Size(p blocks.PartitionID) uint64 {
	if uint64(p) < e.large {
		return e.quota + 1
	}
	return e.quota
}

func (e *even) Nodes() uint64                { return e.n }
func (e *even) Partitions() int              { return e.partitions }
func (e *even) Pinned() []blocks.PartitionID { return nil }

type ranges struct{ even }

// NewRange assigns consecutive ids to the same partition; sizes differ by at
// most one node. It needs no memory.
func NewRange(nodes uint64, partitions int) (Assigner, error) {
	e, err := newEven(nodes, partitions)
	if err != nil {
		return nil, err
	}
	return &ranges{e}, nil
}

func (r *ranges) Assign(first uint64, dst []blocks.PartitionID) {
	for i := range dst {
		dst[i] = r.of(first + uint64(i))
	}
}

type random struct {
	even
	perm graph.Permutation
}

// NewRandom assigns nodes uniformly at random for a seed; sizes differ by at
// most one node. A keyed permutation places each node, so that it
// needs no memory and no sorting, some 30 ns a node.
func NewRandom(nodes uint64, partitions int, seed uint64) (Assigner, error) {
	e, err := newEven(nodes, partitions)
	if err != nil {
		return nil, err
	}
	return &random{e, graph.NewPermutation(nodes, seed)}, nil
}

func (r *random) Assign(first uint64, dst []blocks.PartitionID) {
	for i := range dst {
		dst[i] = r.of(r.perm.At(first + uint64(i)))
	}
}

// Assignment is an assignment held in memory, 4 bytes a node.
type Assignment struct {
	part       []blocks.PartitionID
	partitions int
	pinned     []blocks.PartitionID
}

// NewAssignment wraps part, the partition of each node; it keeps the slice.
// Every value must be < partitions, and the pinned partitions, ascending, the last ids.
func NewAssignment(part []blocks.PartitionID, partitions int, pinned ...blocks.PartitionID) (*Assignment, error) {
	if partitions < 1 || partitions > MaxPartitions {
		return nil, fmt.Errorf("%w: %d partitions, expected 1 to %d", ErrOption, partitions, MaxPartitions)
	}
	for v, p := range part {
		if int(p) >= partitions {
			return nil, fmt.Errorf("%w: node %d is in partition %d of %d", ErrOption, v, p, partitions)
		}
	}
	for i, p := range pinned {
		if int(p) != partitions-len(pinned)+i {
			return nil, fmt.Errorf("%w: pinned partitions %v are not the last of %d", ErrOption, pinned, partitions)
		}
	}
	return &Assignment{part: part, partitions: partitions, pinned: pinned}, nil
}

// Materialize returns a's assignment as an array. An *Assignment is returned as it is.
func Materialize(a Assigner) *Assignment {
	if m, ok := a.(*Assignment); ok {
		return m
	}
	part := make([]blocks.PartitionID, a.Nodes())
	a.Assign(0, part)
	return &Assignment{part: part, partitions: a.Partitions(), pinned: a.Pinned()}
}

// Nodes implements [Assigner].
func (a *Assignment) Nodes() uint64 { return uint64(len(a.part)) }

// Partitions implements [Assigner].
func (a *Assignment) Partitions() int { return a.partitions }

// Pinned implements [Assigner].
func (a *Assignment) Pinned() []blocks.PartitionID { return a.pinned }

// Assign implements [Assigner].
func (a *Assignment) Assign(first uint64, dst []blocks.PartitionID) { copy(dst, a.part[first:]) }

// Part is the partition of each node: the assignment's own array, not to be modified.
func (a *Assignment) Part() []blocks.PartitionID { return a.part }

// Sizes counts the nodes of each partition.
func Sizes(a Assigner) []uint64 {
	sizes := make([]uint64, a.Partitions())
	var buf [4096]blocks.PartitionID
	for first := uint64(0); first < a.Nodes(); {
		b := buf[:min(uint64(len(buf)), a.Nodes()-first)]
		a.Assign(first, b)
		for _, p := range b {
			sizes[p]++
		}
		first += uint64(len(b))
	}
	return sizes
}
