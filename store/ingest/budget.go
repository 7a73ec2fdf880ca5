package ingest

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/store"
)

// budget divides the memory.
type budget struct {
	source  int64 // the source's buffers
	edges   int64 // chunks and sorting
	columns int64 // partition buffers
}

// Shares of the budget that do not grow with the graph, in bytes.
const (
	runtimeBytes = 48 << 20 // the program, its stacks, Pebble, the Go heap's slack
	sourceBytes  = 32 << 20
	edgesMin     = 16 << 20
)

// fixedBytes is the memory that the whole ingest takes, beside what edges and columns share.
func (r *run) fixedBytes(places int64) int64 {
	fixed := int64(runtimeBytes) + r.sourceNeed() + places + r.state.DictionaryBytes
	if r.kept != nil {
		fixed += 16 * int64(r.state.Nodes) // keptIDs
	} else if r.desc.NamedIntegers {
		fixed += 16 * int64(r.state.Nodes) // namedIntegers
	}
	return fixed
}

// sourceNeed is what reading the source takes.
func (r *run) sourceNeed() int64 {
	if r.kept != nil {
		return r.kept.need
	}
	return sourceBytes
}

// leastBytes is the smallest budget that works.
func (r *run) leastBytes(places int64) int64 {
	// A split is a byte a node in memory, when the edges' memory is free again.
	return r.fixedBytes(places) + max(edgesMin, int64(r.state.Nodes)+4<<20)
}

// checkBudget refuses a budget that is too small and names the smallest that works.
func (r *run) checkBudget(places int64) error {
	if least := r.leastBytes(places); r.o.MemoryBytes < least {
		return fmt.Errorf("%w: %d MiB for a graph of %d nodes; the smallest that works is %dMiB",
			store.ErrBudget, r.o.MemoryBytes>>20, r.state.Nodes, (least+1<<20-1)>>20)
	}
	return nil
}

// placeBytesOf is the size of the map of places that evenly filled partitions need.
func (r *run) placeBytesOf(nodes uint64) int64 {
	p := uint64(r.partitions(nodes))
	return placeBytes(nodes, placeBits(int(p), (nodes+p-1)/p))
}

// divide shares out the budget, or refuses it with the smallest that would do.
func (r *run) divide(ctx context.Context, placeBytes int64) error {
	if r.dict != nil {
		if err := r.settleDictionary(ctx, placeBytes); err != nil {
			return err
		}
	}
	if err := r.checkBudget(placeBytes); err != nil {
		return err
	}
	free := r.o.MemoryBytes - r.fixedBytes(placeBytes)
	r.budget = budget{source: r.sourceNeed(), edges: free, columns: min(free, 1<<30)}
	return nil
}
