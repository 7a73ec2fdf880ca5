package grow

import (
	"slices"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/edges"
	"github.com/gstore/gstore/store/ingest/source"
)

// Change says what the edges of an [Append] are to those that the store has of the same ends and relation.
type Change string

// The kinds of [Change].
const (
	Add    Change = ""       // they come beside them, unless the store has no duplicates
	Update Change = "update" // they replace them: columns of edges, such as weights, are the new ones'. Others come as with Add
	// Delete takes them out of the graph, parallel ones all of them. The source's edge columns say nothing. Nodes stay, also without edges.
	Delete Change = "delete"
)

// equal is what the merge makes of stored edges that equal the source's.
func (c Change) equal() edges.Equal {
	switch c {
	case Update:
		return edges.EqualReplace
	case Delete:
		return edges.EqualDelete
	}
	return edges.EqualStay
}

// noRelation is a relation that the store does not have.
const noRelation = 1<<32 - 1

// taken is room for a batch of edges without those whose ends are in no store.
type taken struct {
	src, dst  []uint64
	relations []uint32
	zeros     []byte
	columns   [][]byte
	kept      source.EdgeBatch // those that do not dangle
	missing   uint64           // so far: of a node or a relation that the store does not have
}

// has reports whether a rank's node is in the store, or will be.
func (a *appender) has(rank uint64) bool {
	return rank < uint64(len(a.internal)) && store.NodeID(a.internal[rank]) != store.NoNode
}

// known is b, whose ends are ranks, without edges that dangle: b itself where none does.
func (w *taken) known(a *appender, b *source.EdgeBatch) (*source.EdgeBatch, error) {
	var err error
	known := b.Without(&w.kept, func(i int) bool {
		if a.has(b.Src.Ints[i]) && a.has(b.Dst.Ints[i]) {
			return false
		}
		if a.desc.Dangling == source.DanglingError && err == nil {
			err = source.Inputf(b.At.Of(i), "relation %s leads to a row that neither the store nor the input has; --dangling drop leaves such edges out, --dangling node makes nodes of what they name",
				a.m.Schema.Relations[b.Relations[i]].Name)
		}
		w.missing++
		return true
	})
	return known, err
}

// there is b, of edges to delete, whose ends are ranks, without edges that the store cannot have. Its columns are zeros.
func (w *taken) there(a *appender, b *source.EdgeBatch) *source.EdgeBatch {
	w.src, w.dst, w.relations = w.src[:0], w.dst[:0], w.relations[:0]
	for i := range b.Len() {
		src, dst := b.Src.Ints[i], b.Dst.Ints[i]
		if !a.has(src) || !a.has(dst) || b.Relations != nil && b.Relations[i] == noRelation {
			w.missing++
			continue
		}
		w.src, w.dst = append(w.src, src), append(w.dst, dst)
		if b.Relations != nil {
			w.relations = append(w.relations, b.Relations[i])
		}
	}
	out := *b
	out.Src, out.Dst = source.IDs{Ints: w.src}, source.IDs{Ints: w.dst}
	if out.Relations != nil {
		out.Relations = w.relations
	}
	w.columns = w.columns[:0]
	for _, spec := range a.edges.Desc.EdgeColumns {
		n := len(w.src) * spec.RowBytes()
		w.zeros = slices.Grow(w.zeros, max(n-len(w.zeros), 0))
		w.columns = append(w.columns, w.zeros[:n])
	}
	out.Columns = w.columns
	return &out
}
