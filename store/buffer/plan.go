package buffer

import (
	"unsafe"

	"github.com/gstore/gstore/store"
)

// Step is one macro-batch of a [Plan]: which partitions are resident and what
// is trained while they are.
type Step struct {
	// Resident lists the resident partitions, pinned ones included, ascending.
	Resident []store.PartitionID
	// Train lists the partitions whose training nodes are seeds in this step
	// (node tasks), ascending; a subset of Resident.
	Train []store.PartitionID
	// Buckets lists the edge buckets whose edges are training examples in this
	// step (link tasks), each once; both ends are in Resident. Their order means nothing: edges are shuffled over the whole step.
	Buckets []BucketID
	// Passes is how often the step's examples are trained before the next step
	// (HANOI's reuse); 0 means once.
	Passes int
	// WhilePending makes every pass after the first conditional: it is trained
	// only if the next step is not in memory yet.
	WhilePending bool
	// Reach lists the partitions that mini-batches reach, ascending; a subset of Resident, nil: all of them. It is the
	// trainer's concern: the macro-batch has the neighbours of all that are resident.
	Reach []store.PartitionID
}

// Bucket names the edges from partition Src to partition Dst.
type BucketID struct{ Src, Dst store.PartitionID }

// Reached lists the partitions that mini-batches reach.
func (s *Step) Reached() []store.PartitionID {
	if s.Reach != nil {
		return s.Reach
	}
	return s.Resident
}

// Plan is one epoch's steps: a pure function of (partitions, pinned set,
// buffer capacity, task, epoch, seed), made by package sampler/macro. Steps are not
// changed once the plan is made: a copy of a Plan shares them, and by that is the same plan.
type Plan struct {
	Policy   string // "memory", "rows", "hanoi", "trainnodes", "comet", "beta"
	Pinned   []store.PartitionID
	Capacity int // most partitions resident at once, pinned ones not counted
	Steps    []Step
}

// is reports whether q is p or a copy of it: whether they share their steps. Comparing what the steps hold
// would take longer than many a step, as a plan of p partitions names p² buckets.
func (p *Plan) is(q *Plan) bool {
	return len(p.Steps) == len(q.Steps) && unsafe.SliceData(p.Steps) == unsafe.SliceData(q.Steps)
}
