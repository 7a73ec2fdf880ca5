package ingest

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/ingest/edges"
)

// Budget divides the memory.
type Budget struct {
	source  int64 // the source's buffers
	Edges   int64 // chunks and sorting
	columns int64 // partition buffers
}

// Shares of the budget that do not grow with the graph, in bytes.
const (
	runtimeBytes = 48 << 20 // the program, its stacks, Pebble, the Go heap's slack
	SourceBytes  = 32 << 20
	EdgesMin     = 16 << 20
)

// fixedBytes is the memory that the whole ingest takes, beside what edges and columns share.
func (r *Job) fixedBytes(places int64) int64 {
	fixed := int64(runtimeBytes) + r.sourceNeed() + places + r.State.DictionaryBytes
	if r.Kept != nil {
		fixed += 16 * int64(r.State.Nodes) // keptIDs
	} else if r.Desc.NamedIntegers {
		fixed += 16 * int64(r.State.Nodes) // namedIntegers
	}
	return fixed
}

// sourceNeed is what reading the source takes.
func (r *Job) sourceNeed() int64 {
	if r.Kept != nil {
		return r.Kept.Need()
	}
	return SourceBytes
}

// LeastBytes is the smallest budget that works.
func (r *Job) LeastBytes(places int64) int64 {
	// A split is a byte a node in memory, when the edges' memory is free again.
	return r.fixedBytes(places) + max(EdgesMin, int64(r.State.Nodes)+4<<20)
}

// leastBytes is LeastBytes with the phases of which that does not know.
func (r *Job) leastBytes(places int64) int64 {
	least := max(r.LeastBytes(places), r.phasesBytes())
	if r.whole {
		least = max(least, r.fixedBytes(places)+r.bucketBytes())
	}
	return least
}

// checkBudget refuses a budget that is too small and names the smallest that works.
func (r *Job) checkBudget(ctx context.Context, places int64) error {
	if r.Options.MemoryBytes >= r.leastBytes(places) {
		return nil
	}
	if err := r.countEdges(ctx); err != nil {
		return err
	}
	if r.Options.MemoryBytes >= r.leastBytes(places) {
		return nil
	}
	least, err := r.smallest(ctx)
	if err != nil {
		return err
	}
	return r.tooSmall(max(least, r.leastBytes(places)))
}

// tooSmall refuses the budget and names one that works for every phase.
func (r *Job) tooSmall(least int64) error {
	return fmt.Errorf("%w: %d MiB for a graph of %d nodes; the smallest that works is %dMiB",
		store.ErrBudget, r.Options.MemoryBytes>>20, r.State.Nodes, (least+1<<20-1)>>20)
}

// placeBytesOf is the size of the map of places that evenly filled partitions need.
func (r *Job) placeBytesOf(nodes uint64) int64 {
	p := uint64(r.partitions(nodes))
	return edges.PlaceBytes(nodes, edges.PlaceBits(int(p), (nodes+p-1)/p))
}

// Divide shares out the budget, or refuses it with the smallest that would do.
func (r *Job) Divide(ctx context.Context, placeBytes int64) error {
	if r.Dictionary != nil {
		if err := r.settleDictionary(ctx, placeBytes); err != nil {
			return err
		}
	}
	if err := r.checkBudget(ctx, placeBytes); err != nil {
		return err
	}
	free := r.Options.MemoryBytes - r.fixedBytes(placeBytes)
	r.Budget = Budget{source: r.sourceNeed(), Edges: free, columns: min(free, 1<<30)}
	return nil
}

// HeapBytes is the share of an ingest's budget that is meant for the Go heap; a
// program that does nothing else passes it to debug.SetMemoryLimit, so that garbage does
// not take what the arrays outside the heap are given. Partitioners that look at
// the graph keep it on the heap: then it is the whole budget, beside the program's code. See [Options].Heap.
func HeapBytes(o Options) int64 {
	o = o.WithDefaults()
	if o.Partitioner.NeedsGraph() || o.pins() {
		return max(o.MemoryBytes-budget.CodeBytes, heapBytes)
	}
	return heapBytes
}

// heapBytes is what an ingest has on Go's heap while no partitioner works: the source's buffers, and the runtime.
const heapBytes = runtimeBytes + SourceBytes - budget.CodeBytes

// heap tells the caller how much is meant for the Go heap from now on, and gives back what it held until now.
func (r *Job) heap(bytes int64) {
	if r.Options.Heap != nil {
		r.Options.Heap(bytes)
	}
	debug.FreeOSMemory()
}
